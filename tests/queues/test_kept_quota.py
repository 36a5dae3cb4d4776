"""Quota that is kept for the first of a queue: smaller work of the queue runs ahead only where that does not delay it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from scheduler.config import parse
from scheduler.model.run_time import EXPECTED_RUN_SECONDS
from tests.builders import a_gang, a_node, a_pod
from tests.engine.world import START, World

from .making import a_queue, a_world, know, of_queue, queued


def runs(name, queue, gpus, seconds=None, node="n0"):
    """Return a pod of a queue that has just started on a node."""
    builder = of_queue(queue, a_pod(name).gpus(gpus)).on(node).phase("Running")
    if seconds is not None:
        builder.annotation(EXPECTED_RUN_SECONDS, str(seconds))
    return structs.replace(builder.build(), started=START)


def waits(name, queue, gpus, created, seconds=None):
    """Return a pod of a queue that waits, and may say how long it will run."""
    pod = queued(name, queue, gpus, created)
    return pod if seconds is None else pod.annotation(EXPECTED_RUN_SECONDS, str(seconds))


def end(world, *names):
    """Let pods end well."""
    for name in names:
        world.change(name, phase="Succeeded")
    return world.wait(2)


@pytest.mark.parametrize(("seconds", "is_ahead"), [(90, True), (300, False), (None, False)])
def test_who_is_behind_uses_quota_only_if_it_has_ended_by_the_time_the_first_needs_it(seconds, is_ahead):
    """The head needs all 8 of its queue; 4 are free and the others end after 100 s. The cluster has room for everybody."""
    world = a_world(64, a_queue("a", 0, 8))
    world.add(runs("old", "a", 4, 100), waits("head", "a", 8, 1), waits("small", "a", 4, 2, seconds)).wait(5)
    assert bool(world.node_of("small")) is is_ahead
    if not is_ahead:
        [(_, message)] = {one for one in world.conditions("small") if "reserved" in one[1]}
        assert message.startswith("queue a: limit 8 nvidia.com/gpu, 8 of it reserved for default/head from ")
    world.wait(94)
    end(world, "old", *(["small"] if is_ahead else []))
    assert world.node_of("head")


def test_what_the_first_leaves_is_for_others():
    """The head needs 6 of 8 from 100 s on: two are left for one that runs for ever, and not for another one."""
    world = a_world(64, a_queue("a", 0, 8))
    world.add(runs("old", "a", 4, 100), waits("head", "a", 6, 1), waits("x", "a", 2, 2), waits("y", "a", 2, 3)).wait(5)
    assert world.node_of("x")
    assert not world.node_of("y")
    end(world.wait(95), "old")
    assert world.node_of("head")


def test_another_queue_is_not_bound_unless_it_shares_the_limit():
    """`b` is below the same limited parent as `a`, and behind it; `c` is not."""
    tree = [a_queue("org", 0, 8), a_queue("a", 8, parent="org"), a_queue("b", parent="org"), a_queue("c")]
    world = a_world(64, *tree)
    world.add(runs("old", "a", 4, 100), waits("head", "a", 8, 1)).wait(2)
    world.add(waits("b", "b", 4, 2), waits("c", "c", 4, 3)).wait(5)
    assert not world.node_of("b")
    assert world.node_of("c")


def test_quota_is_kept_for_who_has_nodes_reserved():
    """The head waits for a node, not for quota: another one of its queue finds room elsewhere, and would leave it none."""
    world = a_world(8, a_queue("a", 0, 8), a_queue("b", 16), nodes=2)
    world.add(runs("busy", "b", 8, 100, "n0"), runs("part", "b", 4, 100, "n1"))
    world.add(waits("head", "a", 8, 1)).wait(2)
    world.add(waits("small", "a", 4, 2, 900)).wait(5)
    assert not world.node_of("small")
    world.add(waits("brief", "a", 4, 3, 50)).wait(5)
    assert world.node_of("brief") == "n1"
    world.wait(80)
    end(world, "brief", "busy", "part")
    assert world.node_of("head")


def test_who_was_kept_back_goes_on_when_the_first_has_left():
    """It is deleted: nobody waits for that any more."""
    world = a_world(64, a_queue("a", 0, 8))
    world.add(runs("old", "a", 4, 100), waits("head", "a", 8, 1), waits("small", "a", 4, 2)).wait(5)
    assert not world.node_of("small")
    world.remove("head").wait(2)
    assert world.node_of("small")


def test_with_backfill_off_whoever_has_quota_runs():
    """Nothing is kept for anybody."""
    world = World(*a_world(64).nodes.values(), configuration=parse("backfill: {policy: none}"))
    know(world, a_queue("a", 0, 8))
    world.add(runs("old", "a", 4, 100), waits("head", "a", 8, 1), waits("small", "a", 4, 2)).wait(5)
    assert world.node_of("small")


def test_a_gang_waits_for_quota_as_a_whole():
    """Two members of 4 need the whole limit; a third pod behind it does not get the half that is free."""
    world = a_world(64, a_queue("a", 0, 8))
    members = [of_queue("a", a_pod(f"big-{k}").gang("big").gpus(4)) for k in range(2)]
    world.add(runs("old", "a", 4, 100), a_gang("big", 2).created(START - 5), members, waits("small", "a", 4, 1)).wait(5)
    assert not world.node_of("small")
    end(world.wait(95), "old")
    assert world.bound_members("big") == 2


def test_quota_is_not_kept_for_what_waits_for_room_that_never_comes():
    """The first is refused for quota, and when there is quota, for nodes that are too small: who is behind it runs, without a thousand tries."""
    world = a_world(2, a_queue("a", 0, 4))
    world.add(runs("old", "a", 2, 100), waits("large", "a", 4, 1)).wait(5)
    world.add(waits("small", "a", 2, 2)).wait(200)
    end(world, "old")
    tries = len(world.decisions)
    world.wait(3600)
    assert world.node_of("small")
    assert not world.node_of("large")
    assert len(world.decisions) < tries + 100


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(20, 200)), min_size=8, max_size=30), st.integers(5, 8))
def test_who_needs_much_quota_starts_in_the_end_though_nobody_says_how_long_it_runs(stream, asks):
    """Small pods keep coming whenever quota is free. Once held (A = 300 s) none starts, so the head does within A + R, R = 200 s."""
    world = a_world(64, a_queue("a", 0, 8))
    world.add(waits("first", "a", 4, 0)).wait(1)
    ends = {"first": START + 200}
    world.add(waits("head", "a", asks, 1)).wait(1)
    for number in range(1, 120):
        gpus, seconds = stream[number % len(stream)]
        name = f"s{number}"
        world.add(waits(name, "a", gpus, 1 + number)).wait(5)
        ends |= {pod: world.now + seconds for pod in world.placed if pod not in ends and pod != "head"}
        for pod in [pod for pod, moment in ends.items() if moment <= world.now and pod in world.placed]:
            world.remove(pod)
        if world.node_of("head"):
            break
    assert world.node_of("head")
    assert world.now <= START + 300 + 200 + 30


@pytest.mark.parametrize("kind", ["gang", "pod"])
def test_nothing_is_kept_for_what_no_node_could_take(kind):
    """It asks for 64 GPUs, which its queue may use and the cluster does not have: it is told so, and who is behind it starts."""
    world = a_world(32, a_queue("a", 0, 64))
    world.add(runs("old", "a", 4, 100))
    if kind == "gang":
        members = [of_queue("a", a_pod(f"big-{n}").gang("big").gpus(8).created(1)) for n in range(8)]
        world.add(a_gang("big", 8).created(1), *members)
    else:
        world.add(waits("big", "a", 64, 1))
    world.wait(5)
    world.add(waits("small", "a", 4, 2)).wait(5)
    assert world.node_of("small")
    [(_, message)] = world.conditions("big-0" if kind == "gang" else "big")
    assert (
        "never for more than 4" if kind == "gang" else "0/1 nodes are available: 1 Insufficient nvidia.com/gpu"
    ) in message


def test_what_no_node_could_take_waits_for_quota_once_there_are_nodes():
    """The cluster grows: now it is the first that waits for quota, and starts when that is free."""
    world = a_world(32, a_queue("a", 0, 64))
    members = [of_queue("a", a_pod(f"big-{n}").gang("big").gpus(8).created(1)) for n in range(8)]
    world.add(runs("old", "a", 4, 100), a_gang("big", 8).created(1), *members).wait(5)
    world.add(*(a_node(f"more{n}").gpus(32).cpu(64) for n in range(2)), waits("small", "a", 4, 2)).wait(5)
    assert not world.node_of("small")
    end(world.wait(90), "old")
    assert world.node_of("big-0")


@pytest.mark.parametrize("restarts", [False, True])
def test_who_had_room_made_for_it_keeps_its_quota_when_a_hold_begins(restarts):
    """The head waits for quota from 0 s on, so it is held from 300 s on; one was evicted at 250 s for another, and goes at 310 s."""
    queues = a_queue("a", 8, 8), a_queue("z", 0)
    world = a_world(4, *queues, nodes=2)
    world.grace = None
    world.add(runs("old", "a", 4, node="n0"), queued("victim", "z", 4).on("n1"))
    members = [of_queue("a", a_pod(f"head-{n}").gang("head").gpus(4).created(1)) for n in range(2)]
    world.add(a_gang("head", 2).created(1), *members).wait(250)
    world.add(waits("later", "a", 4, 250)).wait(60)
    assert world.evicted == ["victim"]
    if restarts:
        know(world.restart(), *queues)
    world.remove("victim").add(queued("again", "z", 4, 311)).wait(20)
    assert world.node_of("later") == "n1"
    assert world.evicted == ["victim"]
