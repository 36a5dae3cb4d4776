"""Selectors and tolerations: what each operator means."""

from __future__ import annotations

import pytest

from scheduler.model.api import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement, Taint, Toleration
from scheduler.model.selectors import matches_labels, matches_node, matches_requirement, matches_term, tolerates

LABELS = {"zone": "a", "gen": "7", "empty": ""}


@pytest.mark.parametrize(
    ("key", "operator", "values", "matches"),
    [
        ("zone", "In", ["a", "b"], True), ("zone", "In", ["b"], False), ("zone", "In", [], False), ("none", "In", ["a"], False),
        ("none", "In", [""], False), ("empty", "In", [""], True),
        ("zone", "NotIn", ["a"], False), ("zone", "NotIn", ["b"], True), ("none", "NotIn", ["a"], True),
        ("zone", "Exists", [], True), ("none", "Exists", [], False), ("empty", "Exists", [], True),
        ("zone", "DoesNotExist", [], False), ("none", "DoesNotExist", [], True),
        ("gen", "Gt", ["6"], True), ("gen", "Gt", ["7"], False), ("gen", "Lt", ["8"], True), ("gen", "Lt", ["7"], False),
        ("gen", "Gt", ["-8"], True), ("gen", "Gt", ["+6"], True), ("gen", "Gt", ["6", "5"], False), ("gen", "Gt", [], False),
        ("gen", "Gt", ["6.5"], False), ("gen", "Gt", [" 6"], False), ("gen", "Gt", ["1_0"], False),
        ("gen", "Lt", ["9223372036854775807"], True), ("gen", "Lt", ["9223372036854775808"], False),
        ("gen", "Lt", ["9" * 5000], False), ("gen", "Lt", ["\u0668"], False),
        ("zone", "Gt", ["1"], False), ("none", "Lt", ["1"], False), ("zone", "Like", ["a"], False), ("zone", "", [], False),
    ],
)  # fmt: skip
def test_operators(key: str, operator: str, values: list[str], matches: bool) -> None:
    """NotIn and DoesNotExist match where the key is missing; Gt and Lt compare 64-bit integers; nonsense matches nothing."""
    assert matches_requirement(Requirement(key=key, operator=operator, values=values), LABELS) is matches


def test_terms_are_all_and_selectors_any() -> None:
    """Within a term everything must hold, of the terms one."""
    good, bad = Requirement(key="zone", operator="Exists"), Requirement(key="none", operator="Exists")
    named = Requirement(key="metadata.name", operator="In", values=["n1"])
    assert matches_term(NodeSelectorTerm(match_expressions=[good], match_fields=[named]), LABELS, "n1")
    assert not matches_term(NodeSelectorTerm(match_expressions=[good], match_fields=[named]), LABELS, "n2")
    assert not matches_term(NodeSelectorTerm(match_expressions=[good, bad]), LABELS, "n1")
    assert not matches_term(NodeSelectorTerm(), LABELS, "n1")
    terms = [NodeSelectorTerm(match_expressions=[bad]), NodeSelectorTerm(match_expressions=[good])]
    assert matches_node(NodeSelector(node_selector_terms=terms), LABELS, "n1")
    assert not matches_node(NodeSelector(node_selector_terms=[]), LABELS, "n1")


def test_label_selectors() -> None:
    """None matches nothing, an empty one everything; labels and expressions must all hold."""
    assert not matches_labels(None, LABELS)
    assert matches_labels(LabelSelector(), {})
    assert matches_labels(LabelSelector(match_labels={"zone": "a"}), LABELS)
    assert not matches_labels(LabelSelector(match_labels={"zone": "a", "gen": "8"}), LABELS)
    expression = Requirement(key="zone", operator="NotIn", values=["a"])
    assert not matches_labels(LabelSelector(match_labels={"zone": "a"}, match_expressions=[expression]), LABELS)


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration(key="k", value="v"), True), (Toleration(key="k", operator="", value="v"), True),
        (Toleration(key="k", value="w"), False), (Toleration(key="k"), False), (Toleration(key="j", value="v"), False),
        (Toleration(key="k", operator="Exists"), True), (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoSchedule"), True), (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(key="k", value="v", effect="NoSchedule"), True), (Toleration(key="k", value="v", effect="NoExecute"), False),
        (Toleration(key="k", operator="Lt", value="9"), False), (Toleration(key="k", operator="Gt", value="1"), False),
    ],
)  # fmt: skip
def test_tolerations(toleration: Toleration, covers: bool) -> None:
    """Empty effect and, with Exists, empty key stand for any; Lt and Gt are behind a gate that is off."""
    assert tolerates(toleration, Taint(key="k", value="v", effect="NoSchedule")) is covers
