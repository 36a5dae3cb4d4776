"""Binder and writers: every binding gets one certain answer; statuses are written once and in order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from scheduler.engine.inputs import AwaitedDone, BindingFailed, BindingSucceeded, EvictionFailed, Input
from scheduler.framework.effects import (
    AnnotatePod,
    BindPod,
    Effect,
    EmitEvent,
    EvictPod,
    NominatePod,
    ObjectRef,
    PodRef,
    PrepareBinding,
    SetGangStatus,
    SetPodScheduled,
)
from scheduler.kube.binder import BINDINGS_AT_ONCE, STATUS_PATIENCE_SECONDS, Binder
from scheduler.kube.device_claims import DeviceClaimWriter
from scheduler.kube.queue_writer import QueueWriter
from scheduler.kube.topology_writer import TopologyWriter
from scheduler.kube.traffic import Traffic
from scheduler.kube.volumes import VolumeWriter
from scheduler.kube.writer import GangWriter, PodWriter
from tests.builders import a_pod
from tests.kube.scripted import GROUPS, PATIENCE_SECONDS, PODS, Answer, ScriptedServer

if TYPE_CHECKING:
    from scheduler.kube.client import Client
    from scheduler.model import Pod
    from tests.kube.conftest import Naps

POD = "/api/v1/namespaces/default/pods/p"
REF = PodRef("default", "p", "uid-p")
BIND = BindPod(REF, "n", {"scheduling.ai-scheduler.io/rank": "3"})


class World:
    """A binder with what it says."""

    def __init__(self, client: Client, naps: Naps) -> None:
        """Wire it."""
        self.said: list[Input] = []
        self.events: list[EmitEvent] = []
        self.bound: list[BindPod] = []
        self.outcomes: list[tuple[str, str]] = []
        self.pods: dict[str, Pod] = {}
        self.has_lease = True
        self.traffic = Traffic()
        self.binder = Binder(
            PodWriter(client, naps, lambda: self.has_lease, self.pods.get, now=lambda: "2025-01-01T00:00:00Z"),
            GangWriter(client, now=lambda: "2025-01-01T00:00:00Z"),
            VolumeWriter(client),
            TopologyWriter(client, now=lambda: "2025-01-01T00:00:00Z"),
            QueueWriter(client, now=lambda: "2025-01-01T00:00:00Z"),
            DeviceClaimWriter(client, self.said.append),
            self,
            self.said.append,
            may_write=lambda: self.has_lease,
            traffic=self.traffic,
            on_bound=self.bound.append,
            on_done=lambda effect, outcome, _: self.outcomes.append((type(effect).__name__, outcome)),
        )

    def record(self, event: EmitEvent) -> None:
        """Keep an event."""
        self.events.append(event)

    async def do(self, *effects: Effect) -> list[Input]:
        """Carry effects out, wait until all is written, and return what was said."""
        self.binder.carry_out(effects)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.binder):  # noqa: ASYNC110 - seen from outside
                await asyncio.sleep(0.001)
        return self.said


@pytest.fixture
def world(client: Client, naps: Naps) -> World:
    """A binder on the scripted server."""
    return World(client, naps)


async def test_binds_with_uid_and_annotations(server: ScriptedServer, world: World) -> None:
    """One request, one answer."""
    server.put(PODS, a_pod("p").manifest())
    assert await world.do(BIND) == [BindingSucceeded("uid-p")]
    pod = server.get(PODS, "p")
    assert pod is not None
    assert pod["spec"]["nodeName"] == "n"
    assert pod["metadata"]["annotations"] == {"scheduling.ai-scheduler.io/rank": "3"}
    assert server.seen("POST", f"{POD}/binding")[0].body["metadata"]["uid"] == "uid-p"
    assert world.bound == [BIND]


async def test_a_missing_pod_is_gone(world: World) -> None:
    """404 is final."""
    (failed,) = await world.do(BIND)
    assert isinstance(failed, BindingFailed)
    assert failed.is_gone


async def test_a_namesake_is_not_bound(server: ScriptedServer, world: World) -> None:
    """Another uid under the name means that ours is gone."""
    server.put(PODS, a_pod("p").uid("other").manifest())
    (failed,) = await world.do(BIND)
    assert isinstance(failed, BindingFailed)
    assert failed.is_gone


async def test_a_pod_on_another_node_is_taken(server: ScriptedServer, world: World) -> None:
    """A foreign scheduler was faster."""
    server.put(PODS, a_pod("p").on("elsewhere").manifest())
    (failed,) = await world.do(BIND)
    assert isinstance(failed, BindingFailed)
    assert failed.is_taken
    assert not failed.is_gone


async def test_a_conflict_with_our_own_binding_is_success(server: ScriptedServer, world: World) -> None:
    """The first request was carried out although its answer said otherwise."""
    server.put(PODS, a_pod("p").on("n").manifest())
    assert await world.do(BIND) == [BindingSucceeded("uid-p")]


@pytest.mark.parametrize("answer", [Answer(cut=True, after_doing_it=True), Answer(500, after_doing_it=True)])
async def test_a_lost_answer_is_looked_up(server: ScriptedServer, world: World, answer: Answer) -> None:
    """The binding happened, so it is reported as success."""
    server.put(PODS, a_pod("p").manifest())
    server.script("POST", f"{POD}/binding", answer)
    assert await world.do(BIND) == [BindingSucceeded("uid-p")]


async def test_temporary_refusals_are_repeated(server: ScriptedServer, world: World, naps: Naps) -> None:
    """503, a cut connection that did nothing, and 429 with Retry-After."""
    server.put(PODS, a_pod("p").manifest())
    busy = Answer(429, headers={"Retry-After": "3"})
    server.script("POST", f"{POD}/binding", Answer(503), Answer(cut=True), busy)
    assert await world.do(BIND) == [BindingSucceeded("uid-p")]
    assert 3.0 in naps.seconds


async def test_a_refusal_for_good_is_reported_with_its_words(server: ScriptedServer, world: World) -> None:
    """403 is not repeated."""
    server.script("POST", f"{POD}/binding", Answer(403, "Forbidden", "by policy"))
    assert await world.do(BIND) == [BindingFailed("uid-p", "by policy")]


async def test_an_unknown_outcome_is_looked_up_until_it_is_known(server: ScriptedServer, world: World) -> None:
    """Reads fail for a while; the pod turns out to be bound."""
    server.put(PODS, a_pod("p").manifest())
    server.script("POST", f"{POD}/binding", Answer(cut=True, after_doing_it=True))
    server.script("GET", POD, *[Answer(cut=True)] * 30)
    assert await world.do(BIND) == [BindingSucceeded("uid-p")]


async def test_without_the_lease_nothing_is_written(server: ScriptedServer, world: World) -> None:
    """Not even what was asked for before."""
    server.put(PODS, a_pod("p").manifest())
    world.has_lease = False
    await world.do(BIND, SetPodScheduled(REF, "Unschedulable", "no"))
    assert server.requests == []


async def test_a_lease_lost_between_attempts_ends_them(server: ScriptedServer, world: World) -> None:
    """The retry asks again whether it may."""
    server.put(PODS, a_pod("p").manifest())
    server.script("POST", f"{POD}/binding", *[Answer(503)] * 100)
    world.binder.carry_out([BIND])
    await server.until(lambda: server.seen("POST", f"{POD}/binding"))
    world.has_lease = False
    assert await world.binder.finish(5.0)
    assert isinstance(world.said[0], BindingFailed)


async def test_evicts_with_condition_uid_and_grace(server: ScriptedServer, world: World) -> None:
    """First the announcement, then the deletion; success is told by the pod's going."""
    server.put(PODS, a_pod("p").on("n").manifest())
    assert await world.do(EvictPod(REF, "PreemptionByScheduler", "made room", 7)) == []
    patch, delete = server.seen("PATCH", f"{POD}/status")[0], server.seen("DELETE", POD)[0]
    assert server.requests.index(patch) < server.requests.index(delete)
    condition = patch.body["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "DisruptionTarget", "True", "PreemptionByScheduler",
    )  # fmt: skip
    assert delete.body["preconditions"] == {"uid": "uid-p"}
    assert delete.body["gracePeriodSeconds"] == 7


