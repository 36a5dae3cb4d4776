"""Promises and neighbours: work elsewhere runs ahead only where it spoils no spread, affinity or domain of who has a promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builders import a_node, a_pod

from .test_backfill import end, running, told, waiting
from .world import World

if TYPE_CHECKING:
    from tests.builders import PodBuilder

ZONE = "zone"


def a_cluster(**zones: str) -> list[object]:
    """Return nodes of eight GPUs in zones."""
    return [a_node(name).gpus(8).label(ZONE, zone) for name, zone in zones.items()]


def short(name: str, seconds: int | None = None) -> PodBuilder:
    """Return a pod of the kind that the head minds."""
    return waiting(name, 4, seconds).label("app", "loud")


@pytest.mark.parametrize(("seconds", "is_ahead"), [(50, True), (900, False), (None, False)])
def test_who_would_spoil_an_anti_affinity_of_the_head_does_not_run_ahead(seconds: int | None, is_ahead: bool) -> None:
    """The head needs a whole node and stands in no zone with loud ones. It is promised n0, and n1 in its zone has room for four GPUs."""
    world = World(*a_cluster(n0="a", n1="a"), running("busy", "n0", seconds=100), running("half", "n1", 4, seconds=900))
    world.add(waiting("head").anti_affinity(ZONE, app="loud")).wait(2)
    assert told(world, "head") == [100]
    world.add(short("small", seconds)).wait(5)
    assert bool(world.node_of("small")) is is_ahead
    if not is_ahead:
        [message] = {text for _, text in world.conditions("small")}
        assert "default/head could not start when it was promised" in message
    else:
        world.wait(50)
        world.remove("small")
    end(world.wait(90), "busy").wait(3)
    assert world.node_of("head") == "n0"
    if not is_ahead:
        assert not world.node_of("small")


def test_another_place_is_taken_where_nothing_is_spoiled() -> None:
    """n1 is in the zone of the head and scores best; n2 is not, and does."""
    world = World(*a_cluster(n0="a", n1="a", n2="b"), running("busy", "n0", seconds=100))
    world.add(running("half", "n1", 4, seconds=900), running("few", "n2", 2, seconds=900))
    world.add(waiting("head").anti_affinity(ZONE, app="loud")).wait(2)
    assert told(world, "head") == [100]
    world.add(short("small")).wait(5)
    assert world.node_of("small") == "n2"
    end(world.wait(95), "busy").wait(3)
    assert world.node_of("head") == "n0"


def test_a_spread_of_the_head_is_not_spoiled() -> None:
    """At most one more of the kind in its zone than in the other: with a second one there the head could not go there."""
    world = World(*a_cluster(n0="a", n1="a", n2="b"), running("busy", "n0", seconds=100))
    world.add(running("half", "n1", 4, seconds=900), running("full", "n2", 8, seconds=900))
    world.add(waiting("head").label("app", "loud").spread(ZONE, 1, app="loud")).wait(2)
    assert told(world, "head") == [100]
    world.add(short("small")).wait(5)
    assert not world.node_of("small")
    end(world.wait(95), "busy").wait(3)
    assert world.node_of("head") == "n0"


def test_who_was_kept_back_is_tried_when_the_head_has_started() -> None:
    """It asks for another node's room, which nobody reserved."""
    world = World(*a_cluster(n0="a", n1="a"), running("busy", "n0", seconds=100), running("half", "n1", 4, seconds=900))
    world.add(waiting("head", 8, 60).anti_affinity(ZONE, app="loud")).wait(2)
    world.add(short("small")).wait(5)
    assert not world.node_of("small")
    world.remove("head").wait(3)
    assert world.node_of("small") == "n1"


def test_a_head_that_would_be_late_anyway_keeps_nobody_back() -> None:
    """Somebody loud has come to its zone by another scheduler: the promise is void, and looked at again."""
    world = World(*a_cluster(n0="a", n1="a"), running("busy", "n0", seconds=100), running("half", "n1", 2, seconds=900))
    world.add(waiting("head").anti_affinity(ZONE, app="loud")).wait(2)
    world.add(a_pod("theirs").gpus(1).label("app", "loud").scheduler("default-scheduler").on("n1").phase("Running"))
    world.add(short("small")).wait(5)
    assert world.node_of("small") == "n1"
