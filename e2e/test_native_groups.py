"""Kubernetes' own PodGroups on a real API server that serves them, and on one that does not: both are behind a feature gate."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import fresh_namespace
from e2e.controlplane.cluster import NATIVE_TOPOLOGY_APIS, NATIVE_TOPOLOGY_FEATURES, ControlPlane
from e2e.deployment import Replica, apply_manifests
from e2e.objects import World
from e2e.waiting import wait_until

API, COMPOSITE_API = "/apis/scheduling.k8s.io/v1beta1", "/apis/scheduling.k8s.io/v1alpha3"
CONDITION = "PodGroupInitiallyScheduled"


@pytest.fixture(scope="module")
def native_plane(assets: Path) -> Iterator[ControlPlane]:
    """A control plane with native groups, also composite ones, and our manifests."""
    with ControlPlane(
        controller_manager=True,
        kwok=True,
        programs=assets,
        feature_gates=NATIVE_TOPOLOGY_FEATURES,
        runtime_config=NATIVE_TOPOLOGY_APIS,
    ) as running:
        apply_manifests(running)
        yield running


@pytest.fixture(scope="module")
def native_scheduler(native_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    """The scheduler, with the rights that its manifests give it."""
    replica = Replica(native_plane, tmp_path_factory.mktemp("native"))
    try:
        yield replica.wait_ready().wait_leading()
    finally:
        replica.kill()


@pytest.fixture
def native_world(
    native_plane: ControlPlane, native_scheduler: Replica, request: pytest.FixtureRequest
) -> Iterator[World]:
    """Nodes and objects of one test."""
    del native_scheduler
    with fresh_namespace(native_plane, request.node.name) as name:
        own = World(native_plane, name)
        yield own
        own.close()


def make_group(world: World, name: str, minimum: int | None, parent: str = "") -> None:
    """Makes a PodGroup; without a minimum its policy is basic."""
    policy: dict[str, Any] = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
    spec: dict[str, Any] = {"schedulingPolicy": policy}
    api = COMPOSITE_API if parent else API
    if parent:
        spec |= {"parentCompositePodGroupName": parent}
    version = api.removeprefix("/apis/")
    world.make(api, "podgroups", {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec})


def make_members(world: World, group: str, count: int, first: int = 0, **more: Any) -> list[str]:
    """Makes pods of a PodGroup that take a node each."""
    names = [f"{group}-{index}" for index in range(first, first + count)]
    for name in names:
        world.pod(name, gpus=8, schedulingGroup={"podGroupName": group}, **more)
    return names


def condition(world: World, name: str, plural: str = "podgroups", api: str = API, kind: str = CONDITION) -> Any:
    """Returns a condition of a group, or an empty mapping."""
    found = world.plane.request("GET", f"{api}/namespaces/{world.namespace}/{plural}/{name}")
    conditions = found.get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), {})


def wait_condition(world: World, name: str, status: str, **more: Any) -> Any:
    """Waits until a group's condition has a status; returns the condition."""

    def there() -> Any:
        found = condition(world, name, **more)
        return found if found.get("status") == status else None

    return wait_until(there, what=lambda: f"{name}: {status}; it is {condition(world, name, **more)}")


def test_native_gang_is_placed_whole_and_the_condition_stays(native_world: World) -> None:
    """A member missing: nothing is said. Then it is True, and stays so when the gang loses a pod."""
    world = native_world
    world.nodes(2)
    make_group(world, "g", 2)
    make_members(world, "g", 1)
    assert "1 of 2 pods exist" in world.wait_condition("g-0", "SchedulingGated")["message"]
    assert condition(world, "g") == {}
    make_members(world, "g", 1, first=1)
    world.wait_placed("g-0", "g-1")
    found = wait_condition(world, "g", "True")
    assert found["reason"] == "Scheduled"
    world.delete_pod("g-1")
    wait_until(lambda: not world.get("g-1"), what="g-1 to be gone")
    world.node("more")
    make_members(world, "g", 3, first=1)
    world.wait_placed("g-1", "g-2")
    assert condition(world, "g") == found


