"""Reaches: the rows of a condition are those whose labels satisfy it, whatever way they are found."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.label_tests import LabelTest
from scheduler.model.storage import NodeTest, Reach
from scheduler.plugins.volume_binding.reaches import Reaches
from tests.builders import a_node, snapshot_of

KEYS, VALUES = ("zone", "disk"), ("a", "b", "7", "12")


def drawn_tests(kind: Any) -> Any:
    """Draw tests of a term or a selector."""
    operators = ("In", "NotIn", "Exists", "DoesNotExist") + (("Gt", "Lt") if kind is NodeTest else ())
    values = st.lists(st.sampled_from(VALUES), min_size=1, max_size=2).map(tuple)
    one = st.builds(kind, st.sampled_from(KEYS), st.sampled_from(operators), values)
    return st.lists(one, max_size=3).map(tuple)


nodes = st.lists(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)), min_size=1, max_size=6)
reaches = st.lists(drawn_tests(NodeTest), max_size=3).map(lambda terms: Reach(tuple(terms)))


@given(labels=nodes, reach=reaches, selector=drawn_tests(LabelTest))
def test_rows_are_those_that_satisfy_the_condition(
    labels: list[dict[str, str]], reach: Reach, selector: tuple[LabelTest, ...]
) -> None:
    """For reaches and selectors, also when asked again."""
    made = [a_node(f"n{i}") for i in range(len(labels))]
    for node, each in zip(made, labels, strict=True):
        for key, value in each.items():
            node.label(key, value)
    snapshot = snapshot_of(made)
    found = Reaches(snapshot)
    within = [i for i, each in enumerate(labels) if reach.covers(each)]
    selected = [i for i, each in enumerate(labels) if all(test.holds(each) for test in selector)]
    for _ in range(2):
        assert found.rows(reach).tolist() == within
        assert found.rows(selector).tolist() == selected
    assert found.mask(reach).nonzero()[0].tolist() == within
    assert found.mask(None).all()
