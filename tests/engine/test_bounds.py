"""The first "no" has numbers, whatever plugins are enabled."""

from __future__ import annotations

import pytest

from scheduler import NodeView, Plugin, Pod
from scheduler.config import parse
from tests.builders import a_gang, a_node, a_pod
from tests.engine.world import World


class ReadsNames(Plugin):
    """A narrow plugin that promises nothing about what it reads."""

    NAME = "ReadsNames"

    def filter(self, state, pod: Pod, node: NodeView) -> None:
        """Let all pass."""


CONFIGURATION = "profiles: [{plugins: {multiPoint: {enabled: [{name: 'tests.engine.test_bounds:ReadsNames'}]}}}]"


def test_gang_hears_its_numbers_also_with_plugins_that_read_more_of_a_pod():
    """Members that are looked at one by one still compete for the same places."""
    nodes = [a_node(f"n{i}").gpus(8).cpu(64).memory("512Gi").pods(110) for i in range(2)]
    members = [a_pod(f"job-{i}").gang("job").gpus(8) for i in range(30)]
    world = World(nodes, a_gang("job", 30), members, configuration=parse(CONFIGURATION)).run()
    assert "there is room for 2, and never for more than 2" in world.conditions("job-0")[0][1]


LEFT_TO_OTHERS = """
profiles:
- pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [nvidia.com/gpu]}}]
"""
NOBODY_COUNTS = "profiles: [{plugins: {filter: {disabled: [{name: NodeResourcesFit}]}}}]"
NARROWS = "profiles: [{plugins: {multiPoint: {enabled: [{name: 'tests.engine.plugins:Narrower'}]}}}]"


@pytest.mark.parametrize("text", [LEFT_TO_OTHERS, NOBODY_COUNTS])
def test_bounds_count_only_what_a_filter_plugin_counts(text):
    """A resource that Filter leaves to others refuses no gang, neither at once nor at preemption."""
    members = [a_pod(f"job-{k}").gang("job").gpus(8) for k in range(4)]
    world = World(a_node("n0").cpu(64), a_gang("job", 4), members, configuration=parse(text))
    world.engine.step()
    assert [d.result for d in world.decisions] == ["scheduled"]


def test_member_that_no_node_suits_does_not_hold_up_the_minimum():
    """PreFilter refuses one of three members, and two are enough."""
    members = [a_pod(f"job-{k}").gang("job").gpus(8) for k in range(2)]
    odd = a_pod("job-odd").gang("job").gpus(8).label("only", "nowhere")
    nodes = [a_node(f"n{k}").gpus(8) for k in range(3)]
    world = World(nodes, a_gang("job", 2), odd, members, configuration=parse(NARROWS)).run()
    assert sorted(world.placed) == ["job-0", "job-1"]
