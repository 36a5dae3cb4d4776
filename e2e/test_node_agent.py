"""The node agent as a process on a real API server: it writes the object of its node, and the scheduler goes by it.

The machine is a recorded one: a program that prints `nvidia-smi topo -m` of a DGX-1V, and a kubelet's socket that a gRPC server plays.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.client import ApiError, Client
from e2e.controlplane.process import Process
from e2e.objects import GROUP, V100, World
from e2e.waiting import wait_until
from tests.agent.kubelet import GPU, Kubelet, devices
from tests.agent.machines import a_program

ROOT = Path(__file__).parent.parent
SPACE = "ai-scheduler-node-agent"
PATH = f"/apis/{GROUP}/v1alpha1/nodetopologies"


class Machine:
    """A node of eight V100s, with an agent that runs as its DaemonSet's pod would."""

    def __init__(self, world: World, folder: Path) -> None:
        """Makes the node and what the agent needs to run there."""
        self.world = world
        self.name = world.node("dgx", product=V100)
        self.kubelet = Kubelet(folder / "k.sock")
        self.kubelet.allocatable = [devices(GPU, *[f"GPU-{i}" for i in range(8)])]
        root = a_program(
            folder,
            "dgx1v_v100_sxm2_8gpu_1nic.txt",
            [(f"0000:{16 + i:02x}:00.0", "Tesla V100-SXM2-32GB") for i in range(8)],
        )
        world.plane.kubectl("apply", "--server-side", "-f", str(ROOT / "manifests" / "node-agent.yaml"))
        self.token = self._token()
        kubeconfig = world.plane.write_kubeconfig(folder / "kubeconfig", self.token)
        program = str(Path(sys.executable).parent / "ai-scheduler")
        self._command = [
            program, "node-agent", "--node-name", self.name, "--kubeconfig", str(kubeconfig), "--root", str(root),
            "--pod-resources", str(self.kubelet.socket), "--source", "nvidia-smi", "--period-seconds", "0.5",
        ]  # fmt: skip
        self._log = folder / "agent.log"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
        }
        self.kubelet.__enter__()
        self.process = Process("node-agent", self._command, self._log, environment, ROOT)

    def _token(self) -> str:
        """Returns a token as the kubelet asks for it: bound to a pod of the agent on this node."""
        api = f"/api/v1/namespaces/{SPACE}"
        pod = {
            "metadata": {"generateName": "node-agent-"},
            "spec": {
                "nodeName": self.name,
                "serviceAccountName": "node-agent",
                "containers": [{"name": "a", "image": "x"}],
            },
        }
        made = wait_until(lambda: self._made(f"{api}/pods", pod), what="the agent's account to be there")
        bound = {"kind": "Pod", "apiVersion": "v1", "name": made["metadata"]["name"], "uid": made["metadata"]["uid"]}
        body = {"spec": {"boundObjectRef": bound, "expirationSeconds": 3600}}
        return self.world.plane.request("POST", f"{api}/serviceaccounts/node-agent/token", body)["status"]["token"]

    def _made(self, path: str, body: Any) -> Any:
        try:
            return self.world.plane.request("POST", path, body)
        except ApiError as error:
            if error.status in (403, 404):
                return None
            raise

    def object(self) -> Any:
        """Returns the object, an empty one if there is none."""
        self.process.check()
        try:
            return self.world.plane.request("GET", f"{PATH}/{self.name}")
        except ApiError as error:
            if error.status == 404:
                return {}
            raise

    def close(self) -> int:
        """Ends the agent as the kubelet does, and removes what it made."""
        code = self.process.terminate(grace_seconds=20)
        self.kubelet.__exit__()
        self.world.plane.request("DELETE", f"/api/v1/namespaces/{SPACE}/pods", {"gracePeriodSeconds": 0})
        if self.object_is_there():
            self.world.plane.request("DELETE", f"{PATH}/{self.name}")
        return code

    def object_is_there(self) -> bool:
        """Tells whether the object is there, the agent being gone."""
        items = self.world.plane.request("GET", PATH)["items"]
        return any(item["metadata"]["name"] == self.name for item in items)


@pytest.fixture
def machine(world: World, tmp_path: Path) -> Iterator[Machine]:
    """A machine with its agent."""
    own = Machine(world, tmp_path)
    yield own
    own.close()


def test_scheduler_gives_what_the_agent_reports_as_free(machine: Machine) -> None:
    """Of the GPUs 1, 2 and 6 of a DGX-1V, 1 and 2 are joined by two links and 2 and 6 by one; a pod of two gets the former."""
    world = machine.world
    wait_until(lambda: machine.object().get("status", {}).get("free"), what="the machine to be told")
    spec = machine.object()["spec"]
    assert spec["source"] == "nvidia-smi"
    assert {peer["gpu"]: peer["links"] for peer in spec["gpus"][0]["nvlinkPeers"]} == {1: 1, 2: 1, 3: 2, 4: 2}
    world.pod("old", gpus=5, nodeName=machine.name)
    machine.kubelet.pods = [(world.namespace, "old", [[devices(GPU, *[f"GPU-{i}" for i in (0, 3, 4, 5, 7)])]])]
    wait_until(
        lambda: machine.object()["status"]["free"] == {"gpus": [1, 2, 6]},
        what=lambda: f"the pod's GPUs to be told; told is {machine.object()['status']}",
    )
    assert machine.object()["status"]["conditions"][0]["status"] == "True"
    world.pod("new", gpus=2)
    world.wait_placed("new")
    assert world.get("new")["metadata"]["annotations"][f"{GROUP}/gpus"] == "1,2;basis=reported"


def test_nothing_is_written_while_nothing_changes(machine: Machine) -> None:
    """The object stays at its version over several looks; then a pod takes a GPU."""
    wait_until(lambda: machine.object().get("status", {}).get("free"), what="the machine to be told")
    version = machine.object()["metadata"]["resourceVersion"]
    looks = machine.kubelet.asked
    wait_until(lambda: machine.kubelet.asked >= looks + 4, what="four more looks")
    assert machine.object()["metadata"]["resourceVersion"] == version
    machine.kubelet.pods = [("team", "train", [[devices(GPU, "GPU-0")]])]
    wait_until(lambda: machine.object()["metadata"]["resourceVersion"] != version, what="the change to be written")


def test_agent_may_write_the_object_of_its_own_node_only(machine: Machine) -> None:
    """The policy says so, whatever the role allows."""
    wait_until(lambda: machine.object().get("spec"), what="the machine to be told")
    plane = machine.world.plane
    as_agent = Client(plane.server, machine.token, plane.certificate_authority)
    body = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "NodeTopology",
        "metadata": {"name": "other"},
        "spec": {"gpus": [{"index": 0}]},
    }
    try:
        with pytest.raises(ApiError, match="a node agent may write the NodeTopology of its own node only"):
            as_agent.request("POST", PATH, body)
        as_agent.request("PATCH", f"{PATH}/{machine.name}", {"metadata": {"labels": {"mine": "true"}}})
    finally:
        as_agent.close()
