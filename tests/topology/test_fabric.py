"""The tree of domains: numbering, sums, missing labels."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.topology import Level
from scheduler.topology.fabric import HOST, ROOT, Fabric

BLOCK, RACK = Level("block", "example.com/block"), Level("rack", "example.com/rack")


def fabric(*nodes: tuple[str | None, str | None]) -> Fabric:
    """Return two levels over nodes n0, n1 and so on."""
    columns = list(zip(*nodes, strict=True)) or [(), ()]
    return Fabric([BLOCK, RACK], columns, [f"n{k}" for k in range(len(nodes))])


def test_domains_are_numbered_in_natural_order_of_their_names() -> None:
    """Rack-2 comes before rack-10."""
    made = fabric(("b", "rack-10"), ("b", "rack-2"))
    assert made.names[1] == ["rack-2", "rack-10"]
    assert made.order.tolist() == [1, 0]
    assert made.of_rows[1].tolist() == [1, 0]


def test_equal_names_below_different_parents_are_different_domains() -> None:
    """Two blocks may both have a rack r1."""
    made = fabric(("a", "r1"), ("b", "r1"), ("a", "r1"))
    assert made.totals(1, np.array([1, 10, 100])).tolist() == [101, 10]
    assert made.path(1, 1) == ("b", "r1")


def test_a_node_without_the_label_is_a_domain_of_its_own() -> None:
    """Two nodes without a rack share none, not even with a rack whose name is empty."""
    made = fabric(("a", None), ("a", None), ("a", ""), ("a", "r1"))
    assert made.count(1) == 4
    assert len(set(made.of_rows[1].tolist())) == 4
    assert made.count(0) == 1


def test_a_level_is_found_by_name_and_by_label() -> None:
    """People write what they know."""
    made = fabric(("a", "r1"))
    assert [made.level_of(name) for name in ("block", "example.com/rack", HOST.label, "shelf")] == [0, 1, 2, None]


def test_the_tightest_common_domain_is_found() -> None:
    """Two racks of one block have the block in common; two blocks only the cluster."""
    made = fabric(("a", "r1"), ("a", "r2"), ("b", "r3"))
    assert made.common(np.array([0, 1])) == (0, 0)
    assert made.common(np.array([0, 2])) == (ROOT, 0)
    assert made.common(np.array([2])) == (2, 2)


@given(st.lists(st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, "x", "y", "z"])), max_size=12))
def test_sums_of_children_are_the_sum_of_the_parent(nodes: list[tuple[str | None, str | None]]) -> None:
    """Whatever the labels, every level divides all rows, and each domain lies in one of the level above."""
    made = fabric(*nodes)
    per_row = np.arange(1, len(nodes) + 1, dtype=np.int64)
    for level in range(1, len(made.levels)):
        by_parent = np.zeros(made.count(level - 1), dtype=np.int64)
        np.add.at(by_parent, made.parents[level], made.totals(level, per_row))
        assert by_parent.tolist() == made.totals(level - 1, per_row).tolist()
        assert (made.parents[level][made.of_rows[level]] == made.of_rows[level - 1]).all()


def test_an_alias_counts_unless_two_levels_have_it_or_one_is_called_so() -> None:
    """What is not clear is not guessed; a name beats an alias."""
    levels = [Level("a", "x/a", ("wide", "both", "b")), Level("b", "x/b", ("both",))]
    made = Fabric(levels, [["v"], ["w"]], ["n"])
    assert [made.level_of(name) for name in ("wide", "both", "b", "node", "host")] == [0, None, 1, 2, 2]


def test_any_name_can_be_sorted() -> None:
    """Digits of other scripts are no numbers, and equal numbers are told apart by their spelling."""
    made = fabric(("²", "r01"), ("²", "r1"), ("a", "1r"), ("a", "r"))
    assert (made.count(0), made.count(1)) == (2, 4)
