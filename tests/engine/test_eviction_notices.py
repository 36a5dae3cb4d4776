"""Notices before evictions: told in time, withdrawn when not needed, and kept over a restart."""

from __future__ import annotations

import pytest
from msgspec import structs

from scheduler.engine import inputs as i
from scheduler.engine.notices import text_of
from scheduler.model.checkpoints import NOTICE, NOTICE_FOR, NOTICE_SECONDS
from tests.builders import a_gang, a_node, a_pod
from tests.queues.making import a_queue, a_world, know, queued

from .shapes import members, nodes, running, stays
from .world import START, World


def told(name, node, seconds=60, **fields):
    """Return a pod on a node that wants notice."""
    return running(name, node, **fields).annotation(NOTICE_SECONDS, str(seconds))


def preempting(kind, priority=10):
    """Return a preemptor for one node."""
    if kind == "pod":
        return [a_pod("new").gpus(8).priority(priority)]
    return [a_gang("new", 1), members("new", 1, priority=priority)]


def is_there(world):
    """Tell whether the preemptor is on a node."""
    return any(name.startswith("new") for name in world.placed)


@pytest.mark.parametrize("kind", ["pod", "gang"])
def test_a_victim_is_told_when_it_will_go_and_goes_then(kind):
    """The annotation and an event tell the time; before it nobody is evicted, after it the preemptor has the room."""
    world = World(nodes(1), told("low", "n0"), preempting(kind)).run()
    pod = world.pod("low")
    assert pod.annotations[NOTICE] == text_of(START + 60)
    assert pod.annotations[NOTICE_FOR].startswith("ai-scheduler ")
    [event] = world.events("EvictionNotice")
    assert event.note.startswith(f"will be evicted at {text_of(START + 60)} to make room for default/new")
    world.wait(59)
    assert world.evicted == []
    world.wait(2)
    assert world.evicted == ["low"]
    assert is_there(world)
    assert len(world.events("EvictionNotice")) == 1
    stays(world)


def test_room_is_held_while_the_notice_runs():
    """The victim ends by itself: its room is the preemptor's at once, and nobody else's."""
    world = World(nodes(1), told("low", "n0"), preempting("pod")).run()
    world.add(a_pod("other").gpus(8).priority(10)).wait(5)
    world.remove("low").run()
    assert is_there(world)
    assert world.node_of("other") == ""
    assert world.evicted == []
    stays(world)


def test_victims_of_one_plan_go_together():
    """One wants a minute, its gang says nothing: all members are told and go at the same time."""
    gang = [pod.on(f"n{k}") for k, pod in enumerate(members("old", 2))]
    gang[0].annotation(NOTICE_SECONDS, "60")
    world = World(nodes(2), a_gang("old", 2), gang, preempting("gang")).run().wait(30)
    assert world.evicted == []
    assert {name for name in ("old-0", "old-1") if NOTICE in world.pod(name).annotations} == {"old-0", "old-1"}
    world.wait(31)
    assert sorted(world.evicted) == ["old-0", "old-1"]


def test_a_notice_is_withdrawn_when_the_preemptor_finds_other_room():
    """A node appears: nobody goes, and the pod is told so."""
    world = World(nodes(1), told("low", "n0"), preempting("gang")).run()
    world.add(a_node("n9").gpus(8).cpu("64").memory("512Gi")).wait(1)
    assert is_there(world)
    assert NOTICE not in world.pod("low").annotations
    assert len(world.events("EvictionWithdrawn")) == 1
    world.wait(600)
    assert world.evicted == []
    stays(world)


def test_a_notice_is_withdrawn_when_the_preemptor_is_gone():
    """Its pods are deleted: the victim stays, and may be a victim again later."""
    world = World(nodes(1), told("low", "n0"), preempting("pod")).run()
    world.remove("new").wait(90)
    assert world.evicted == []
    assert NOTICE not in world.pod("low").annotations
    world.add(a_pod("later").gpus(8).priority(20)).wait(59)
    assert world.evicted == []
    world.wait(2)
    assert world.node_of("later") == "n0"


def test_the_plan_is_made_again_before_the_eviction():
    """The node was cordoned while the notice ran: the room would be of no use, so nobody is evicted."""
    world = World(nodes(1), told("low", "n0"), preempting("gang")).run()
    world.wait(30).add(a_node("n0").gpus(8).cpu("64").memory("512Gi").pods(110).cordoned())
    world.wait(120)
    assert world.evicted == []
    assert NOTICE not in world.pod("low").annotations
    stays(world)