async def test_a_failed_announcement_does_not_save_the_victim(server: ScriptedServer, world: World) -> None:
    """The deletion follows all the same."""
    server.put(PODS, a_pod("p").on("n").manifest())
    server.script("PATCH", f"{POD}/status", Answer(403))
    await world.do(EvictPod(REF, "PreemptionByScheduler", "made room"))
    assert server.get(PODS, "p") is None


async def test_a_victim_that_went_by_itself_is_gone(server: ScriptedServer, world: World) -> None:
    """404, or a namesake."""
    (failed,) = await world.do(EvictPod(REF, "PreemptionByScheduler", "made room"))
    assert isinstance(failed, EvictionFailed)
    assert failed.is_gone
    world.said.clear()
    server.put(PODS, a_pod("p").uid("other").manifest())
    (failed,) = await world.do(EvictPod(REF, "PreemptionByScheduler", "made room"))
    assert isinstance(failed, EvictionFailed)
    assert failed.is_gone
    assert server.get(PODS, "p") is not None


async def test_a_forbidden_deletion_is_reported(server: ScriptedServer, world: World) -> None:
    """The engine must know that no room comes."""
    server.put(PODS, a_pod("p").on("n").manifest())
    server.script("DELETE", POD, Answer(403, "Forbidden", "protected"))
    assert await world.do(EvictPod(REF, "PreemptionByScheduler", "x")) == [EvictionFailed("uid-p", "protected")]


