"""Conditions of Kubernetes' own groups: as kube-scheduler writes them, each once, for gangs of our pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from scheduler.framework.effects import SetGangStatus
from scheduler.kube.native_groups import NativeGroupWriter, native_groups
from scheduler.model import pod_from_api
from scheduler.model.api import ApiPod
from scheduler.model.dialects.native import NATIVE
from scheduler.state.cluster import ClusterState
from tests.builders import a_pod

if TYPE_CHECKING:
    from scheduler.kube.client import Client
    from tests.kube.scripted import ScriptedServer

GROUPS = "/apis/scheduling.k8s.io/v1beta1/podgroups"
OLD_GROUPS = "/apis/scheduling.k8s.io/v1alpha2/podgroups"
COMPOSITES = "/apis/scheduling.k8s.io/v1alpha3/compositepodgroups"
GANG = {"gang": {"minCount": 2}}


class World:
    """Group objects and pods, at the server and in the engine's state."""

    def __init__(self, server: ScriptedServer, client: Client) -> None:
        """Start empty."""
        self.server = server
        self.state = ClusterState()
        self.writer = NativeGroupWriter(client, self.groups_of, lambda: "now")

    def groups_of(self, effect: SetGangStatus) -> Any:
        """Return what the engine knows."""
        return native_groups(self.state, {"ai-scheduler"}, effect)

    def put(self, path: str, name: str, policy: dict[str, Any], parent: str = "", **status: Any) -> None:
        """Make a group object."""
        kind = "CompositePodGroup" if path == COMPOSITES else "PodGroup"
        self.server.kinds[path] = kind
        spec = {"schedulingPolicy": policy} | ({"parentCompositePodGroupName": parent} if parent else {})
        api_version = "/".join(path.split("/")[2:4])
        meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 3}
        body = {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec, "status": status}
        stored = self.server.put(path, body)
        source = NATIVE.sources[kind == "CompositePodGroup"]
        (gang,) = source.read(msgspec.convert(stored, source.api_type))
        self.state.groups.put(gang)

    def pod(self, name: str, group: str, node: str = "", scheduler: str = "ai-scheduler") -> None:
        """Make a pod of a group."""
        body = a_pod(name).manifest()
        body["spec"] |= {"schedulingGroup": {"podGroupName": group}, "nodeName": node, "schedulerName": scheduler}
        self.state.set_pod(pod_from_api(msgspec.convert(body, ApiPod)))

    async def write(self, name: str, scheduled: str, reason: str = "NoRoom", dialect: str = "native") -> bool:
        """Carry out what the engine says of a gang."""
        effect = SetGangStatus("default", name, f"uid-{name}", "", 3, (), scheduled, reason, "words", dialect=dialect)
        groups = self.writer.groups_of(effect)
        return groups is not None and await self.writer.set_conditions(effect, groups)

    def said(self, path: str, name: str) -> list[tuple[str, str, str]]:
        """Return type, status and reason of the conditions of an object."""
        status = (self.server.get(path, name) or {}).get("status", {})
        return [(c["type"], c["status"], c["reason"]) for c in status.get("conditions", [])]


@pytest.fixture
def world(server: ScriptedServer, client: Client) -> World:
    """An empty world."""
    return World(server, client)


async def test_a_refused_gang_says_why_and_once_it_was_placed_says_so_for_ever(world: World) -> None:
    """What comes after True is not written."""
    world.put(GROUPS, "g", GANG)
    world.pod("a", "g")
    assert await world.write("g", "False")
    found = world.server.get(GROUPS, "g") or {}
    assert found["status"]["conditions"] == [
        {
            "type": "PodGroupInitiallyScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "words",
            "observedGeneration": 3,
            "lastTransitionTime": "now",
        }
    ]
    assert not await world.write("g", "False")
    assert await world.write("g", "True", "Scheduled")
    assert world.said(GROUPS, "g") == [("PodGroupInitiallyScheduled", "True", "Scheduled")]
    assert not await world.write("g", "False", "BelowMinimum")
    assert not await world.write("g", "False")
    assert world.said(GROUPS, "g") == [("PodGroupInitiallyScheduled", "True", "Scheduled")]


async def test_a_gang_that_is_placed_at_once_costs_one_request(world: World) -> None:
    """Its condition is written without a look at the object: the watch has shown that it was not True."""
    world.put(GROUPS, "g", GANG)
    world.pod("a", "g", node="n")
    assert await world.write("g", "True", "Scheduled")
    assert [request.method for request in world.server.requests] == ["PATCH"]


