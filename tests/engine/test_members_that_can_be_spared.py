"""A gang with more members than its minimum gives those whose room is of use, wherever they are, before it goes as a whole."""

from __future__ import annotations

import itertools
import random

import msgspec
import pytest

from tests.builders import a_gang, a_pod

from .shapes import members, nodes, running, stays
from .world import World

PAIRS = list(itertools.combinations(range(4), 2))


def an_elastic_gang(places, minimum, *, is_firm=False, started=None):
    """Return a gang of running pods of four GPUs, one for each place (a node), and its minimum."""
    gang = msgspec.structs.replace(
        a_gang("old", minimum).build(), is_preemptible=True if is_firm else None, is_minimum_firm=is_firm
    )
    pods = [running(f"old-{k}", f"n{place}", gpus=4).gang("old").build() for k, place in enumerate(places)]
    ages = started or range(len(places))
    return gang, [msgspec.structs.replace(pod, started=float(age)) for pod, age in zip(pods, ages, strict=True)]


def evicted_by_node(world, places):
    """Return how many members went on each node that lost some."""
    lost = [places[int(name.removeprefix("old-"))] for name in world.evicted]
    return {node: lost.count(node) for node in lost}


@pytest.mark.parametrize("is_gang", [False, True])
@pytest.mark.parametrize("is_firm", [False, True])
@pytest.mark.parametrize("first", PAIRS)
def test_two_spare_members_on_one_node_go(first, is_firm, is_gang):
    """Four members on two nodes, two of which can be spared: whichever lost least, one node is cleared and the gang runs on."""
    places = [0 if k in first else 1 for k in range(4)]
    world = World(nodes(2), *an_elastic_gang(places, 2, is_firm=is_firm))
    if is_gang:
        world.add(a_gang("new", 1), members("new", 1, priority=10)).wait(5)
        assert world.bound_members("new") == 1
    else:
        world.add(a_pod("new").gpus(8).priority(10)).wait(5)
        assert world.node_of("new")
    assert list(evicted_by_node(world, places).values()) == [2]
    stays(world, minutes=10)


@pytest.mark.parametrize("seed", range(12))
def test_gang_takes_the_room_of_spare_members_on_several_nodes(seed):
    """Two nodes for a gang of two: four of the eight members go, as many as their gang can spare, and no more."""
    places = [k // 2 for k in range(8)]
    random.Random(seed).shuffle(places)
    world = World(nodes(4), *an_elastic_gang(places, 4))
    world.add(a_gang("new", 2), members("new", 2, priority=10)).wait(5)
    assert world.bound_members("new") == 2
    assert list(evicted_by_node(world, places).values()) == [2, 2]


def test_whole_gang_goes_where_it_cannot_spare_enough():
    """Three of four may go, four are needed: all go, with one reason."""
    world = World(nodes(2), *an_elastic_gang([0, 0, 1, 1], 1))
    world.add(a_gang("new", 2), members("new", 2, priority=10)).wait(5)
    assert world.bound_members("new") == 2
    assert len(world.evicted) == 4


def test_protected_member_uses_up_nothing_that_can_be_spared():
    """Of two nodes one has a member that may not go: the other one is cleared."""
    gang, pods = an_elastic_gang([0, 1, 0, 1], 2)
    kept = msgspec.structs.replace(pods[3], annotations={"volcano.sh/preemptable": "false"})
    for preemptor in (
        [a_pod("new").gpus(8).priority(10)],
        [a_gang("new", 1), *members("new", 1, priority=10)],
    ):
        world = World(nodes(2), gang, [*pods[:3], kept]).add(*preemptor).wait(5)
        assert sorted(world.evicted) == ["old-0", "old-2"]