@pytest.mark.parametrize("at", [10, 59, 70])
@pytest.mark.parametrize("kind", ["pod", "gang"])
def test_a_restart_in_the_middle_of_a_notice_loses_nothing(kind, at):
    """The pod's annotations are the state: it goes at the time that it was told, and is told once."""
    world = World(nodes(2), told("low", "n0"), running("top", "n1", priority=99), preempting(kind)).run()
    world.wait(min(at, 59))
    world.now = START + at  # nobody led meanwhile
    world.restart().run()
    world.wait(max(0, 59 - at))
    assert world.evicted == ([] if at < 60 else ["low"])
    world.wait(3)
    assert world.evicted == ["low"]
    assert is_there(world)
    assert len(world.events("EvictionNotice")) == 1
    stays(world)


def test_a_notice_that_nobody_needs_after_a_restart_is_withdrawn():
    """The preemptor went while nobody led: after two more minutes the pod is told that it stays."""
    world = World(nodes(1), told("low", "n0"), preempting("pod")).run()
    del world.pods["uid-new"]
    world.restart().wait(179)
    assert NOTICE in world.pod("low").annotations
    world.wait(2)
    assert NOTICE not in world.pod("low").annotations
    assert world.evicted == []
    world.add(a_pod("later").gpus(8).priority(20)).wait(61)
    assert world.node_of("later") == "n0"


def test_a_more_important_preemptor_takes_the_notice_over():
    """Both counted on the same room; the victim is told once and goes at its time."""
    world = World(nodes(1), told("low", "n0"), preempting("gang")).run().wait(30)
    world.add(a_gang("top", 1), members("top", 1, priority=100)).run()
    world.wait(32)
    assert world.evicted == ["low"]
    assert world.node_of("top-0") == "n0"
    assert len(world.events("EvictionNotice")) == 1
    stays(world)


def test_the_queue_says_how_long_a_notice_is_and_bounds_what_a_pod_asks():
    """60 seconds for all of the queue; who asks for ten gets ten, who asks for 500 gets 60."""
    for asked, gets in ((None, 60), ("10", 10), ("500", 60)):
        world = a_world(1, a_queue("a", 0, notice_seconds=60.0), a_queue("b", 1))
        low = queued("low", "a").on("n0")
        world.add(low if asked is None else low.annotation(NOTICE_SECONDS, asked), queued("new", "b")).run()
        world.wait(gets - 1)
        assert world.evicted == []
        world.wait(2)
        assert world.evicted == ["low"]


@pytest.mark.parametrize("text", ["soon", "-1", "601", "nan"])
def test_a_notice_that_makes_no_sense_is_told_and_none_is_given(text):
    """The event names what is allowed."""
    world = World(nodes(1), told("low", "n0", text), preempting("pod")).run()
    [event] = world.events("InvalidCheckpoint")
    assert "allowed are seconds from 0 to 600" in event.note
    assert world.evicted == ["low"]


def test_reclaim_with_notice_survives_a_restart_with_queues():
    """The victims count as going; the room is still the preemptor's."""
    queues = (a_queue("a", 0, notice_seconds=60.0), a_queue("b", 2))
    world = a_world(2, *queues)
    world.add(queued("a0", "a").on("n0"), queued("a1", "a").on("n0"), queued("b0", "b", 2)).run()
    world.wait(20).restart()
    for queue in queues:
        world.engine.handle(i.ObjectChanged(queue))
    know(world).wait(39)
    assert world.evicted == []
    world.wait(3)
    assert sorted(world.evicted) == ["a0", "a1"]
    assert world.node_of("b0") == "n0"


def test_a_gang_under_notice_has_its_minimum_and_says_until_when():
    """It runs on until its time has come, so no grace runs meanwhile, and nobody shrinks it; then it is below its minimum."""
    gang = structs.replace(a_gang("old", 2).build(), incomplete_policy="Shrink", grace_seconds=10.0)
    old = [pod.on(f"n{k}").annotation(NOTICE_SECONDS, "60") for k, pod in enumerate(members("old", 2))]
    world = World(nodes(2), gang, old).run().add(preempting("pod")).run().wait(5)
    status = world.gang_status("old")
    assert (status.satisfied, status.satisfied_reason) == ("True", "EvictionNotice")
    assert (status.phase, status.scheduled, status.reason) == ("Running", "True", "Scheduled")
    assert f"run until {text_of(START + 60)}" in status.satisfied_message
    world.wait(50)
    assert world.events("GangShrunk") == []
    world.grace = 30
    world.wait(10)
    assert sorted(world.evicted) == ["old-0", "old-1"]
    assert world.gang_status("old").satisfied != "True"


def test_a_gang_whose_notice_is_withdrawn_says_so_no_more():
    """A node comes: the gang stays."""
    old = [pod.on(f"n{k}").annotation(NOTICE_SECONDS, "60") for k, pod in enumerate(members("old", 2))]
    world = World(nodes(2), a_gang("old", 2), old).run().add(preempting("pod")).run()
    world.add(a_node("n9").gpus(8).cpu("64").memory("512Gi")).wait(5)
    status = world.gang_status("old")
    assert (status.satisfied, status.satisfied_reason) == ("True", "MinimumReached")
