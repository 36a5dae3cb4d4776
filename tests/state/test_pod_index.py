"""The index of pods against counting pod by pod, under whatever happens to a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from scheduler.model.label_tests import LabelTest
from scheduler.state import pod_index
from scheduler.state.cluster import ClusterState
from scheduler.state.pod_index import Question
from scheduler.state.tally import MOST_SINGLE, Tally
from tests.builders import a_node, a_pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.model import Pod
    from scheduler.state.snapshot import Snapshot

NODES = ["n0", "n1", "n2", "n3"]
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b", ""]))
TESTS = st.one_of(
    st.builds(LabelTest, st.sampled_from(["app", "tier"]), st.just("In"), st.sampled_from([("a",), ("a", "b"), ("",)])),
    st.builds(LabelTest, st.sampled_from(["app", "tier"]), st.just("NotIn"), st.sampled_from([("a",), ("b",)])),
    st.builds(LabelTest, st.sampled_from(["app", "tier"]), st.sampled_from(["Exists", "DoesNotExist"])),
)
NAMESPACES = st.one_of(st.none(), st.sampled_from([("default",), ("default", "other"), ()]))
QUESTIONS = st.builds(
    Question,
    st.lists(
        st.tuples(NAMESPACES, st.one_of(st.none(), st.lists(TESTS, max_size=2).map(tuple))), min_size=1, max_size=2
    ).map(tuple),
    st.booleans(),
)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.integers(0, 7), st.sampled_from(NODES), LABELS, st.booleans()),
        st.tuples(st.just("gone"), st.integers(0, 7)),
        st.tuples(st.just("node"), st.sampled_from(NODES)),
        st.tuples(st.just("no node"), st.sampled_from(NODES)),
        st.tuples(st.just("ask"), QUESTIONS),
        st.tuples(st.just("what if"), st.lists(st.tuples(st.integers(0, 11), st.sampled_from(NODES)), max_size=4)),
    ),
    max_size=25,
)


def pod(
    number: int, node: str, labels: dict[str, str], *, terminating: bool = False, term: str = "", key: str = "app"
) -> Pod:
    """Return a placed pod, with an anti-affinity if it has a term."""
    builder = a_pod(f"p{number}").namespace("default" if number % 2 else "other").on(node)
    for name, value in labels.items():
        builder.label(name, value)
    if term:
        builder.anti_affinity("zone", **{key: term})
    return (builder.terminating() if terminating else builder).build()


def counted(snapshot: Snapshot, question: Question) -> list[int]:
    """Count pod by pod."""
    return [
        sum(
            question.means(p.namespace, p.labels) and not (question.leaves_terminating_out and p.is_terminating)
            for p in row.pods.values()
        )
        for row in snapshot.all_rows
    ]


def answers(snapshot: Snapshot, question: Question) -> list[int]:
    """Let the index answer."""
    return snapshot.pods.by_rows(snapshot.pods.count(question).column).tolist()


@pytest.mark.parametrize("most_groups", [1, 4096])
@settings(max_examples=150, deadline=None)
@given(actions=ACTIONS, asked=st.lists(QUESTIONS, min_size=1, max_size=3))
def test_counts_equal_those_made_pod_by_pod(most_groups: int, actions: list[tuple], asked: list[Question]) -> None:
    """Whatever changes, in whatever order, whenever a question is asked first, and however often groups are made anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod_index, "MOST_GROUPS", most_groups)
        check_counts(actions, asked)


def check_counts(actions: list[tuple], asked: list[Question]) -> None:
    """Compare after every action."""
    cluster = ClusterState()
    for name in NODES:
        cluster.set_node(a_node(name).build())
    for action in actions:
        snapshot = cluster.snapshot()
        match action:
            case "pod", number, node, labels, terminating:
                cluster.set_pod(pod(number, node, labels, terminating=terminating, term=labels.get("tier", "")))
            case "gone", number:
                cluster.remove_pod(f"uid-p{number}")
            case "node", name:
                cluster.set_node(a_node(name).label("again", "yes").build())
            case "no node", name:
                cluster.remove_node(name)
            case "ask", question:
                asked = [*asked, question]
                assert answers(snapshot, question) == counted(snapshot, question)
            case "what if", steps:
                try_and_undo(snapshot, steps, asked)
        snapshot = cluster.snapshot()
        for question in asked:
            assert answers(snapshot, question) == counted(snapshot, question)


def try_and_undo(snapshot: Snapshot, steps: list[tuple[int, str]], asked: list[Question]) -> None:
    """Take pods that are there away, place others, and undo it all in another order."""
    before = [answers(snapshot, question) for question in asked]
    undo: list[Callable[[], None]] = []
    for number, name in steps:
        uid, row = f"uid-p{number}", snapshot.row_of.get(name)
        where = next((r for r, record in enumerate(snapshot.all_rows) if uid in record.pods), None)
        if where is not None and number <= 7:
            undo.append(snapshot.remove(uid, where))
        elif where is None and row is not None and number > 7:
            undo.append(snapshot.place(pod(number, name, {"app": "a", "rev": "1"}, term="x", key=f"k{number}"), row))
            for question in asked:
                if not question.leaves_terminating_out:
                    assert answers(snapshot, question) == counted(snapshot, question)
    for step in [*undo[::2], *undo[1::2]]:
        step()
    assert [answers(snapshot, question) for question in asked] == before
    later = Question(((None, (LabelTest("rev", "Exists"),)),))
    assert answers(snapshot, later) == counted(snapshot, later)


