"""Gangs of one gang group (Koordinator): placed together, or none of them."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.engine.inputs import GangRemoved
from scheduler.model import GangKey
from scheduler.model.dialects.koordinator import KOORDINATOR
from tests.builders import a_pod

from .shapes import nodes, stays
from .world import World

(SOURCE,) = KOORDINATOR.sources
GROUPS = '["default/a", "default/b"]'


def told(name, minimum, *, policy=None, phase=""):
    """Return what the PodGroup of one gang tells: the gang and its gang group."""
    annotations = {"gang.scheduling.koordinator.sh/groups": GROUPS}
    if policy is not None:
        annotations["gang.scheduling.koordinator.sh/match-policy"] = policy
    metadata = {"name": name, "namespace": "default", "uid": f"u-{name}", "annotations": annotations}
    manifest = {"metadata": metadata, "spec": {"minMember": minimum}, "status": {"phase": phase}}
    return list(SOURCE.read(msgspec.convert(manifest, SOURCE.api_type)))


def pods(name, count, *, start=0):
    """Return pods of one gang with all GPUs of a node each."""
    numbers = range(start, start + count)
    return [a_pod(f"{name}-{k}").gpus(8).label("pod-group.scheduling.sigs.k8s.io", name) for k in numbers]


def without_group(world, name):
    """Delete the PodGroup of one gang, of which the gang group is told by the others."""
    key = GangKey("koordinator", "default", name)
    world.gangs.pop(key, None)
    world.engine.handle(GangRemoved(key))
    return world


def after_a(**said):
    """Return a world in which both gangs ran, and a ended and was deleted, pods first."""
    world = World(nodes(4), told("a", 2, **said), told("b", 2, **said), pods("a", 2), pods("b", 2)).wait(5)
    assert len(world.placed) == 4
    world.change("a-0", phase="Succeeded").change("a-1", phase="Succeeded").wait(5)
    return without_group(world.remove("a-0", "a-1").wait(5), "a").wait(5)


def test_gangs_of_a_group_wait_for_each_other_and_go_together():
    """For the other's PodGroup, for its pods, and for room for both."""
    world = World(nodes(3), told("a", 2), pods("a", 2)).wait(5)
    assert world.placed == {}
    assert "waits for members: 2 of 3 pods exist (b: 0 of 1)" in world.conditions("a-0")[-1][1]
    world.add(told("b", 2)).wait(5)
    assert world.placed == {}
    world.add(pods("b", 2)).wait(5)
    assert world.placed == {}
    assert {reason for reason, _ in [world.conditions(name)[-1] for name in ("a-0", "b-0")]} == {"Unschedulable"}
    stays(world)
    world.add(nodes(4)).wait(5)
    assert sorted(world.placed) == ["a-0", "a-1", "b-0", "b-1"]
    stays(world)


def test_each_gang_of_a_group_has_its_own_minimum():
    """Three pods of one do not stand in for a missing one of the other."""
    world = World(nodes(8), told("a", 2), told("b", 2), pods("a", 3), pods("b", 1)).wait(5)
    assert world.placed == {}
    world.add(pods("b", 2)[1:]).wait(5)
    assert len(world.placed) == 5


@pytest.mark.parametrize("policy", [None, "once-satisfied"])
def test_a_gang_that_went_after_its_group_was_complete_is_waited_for_no_more(policy):
    """What the other one loses is replaced at once; also all of it, and then it starts whole."""
    world = after_a(policy=policy).remove("b-0").wait(5).add(pods("b", 1, start=2)).wait(5)
    assert sorted(world.placed) == ["b-1", "b-2"]
    world.remove("b-1", "b-2").wait(5).add(pods("b", 1, start=3)).wait(5)
    assert world.placed == {}
    world.add(pods("b", 1, start=4)).wait(300)
    assert sorted(world.placed) == ["b-3", "b-4"]
    assert world.evicted == []
    assert world.engine.state.validate() == []


def test_a_gang_that_comes_back_is_needed_again():
    """Its PodGroup exists anew: a replacement of the other one waits for its pods."""
    world = after_a().add(told("a", 2)).remove("b-0").wait(5).add(pods("b", 1, start=2)).wait(5)
    assert sorted(world.placed) == ["b-1"]
    world.add(pods("a", 2, start=2)).wait(5)
    assert sorted(world.placed) == ["a-2", "a-3", "b-1", "b-2"]


@pytest.mark.parametrize("policy", ["only-waiting", "waiting-and-running"])
def test_other_policies_go_on_waiting_for_a_gang_that_went(policy):
    """Its members are no longer there to count."""
    world = after_a(policy=policy).remove("b-0").wait(5).add(pods("b", 1, start=2)).wait(5)
    assert sorted(world.placed) == ["b-1"]
    assert "(a: 0 of 1" in world.conditions("b-2")[-1][1]


def test_a_gang_that_goes_before_its_group_was_complete_stays_needed():
    """Nothing was ever placed."""
    world = World(nodes(4), told("a", 2), told("b", 2), pods("b", 2)).wait(5)
    without_group(world, "a").wait(5)
    assert world.placed == {}
    assert world.pending("a+b").message.endswith("waits for members: 2 of 3 pods exist (a: 0 of 1)")


def test_a_new_process_takes_the_word_of_the_gangs_that_exist():
    """All of them say that they were complete: what runs is no failed start, and a replacement goes alone."""
    world = after_a().remove("b-0").add(told("b", 2, phase="Running")).restart().wait(300)
    assert (sorted(world.placed), world.evicted) == (["b-1"], [])
    world.add(pods("b", 1, start=2)).wait(5)
    assert sorted(world.placed) == ["b-1", "b-2"]


def test_a_status_that_comes_late_ends_the_waiting():
    """The project that owns the PodGroup writes it when the new process has begun already."""
    world = after_a().remove("b-0").restart().add(pods("b", 1, start=2)).wait(5)
    assert sorted(world.placed) == ["b-1"]
    world.add(told("b", 2, phase="Running")).wait(300)
    assert (sorted(world.placed), world.evicted) == (["b-1", "b-2"], [])


def test_one_gang_that_was_never_complete_speaks_against_the_others():
    """A gang group of which one says nothing of the kind is a start that failed."""
    world = after_a().remove("b-0").add(told("a", 2), told("b", 2, phase="Running")).restart().wait(700)
    assert world.evicted == ["b-1"]
