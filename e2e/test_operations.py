"""What happens to a scheduler in operation: restarts, hand-overs, outages, missing APIs, rights, races."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.controlplane.client import ApiError
from e2e.controlplane.cluster import WITHOUT_DRA_V1, ControlPlane
from e2e.deployment import NAMESPACE, Replica, apply_crds, apply_manifests, manifests
from e2e.objects import GROUP, World
from e2e.waiting import wait_until

COSCHEDULING = "scheduling.x-k8s.io"
SETTLE_SECONDS = 90
QUICK_LEASE = {
    "leaderElection": {
        "leaderElect": True, "leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms",
        "resourceName": "ai-scheduler", "resourceNamespace": NAMESPACE,
    }
}  # fmt: skip


@pytest.fixture
def plane(assets: Path) -> Iterator[ControlPlane]:
    """A control plane of one's own, to be mistreated."""
    with ControlPlane(controller_manager=True, kwok=True, programs=assets, runtime_config=WITHOUT_DRA_V1) as running:
        yield running


@pytest.fixture
def own(plane: ControlPlane) -> World:
    """A namespace in it, everything installed."""
    apply_manifests(plane)
    return namespaced(plane)


def namespaced(plane: ControlPlane) -> World:
    """Returns a world in the default namespace, once that has its ServiceAccount."""

    def has_account() -> bool:
        try:
            plane.request("GET", "/api/v1/namespaces/default/serviceaccounts/default")
        except ApiError:
            return False
        return True

    wait_until(has_account, what="the default ServiceAccount")
    return World(plane, "default")


def bindings_per_node(own: World) -> Counter[str]:
    """Counts the GPUs asked for on each node."""
    items = own.plane.request("GET", "/api/v1/namespaces/default/pods")["items"]
    used: Counter[str] = Counter()
    for item in items:
        node = item["spec"].get("nodeName")
        if node and item["status"]["phase"] not in ("Succeeded", "Failed"):
            limits = item["spec"]["containers"][0]["resources"].get("limits", {})
            used[node] += int(limits.get("nvidia.com/gpu", 0))
    return used


def test_restart_in_the_middle_of_a_burst_loses_nothing(own: World, tmp_path: Path) -> None:
    """Killed while it binds, the next process finds everything at the API server: all gangs whole, no node over-full."""
    own.nodes(11)
    first = Replica(own.plane, tmp_path, "first", **QUICK_LEASE).wait_leading()
    names = [name for g in range(10) for name in own.gang(f"job{g}", 4, gpus=2)]
    wait_until(lambda: len(own.placed()) >= 4, what="the burst to have begun")
    first.kill()
    own.members("job0", [4, 5], gpus=2, cpu="10m")
    second = Replica(own.plane, tmp_path, "second", **QUICK_LEASE)
    try:
        found = own.wait_placed(*names, timeout_seconds=SETTLE_SECONDS)
        assert len(found) >= 40
        assert max(bindings_per_node(own).values()) <= 8
    finally:
        second.kill()


def test_standby_takes_over_when_the_leader_leaves_or_dies(own: World, tmp_path: Path) -> None:
    """Of two replicas one leads; the other is ready all the time, takes over at once at a stop, and after the Lease at a crash."""
    own.nodes(2)
    first = Replica(own.plane, tmp_path, "first", **QUICK_LEASE).wait_ready().wait_leading()
    second = Replica(own.plane, tmp_path, "second", **QUICK_LEASE).wait_ready()
    assert not second.is_leading()
    own.pod("one")
    own.wait_placed("one")
    assert first.stop() == 0
    own.pod("two")
    own.wait_placed("two")
    assert second.is_leading()
    third = Replica(own.plane, tmp_path, "third", **QUICK_LEASE).wait_ready()
    second.kill()
    own.pod("three")
    own.wait_placed("three", timeout_seconds=SETTLE_SECONDS)
    assert third.is_leading()
    assert third.stop() == 0


def test_api_server_that_is_away_for_a_while_is_waited_for(own: World, tmp_path: Path) -> None:
    """The process lives through an outage that costs it its Lease, and goes on without a restart."""
    own.nodes(2)
    replica = Replica(own.plane, tmp_path, **QUICK_LEASE).wait_ready().wait_leading()
    try:
        own.pod("before")
        own.wait_placed("before")
        own.plane.stop_apiserver()
        wait_until(lambda: "lease_lost" in replica.log.read_text(), what="the Lease to be lost")
        own.plane.start_apiserver()
        own.pod("after")
        own.wait_placed("after", timeout_seconds=SETTLE_SECONDS)
        names = own.gang("job", 2, gpus=4)
        own.wait_placed(*names, timeout_seconds=SETTLE_SECONDS)
        assert replica.process.exit_code is None
    finally:
        replica.kill()


