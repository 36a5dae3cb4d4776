"""Gangs of one gang group (Koordinator): placed together, or none of them."""

from __future__ import annotations

import msgspec

from scheduler.model.dialects.koordinator import KOORDINATOR
from tests.builders import a_pod

from .shapes import nodes, stays
from .world import World

(SOURCE,) = KOORDINATOR.sources
GROUPS = '["default/a", "default/b"]'


def told(name, minimum):
    """Return what the PodGroup of one gang tells: the gang and its gang group."""
    annotations = {"gang.scheduling.koordinator.sh/groups": GROUPS}
    metadata = {"name": name, "namespace": "default", "uid": f"u-{name}", "annotations": annotations}
    return list(SOURCE.read(msgspec.convert({"metadata": metadata, "spec": {"minMember": minimum}}, SOURCE.api_type)))


def pods(name, count):
    """Return pods of one gang with all GPUs of a node each."""
    return [a_pod(f"{name}-{k}").gpus(8).label("pod-group.scheduling.sigs.k8s.io", name) for k in range(count)]


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
