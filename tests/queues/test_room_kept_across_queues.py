"""Room that comes free in pieces is the preemptor's across queues too: priority says who may take it within its queue alone."""

from __future__ import annotations

import pytest

from tests.builders import a_gang, a_pod
from tests.engine.shapes import stays

from .making import a_queue, a_world, know, of_queue, queued


def leave_one_by_one(world, queue, priority, seconds=20, most=20):
    """Let victims end one after the other; the controller makes a new pod for each at once."""
    for number in range(most):
        victim = next((pod for pod in world.pods.values() if pod.is_terminating), None)
        if victim is None:
            return
        gpus = victim.requests["nvidia.com/gpu"]
        world.remove(victim.name).add(queued(f"again{number}", queue, gpus).priority(priority).created(number))
        world.wait(seconds)


@pytest.mark.parametrize("priority", [0, 1000])
@pytest.mark.parametrize("kind", ["pod", "gang"])
def test_freed_room_is_not_taken_back_by_the_queue_it_was_taken_from(priority, kind):
    """Two of one GPU go, however important, for one that its queue is guaranteed two for; none of those made anew takes its place."""
    world = a_world(2, a_queue("b", 2), a_queue("z", 0))
    world.grace = None
    world.add(*(queued(f"v{n}", "z").priority(priority).on("n0") for n in range(2))).wait(5)
    if kind == "pod":
        world.add(queued("big", "b", 2))
    else:
        world.add(a_gang("big", 2), *(of_queue("b", a_pod(f"big-{n}").gang("big").gpus(1)) for n in range(2)))
    leave_one_by_one(world.wait(2), "z", priority)
    stays(world)
    assert sorted(world.evicted) == ["v0", "v1"]
    assert world.placed.keys() == ({"big"} if kind == "pod" else {"big-0", "big-1"})


def test_freed_room_is_kept_on_every_node_of_a_gang():
    """The pieces come free on two nodes."""
    world = a_world(1, a_queue("b", 2), a_queue("z", 0), nodes=2)
    world.grace = None
    world.add(*(queued(f"v{n}", "z").priority(1000).on(f"n{n}") for n in range(2))).wait(5)
    world.add(a_gang("big", 2), *(of_queue("b", a_pod(f"big-{n}").gang("big").gpus(1)) for n in range(2))).wait(2)
    leave_one_by_one(world, "z", 1000)
    assert sorted(world.evicted) == ["v0", "v1"]
    assert world.placed.keys() == {"big-0", "big-1"}


def test_freed_room_is_kept_though_a_restart_was_between():
    """The nominations are the state."""
    queues = a_queue("b", 2), a_queue("z", 0)
    world = a_world(2, *queues)
    world.grace = None
    world.add(*(queued(f"v{n}", "z").priority(1000).on("n0") for n in range(2))).wait(5)
    world.add(queued("big", "b", 2)).wait(2)
    world.remove("v0").add(queued("again", "z").priority(1000))
    know(world.restart(), *queues).wait(20)
    world.remove("v1").wait(20)
    assert sorted(world.evicted) == ["v0", "v1"]
    assert world.placed.keys() == {"big"}


def test_a_plan_of_another_queue_beside_it_leaves_the_room_alone():
    """The more important one of a third queue takes what else can be taken on the node, and both start."""
    world = a_world(3, a_queue("b", 2), a_queue("c", 1), a_queue("z", 0))
    world.grace = None
    world.add(*(queued(f"v{n}", "z").on("n0") for n in range(3))).wait(5)
    world.add(queued("big", "b", 2)).wait(2)
    world.add(queued("vip", "c").priority(1000)).wait(2)
    leave_one_by_one(world, "z", 0)
    assert sorted(world.evicted) == ["v0", "v1", "v2"]
    assert world.placed.keys() == {"big", "vip"}


def test_within_a_queue_the_more_important_takes_the_room_as_everywhere():
    """It comes first in the queue that both belong to."""
    world = a_world(2, a_queue("b", 2), a_queue("z", 0))
    world.grace = None
    world.add(*(queued(f"v{n}", "z").on("n0") for n in range(2))).wait(5)
    world.add(queued("big", "b", 2)).wait(2)
    world.remove("v0").add(queued("vip", "b").priority(10)).wait(20)
    assert world.placed.keys() == {"v1", "vip"}


def test_in_a_queue_that_goes_by_age_the_more_important_does_not_take_the_room():
    """FIFO: nobody makes room for anybody within the queue."""
    world = a_world(2, a_queue("b", 2, ordering="FIFO"), a_queue("z", 0))
    world.grace = None
    world.add(*(queued(f"v{n}", "z").on("n0") for n in range(2))).wait(5)
    world.add(queued("big", "b", 2, 1)).wait(2)
    world.remove("v0").add(queued("vip", "b", 1, 2).priority(10)).wait(20)
    world.remove("v1").wait(20)
    assert world.placed.keys() == {"big"}


def test_room_that_a_queue_keeps_goes_to_others_when_its_patience_ends():
    """A victim that never goes: two minutes after its grace period the other room is free for everybody."""
    world = a_world(2, a_queue("b", 2), a_queue("z", 0))
    world.grace = None
    world.add(*(queued(f"v{n}", "z").grace(0).on("n0") for n in range(2))).wait(5)
    world.add(queued("big", "b", 2)).wait(2)
    world.remove("v0").add(queued("vip", "z").priority(1000)).wait(110)
    assert not world.node_of("vip")
    world.wait(30)
    assert world.node_of("vip")


def test_without_queues_the_more_important_takes_the_room():
    """As in kube-scheduler."""
    world = a_world(2)
    world.grace = None
    world.add(*(a_pod(f"v{n}").gpus(1).on("n0") for n in range(2))).wait(5)
    world.add(a_pod("big").gpus(2).priority(5)).wait(2)
    world.remove("v0").add(a_pod("vip").gpus(1).priority(10)).wait(20)
    assert world.placed.keys() == {"v1", "vip"}
