"""Preemption within a queue that is at its limit: who goes for quota, not for room."""

from __future__ import annotations

import pytest

from scheduler.framework.effects import EvictPod
from tests.builders import a_gang, a_node, a_pod

from .making import a_queue, a_world, know, of_queue, queued

NOTICE = 30.0


def runs(name, gpus, priority=0, node="n0"):
    """Return a pod of queue b that runs."""
    return queued(name, "b", gpus).priority(priority).on(node).phase("Running")


def two_level(**leaf):
    """Return a queue with a limit, and one below it that has none."""
    return a_queue("org", 8, 8, **leaf), a_queue("b", 8, None, parent="org")


@pytest.mark.parametrize("nodes", [1, 4])
@pytest.mark.parametrize("queues", [(a_queue("b", 8, 8, notice_seconds=NOTICE),), two_level(notice_seconds=NOTICE)])
@pytest.mark.parametrize("kind", ["pod", "gang"])
def test_victim_that_goes_for_quota_goes_when_its_notice_is_over(nodes, queues, kind):
    """One of 7 of 8 GPUs is told once, goes 30 s later, and the more important one of 7 starts."""
    world = a_world(8, *queues, nodes=nodes)
    world.add(runs("low", 7)).wait(5)
    if kind == "pod":
        world.add(queued("g", "b", 7).priority(100))
    else:
        world.add(a_gang("g", 1), of_queue("b", a_pod("g").gang("g").gpus(7).priority(100)))
    world.wait(NOTICE - 1)
    assert (len(world.events("EvictionNotice")), world.evicted) == (1, [])
    world.wait(60)
    assert world.evicted == ["low"]
    assert "g" in world.placed
    assert (len(world.events("EvictionNotice")), world.events("EvictionWithdrawn")) == (1, [])


def test_victim_that_goes_for_quota_goes_when_its_notice_is_over_though_a_restart_was_between():
    """The annotations are the state."""
    queue = a_queue("b", 8, 8, notice_seconds=NOTICE)
    world = a_world(8, queue, nodes=2)
    world.add(runs("low", 7)).wait(5)
    world.add(queued("g", "b", 7).priority(100)).wait(10)
    know(world.restart(), queue).wait(60)
    assert world.evicted == ["low"]
    assert "g" in world.placed


def test_notice_for_quota_is_withdrawn_when_quota_came_free_otherwise():
    """Whoever else of the queue ended meanwhile has made enough room."""
    world = a_world(8, a_queue("b", 8, 8, notice_seconds=NOTICE), nodes=4)
    world.add(runs("low", 4), runs("other", 4, 50)).wait(5)
    world.add(queued("g", "b", 4).priority(100)).wait(10)
    assert len(world.events("EvictionNotice")) == 1
    world.remove("other").wait(60)
    assert world.evicted == []
    assert {"low", "g"} <= world.placed.keys()
    assert len(world.events("EvictionWithdrawn")) == 1


def test_nobody_goes_for_quota_that_is_coming_free_anyway():
    """One of 4 is being deleted, by whomever: another one of 4 need not go."""
    world = a_world(8, a_queue("b", 8, 8), nodes=4)
    world.add(runs("leaving", 4, 50), runs("low", 4)).wait(5)
    world.change("leaving", is_terminating=True)
    world.add(queued("g", "b", 4).priority(100)).wait(60)
    assert world.evicted == []
    world.remove("leaving").wait(5)
    assert {"low", "g"} <= world.placed.keys()


def test_victim_goes_for_quota_though_its_room_is_not_needed():
    """Both nodes have more room than the preemptor can use: the victim makes none for another pod of that size."""
    world = a_world(16, a_queue("b", 0, 5), nodes=2)
    world.add(runs("low", 1)).wait(5)
    world.add(queued("g", "b", 5).priority(100)).wait(60)
    assert world.evicted == ["low"]
    assert "g" in world.placed


def test_victim_goes_for_quota_from_a_node_that_the_preemptor_cannot_use():
    """The preemptor has to be in zone b, the victim is in zone a."""
    world = know(
        a_world(8, nodes=0).add(*(a_node(zone).gpus(8).label("zone", zone) for zone in "ab")), a_queue("b", 0, 8)
    )
    world.add(runs("low", 8, node="a")).wait(5)
    world.add(queued("g", "b", 8).priority(100).select("zone", "b")).wait(60)
    assert world.evicted == ["low"]
    assert world.node_of("g") == "b"


def test_no_more_go_for_quota_than_have_to():
    """Of three of 2 GPUs in a queue of 6, one makes room for another of 2: the least important."""
    world = a_world(16, a_queue("b", 0, 6), nodes=2)
    world.add(*(runs(f"low{n}", 2, n) for n in range(3))).wait(5)
    world.add(queued("g", "b", 2).priority(100)).wait(60)
    assert [effect.pod.name for effect in world.of(EvictPod)] == ["low0"]
    assert "g" in world.placed


def test_no_room_is_kept_for_who_went_for_quota():
    """A gang of two goes one by one; what its controller makes anew is not nominated, as its quota would be the preemptor's."""
    world = a_world(4, a_queue("b", 0, 2), nodes=2)
    world.grace = None
    world.add(a_gang("low", 2), *(of_queue("b", a_pod(f"low-{n}").gang("low").gpus(1)) for n in range(2))).wait(5)
    world.add(queued("g", "b").priority(100)).wait(5)
    for name in ("low-0", "low-1"):
        world.remove(name).add(of_queue("b", a_pod(f"{name}-again").gang("low").gpus(1))).wait(20)
    assert {effect.moves_to for effect in world.of(EvictPod)} == {""}
    assert sorted(world.evicted) == ["low-0", "low-1"]
    assert world.placed.keys() == {"g"}