async def test_the_same_condition_is_written_once(server: ScriptedServer, world: World) -> None:
    """Twice the same is one patch; its transition time stays with a new message."""
    server.put(PODS, a_pod("p").manifest())
    await world.do(SetPodScheduled(REF, "Unschedulable", "no room"))
    await world.do(SetPodScheduled(REF, "Unschedulable", "no room"))
    await world.do(SetPodScheduled(REF, "Unschedulable", "still no room"))
    patches = server.seen("PATCH", f"{POD}/status")
    assert [p.body["status"]["conditions"][0]["message"] for p in patches] == ["no room", "still no room"]
    assert ["lastTransitionTime" in p.body["status"]["conditions"][0] for p in patches] == [True, False]
    assert world.outcomes == [("SetPodScheduled", o) for o in ("done", "skipped", "done")]


async def test_what_is_on_the_pod_already_is_not_written(server: ScriptedServer, world: World) -> None:
    """After a restart the engine asks for what the last leader wrote."""
    world.pods["uid-p"] = a_pod("p").condition("PodScheduled", "False", "Unschedulable").build()
    await world.do(SetPodScheduled(REF, "Unschedulable", ""))
    assert server.requests == []


async def test_nominations_are_written_and_cleared(server: ScriptedServer, world: World) -> None:
    """The empty name removes the field; clearing nothing is no request."""
    server.put(PODS, a_pod("p").manifest())
    await world.do(NominatePod(REF, ""))
    await world.do(NominatePod(REF, "n"))
    await world.do(NominatePod(REF, "n"))
    pod = server.get(PODS, "p")
    assert pod is not None
    assert pod["status"]["nominatedNodeName"] == "n"
    await world.do(NominatePod(REF, ""))
    pod = server.get(PODS, "p")
    assert pod is not None
    assert "nominatedNodeName" not in pod["status"]
    assert len(server.seen("PATCH", f"{POD}/status")) == 2


async def test_annotations_are_written_by_way_of_the_status_and_taken_away(
    server: ScriptedServer, world: World
) -> None:
    """The uid is a precondition; None removes a key and leaves the others."""
    server.put(PODS, a_pod("p").annotation("kept", "1").manifest())
    await world.do(AnnotatePod(REF, {"told": "now"}))
    pod = server.get(PODS, "p")
    assert pod is not None
    assert pod["metadata"]["annotations"] == {"kept": "1", "told": "now"}
    await world.do(AnnotatePod(REF, {"told": None}))
    pod = server.get(PODS, "p")
    assert pod is not None
    assert pod["metadata"]["annotations"] == {"kept": "1"}
    requests = server.seen("PATCH", f"{POD}/status")
    assert [request.body["metadata"]["uid"] for request in requests] == [REF.uid, REF.uid]


