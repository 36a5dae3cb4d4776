"""The first "no" has numbers, whatever plugins are enabled."""

from __future__ import annotations

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
