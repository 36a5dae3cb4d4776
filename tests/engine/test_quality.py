"""What a gang's group tells of its placement, by arithmetic."""

import numpy as np
import pytest

from scheduler.engine.quality import fewest, summary_of
from scheduler.model.topology import Level
from scheduler.topology.fabric import Fabric

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


@pytest.mark.parametrize(
    ("room", "count", "domains"),
    [([4, 2, 1], 4, 1), ([4, 2, 1], 5, 2), ([4, 2, 1], 7, 3), ([4, 2, 1], 9, 3), ([1], 0, 0)],
)
def test_the_fewest_domains_are_the_largest(room: list[int], count: int, domains: int) -> None:
    """Filled from the largest on."""
    assert fewest(np.array(room), count) == domains
