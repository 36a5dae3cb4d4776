"""What a gang's group tells of its placement, by arithmetic."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.engine.quality import fewest, summary_of
from scheduler.model.topology import Level
from scheduler.topology.fabric import Fabric
from tests.builders import a_gang, a_node

from .shapes import members
from .world import World

LEVELS = [Level("block", "example.com/block"), Level("rack", "example.com/rack")]
#: Blocks a and b of two racks each, of two nodes each.
FABRIC = Fabric(LEVELS, [list("aaaabbbb"), ["1", "1", "2", "2", "3", "3", "4", "4"]], [f"n{k}" for k in range(8)])
ONE_EACH = np.ones(8, dtype=np.int64)


def test_a_gang_in_one_rack_is_perfect() -> None:
    """It could not be nearer together."""
    told = summary_of(FABRIC, np.array([2, 3]), ONE_EACH)
    assert told.domains == (("block", "a"), ("rack", "2"))
    assert (told.leaf_domains, told.leaf_minimum, told.quality, told.bottleneck) == (1, 1, 1.0, "rack")


def test_a_gang_over_two_racks_that_one_could_hold() -> None:
    """Blocks 1 of 1, racks 2 instead of 1, nodes 2 of 2: (1 + 1/2 + 1) / 3."""
    told = summary_of(FABRIC, np.array([0, 2]), ONE_EACH)
    assert told.domains == (("block", "a"),)
    assert (told.leaf_domains, told.leaf_minimum, told.bottleneck) == (2, 1, "block")
    assert told.quality == pytest.approx(2.5 / 3, abs=1e-4)


def test_a_gang_over_two_blocks_has_no_domain_in_common() -> None:
    """Two blocks where one could hold it."""
    told = summary_of(FABRIC, np.array([0, 7]), ONE_EACH)
    assert told.domains == ()
    assert told.bottleneck == ""
    assert told.quality == pytest.approx((0.5 + 0.5 + 1) / 3, abs=1e-4)


def test_no_gang_is_nearer_together_than_it_could_be() -> None:
    """One node holds a member of 8 GPUs' size and smaller ones: by its size alone, each would need a node of its own."""
    told = summary_of(FABRIC, np.array([0, 0, 0]), ONE_EACH)
    assert (told.leaf_domains, told.leaf_minimum, told.quality) == (1, 1, 1.0)
    nodes = [a_node(f"n{k}").gpus(8).label("topology.kubernetes.io/zone", f"z{k}") for k in range(3)]
    mixed = [*members("mixed", 1, gpus=6), *members("mixed", 2, gpus=1, start=1)]
    world = World(nodes, a_gang("mixed", 3), mixed).wait(5)
    for placement in (world.gang_status("mixed").placement, world.restart().wait(5).gang_status("mixed").placement):
        assert (placement.leaf_domains, placement.leaf_minimum, placement.quality) == (1, 1, 1.0)


@pytest.mark.parametrize(
    ("room", "count", "domains"),
    [([4, 2, 1], 4, 1), ([4, 2, 1], 5, 2), ([4, 2, 1], 7, 3), ([4, 2, 1], 9, 3), ([1], 0, 0)],
)
def test_the_fewest_domains_are_the_largest(room: list[int], count: int, domains: int) -> None:
    """Filled from the largest on."""
    assert fewest(np.array(room), count) == domains


def a_world_in_racks() -> World:
    """Two racks of two nodes, a gang that one holds, and a gang that needs both."""
    nodes = [a_node(f"n{k}").gpus(8).label("topology.kubernetes.io/zone", f"z{k // 2}") for k in range(6)]
    return World(nodes, a_gang("near", 2), members("near", 2), a_gang("far", 4), members("far", 4)).wait(5)


def test_a_new_process_tells_where_gangs_are() -> None:
    """A gang that another process placed, and did not live to tell of, has its placement told all the same."""
    world = a_world_in_racks()
    before = {name: world.gang_status(name).placement for name in ("near", "far")}
    world.restart().wait(5)
    for name, told in before.items():
        found = world.gang_status(name).placement
        assert found is not None
        assert found.is_estimate
        assert told is not None
        assert replace(found, is_estimate=False) == told
    assert before["near"] is not None
    assert before["near"].leaf_domains == 1
    assert before["far"] is not None
    assert before["far"].leaf_domains == 2


def test_a_new_process_tells_nothing_of_gangs_that_are_on_no_nodes() -> None:
    """A gang that waits has no place."""
    world = World(a_node("n0").gpus(8), a_gang("job", 2), members("job", 2)).wait(5).restart().wait(5)
    assert world.gang_status("job").placement is None
