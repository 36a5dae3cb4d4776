"""RowFollower: what is looked at when, however much changes in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scheduler.state.row_cache import MOST_CHANGES, MOST_FOLLOWERS, RowFollower
from tests.builders import a_node, a_pod, snapshot_of

if TYPE_CHECKING:
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Snapshot


class Watcher(RowFollower):
    """Writes down what it is told."""

    def __init__(self) -> None:
        """Start with nothing."""
        super().__init__()
        self.told: list[str] = []

    def fill(self, snapshot: Snapshot) -> None:
        """Write down that it had to look at all rows."""
        self.told.append(f"all {len(snapshot.all_rows)}")

    def update(self, index: int, row: Row) -> None:
        """Write down a row and how many pods it has."""
        self.told.append(f"{index}: {len(row.pods)}")


def told(snapshot: Snapshot, key: str = "watcher") -> list[str]:
    """Return what a follower was told since the last time."""
    watcher = snapshot.follower(key, Watcher)
    words, watcher.told = watcher.told, []
    return words


@pytest.fixture
def snapshot() -> Snapshot:
    """Return a snapshot of three empty nodes."""
    return snapshot_of([a_node("a"), a_node("b"), a_node("c")])


def test_rows_that_changed_are_looked_at_once(snapshot: Snapshot) -> None:
    """All of them at first; then those that changed, each as it is when it is asked for."""
    assert told(snapshot) == ["all 3"]
    assert told(snapshot) == []
    undo = snapshot.place(a_pod("p").build(), 1)
    snapshot.place(a_pod("q").build(), 1)
    assert told(snapshot) == ["1: 2"]
    undo()
    assert told(snapshot) == ["1: 1"]


def test_whoever_looked_during_a_trial_looks_again(snapshot: Snapshot) -> None:
    """Also if the snapshot's own list of changes forgets the trial."""
    assert told(snapshot) == ["all 3"]
    mark = snapshot.mark()
    undo = snapshot.place(a_pod("p").build(), 1)
    assert told(snapshot) == ["1: 1"]
    undo()
    snapshot.is_as_at(mark)
    assert snapshot.changed_rows == []
    snapshot.place(a_pod("q").build(), 2)
    assert sorted(told(snapshot)) == ["1: 0", "2: 1"]


def test_many_changes_are_looked_at_all_at_once(snapshot: Snapshot) -> None:
    """More than there are rows are not worth to be told apart."""
    assert told(snapshot) == ["all 3"]
    for number in range(4):
        snapshot.place(a_pod(f"p{number}").build(), 0)
    assert told(snapshot) == ["all 3"]


def test_the_list_of_changes_does_not_grow_for_ever(snapshot: Snapshot) -> None:
    """When it starts anew, those who have seen everything miss nothing, and the others start anew."""
    told(snapshot, "idle")
    pod = a_pod("p").build()
    for _ in range(MOST_CHANGES // 2):
        snapshot.place(pod, 0)()
    assert told(snapshot) == ["all 3"]
    snapshot.place(pod, 2)
    assert told(snapshot) == ["2: 1"]
    assert told(snapshot, "idle") == ["all 3"]


def test_so_many_followers_are_kept(snapshot: Snapshot) -> None:
    """One more, and all start anew; so do they when the rows are replaced."""
    for number in range(MOST_FOLLOWERS):
        assert told(snapshot, f"w{number}") == ["all 3"]
    assert told(snapshot, "w0") == []
    assert told(snapshot, "another") == ["all 3"]
    assert told(snapshot, "w0") == ["all 3"]
    snapshot.replace_rows(snapshot.all_rows[:2], nodes_changed=True)
    assert told(snapshot, "w0") == ["all 2"]