async def test_a_binding_makes_unsent_statuses_moot(server: ScriptedServer, world: World) -> None:
    """Of what waits for one pod only the binding goes out; of two statuses the later one."""
    server.put(PODS, a_pod("p").manifest())
    world.binder.carry_out([SetPodScheduled(REF, "Unschedulable", "a"), NominatePod(REF, "n"), BIND])
    assert await world.binder.finish(5.0)
    assert [r.method for r in server.requests] == ["POST"]
    other = PodRef("default", "q", "uid-q")
    server.put(PODS, a_pod("q").manifest())
    world.binder.carry_out([SetPodScheduled(other, "Unschedulable", text) for text in "abc"])
    await server.until(lambda: not len(world.binder))
    (patch,) = [r for r in server.requests if r.method == "PATCH"]
    assert patch.body["status"]["conditions"][0]["message"] == "c"


async def test_the_order_of_one_pod_is_kept(server: ScriptedServer, world: World) -> None:
    """Nominate first, evict after, even if the first one has to be repeated."""
    server.put(PODS, a_pod("p").on("n").manifest())
    server.script("PATCH", f"{POD}/status", Answer(503), Answer(503))
    world.binder.carry_out([NominatePod(REF, "n")])
    await server.until(lambda: server.requests)
    await world.do(EvictPod(REF, "PreemptionByScheduler", "x"))
    assert [r.method for r in server.requests] == ["PATCH"] * 4 + ["DELETE"]


async def test_many_bindings_are_in_flight_at_once(server: ScriptedServer, world: World) -> None:
    """512 pods, bounded, each answered once."""
    refs = [PodRef("default", f"p{i}", f"uid-p{i}") for i in range(512)]
    for i in range(512):
        server.put(PODS, a_pod(f"p{i}").manifest())
    said = await world.do(*[BindPod(ref, "n") for ref in refs])
    assert sorted(said, key=repr) == sorted((BindingSucceeded(ref.uid) for ref in refs), key=repr)


async def test_an_accident_in_the_writer_is_still_an_answer(world: World) -> None:
    """Whatever happens the engine does not wait for ever."""

    async def broken(_: BindPod) -> Input:
        raise KeyError("bug")

    world.binder._pods.bind = broken  # type: ignore[method-assign]
    assert await world.do(BIND) == [BindingFailed("uid-p", "KeyError('bug')")]


GROUP = "/apis/scheduling.ai-scheduler.io/v1alpha1/namespaces/default/podgroups/g"


def gang_status(phase: str = "Pending", scheduled: str = "False", message: str = "no room") -> SetGangStatus:
    """Return the status of a gang of two."""
    return SetGangStatus("default", "g", "uid-g", phase, 1, (("pending", 2),), scheduled, "Unschedulable", message)


async def test_gang_statuses_are_written_when_they_differ(server: ScriptedServer, world: World) -> None:
    """The first time the object is read; the transition time changes with the status only."""
    server.kinds[GROUPS] = "PodGroup"
    server.put(GROUPS, {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 2}})
    await world.do(gang_status())
    await world.do(gang_status())
    await world.do(gang_status(message="still no room"))
    assert len(server.seen("GET", GROUP)) == 1
    patches = server.seen("PATCH", f"{GROUP}/status")
    assert len(patches) == 2
    assert patches[0].body["status"]["counts"] == {"pending": 2}
    assert patches[0].body["status"]["conditions"][0]["type"] == "Scheduled"


async def test_the_status_of_a_group_waits_for_bindings_and_the_last_one_is_written(
    server: ScriptedServer, world: World
) -> None:
    """While a binding has no answer nothing is said of the group; then only what holds in the end."""
    server.kinds[GROUPS] = "PodGroup"
    server.put(GROUPS, {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 2}})
    server.put(PODS, a_pod("p").manifest())
    with world.traffic:
        world.binder.carry_out([gang_status(), BIND])
        await server.until(lambda: server.seen("POST", f"{POD}/binding"))
        world.binder.carry_out([gang_status("Running", "True", "all are on nodes")])
        assert server.seen("PATCH", f"{GROUP}/status") == []
    await world.do()
    (patch,) = server.seen("PATCH", f"{GROUP}/status")
    assert patch.body["status"]["phase"] == "Running"


