"""How equal pods are divided among the nodes of a domain."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.topology import Level
from scheduler.topology.dividing import divide, even, span
from scheduler.topology.fabric import ROOT, Fabric

RACK = Level("rack", "example.com/rack")


def racks(*names: str) -> Fabric:
    """Return one level over nodes n0, n1 and so on."""
    return Fabric([RACK], [names], [f"n{k}" for k in range(len(names))])


def shares(fabric: Fabric, slots: list[int], count: int, worth: list[int] | None = None) -> list[int] | None:
    """Return what each node takes of a gang in the whole cluster."""
    found = divide(fabric, ROOT, 0, np.array(slots), count, np.array(worth or [0] * len(slots)))
    return None if found is None else found.tolist()


@pytest.mark.parametrize(
    ("slots", "count", "taken"),
    [
        # One rack holds all: the tightest such rack is taken.
        ([1, 1, 1, 1, 1], 2, [0, 0, 0, 1, 1]),
        ([1, 1, 1, 1, 1], 3, [1, 1, 1, 0, 0]),
        # No rack holds all: the largest is filled, the rest goes to the tightest that holds it.
        ([2, 2, 2, 2, 2], 7, [2, 2, 2, 1, 0]),
        # The tightest rack that holds all has two equal nodes.
        ([9, 4, 6, 8, 8], 4, [0, 0, 0, 4, 0]),
        ([1, 1, 1, 1, 1], 6, None),
    ],
)
def test_largest_first_and_the_last_one_tightest(slots: list[int], count: int, taken: list[int] | None) -> None:
    """Racks a (three nodes) and b (two)."""
    assert shares(racks("a", "a", "a", "b", "b"), slots, count) == taken


def test_among_equal_nodes_the_better_one_is_taken() -> None:
    """Scores decide what room does not."""
    assert shares(racks("a", "a", "a"), [1, 1, 1], 1, [5, 9, 7]) == [0, 1, 0]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 5)), min_size=1, max_size=12), st.integers(1, 20))
def test_all_pods_are_placed_within_the_slots_if_they_fit(nodes: list[tuple[str, int]], count: int) -> None:
    """Nothing is lost and nothing over-committed."""
    slots = [slots for _, slots in nodes]
    taken = shares(racks(*(name for name, _ in nodes)), slots, count)
    if sum(slots) < count:
        assert taken is None
    else:
        assert taken is not None
        assert sum(taken) == count
        assert all(0 <= mine <= room for mine, room in zip(taken, slots, strict=True))


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 3)), min_size=1, max_size=10), st.integers(1, 12))
def test_no_set_of_racks_is_smaller(nodes: list[tuple[str, int]], count: int) -> None:
    """With one level the greedy choice uses the fewest racks: the largest ones always hold at least as much."""
    fabric = racks(*(name for name, _ in nodes))
    slots = np.array([slots for _, slots in nodes])
    taken = divide(fabric, ROOT, 0, slots, count, np.zeros(len(nodes), dtype=np.int64))
    if taken is not None:
        totals = np.sort(fabric.totals(0, slots))[::-1]
        fewest = int(np.searchsorted(np.cumsum(totals), count)) + 1
        assert span(fabric, 0, np.flatnonzero(taken)) == fewest


def test_fragments_of_a_full_block_are_left_for_whole_racks_of_another() -> None:
    """Blocks a (racks of 3 and 1) and b (3 and 0), a gang of 6: the two whole racks."""
    levels = [Level("block", "example.com/block"), RACK]
    fabric = Fabric(levels, [list("aaaabbb"), ["a0"] * 3 + ["a1"] + ["b0"] * 3], [f"n{k}" for k in range(7)])
    taken = divide(fabric, ROOT, 0, np.ones(7, dtype=np.int64), 6, np.zeros(7, dtype=np.int64))
    assert taken is not None
    assert taken.tolist() == [1, 1, 1, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("counts", "slots", "count", "taken"),
    [
        ([0, 0, 0], [9, 9, 9], 7, [3, 2, 2]),
        ([3, 0], [9, 9], 3, [0, 3]),
        ([0, 0], [9, 1], 3, [2, 1]),
        ([0, 0], [9, 1], 4, None),
        ([], [], 1, None),
    ],
)
def test_even_shares_differ_by_one_at_most(
    counts: list[int], slots: list[int], count: int, taken: list[int] | None
) -> None:
    """The emptiest domain is filled first; where it is full, nobody goes further ahead than one."""
    found = even(np.array(counts, dtype=np.int64), np.array(slots, dtype=np.int64), count)
    assert (None if found is None else found.tolist()) == taken


def test_a_domain_that_is_one_node_takes_all() -> None:
    """The tightest level is the node itself."""
    found = divide(racks("a", "b"), 1, 1, np.array([5, 5]), 4, np.array([0, 0]))
    assert found is not None
    assert found.tolist() == [0, 4]
