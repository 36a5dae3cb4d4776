"""Pods that mind others, over time: who waits for whom is woken when it comes or goes, and not five minutes later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from scheduler.engine import inputs as i
from scheduler.model import claim_from_api, persistent_volume_from_api
from scheduler.model.owners import Namespace
from scheduler.model.storage_api import ApiClaim, ApiPersistentVolume
from tests.builders import a_gang, a_node, a_pod

from .world import World

if TYPE_CHECKING:
    from tests.builders import NodeBuilder, PodBuilder

ZONE = "zone"


def zones(**nodes: str) -> list[NodeBuilder]:
    """Return nodes with GPUs by name and zone."""
    return [a_node(name).label(ZONE, zone).gpus(8) for name, zone in nodes.items()]


def gang(name: str, size: int, member: PodBuilder) -> list[Any]:
    """Return a group and its members."""
    return [a_gang(name, size), member.gang(name).times(size)]


def test_pod_that_needs_a_neighbour_goes_when_we_place_it() -> None:
    """The assignment of our own pods is an event like that of others."""
    world = World(zones(a="a", b="b"), a_pod("waits").affinity(ZONE, app="friend")).run()
    assert world.placed == {}
    world.add(a_pod("friend").labels(app="friend")).wait(1)
    assert set(world.placed) == {"waits", "friend"}


def test_pod_that_spreads_goes_when_the_lowest_count_rises() -> None:
    """It may not go to zone a, and zone b is full for it until another pod of its kind comes to a."""
    tainted, free = a_node("a").label(ZONE, "a").taint("no"), a_node("b").label(ZONE, "b")
    there = a_pod("there").labels(app="web").on("b")
    held = a_pod("held").labels(app="web").spread(ZONE, 1, app="web")
    world = World(tainted, free, there, held).run()
    assert "held" not in world.placed
    world.add(a_pod("other").labels(app="web").tolerate().select(ZONE, "a")).wait(1)
    assert world.placed["held"] == "b"


def test_gang_goes_when_a_pod_it_cannot_stand_leaves() -> None:
    """Though that pod frees no GPU that the gang lacks."""
    cpu_node = a_node("cpu").label(ZONE, "a")
    blocker = a_pod("blocker").labels(app="noisy").on("cpu")
    members = gang("job", 2, a_pod("job").gpus(8).anti_affinity(ZONE, app="noisy"))
    world = World(zones(g1="a", g2="a"), cpu_node, blocker, members).run()
    assert set(world.placed) <= {"blocker"}
    world.remove("blocker").wait(1)
    assert set(world.placed) == {"job-0", "job-1"}


def test_gang_goes_when_a_pod_that_cannot_stand_it_leaves() -> None:
    """The other way round."""
    cpu_node = a_node("cpu").label(ZONE, "a")
    blocker = a_pod("blocker").anti_affinity(ZONE, app="noisy").on("cpu")
    members = gang("job", 2, a_pod("job").gpus(8).labels(app="noisy"))
    world = World(zones(g1="a", g2="a"), cpu_node, blocker, members).run()
    assert set(world.placed) <= {"blocker"}
    world.remove("blocker").wait(1)
    assert set(world.placed) == {"job-0", "job-1"}


def test_gang_that_stands_in_its_own_way_says_so() -> None:
    """The reason arises when some members are placed; it is told, and its cures wake the gang."""
    member = a_pod("job").labels(app="job").anti_affinity("kubernetes.io/hostname", app="job")
    world = World(zones(a="a", b="b"), gang("job", 3, member)).run()
    assert len(world.placed) == 0
    [(reason, message), *_] = world.conditions("job-0")
    assert reason == "Unschedulable"
    assert "With 2 of them placed, 0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules." in message
    world.add(zones(c="c")).wait(1)
    assert len(world.placed) == 3


def test_gang_that_hates_itself_by_namespace_goes_when_that_is_relabelled() -> None:
    """What refused its members among themselves is cured by a label of a namespace."""
    selector = {"namespaceSelector": {"matchLabels": {"team": "red"}}, "labelSelector": {}, "topologyKey": ZONE}
    world = World(zones(a="a"))
    world.engine.handle(i.ObjectChanged(Namespace(name="default", labels={"team": "red"})))
    world.add(gang("job", 2, a_pod("job").pod_term("podAntiAffinity", selector))).run()
    assert len(world.placed) == 0
    world.engine.handle(i.ObjectChanged(Namespace(name="default", labels={"team": "blue"})))
    world.wait(1)
    assert len(world.placed) == 2


def bound(mode: str) -> list[Any]:
    """Return a claim named `data` that is bound, and its volume."""
    spec = {"accessModes": [mode], "storageClassName": "c"}
    claim = {
        "metadata": {
            "name": "data", "namespace": "default", "uid": "uid-data",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": spec | {"volumeName": "data", "resources": {"requests": {"storage": "1"}}},
        "status": {"phase": "Bound"},
    }  # fmt: skip
    reference = {"namespace": "default", "name": "data", "uid": "uid-data"}
    volume = {
        "metadata": {"name": "data"},
        "spec": spec | {"capacity": {"storage": "1"}, "claimRef": reference},
        "status": {"phase": "Bound"},
    }
    return [
        claim_from_api(msgspec.convert(claim, ApiClaim)),
        persistent_volume_from_api(msgspec.convert(volume, ApiPersistentVolume)),
    ]


@pytest.mark.parametrize("is_gang", [True, False])
def test_disk_that_is_written_is_for_one_pod_on_a_node(is_gang: bool) -> None:
    """Members of a gang are no exception, though they are looked at as one shape."""
    disk = {"name": "v", "gcePersistentDisk": {"pdName": "disk"}}
    pod = a_pod("job").patch_spec(volumes=[disk])
    world = World(zones(a="a"), gang("job", 2, pod) if is_gang else pod.times(2)).run()
    assert len(world.placed) == (0 if is_gang else 1)


@pytest.mark.parametrize(("mode", "placed"), [("ReadWriteOncePod", 0), ("ReadWriteOnce", 2)])
def test_gang_cannot_share_a_claim_for_one_pod(mode: str, placed: int) -> None:
    """ReadWriteOncePod means one pod of the whole cluster."""
    world = World(zones(a="a", b="b"))
    for thing in bound(mode):
        world.engine.handle(i.ObjectChanged(thing))
    pod = a_pod("job").patch_spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    world.add(gang("job", 2, pod)).run()
    assert len(world.placed) == placed
    if not placed:
        assert "ReadWriteOncePod access mode already in-use" in world.conditions("job-0")[0][1]