async def test_a_restart_writes_no_status_again(
    server: ScriptedServer, world: World, client: Client, naps: Naps
) -> None:
    """What the object says already is not written by the next leader."""
    server.kinds[GROUPS] = "PodGroup"
    server.put(GROUPS, {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 2}})
    await world.do(gang_status())
    await World(client, naps).do(gang_status())
    assert len(server.seen("PATCH", f"{GROUP}/status")) == 1


async def test_bindings_are_on_the_road_until_they_are_done_and_statuses_never(
    server: ScriptedServer, world: World
) -> None:
    """What can wait for a burst asks the road: a binding without answer keeps it, a status does not."""
    server.put(PODS, a_pod("p").manifest())
    server.script("PATCH", f"{POD}/status", Answer(silent=True))
    world.binder.carry_out([NominatePod(REF, "n")])
    await server.until(lambda: server.seen("PATCH", f"{POD}/status"))
    await world.traffic.lull(PATIENCE_SECONDS)
    await world.binder.stop()

    server.script("POST", f"{POD}/binding", Answer(silent=True))
    world.binder.carry_out([BIND])
    await server.until(lambda: server.seen("POST", f"{POD}/binding"))
    waiting = asyncio.create_task(world.traffic.lull(PATIENCE_SECONDS))
    await asyncio.sleep(0)
    assert not waiting.done()
    await world.binder.stop()
    await asyncio.wait_for(waiting, PATIENCE_SECONDS)


async def test_events_go_to_the_recorder(world: World) -> None:
    """They are not the binder's business."""
    event = EmitEvent(ObjectRef("v1", "Pod", "default", "p", "uid-p"), "Normal", "Scheduled", "Binding", "x")
    await world.do(event)
    assert world.events == [event]


async def test_finish_gives_up_after_its_time(server: ScriptedServer, world: World) -> None:
    """A binding that gets no answer does not hold up the end of the process."""
    server.put(PODS, a_pod("p").manifest())
    server.script("POST", f"{POD}/binding", Answer(silent=True))
    world.binder.carry_out([BIND])
    await server.until(lambda: server.requests)
    assert not await world.binder.finish(0.01)
    await world.binder.stop()
    assert len(world.binder) == 0


BOUND = Answer(422, "Invalid", "nominatedNodeName: Forbidden: may not be set on pods that are already bound")
NAMESAKE = Answer(409, "Conflict", "Precondition failed: UID in precondition: a, UID in object meta: b")


@pytest.mark.parametrize("answer", [BOUND, NAMESAKE, Answer(404)])
async def test_a_nomination_that_came_too_late_is_no_failure(
    server: ScriptedServer, world: World, answer: Answer
) -> None:
    """Somebody bound, replaced or deleted the pod: there is nothing to write about any more."""
    server.script("PATCH", f"{POD}/status", answer)
    await world.do(NominatePod(REF, "n"))
    assert world.outcomes == [("NominatePod", "gone")]


async def test_another_invalid_nomination_is_a_failure(server: ScriptedServer, world: World) -> None:
    """Only the one reason is known to be harmless."""
    server.script("PATCH", f"{POD}/status", Answer(422, "Invalid", "nominatedNodeName: too long"))
    await world.do(NominatePod(REF, "n"))
    assert world.outcomes == [("NominatePod", "failed")]


async def test_an_overwritten_group_status_is_written_again(server: ScriptedServer, world: World) -> None:
    """Our own write, seen again or late, is no reason; two that fight stop after a few turns."""
    server.kinds[GROUPS] = "PodGroup"
    spec = {"metadata": {"name": "g", "namespace": "default", "uid": "uid-g"}, "spec": {"minMember": 2}}
    before = server.put(GROUPS, spec)
    await world.do(gang_status())

    def phase() -> str:
        return (server.get(GROUPS, "g") or {})["status"]["phase"]

    for sight in (before, server.get(GROUPS, "g")):
        assert sight is not None
        world.binder.group_seen(sight)
        assert len(world.binder) == 0
    for turn in range(7):
        overwritten = server.put(GROUPS, (server.get(GROUPS, "g") or {}) | {"status": {"phase": "Running"}})
        world.binder.group_seen(overwritten)
        await world.do()
        assert phase() == ("Pending" if turn < 5 else "Running")
    await world.do(gang_status(message="news"))
    assert phase() == "Pending"


