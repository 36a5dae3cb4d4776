"""The largest gang that would fit now: by shape and domain, counted from what is free on nodes that take pods."""

from __future__ import annotations

import pytest

from scheduler.engine.room import CLUSTER, MOST_DOMAINS
from tests.builders import GPU, a_gang, a_node, a_pod
from tests.engine.world import World

BLOCK, RACK = "fabric.topograph.run/tier-1", "fabric.topograph.run/tier-0"


def nodes(count=4):
    """Start nodes of eight GPUs, two in a rack, all in one block."""
    return [a_node(f"n{n}").gpus(8).cpu(64).label(BLOCK, "b0").label(RACK, f"r{n // 2}") for n in range(count)]


def room(world, **requests):
    """Return the largest gang by level."""
    named = {GPU if key == "gpus" else key: value for key, value in requests.items()}
    return {level.level: level.pods for level in world.engine.largest_gangs([named])[0]}


def test_room_is_counted_by_node_and_summed_by_domain():
    """Rack r0 has 8 + 5 idle GPUs, r1 16: pods of four GPUs find 2 + 1 and 4 places, those of eight 1 + 0 and 2."""
    world = World(*nodes(), a_pod("old").gpus(3).on("n1")).run()
    assert room(world, gpus=4) == {CLUSTER: 7, "tier-1": 7, "tier-0": 4, "host": 2}
    assert room(world, gpus=8) == {CLUSTER: 3, "tier-1": 3, "tier-0": 2, "host": 1}
    [levels] = world.engine.largest_gangs([{GPU: 4}])
    assert levels[2].largest == (("b0/r1", 4), ("b0/r0", 3))


def test_every_resource_counts_and_so_do_places_for_pods():
    """With 40 of 64 cores asked for, one pod fits on a node, whatever its GPUs; a node for one pod more has one place."""
    world = World(*nodes(1), a_node("full").gpus(8).pods(1), a_pod("old").on("full")).run()
    assert room(world, gpus=1, cpu=40_000)["host"] == 1
    assert room(world, gpus=1)[CLUSTER] == 8


@pytest.mark.parametrize("off", ["cordoned", "tainted"])
def test_nodes_that_take_no_pods_have_no_room(off):
    """Cordoned ones, and those that the node controller tainted; a taint of the users' own is tolerated by theirs."""
    node = a_node("off").gpus(8)
    node = node.cordoned() if off == "cordoned" else node.taint("node.kubernetes.io/not-ready", effect="NoExecute")
    world = World(node, a_node("on").gpus(8).taint(GPU)).run()
    assert room(world, gpus=8)[CLUSTER] == 1


def test_a_gang_as_large_as_told_fits_and_a_larger_one_does_not():
    """What is told of the rack is what the engine does for a gang that has to be in one."""
    for size in (4, 5):
        world = World(*nodes(), a_pod("old").gpus(3).on("n1")).run()
        assert room(world, gpus=4)["tier-0"] == 4
        members = [a_pod(f"m{n}").gpus(4).gang("job", size) for n in range(size)]
        world.add(a_gang("job", size).spec(topology={"required": "tier-0"}), *members).run()
        assert (world.waiting == set()) is (size == 4)


def test_it_is_right_in_the_middle_of_an_attempt_and_changes_nothing():
    """A gang whose attempt is under way holds nothing yet; it is placed as without being asked."""
    world = World(*nodes(), a_gang("job", 4), *[a_pod(f"m{n}").gpus(8).gang("job", 4) for n in range(4)])
    seen = []
    for _ in range(50):
        more = world.engine.step(1)
        seen.append(room(world, gpus=8)[CLUSTER])
        if not more:
            break
    assert set(seen) == {4, 0}
    assert seen == sorted(seen, reverse=True)


def test_many_domains_are_not_all_named():
    """Thirty nodes: ten are named, all are counted."""
    world = World(*[a_node(f"n{n}").gpus(8) for n in range(30)]).run()
    [levels] = world.engine.largest_gangs([{GPU: 8}])
    assert (levels[-1].domains, len(levels[-1].largest), levels[0].pods) == (30, MOST_DOMAINS, 30)
