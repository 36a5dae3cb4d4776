"""Feeds of group objects: each dialect's gangs come, change and go, and an API is looked for by discovery alone."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from scheduler.engine.inputs import (
    GangChanged,
    GangRemoved,
    Input,
    ObjectChanged,
    ObjectRemoved,
    PendingPodLeft,
    PodChanged,
    PodRemoved,
    RunEnded,
)
from scheduler.kube.discovery import Api, Discovery
from scheduler.kube.feeds import feeds
from scheduler.kube.views import PodViews
from scheduler.model.dialects import DIALECTS
from scheduler.model.queue import Queue
from tests.builders import EPOCH, a_pod
from tests.kube.scripted import COSCHEDULING, PATIENCE_SECONDS, PODS, Answer, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduler.kube.client import Client
    from scheduler.kube.reflector import Timing
    from scheduler.model import GangKey

NATIVE_OLD = "/apis/scheduling.k8s.io/v1alpha2/podgroups"
NATIVE = "/apis/scheduling.k8s.io/v1beta1/podgroups"
QUEUES = "/apis/scheduling.ai-scheduler.io/v1alpha1/queues"
SETS = "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets"
SOURCES = [
    (source.group, source.versions[0], source.resource) for dialect in DIALECTS[1:] for source in dialect.sources
]


class Turns:
    """The sleep of discovery: it goes on when a test says so."""

    def __init__(self) -> None:
        """Let nobody go on."""
        self._gate = asyncio.Semaphore(0)

    async def __call__(self, seconds: float) -> None:
        """Wait for the test."""
        del seconds
        await self._gate.acquire()

    def go(self) -> None:
        """Let discovery look again."""
        self._gate.release()


class Reading:
    """Feeds that run, and what they said."""

    def __init__(self, client: Client, timing: Timing, *, learns: bool = False) -> None:
        """Make them."""
        self.inputs: list[Input] = []
        self.turns = Turns()
        self.discovery = Discovery(client, self.turns)
        views = PodViews(self.inputs.append)
        names = ["ai-scheduler", "other"]
        self.feeds = feeds(
            client, self.inputs.append, views, self.discovery, DIALECTS, names, timing=timing, learns=learns
        )

    def gangs(self) -> list[Input]:
        """Return what was said of gangs."""
        return [item for item in self.inputs if isinstance(item, GangChanged | GangRemoved)]

    def keys(self) -> set[str]:
        """Return the gangs that are there, as dialect:name."""
        there: dict[GangKey, None] = {}
        for item in self.gangs():
            if isinstance(item, GangChanged):
                there[item.gang.key] = None
            elif isinstance(item, GangRemoved):
                del there[item.key]
        return {f"{key.dialect}:{key.name}" for key in there}


@asynccontextmanager
async def reading(client: Client, timing: Timing, *, learns: bool = False) -> AsyncIterator[Reading]:
    """Let all feeds run, and wait until all have listed or know that there is nothing."""
    made = Reading(client, timing, learns=learns)
    tasks = [asyncio.create_task(part.run()) for part in (made.discovery, *made.feeds)]
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            for reflector in made.feeds:
                await reflector.synced.wait()
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def an_object(name: str = "x", **spec: Any) -> dict[str, Any]:
    """Return a group object as lists of built-in kinds have them: without apiVersion and kind."""
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize(("group", "version", "resource"), SOURCES)
async def test_each_source_is_read_and_what_goes_takes_its_gang_along(
    server: ScriptedServer, client: Client, timing: Timing, group: str, version: str, resource: str
) -> None:
    """With one gang for an empty spec, or a whole one of one group."""
    path = f"/apis/{group}/{version}/{resource}"
    server.kinds[path] = resource
    server.put(path, an_object(replicas=1))
    async with reading(client, timing) as read:
        await server.until(read.gangs)
        (item,) = read.gangs()
        assert isinstance(item, GangChanged)
        assert item.gang.api_version == f"{group}/{version}"
        server.remove(path, "x")
        await server.until(lambda: not read.keys())


async def test_gangs_that_an_object_tells_no_more_of_are_removed(
    server: ScriptedServer, client: Client, timing: Timing
) -> None:
    """A set that is scaled down; what stays the same is not told again."""
    server.kinds[SETS] = "LeaderWorkerSet"
    server.put(SETS, an_object(replicas=3))
    async with reading(client, timing) as read:
        await server.until(lambda: len(read.keys()) == 3)
        server.put(SETS, an_object(replicas=1) | {"status": {"replicas": 3}})
        await server.until(lambda: read.keys() == {"leaderworkerset:x/0"})
        assert sum(isinstance(item, GangChanged) for item in read.gangs()) == 3


async def test_a_group_of_gangs_goes_with_the_last_object_that_tells_of_it(
    server: ScriptedServer, client: Client, timing: Timing
) -> None:
    """Each PodGroup of a Koordinator gang group tells of the whole; one that is deleted does not take it from the other."""
    path = "/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups"
    server.kinds[path] = "PodGroup"
    for name in ("a", "b"):
        annotations = {"gang.scheduling.koordinator.sh/groups": '["default/a", "default/b"]'}
        body = an_object(name, minMember=1)
        server.put(path, {**body, "metadata": body["metadata"] | {"annotations": annotations}})
    whole = "koordinator-composite:a+b"
    async with reading(client, timing) as read:
        await server.until(lambda: read.keys() >= {"koordinator:a", "koordinator:b", whole})
        server.remove(path, "a")
        await server.until(lambda: not read.keys() & {"koordinator:a"})
        assert read.keys() >= {"koordinator:b", whole}
        server.put(path, an_object("b", minMember=1))
        await server.until(lambda: not read.keys() & {whole})
        assert read.keys() >= {"koordinator:b"}


async def test_an_absent_api_is_not_asked_for_and_is_picked_up_when_discovery_shows_it(
    server: ScriptedServer, client: Client, timing: Timing
) -> None:
    """One request for all of them, however many there are."""
    async with reading(client, timing) as read:
        read.turns.go()
        await server.until(lambda: len(server.seen("GET", "/apis")) > 1)
        assert not [r for r in server.requests if r.path.startswith("/apis/") and "podgroups" in r.path]
        server.kinds[COSCHEDULING] = "PodGroup"
        server.put(COSCHEDULING, an_object(minMember=2))
        read.turns.go()
        await server.until(lambda: read.keys() == {"coscheduling:x"})


async def test_queues_are_picked_up_when_their_definition_appears_and_go_with_it(
    server: ScriptedServer, client: Client, timing: Timing
) -> None:
    """A missing definition is no error; a queue that the engine was told of is taken back when its object goes."""

    def queues(read: Reading) -> list[Input]:
        found = [item for item in read.inputs if isinstance(item, ObjectChanged) and isinstance(item.thing, Queue)]
        return found + [item for item in read.inputs if isinstance(item, ObjectRemoved) and item.kind is Queue]

    async with reading(client, timing) as read:
        assert queues(read) == []
        server.kinds[QUEUES] = "Queue"
        server.put(QUEUES, {"metadata": {"name": "team", "uid": "u"}, "spec": {"priority": 3}})
        read.turns.go()
        await server.until(lambda: bool(queues(read)))
        assert queues(read) == [ObjectChanged(Queue(name="team", uid="u", priority=3))]
        server.remove(QUEUES, "team")
        await server.until(lambda: len(queues(read)) > 1)
        assert queues(read)[1] == ObjectRemoved(Queue, ("ai-scheduler", "team"))


async def test_an_api_that_goes_takes_its_gangs_along_and_may_come_back(
    server: ScriptedServer, client: Client, timing: Timing
) -> None:
    """As a CRD does that is deleted."""
    server.kinds[COSCHEDULING] = "PodGroup"
    server.put(COSCHEDULING, an_object(minMember=2))
    async with reading(client, timing) as read:
        await server.until(lambda: read.keys() == {"coscheduling:x"})
        del server.kinds[COSCHEDULING]
        server.end(COSCHEDULING)
        await server.until(lambda: not read.keys())
        server.kinds[COSCHEDULING] = "PodGroup"
        read.turns.go()
        await server.until(lambda: read.keys() == {"coscheduling:x"})


@pytest.mark.parametrize("is_aggregated", [True, False])
async def test_the_first_served_version_is_read(
    server: ScriptedServer, client: Client, timing: Timing, *, is_aggregated: bool
) -> None:
    """An older server has only an older one; with both, the preferred one is read."""
    server.has_aggregated_discovery = is_aggregated
    server.kinds[NATIVE_OLD] = "PodGroup"
    server.put(NATIVE_OLD, an_object(schedulingPolicy={"gang": {"minCount": 2}}))
    async with reading(client, timing) as read:
        await server.until(read.gangs)
        (item,) = read.gangs()
        assert isinstance(item, GangChanged)
        assert item.gang.api_version == "scheduling.k8s.io/v1alpha2"
    server.kinds[NATIVE] = "PodGroup"
    before = len(server.seen("LIST", NATIVE_OLD))
    async with reading(client, timing) as read:
        await server.until(lambda: server.watchers(NATIVE))
        assert len(server.seen("LIST", NATIVE_OLD)) == before


async def test_where_discovery_is_forbidden_the_paths_themselves_are_tried(
    server: ScriptedServer, client: Client, timing: Timing
) -> None:
    """Nothing is lost but quiet."""
    server.script("GET", "/apis", *[Answer(403, "Forbidden")] * 100)
    server.kinds[COSCHEDULING] = "PodGroup"
    server.put(COSCHEDULING, an_object(minMember=2))
    async with reading(client, timing) as read:
        await server.until(lambda: read.keys() == {"coscheduling:x"})
        before = len(server.seen("GET", "/apis/scheduling.run.ai/v2alpha2/podgroups"))
        read.turns.go()
        await server.until(lambda: len(server.seen("GET", "/apis/scheduling.run.ai/v2alpha2/podgroups")) > before)


async def test_groups_that_may_not_be_read_count_as_none_until_they_may(
    server: ScriptedServer, client: Client, timing: Timing
) -> None:
    """A missing right holds nothing up."""
    server.kinds[COSCHEDULING] = "PodGroup"
    server.put(COSCHEDULING, an_object(minMember=2))
    server.script("LIST", COSCHEDULING, Answer(403, "Forbidden"))
    async with reading(client, timing) as read:
        assert read.keys() == set()
        read.turns.go()
        await server.until(lambda: read.keys() == {"coscheduling:x"})


async def test_discovery_that_fails_is_asked_again(server: ScriptedServer, client: Client) -> None:
    """An answer that is none changes nothing of what is known."""
    discovery, api = Discovery(client), Api("policy", ("v1",), "poddisruptionbudgets")
    for answer in (Answer(503), Answer(429), Answer(page="<html>"), Answer(page="{}")):
        server.script("GET", "/apis", answer)
        assert not await discovery.look()
        assert not discovery.is_known
    assert await discovery.look()
    assert discovery.version_of(api) == "v1"
    server.script("GET", "/apis", Answer(503))
    assert not await discovery.look()
    assert discovery.version_of(api) == "v1"


async def test_ended_members_of_any_dialect_are_told_and_other_ended_pods_are_not(
    server: ScriptedServer, client: Client, timing: Timing
) -> None:
    """What makes a member may be an annotation, which cannot be selected by."""
    member = a_pod("member").on("n").phase("Succeeded").manifest()
    member["metadata"]["annotations"] = {"pod-group-name": "g"}
    server.put(PODS, member)
    server.put(PODS, a_pod("single").on("n").phase("Succeeded").manifest())
    foreign = a_pod("foreign").on("n").phase("Succeeded").gang("g", 1).manifest()
    foreign["spec"]["schedulerName"] = "somebody-else"
    server.put(PODS, foreign)
    async with reading(client, timing) as read:
        await server.until(lambda: any(isinstance(item, PodChanged) for item in read.inputs))
        server.remove(PODS, "single")
        server.remove(PODS, "foreign")
        server.remove(PODS, "member")
        await server.until(lambda: any(isinstance(item, PodRemoved) for item in read.inputs))
        told = [item.pod.name if isinstance(item, PodChanged) else item for item in read.inputs]
        assert told == ["member", PodRemoved("uid-member")]


async def test_pending_members_that_name_another_scheduler_are_told_and_its_other_pods_are_not(
    server: ScriptedServer, client: Client, timing: Timing
) -> None:
    """With no more than their names and their gang, however the pod names it; the same pod is told once."""
    for name in ("strange", "native", "single"):
        server.put(PODS, a_pod(name).scheduler("somebody").gpus(8).manifest())
    server.put(PODS, a_pod("ours").gang("g", 1).manifest())  # comes through Kopf
    strange = a_pod("strange").scheduler("somebody").gpus(8).gang("g", 1).manifest()
    native = a_pod("native").scheduler("third").manifest()
    native["spec"]["schedulingGroup"] = {"podGroupName": "n"}
    server.put(PODS, strange)
    server.put(PODS, native)
    async with reading(client, timing) as read:
        await server.until(lambda: len([item for item in read.inputs if isinstance(item, PodChanged)]) == 2)
        server.remove(PODS, "single")
        server.remove(PODS, "strange")
        await server.until(lambda: PendingPodLeft("uid-strange") in read.inputs)
        pods = {item.pod.name: item.pod for item in read.inputs if isinstance(item, PodChanged)}
        told = {
            name: (pod.scheduler_name, str(pod.membership and pod.membership.key), pod.requests)
            for name, pod in pods.items()
        }
        assert told == {"strange": ("somebody", "default/g", {}), "native": ("third", "default/n", {})}
        assert [item for item in read.inputs if isinstance(item, PendingPodLeft)] == [PendingPodLeft("uid-strange")]


@pytest.mark.parametrize("learns", [True, False])
async def test_pods_that_have_ended_tell_how_long_they_ran_if_that_is_learned(
    server: ScriptedServer, client: Client, timing: Timing, learns: bool
) -> None:
    """A pod of no gang that ended well before the start; nothing else is known of it, and of one that failed nothing."""
    for name, phase in (("train-1-x", "Succeeded"), ("train-2-x", "Failed")):
        state = {"terminated": {"finishedAt": "2025-01-01T00:05:00Z"}}
        pod = a_pod(name).owner("Workflow", name[:-2], "argoproj.io/v1alpha1").on("n", started=100.0).phase(phase)
        server.put(PODS, pod.patch_status(containerStatuses=[{"name": "main", "state": state}]).manifest())
    async with reading(client, timing, learns=learns) as read:
        told = [item for item in read.inputs if isinstance(item, RunEnded)]
        assert told == (
            [RunEnded("uid-train-1-x", ("default", "Workflow", "train-#"), EPOCH + 300, 200.0)] if learns else []
        )
        assert not any(isinstance(item, PodChanged) for item in read.inputs)