def coscheduling_crd() -> dict[str, Any]:
    """Returns the least CRD of Coscheduling's PodGroup."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    approved = "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"podgroups.{COSCHEDULING}", "annotations": {"api-approved.kubernetes.io": approved}},
        "spec": {
            "group": COSCHEDULING,
            "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def test_crds_may_come_later(plane: ControlPlane, tmp_path: Path) -> None:
    """Without any CRD (and without DRA and native gangs) pods are bound; groups of each dialect work when its CRD is there."""
    rights = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    for document in manifests(plane):
        if document["kind"] in rights:
            plane.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(document))
    own = namespaced(plane)
    own.nodes(2)
    replica = Replica(plane, tmp_path).wait_ready().wait_leading()
    try:
        own.pod("plain")
        own.wait_placed("plain")
        apply_crds(plane)
        plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(coscheduling_crd()))
        plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"crd/podgroups.{COSCHEDULING}")
        names = own.gang("job", 2, gpus=4)
        theirs = {"apiVersion": f"{COSCHEDULING}/v1alpha1", "kind": "PodGroup", "metadata": {"name": "theirs"}}
        path = f"/apis/{COSCHEDULING}/v1alpha1/namespaces/default/podgroups"
        plane.request("POST", path, {**theirs, "spec": {"minMember": 2, "scheduleTimeoutSeconds": 60}})
        labels = {f"{COSCHEDULING}/pod-group": "theirs"}
        own.pod("theirs-0", gpus=1, labels=labels)
        wait_until(
            lambda: "1 of 2 pods exist" in own.condition("theirs-0").get("message", ""),
            SETTLE_SECONDS,
            "the group to be read",
        )
        own.pod("theirs-1", gpus=1, labels=labels)
        own.wait_placed(*names, "theirs-0", "theirs-1", timeout_seconds=SETTLE_SECONDS)
        assert "status" not in plane.request("GET", f"{path}/theirs")
        assert replica.process.exit_code is None
    finally:
        replica.kill()


def test_rights_are_enough_and_no_more(scheduler: Replica, installed: ControlPlane) -> None:
    """The process, which has its ServiceAccount's token only, is never refused; what it does not need it may not do."""
    lines = scheduler.log.read_text().splitlines()  # nobody may write into a namespace that is going
    assert [line for line in lines if "Forbidden" in line and "being terminated" not in line] == []
    account = f"system:serviceaccount:{NAMESPACE}:ai-scheduler"
    for verb, resource in (
        ("get", "secrets"),
        ("create", "pods"),
        ("delete", "nodes"),
        ("update", "podgroups.scheduling.x-k8s.io"),
    ):
        with pytest.raises(RuntimeError):
            installed.kubectl("auth", "can-i", verb, resource, f"--as={account}", "-A")


def test_probes_and_metrics_answer(scheduler: Replica, world: World) -> None:
    """All probes of the Deployment succeed, and the metrics carry upstream's names."""
    world.nodes(1)
    world.pod("one")
    world.wait_placed("one")
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert scheduler.probe(probe), probe
    text = scheduler.metrics()
    for name in (
        "scheduler_schedule_attempts_total",
        "scheduler_pending_pods",
        "scheduler_scheduling_attempt_duration_seconds",
    ):
        assert name in text


def test_races_with_a_foreign_scheduler_are_repaired(world: World) -> None:
    """Somebody else binds our own pending pods and takes room meanwhile: nobody is bound twice, nothing is stuck."""
    nodes = world.nodes(4)
    names = [f"race-{i}" for i in range(24)]
    for i, name in enumerate(names):
        world.pod(name, gpus=1)
        if i % 3 == 0:
            body = {
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                "target": {"kind": "Node", "name": nodes[i % 4]},
            }  # fmt: skip
            with suppress(ApiError):  # ours was faster
                world.plane.request("POST", f"/api/v1/namespaces/{world.namespace}/pods/{name}/binding", body)
    world.wait_placed(*names)
    for name in names:
        world.delete_pod(name)
    wait_until(lambda: not world.placed(), what="the pods to go")
    gang = world.gang("job", 4, gpus=8)
    assert len(set(world.wait_placed(*gang).values())) == 4


def test_bad_annotations_and_labels_harm_nobody_else(world: World) -> None:
    """Nonsense on nodes and pods costs at most the object that carries it."""
    world.node("odd", labels={"nvidia.com/gpu.count": "many"})
    world.pod("nonsense", gpus=1, annotations={f"{GROUP}/gpus": "7,7,99;basis=wishful", f"{GROUP}/run-seconds": "soon"})
    world.pod("fine", gpus=1)
    world.wait_placed("nonsense", "fine")


def test_pod_deleted_or_node_deleted_while_it_waits_is_forgotten(world: World) -> None:
    """What is gone is no longer tried, and others go on."""
    a, b = world.nodes(2)
    world.pod("too-big", gpus=9)
    world.wait_condition("too-big", "Unschedulable")
    world.delete_pod("too-big")
    world.plane.request("DELETE", f"/api/v1/nodes/{a}")
    names = [f"p{i}" for i in range(4)]
    for name in names:
        world.pod(name, gpus=2)
    found = world.wait_placed(*names)
    assert {found[name] for name in names} == {b}
