"""The control plane that the other end-to-end tests stand on behaves as they count on."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.build import KUBERNETES_VERSION
from e2e.controlplane.client import ApiError
from e2e.controlplane.cluster import NATIVE_GANG_APIS, NATIVE_GANG_FEATURES, WITHOUT_DRA_V1, ControlPlane
from e2e.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def node(control_plane: ControlPlane) -> Iterator[str]:
    """A node with two CPUs, removed at the end."""
    name = "test-node"
    status = {"capacity": {"cpu": "2", "memory": "4Gi", "pods": "10"}}
    control_plane.request("POST", "/api/v1/nodes", {"metadata": {"name": name}, "status": status})
    yield name
    control_plane.request("DELETE", f"/api/v1/nodes/{name}")


def a_pod(name: str, node: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    """Returns a pod that is bound from the start."""
    container = {"name": "main", "image": "example.test/image:1"}
    spec = {"nodeName": node, "containers": [container], "tolerations": [{"operator": "Exists"}]}
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec}


def pod_phase(control_plane: ControlPlane, path: str) -> str:
    """Returns the phase of a pod, "Terminating" for a deleted one that is still there, "" for none."""
    try:
        pod = control_plane.request("GET", path)
    except ApiError as error:
        if error.reason == "NotFound":
            return ""
        raise
    return "Terminating" if "deletionTimestamp" in pod["metadata"] else str(pod["status"]["phase"])


@pytest.mark.skipif("KUBEBUILDER_ASSETS" in os.environ, reason="the assets may be of any version")
def test_server_reports_the_version_that_was_built(control_plane: ControlPlane) -> None:
    """The version is set when linking, so clients that look at it see the real one."""
    assert control_plane.request("GET", "/version")["gitVersion"] == KUBERNETES_VERSION


def test_new_node_becomes_ready_and_loses_its_taint(control_plane: ControlPlane, node: str) -> None:
    """Kwok plays the kubelet, and the controller manager lifts the taint that every new node starts with."""

    def is_usable() -> bool:
        seen = control_plane.request("GET", f"/api/v1/nodes/{node}")
        conditions = {each["type"]: each["status"] for each in seen["status"].get("conditions", [])}
        return conditions.get("Ready") == "True" and not seen["spec"].get("taints")

    wait_until(is_usable, what="the node is Ready and without taints")
    seen = control_plane.request("GET", f"/api/v1/nodes/{node}")
    assert seen["status"]["allocatable"] == {"cpu": "2", "memory": "4Gi", "pods": "10"}


def test_bound_pod_runs_and_terminates_visibly(control_plane: ControlPlane, node: str, namespace: str) -> None:
    """A bound pod runs with an address, and a deleted one is seen terminating before it is gone."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    control_plane.request("POST", pods, a_pod("one", node))
    wait_until(lambda: pod_phase(control_plane, f"{pods}/one") == "Running", what="the pod runs")
    status = control_plane.request("GET", f"{pods}/one")["status"]
    assert status["podIP"]
    assert [each["ready"] for each in status["containerStatuses"]] == [True]
    control_plane.request("DELETE", f"{pods}/one")
    assert pod_phase(control_plane, f"{pods}/one") == "Terminating"
    wait_until(lambda: pod_phase(control_plane, f"{pods}/one") == "", what="the pod is gone")


def test_annotated_pod_succeeds(control_plane: ControlPlane, node: str, namespace: str) -> None:
    """The annotation that `stages.yaml` names makes a running pod succeed."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    control_plane.request("POST", pods, a_pod("one", node, {"pod-complete.stage.kwok.x-k8s.io/delay": "100ms"}))
    wait_until(lambda: pod_phase(control_plane, f"{pods}/one") == "Succeeded", what="the pod has succeeded")


def test_service_account_token_works_and_gives_no_rights(control_plane: ControlPlane, namespace: str) -> None:
    """A kubeconfig for a ServiceAccount is that account: it is let in, and RBAC applies to it."""
    kubeconfig = control_plane.kubeconfig_for(control_plane.token_for(namespace, "default"))
    whoami = control_plane.kubectl(
        "--kubeconfig", str(kubeconfig), "auth", "whoami", "-o", "jsonpath={.status.userInfo}"
    )
    assert f"system:serviceaccount:{namespace}:default" in whoami
    with pytest.raises(RuntimeError, match="forbidden"):
        control_plane.kubectl("--kubeconfig", str(kubeconfig), "get", "nodes")


def test_restart_of_the_api_server_keeps_the_data(assets: Path) -> None:
    """The API server comes back on its port with its objects, and kept connections are renewed."""
    with ControlPlane(programs=assets) as running:
        running.request("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "kept"}})
        running.stop_apiserver()
        with pytest.raises(OSError, match=r".+"):
            running.request("GET", "/version")
        running.start_apiserver()
        assert running.request("GET", "/api/v1/namespaces/default/configmaps/kept")["metadata"]["name"] == "kept"


def test_server_without_dynamic_resource_allocation(assets: Path) -> None:
    """An API server can be had that serves no `resource.k8s.io/v1`, as older ones do."""
    with ControlPlane(runtime_config=WITHOUT_DRA_V1, programs=assets) as running:
        with pytest.raises(ApiError) as refused:
            running.request("GET", "/apis/resource.k8s.io/v1")
        assert refused.value.status == 404


def test_server_with_native_gangs(assets: Path) -> None:
    """With the gates, Kubernetes' own PodGroup is served and can be made."""
    gates, apis = NATIVE_GANG_FEATURES, NATIVE_GANG_APIS
    with ControlPlane(feature_gates=gates, runtime_config=apis, programs=assets) as running:
        kinds = [each["kind"] for each in running.request("GET", "/apis/scheduling.k8s.io/v1beta1")["resources"]]
        assert "PodGroup" in kinds


ORPHAN_MAKER = """
import sys
from pathlib import Path
from e2e.controlplane.process import Process
print(Process("sleeper", ["sleep", "600"], Path(sys.argv[1])).pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills the children of a killed parent")
def test_programs_die_with_a_killed_parent(tmp_path: Path) -> None:
    """A test run that is killed outright leaves no API server behind."""
    command = [sys.executable, "-c", ORPHAN_MAKER, str(tmp_path / "log")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        sleeper = Path("/proc") / parent.stdout.readline().strip()
        assert sleeper.exists()
        parent.kill()
    wait_until(lambda: not is_alive(sleeper), what="the child is gone")


def is_alive(process: Path) -> bool:
    """Tells whether a process (its folder in /proc) runs; one that only waits to be reaped does not."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