async def test_what_a_pre_bind_plugin_asks_for_is_done_in_order_and_reported_once(
    server: ScriptedServer, world: World
) -> None:
    """Then the binding may go out."""
    server.put(PODS, a_pod("p").manifest())
    about = ObjectRef("v1", "Pod", "default", "p", "uid-p")
    event = EmitEvent(about, "Normal", "Prepared", "Binding", "all is ready")
    prepare = PrepareBinding(REF, "prepared", (NominatePod(REF, "n"), event))
    assert await world.do(prepare) == [AwaitedDone("uid-p", "prepared")]
    pod = server.get(PODS, "p")
    assert pod is not None
    assert pod["status"]["nominatedNodeName"] == "n"
    assert world.events == [event]


async def test_the_first_failure_ends_a_preparation_and_is_reported(server: ScriptedServer, world: World) -> None:
    """Nothing after it is tried."""
    server.put(PODS, a_pod("p").manifest())
    server.script("PATCH", f"{POD}/status", *[Answer(403)] * 10)
    about = ObjectRef("v1", "Pod", "default", "p", "uid-p")
    event = EmitEvent(about, "Normal", "Prepared", "Binding", "all is ready")
    (said,) = await world.do(PrepareBinding(REF, "prepared", (NominatePod(REF, "n"), event)))
    assert isinstance(said, AwaitedDone)
    assert "NominatePod failed" in said.failure
    assert world.events == []


async def test_statuses_let_bindings_go_first(server: ScriptedServer, world: World) -> None:
    """While bindings are on the road a status waits, though not for ever."""
    server.put(PODS, a_pod("p").manifest())
    refused = SetPodScheduled(REF, "Unschedulable", "0/1 nodes")
    with world.traffic:
        world.binder.carry_out([refused])
        await asyncio.sleep(0.1)
        assert not server.seen("PATCH", f"{POD}/status")
    await world.do()
    assert len(server.seen("PATCH", f"{POD}/status")) == 1
    with world.traffic:
        await world.do(SetPodScheduled(REF, "Unschedulable", "0/2 nodes"))
    assert len(server.seen("PATCH", f"{POD}/status")) == 2


async def test_a_status_that_waits_holds_up_no_binding_of_its_pod(server: ScriptedServer, world: World) -> None:
    """The binding takes its place."""
    server.put(PODS, a_pod("p").manifest())
    with world.traffic:
        world.binder.carry_out([SetPodScheduled(REF, "Unschedulable", "0/1 nodes")])
        await asyncio.sleep(0.05)
        began = asyncio.get_running_loop().time()
        assert await world.do(BIND) == [BindingSucceeded("uid-p")]
        assert asyncio.get_running_loop().time() - began < STATUS_PATIENCE_SECONDS
    assert not server.seen("PATCH", f"{POD}/status")


async def test_many_refusals_are_no_storm(server: ScriptedServer, world: World, naps: Naps) -> None:
    """One 429 keeps the bindings back that are not sent yet, and they go out one by one afterwards."""
    names = [f"p{i}" for i in range(BINDINGS_AT_ONCE * 2)]
    for name in names:
        server.put(PODS, a_pod(name).manifest())
    busy = Answer(429, headers={"Retry-After": "3"})
    server.script("POST", "/api/v1/namespaces/default/pods/p0/binding", busy)
    said = await world.do(*(BindPod(PodRef("default", name, f"uid-{name}"), "n") for name in names))
    assert sorted(said, key=repr) == sorted((BindingSucceeded(f"uid-{name}") for name in names), key=repr)
    posts = [r for r in server.requests if r.method == "POST"]
    assert len(posts) == len(names) + 1
    assert 3.0 in naps.seconds