def test_native_gang_without_room_says_so_until_there_is(native_world: World) -> None:
    """False with kube-scheduler's reason and our words; then True."""
    world = native_world
    world.node("first")
    make_group(world, "g", 2)
    make_members(world, "g", 2)
    assert "needs 2 pods at once" in world.wait_condition("g-0", "Unschedulable")["message"]
    found = wait_condition(world, "g", "False")
    assert found["reason"] == "Unschedulable"
    assert "needs 2 pods at once" in found["message"]
    assert world.placed() == {}
    world.node("second")
    world.wait_placed("g-0", "g-1")
    wait_condition(world, "g", "True")


def test_pods_of_a_basic_group_go_one_by_one(native_world: World) -> None:
    """It is no gang, and has started with its first pod."""
    world = native_world
    world.nodes(1)
    make_group(world, "loose", None)
    make_members(world, "loose", 2)
    wait_until(lambda: len(world.placed()) == 1, what="one of them placed")
    wait_condition(world, "loose", "True")


def test_native_group_of_another_scheduler_is_not_written(native_world: World) -> None:
    """Nobody of its pods is ours."""
    world = native_world
    world.nodes(2)
    make_group(world, "theirs", 2)
    for index in range(2):
        node = f"{world.namespace}-n{index}"
        world.pod(f"theirs-{index}", schedulerName="other", nodeName=node, schedulingGroup={"podGroupName": "theirs"})
    make_group(world, "ours", 2)
    make_members(world, "ours", 2)
    wait_condition(world, "ours", "True")
    assert condition(world, "theirs") == {}


def test_composite_group_starts_whole_with_conditions_of_all(native_world: World) -> None:
    """Two groups below one that needs both: with one node too few nothing starts."""
    world = native_world
    world.nodes(3)
    owner = {"apiGroup": "batch", "kind": "Job", "name": "any"}
    policies = [{"name": name, "schedulingPolicy": {"gang": {"minCount": 2}}} for name in ("left", "right")]
    template = {"name": "root", "schedulingPolicy": {"gang": {"minGroupCount": 2}}, "podGroupTemplates": policies}
    workload = {"controllerRef": owner, "compositePodGroupTemplates": [template]}
    make(world, "workloads", "Workload", "w", workload)
    reference = {"workloadRef": {"workloadName": "w", "templateName": "root"}}
    root = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}, **reference}
    make(world, "compositepodgroups", "CompositePodGroup", "root", root)
    for name in ("left", "right"):
        spec = {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "parentCompositePodGroupName": "root",
            "workloadRef": {"workloadName": "w", "templateName": name},
        }
        make(world, "podgroups", "PodGroup", name, spec)
    names = [*make_members(world, "left", 2), *make_members(world, "right", 2)]
    composite = {"plural": "compositepodgroups", "api": COMPOSITE_API, "kind": f"Composite{CONDITION}"}
    assert wait_condition(world, "root", "False", **composite)["reason"] == "Unschedulable"
    assert wait_condition(world, "left", "False")["reason"] == "Unschedulable"
    assert world.placed() == {}
    world.node("fourth")
    world.wait_placed(*names)
    wait_condition(world, "root", "True", **composite)
    for name in ("left", "right"):
        wait_condition(world, name, "True")


def make(world: World, plural: str, kind: str, name: str, spec: dict[str, Any]) -> None:
    """Makes an object of the youngest version."""
    body = {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": kind, "metadata": {"name": name}, "spec": spec}
    world.make(COMPOSITE_API, plural, body)


def test_without_the_feature_a_group_is_no_group(world: World) -> None:
    """An API server that does not know the field drops it, and the pod is placed by itself."""
    world.nodes(1)
    make_members(world, "g", 1)
    world.wait_placed("g-0")
    assert "schedulingGroup" not in world.get("g-0")["spec"]