async def test_a_refusal_in_other_words_keeps_the_time_of_the_first(world: World) -> None:
    """The object is read once, before the first refusal."""
    world.put(GROUPS, "g", GANG)
    world.pod("a", "g")
    assert await world.write("g", "False")
    assert await world.write("g", "False", "SchedulerError")
    assert [request.method for request in world.server.requests] == ["GET", "PATCH", "PATCH"]
    (found,) = (world.server.get(GROUPS, "g") or {})["status"]["conditions"]
    assert (found["reason"], found["lastTransitionTime"]) == ("SchedulerError", "now")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("NoRoom", "Unschedulable"),
        ("SchedulerError", "SchedulerError"),
        ("InvalidPodGroup", "SchedulerError"),
        ("WaitingForMembers", None),
        ("SchedulingGated", None),
    ],
)
async def test_only_a_gang_that_was_tried_is_refused(world: World, reason: str, expected: str | None) -> None:
    """Waiting for members is no refusal: kube-scheduler holds such pods before it tries anything."""
    world.put(GROUPS, "g", GANG)
    world.pod("a", "g")
    assert await world.write("g", "False", reason) == (expected is not None)
    assert [said[2] for said in world.said(GROUPS, "g")] == ([expected] if expected else [])


async def test_nothing_is_written_about_groups_of_others(world: World) -> None:
    """Neither where all pods are another scheduler's, nor about our own PodGroups."""
    world.put(GROUPS, "g", GANG)
    world.pod("a", "g", node="n", scheduler="default-scheduler")
    assert not await world.write("g", "True", "Scheduled")
    assert world.said(GROUPS, "g") == []
    assert world.groups_of(SetGangStatus("default", "g", "uid", "", 3, (), "True", "", "")) is None


async def test_a_restart_writes_nothing_and_keeps_what_others_said(world: World) -> None:
    """The object tells what was written before; conditions of other types stay."""
    other = {"type": "DisruptionTarget", "status": "True", "reason": "x", "message": "", "lastTransitionTime": "then"}
    mine = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "words"}
    world.put(GROUPS, "g", GANG, conditions=[other, mine | {"lastTransitionTime": "then"}])
    world.pod("a", "g")
    assert not await world.write("g", "False")
    assert await world.write("g", "False", "SchedulerError")
    kept, written = (world.server.get(GROUPS, "g") or {})["status"]["conditions"]
    assert kept == other
    assert (written["reason"], written["lastTransitionTime"]) == ("SchedulerError", "then")


async def test_the_first_version_has_another_name_for_the_condition(world: World) -> None:
    """1.36 calls it PodGroupScheduled."""
    world.put(OLD_GROUPS, "g", GANG)
    world.pod("a", "g")
    assert await world.write("g", "False")
    assert world.said(OLD_GROUPS, "g") == [("PodGroupScheduled", "False", "Unschedulable")]


async def test_each_group_of_a_tree_has_its_own_condition(world: World) -> None:
    """Of a tree that starts with one of its two groups, the one that is placed and the root are True."""
    world.put(COMPOSITES, "root", {"gang": {"minGroupCount": 1}})
    for name in ("left", "right"):
        world.put(GROUPS, name, GANG, parent="root")
        for index in range(2):
            world.pod(f"{name}-{index}", name, node="n" if name == "left" else "")
    assert await world.write("root", "True", "Scheduled", "native-composite")
    assert world.said(COMPOSITES, "root") == [("CompositePodGroupInitiallyScheduled", "True", "Scheduled")]
    assert world.said(GROUPS, "left") == [("PodGroupInitiallyScheduled", "True", "Scheduled")]
    assert world.said(GROUPS, "right") == []


async def test_all_groups_of_a_refused_tree_are_refused(world: World) -> None:
    """Nobody has to guess which one lacks room."""
    world.put(COMPOSITES, "root", {"gang": {"minGroupCount": 2}})
    for name in ("left", "right"):
        world.put(GROUPS, name, GANG, parent="root")
        world.pod(name, name)
    assert await world.write("root", "False", "NoRoom", "native-composite")
    for path, name in ((COMPOSITES, "root"), (GROUPS, "left"), (GROUPS, "right")):
        assert [said[1:] for said in world.said(path, name)] == [("False", "Unschedulable")]
