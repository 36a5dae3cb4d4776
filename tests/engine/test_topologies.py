"""What is said at Topology objects of ours: whether nodes have the labels, and how many domains there are; once."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.engine.inputs import ObjectChanged, ObjectRemoved
from scheduler.engine.topologies import usable
from scheduler.framework.effects import SetTopologyStatus
from scheduler.model.topology import Level, Topology
from tests.builders import a_node

from .shapes import stays
from .world import World

LEVELS = (Level("block", "example.com/block"), Level("rack", "example.com/rack"))
FABRIC = Topology(name="fabric", uid="u", generation=1, levels=LEVELS)


def node(name, block="", rack=""):
    """Return a node with those labels that are told."""
    labels = {"example.com/block": block, "example.com/rack": rack}
    builder = a_node(name)
    for key, value in labels.items():
        builder = builder.label(key, value) if value else builder
    return builder


def told(world):
    """Return status, reason and message of each write."""
    return [(e.status, e.reason, e.message) for e in world.of(SetTopologyStatus)]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([], ("False", "LabelNotFound", "level block: no node has the label example.com/block; level rack: no node has the label example.com/rack")),
        ([node("a", "b1")], ("False", "LabelNotFound", "level rack: no node has the label example.com/rack; block: 1 domain")),
        (
            [node("a", "b1", "r1"), node("b", "b1", "r1"), node("c", "b2", "r1"), node("d")],
            ("True", "LabelsFound", "block: 2 domains (1 of 4 nodes without the label); rack: 2 domains (1 of 4 nodes without the label)"),
        ),
    ],
)  # fmt: skip
def test_condition_names_levels_without_nodes_and_counts_domains_by_their_whole_path(nodes, expected):
    """A rack of the same name in two blocks is two racks; an empty value is no label."""
    assert usable(FABRIC, [one.build() for one in nodes]) == expected


def test_levels_that_make_no_sense_are_told_as_they_are():
    """An API server without our definition's rules would have taken them."""
    odd = msgspec.structs.replace(FABRIC, problems=("spec.levels[1].nodeLabel: it is empty",))
    assert usable(odd, []) == ("False", "InvalidLevels", "spec.levels[1].nodeLabel: it is empty")


def test_status_is_written_when_it_changes_and_never_otherwise():
    """Changes are gathered; what leaves the condition as it is, is not written again."""
    world = World(node("a", "b1"))
    world.engine.handle(ObjectChanged(FABRIC))
    world.wait(5)
    assert [status for status, _, _ in told(world)] == ["False"]
    world.add(node("b", "b1", "r1"), node("c", "b1", "r2")).wait(5)
    assert told(world)[1:] == [
        ("True", "LabelsFound", "block: 1 domain; rack: 2 domains (1 of 3 nodes without the label)")
    ]
    stays(world)
    world.add(node("c", "b1", "r1").gpus(8)).add(node("c", "b1", "r2").gpus(8)).wait(5)
    assert len(told(world)) == 2
    world.engine.handle(ObjectChanged(msgspec.structs.replace(FABRIC, generation=2)))
    world.wait(5)
    assert [e.observed_generation for e in world.of(SetTopologyStatus)] == [1, 1, 2]
    world.engine.handle(ObjectRemoved(Topology, FABRIC.key))
    world.remove_node("b").remove_node("c").wait(5)
    assert len(told(world)) == 3


def test_topologies_of_other_projects_are_never_written():
    """Nor is one without an object."""
    world = World(node("a", "b1", "r1"))
    for dialect, uid in (("kueue", "x"), ("kai", "y"), ("ai-scheduler", "")):
        world.engine.handle(ObjectChanged(msgspec.structs.replace(FABRIC, name=dialect, dialect=dialect, uid=uid)))
    world.wait(5)
    assert told(world) == []
