"""Known: what dry runs by counting found on each row, kept for pods that ask for the same until something there changes.

For DefaultPreemption.  Whom a pod has to evict on a node depends on what stands there, for whom room is kept, who is going
or stuck, budgets, and the gangs of the pods; the figures that candidates are picked by stand in columns over the rows.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from scheduler.state.row_cache import RowFollower

from .candidate import Candidate
from .prices import FOREVER

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from scheduler.framework.handle import Handle
    from scheduler.framework.status import Status
    from scheduler.model import Budget, GangKey
    from scheduler.state.change_log import Mark
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Bools, Ints, Snapshot

    from .figures import Figures

#: For so many kinds of preemptors outcomes are kept; a kind takes about 50 bytes a node, and what was found there.
MOST_KINDS = 16
#: So many rows are looked at in one go at least, if they are not known.
_FEW = 8
_UNKNOWN, _CANDIDATE, _REFUSED = 0, 1, 2


class KnownRuns(RowFollower):
    """The outcomes for all kinds of preemptors of one profile."""

    def __init__(self) -> None:
        """Start knowing nothing."""
        super().__init__()
        self._kinds: dict[Hashable, Outcomes] = {}
        self._mark: Mark | None = None
        self._budgets: Sequence[Budget] = ()
        self._size = 0

    def fill(self, snapshot: Snapshot) -> None:
        """Forget everything, as too much changed."""
        self._kinds.clear()
        self._size = len(snapshot.all_rows)

    def update(self, index: int, row: Row) -> None:
        """Forget what was found on a row."""
        for outcomes in self._kinds.values():
            outcomes.forget(index)

    def of(self, kind: Hashable, handle: Handle, figures: Callable[[int], Figures]) -> Outcomes:
        """Return what is known for one kind of preemptors and still holds, but for what time ends; `figures` makes columns."""
        changed, self._mark = handle.cluster.asides.since(self._mark)
        budgets = handle.budgets()
        if changed is None or budgets != self._budgets:
            self._kinds.clear()
            self._budgets = budgets
        else:
            self._forget(changed, handle.snapshot.row_of)
        outcomes = self._kinds.pop(kind, None) or Outcomes(figures(self._size))
        if len(self._kinds) >= MOST_KINDS:
            del self._kinds[next(iter(self._kinds))]
        self._kinds[kind] = outcomes
        outcomes.now = handle.now()
        return outcomes

    def _forget(self, changed: Iterable[str | GangKey], row_of: dict[str, int]) -> None:
        """Forget what was found on nodes, and wherever gangs mattered."""
        for entry in changed:
            for outcomes in self._kinds.values():
                if isinstance(entry, str):
                    if (row := row_of.get(entry)) is not None:
                        outcomes.forget(row)
                else:
                    outcomes.forget_gang(entry)


class Outcomes:
    """By row: a candidate with its figures, or why there is none; shape (rows,)."""

    def __init__(self, figures: Figures) -> None:
        """Start with no row known; the criteria are kept in `figures`."""
        size = len(figures.violations)
        #: The time that counts, in seconds since the epoch.
        self.now = 0.0
        self._state = np.zeros(size, dtype=np.int8)
        self._until = np.zeros(size, dtype=np.float64)
        self._found: dict[int, Candidate] = {}
        #: Which of the sentences is said of a row.
        self._said = np.zeros(size, dtype=np.int32)
        self._sentences: list[Status] = []
        self._numbers: dict[Status, int] = {}
        self._figures = figures
        self._rows_of: dict[GangKey, set[int]] = {}

    def forget(self, row: int) -> None:
        """Know nothing of a row any more."""
        self._state[row] = _UNKNOWN

    def forget_gang(self, key: GangKey) -> None:
        """Know nothing any more of rows where a gang mattered."""
        for row in self._rows_of.pop(key, ()):
            self._state[row] = _UNKNOWN

    def refuse(self, rows: Ints, status: Status) -> None:
        """Note that some rows are of no use, until something changes there."""
        number = self._numbers.setdefault(status, len(self._sentences))
        if number == len(self._sentences):
            self._sentences.append(status)
        self._state[rows], self._said[rows], self._until[rows] = _REFUSED, number, FOREVER

    def put(self, row: int, outcome: Candidate | Status, until: float, gangs: Iterable[GangKey]) -> None:
        """Note what was found on a row; it holds before a time, in seconds since the epoch, if nothing changes."""
        if isinstance(outcome, Candidate):
            self._state[row] = _CANDIDATE
            self._found[row] = outcome
            self._figures.put(row, outcome)
        else:
            self.refuse(np.array([row]), outcome)
        self._until[row] = until
        for key in gangs:
            self._rows_of.setdefault(key, set()).add(row)

    def search(self, rows: Ints, weak: Bools, wanted: int, look: Callable[[int], None], hopeless: Status) -> Ints:
        """Return the rows that are looked at before there are enough candidates, one of them without a violation, in order.

        `look` finds out about a row and puts it here; rows that are not `weak` have nobody to evict.
        """
        state = self._state
        state[rows[self._until[rows] <= self.now]] = _UNKNOWN
        self.refuse(rows[(state[rows] == _UNKNOWN) & ~weak[rows]], hopeless)
        while True:
            seen = rows[: self._end(rows, wanted)]
            unknown = seen[state[seen] == _UNKNOWN]
            if not len(unknown):
                return seen
            for row in unknown[: max(wanted, _FEW)].tolist():
                look(row)

    def search_all(self, rows: Ints, weak: Bools, most: int, look: Callable[[int], None], hopeless: Status) -> Ints:
        """Return the rows of which something is known when `most` more were looked at, in order.

        More are only until there is a candidate without a violation, so that one of many is not passed over for want of time twice.
        """
        state = self._state
        state[rows[self._until[rows] <= self.now]] = _UNKNOWN
        self.refuse(rows[(state[rows] == _UNKNOWN) & ~weak[rows]], hopeless)
        unknown = rows[state[rows] == _UNKNOWN].tolist()
        for row in unknown[:most]:
            look(row)
        left, step = unknown[most:], max(_FEW, most // 10)
        while left and not self._has_clean(rows):
            for row in left[:step]:
                look(row)
            left = left[step:]
        is_known: Bools = state[rows] != _UNKNOWN
        return rows[is_known]

    def _has_clean(self, rows: Ints) -> bool:
        return bool(((self._state[rows] == _CANDIDATE) & (self._figures.violations[rows] == 0)).any())

    def best(self, rows: Ints) -> Candidate | None:
        """Return the candidate among rows that the criteria pick, ties by name; None if there is none."""
        rows = rows[self._state[rows] == _CANDIDATE]
        if not len(rows):
            return None
        return self._found[self._figures.best(rows, self.now)]

    def refused(self, rows: Ints) -> Counter[Status]:
        """Count what is said of rows that have no candidate, in the order in which it was said first."""
        said = self._said[rows[self._state[rows] == _REFUSED]]
        numbers, first, counts = np.unique(said, return_index=True, return_counts=True)
        order = np.argsort(first)
        found = zip(numbers[order].tolist(), counts[order].tolist(), strict=True)
        return Counter({self._sentences[number]: count for number, count in found})

    def _end(self, rows: Ints, wanted: int) -> int:
        """Return how many of the rows are looked at, by what is known."""
        found = self._state[rows] == _CANDIDATE
        enough = int(np.searchsorted(np.cumsum(found), wanted))
        clean = found & (self._figures.violations[rows] == 0)
        first = int(clean.argmax()) if clean.any() else len(rows)
        return max(enough, first) + 1
