"""Tree: what counts of the queues as they are written, and what is said of the rest."""

from __future__ import annotations

from msgspec import structs

from scheduler.model.queue import OWN, QueueKey
from scheduler.queues.tree import build, shown

from .making import a_queue


def key(name: str) -> QueueKey:
    """Return the key of a queue of ours."""
    return QueueKey(OWN, name)


def names(tree) -> set[str]:
    """Return what the queues of a tree are called."""
    return {k.name for k in tree.nodes}


def test_queues_stand_below_their_parents_and_leaves_hold_workloads():
    """With `default` beside them, whether or not there is such an object."""
    tree = build([a_queue("org"), a_queue("team", parent="org")], {})
    assert [str(node.key) for node in tree.nodes[key("team")].path()] == ["team", "org"]
    assert [str(node.key) for node in tree.leaves()] == ["default", "team"]
    assert tree.problems == {}


def test_a_circle_is_told_at_each_of_its_queues_and_the_rest_goes_on():
    """Nobody is lost with it but those who were never right."""
    tree = build([a_queue("a", parent="b"), a_queue("b", parent="a"), a_queue("c")], {})
    assert names(tree) == {"c", "default"}
    assert "a → b → a is a circle" in tree.problems[key("a")][0]
    assert "b → a → b is a circle" in tree.problems[key("b")][0]


def test_an_edit_that_makes_a_circle_leaves_the_tree_as_it_was():
    """The last good state counts."""
    before = build([a_queue("a"), a_queue("b", parent="a")], {})
    tree = build([a_queue("a", parent="b"), a_queue("b", parent="a")], before.good)
    assert tree.nodes[key("b")].parent is tree.nodes[key("a")]
    assert tree.nodes[key("a")].parent is tree.root
    assert key("a") in tree.problems


def test_a_parent_that_is_not_there_is_told_with_those_that_are():
    """And the queue is not there either; below it nothing is."""
    tree = build([a_queue("a", parent="nowhere"), a_queue("b", parent="a"), a_queue("c")], {})
    assert names(tree) == {"c", "default"}
    assert "there is no queue nowhere; allowed are b, c" in tree.problems[key("a")][0]
    assert "queue a cannot be used" in tree.problems[key("b")][0]


def test_a_queue_with_a_problem_goes_on_as_it_was():
    """Its object says what to change."""
    good = build([a_queue("a", 4)], {})
    bad = structs.replace(a_queue("a", 9), problems=("spec.resources: no",))
    tree = build([bad], good.good)
    assert tree.nodes[key("a")].quota("nvidia.com/gpu").guaranteed == 4
    assert tree.problems == {key("a"): ("spec.resources: no",)}


def test_guarantees_above_the_parents_are_told_and_the_former_ones_count():
    """Where only one of them grew, that one is told."""
    before = build([a_queue("org", 8), a_queue("a", 4, parent="org"), a_queue("b", 4, parent="org")], {})
    tree = build([a_queue("org", 8), a_queue("a", 6, parent="org"), a_queue("b", 4, parent="org")], before.good)
    assert tree.nodes[key("a")].quota("nvidia.com/gpu").guaranteed == 4
    assert list(tree.problems) == [key("a")]
    assert "guaranteed 10 together, and org only 8" in tree.problems[key("a")][0]


def test_guarantees_that_never_fitted_are_cut_in_the_order_of_names():
    """After a restart there is no former state; the sum never passes the parent's."""
    tree = build([a_queue("org", 8), a_queue("a", 6, parent="org"), a_queue("b", 4, parent="org")], {})
    assert tree.nodes[key("a")].quota("nvidia.com/gpu").guaranteed == 6
    assert tree.nodes[key("b")].quota("nvidia.com/gpu").guaranteed == 2
    assert list(tree.problems) == [key("b")]


def test_other_projects_need_no_object_for_a_parent():
    """Kueue's cohorts and KAI's departments are often only named."""
    tree = build([a_queue("q", dialect="kai", parent="dept")], {})
    assert tree.nodes[QueueKey("kai", "q")].parent is tree.nodes[QueueKey("kai", "dept")]
    assert tree.problems == {}


def test_amounts_are_shown_as_people_write_them():
    """Cores, binary units, pieces."""
    assert [shown("cpu", 2000), shown("cpu", 1500), shown("memory", 3 * 2**30), shown("nvidia.com/gpu", 8)] == [
        "2", "1500m", "3Gi", "8",
    ]  # fmt: skip