def test_what_if_subtracts_a_terminating_pod_that_did_not_count() -> None:
    """As kube-scheduler's dry run does (§2a.17 of its measured behaviour), until it is undone."""
    cluster = ClusterState()
    cluster.set_node(a_node("n0").build())
    cluster.set_pod(pod(1, "n0", {"app": "a"}, terminating=True))
    snapshot = cluster.snapshot()
    question = Question(((None, (LabelTest("app", "In", ("a",)),)),), leaves_terminating_out=True)
    assert answers(snapshot, question) == [0]
    undo = snapshot.remove("uid-p1", 0)
    assert answers(snapshot, question) == [-1]
    undo()
    assert answers(snapshot, question) == [0]


def test_question_about_what_ifs_alone_counts_nobody_else() -> None:
    """Asked before or during one."""
    cluster = ClusterState()
    cluster.set_node(a_node("n0").build())
    cluster.set_pod(pod(1, "n0", {}))
    snapshot = cluster.snapshot()
    first = Question(((("default",), ()),), leaves_terminating_out=True, counts_trials_only=True)
    assert answers(snapshot, first) == [0]
    undo = snapshot.place(pod(3, "n0", {}), 0)
    second = Question(((None, ()),), counts_trials_only=True)
    assert answers(snapshot, first) == answers(snapshot, second) == [1]
    undo()
    assert answers(snapshot, first) == answers(snapshot, second) == [0]


def test_terms_are_carried_by_those_who_have_them() -> None:
    """Also by a what-if; a term that nobody carries any more concerns nobody."""
    cluster = ClusterState()
    cluster.set_node(a_node("n0").build())
    cluster.set_pod(pod(1, "n0", {}, term="web"))
    snapshot = cluster.snapshot()

    def objections() -> list[int]:
        found = snapshot.pods.carried(("anti_affinity",), "default", {"app": "web"}, {})
        return [int(carried.tally.column(snapshot.pods.capacity).sum()) for carried in found]

    assert objections() == [1]
    assert snapshot.pods.carried(("anti_affinity",), "default", {"app": "db"}, {}) == []
    assert snapshot.pods.carried(("anti_affinity",), "other", {"app": "web"}, {}) == []
    undo = snapshot.place(pod(3, "n0", {}, term="web"), 0)
    assert objections() == [2]
    undo()
    snapshot.remove("uid-p1", 0)
    assert objections() == []


def carried_by_label(snapshot: Snapshot, label: str) -> list[int]:
    """Return how many pods carry each anti-affinity that means pods with `app: label`."""
    found = snapshot.pods.carried(("anti_affinity",), "default", {"app": label}, {})
    return [int(carried.tally.column(snapshot.pods.capacity).sum()) for carried in found]


@pytest.mark.parametrize("others", range(1, 6))
def test_no_term_is_forgotten_while_its_pod_is_counted(monkeypatch: pytest.MonkeyPatch, others: int) -> None:
    """Whichever of its terms comes when there are too many; and nothing is left when the pod goes."""
    monkeypatch.setattr(pod_index, "MOST_GROUPS", 4)
    cluster = ClusterState()
    cluster.set_node(a_node("n0").build())
    for number in range(others):
        cluster.set_pod(pod(2 * number + 1, "n0", {}, term=f"own-{number}"))
    keeper = a_pod("keeper").anti_affinity("zone", app="x").anti_affinity("zone", app="y").on("n0").build()
    assert cluster.snapshot().pods.is_filled
    cluster.set_pod(keeper)
    snapshot = cluster.snapshot()
    assert carried_by_label(snapshot, "x") == carried_by_label(snapshot, "y") == [1]
    cluster.remove_pod(keeper.uid)
    snapshot = cluster.snapshot()
    assert carried_by_label(snapshot, "x") == carried_by_label(snapshot, "y") == []


def test_labels_of_one_pod_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Telling all pods apart anew costs a look at each of them."""
    counted: list[int] = []
    regroup = pod_index.PodIndex._regroup
    monkeypatch.setattr(pod_index.PodIndex, "_regroup", lambda index: (counted.append(1), regroup(index))[1])
    cluster = ClusterState()
    cluster.set_node(a_node("n0").build())
    assert cluster.snapshot().pods.is_filled
    greedy = a_pod("greedy").on("n0")
    for number in range(50):
        greedy.anti_affinity("zone", **{f"key{number}": "x"})
    cluster.set_pod(greedy.build())
    assert cluster.snapshot().pods.is_filled
    assert len(counted) == 1


def test_pods_alike_in_all_named_labels_are_one_group() -> None:
    """Labels that no selector reads tell nobody apart, so that new selectors look at few groups."""
    cluster = ClusterState()
    cluster.set_node(a_node("n0").build())
    for number in range(1, 9, 2):
        cluster.set_pod(pod(number, "n0", {"app": "a", "unique": str(number)}))
    index = cluster.snapshot().pods
    index.count(Question(((("default",), (LabelTest("app", "Exists"),)),)))
    assert len({index.projection({"app": "a", "unique": str(n)}) for n in range(9)}) == 1
    index.name_keys(["unique"])
    assert len({index.projection({"app": "a", "unique": str(n)}) for n in range(9)}) == 9


@given(st.lists(st.tuples(st.integers(0, 2 * MOST_SINGLE), st.sampled_from([-1, 1])), max_size=4 * MOST_SINGLE))
def test_tally_is_a_column(changes: list[tuple[int, int]]) -> None:
    """Few or many, the counts are those of an array."""
    tally, column = Tally(), np.zeros(2 * MOST_SINGLE + 1, dtype=np.int64)
    for slot, count in changes:
        tally.add(slot, count, len(column))
        column[slot] += count
    assert np.array_equal(tally.column(len(column)), column)
    assert tally.is_zero() is not bool(column.any())
    total = np.ones_like(column)
    tally.add_to(total)
    tally.add_to(total, -3)
    assert np.array_equal(total, 1 - 2 * column)
