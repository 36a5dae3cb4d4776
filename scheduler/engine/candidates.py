"""Candidate: one shape of pod against all nodes of a snapshot: where it may go and what each place is worth.

For placement and preemption.  Filter and Score run once per shape; after a placement only the touched row is evaluated
again.  Scores that are normalised over all feasible nodes keep the normalisation of the first look, unless their plugin
reads pods; then they are computed anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import Code, Reason, Status

if TYPE_CHECKING:
    from scheduler.framework.runtime import FilterResult, Runtime, ScorePart
    from scheduler.model import Pod
    from scheduler.state.snapshot import Bools, Ints, Nodes, Snapshot, Undo

#: Returns the pods nominated to a row that a pod of this priority has to respect.
Nominated = Callable[[int], dict[int, list["Pod"]]]
_TIE_BITS = 32


class Candidate:
    """A shape, its feasible rows and their scores."""

    def __init__(
        self, runtime: Runtime, snapshot: Snapshot, pod: Pod, nominated: dict[int, list[Pod]], ties: Ints
    ) -> None:
        """Take what to evaluate; `evaluate` does it."""
        self.pod = pod
        self.state = CycleState()
        #: Set when PreFilter refused the pod altogether.
        self.early: Status | None = None
        self._runtime = runtime
        self._snapshot = snapshot
        self._nominated = nominated
        self._ties = ties
        self._narrowed: Bools | None = None
        self._overrides: dict[int, Status] = {}
        self.result: FilterResult | None = None
        self.feasible: Bools = np.zeros(len(snapshot.all_rows), dtype=np.bool_)
        self.parts: list[ScorePart] = []
        self._keys: Ints = np.zeros(len(snapshot.all_rows), dtype=np.int64)
        self._is_scored = False

    def evaluate(self) -> int:
        """Run PreFilter and Filter over all rows; return the number of node evaluations."""
        nodes = self._snapshot.nodes
        self.early, self._narrowed = self._runtime.pre_filter(self.state, self.pod, nodes)
        if self.early is not None:
            return 1
        self.result = self._runtime.filter(self.state, self.pod, nodes)
        self.feasible = self.result.passes()
        if self._narrowed is not None:
            self.feasible &= self._narrowed
        self._respect_nominated([row for row in self._nominated if self.feasible[row]])
        return len(nodes)

    def touch(self, row: int) -> int:
        """Evaluate one row again, after a pod was placed there or removed; return the number of node evaluations."""
        if self.early is not None or (self._narrowed is not None and not self._narrowed[row]):
            return 0
        nodes = self._snapshot.nodes.select(np.array([row]))
        was_feasible = bool(self.feasible[row])
        self._overrides.pop(row, None)
        result = self._runtime.filter(self.state, self.pod, nodes)
        self.feasible[row] = (status := result.status_at(0)) is None
        if status is not None:
            self._overrides[row] = status
        elif row in self._nominated:
            self._respect_nominated([row])
        if self._is_scored and self.feasible[row]:
            self._rescore(row, nodes, was_feasible=was_feasible)
        return 1

    def best(self, allowed: Bools | None = None) -> int | None:
        """Return the feasible row with the highest total, ties at the fixed rule; None if there is none."""
        feasible = self.feasible if allowed is None else self.feasible & allowed
        if not feasible.any():
            return None
        self.score()
        keys = np.where(feasible, self._keys, -1)
        return int(keys.argmax())

    def score(self) -> None:
        """Run PreScore and Score over the feasible rows, unless that was done."""
        if self._is_scored:
            return
        rows = np.flatnonzero(self.feasible)
        size = len(self.feasible)
        self.parts = self._runtime.score(self.state, self.pod, self._snapshot.nodes.select(rows))
        for part in self.parts:
            full = np.zeros(size, dtype=np.int64)
            full[rows] = part.scores
            part.scores = full
        self._sum()
        self._is_scored = True

    def totals(self) -> Ints:
        """Return the weighted totals, shape (rows,); meaningful where feasible."""
        self.score()
        return self._keys >> _TIE_BITS

    def status_at(self, row: int) -> Status | None:
        """Return why a row is not feasible; None if it is."""
        if self.early is not None:
            return self.early
        if self._narrowed is not None and not self._narrowed[row]:
            names = ", ".join(self.state.read("narrowed-by", ()))
            return Status.unresolvable(Reason("NotNarrowed", f"node(s) didn't satisfy plugin(s) [{names}]"))
        if row in self._overrides:
            return self._overrides[row]
        return self.result.status_at(row) if self.result and not self.feasible[row] else None

    def statuses(self) -> list[Status | None]:
        """Return the status of every row."""
        return [None if self.feasible[row] else self.status_at(row) for row in range(len(self.feasible))]

    def reasons(self) -> dict[tuple[str, Reason], int]:
        """Count the rows that are not feasible by (plugin, reason)."""
        counts: dict[tuple[str, Reason], int] = {}
        if self.early is not None:
            return {(self.early.plugin, reason): len(self.feasible) for reason in self.early.reasons}
        if self._narrowed is None and not self._overrides and self.result is not None:
            return self.result.counts()
        for row in np.flatnonzero(~self.feasible):
            status = self.status_at(int(row))
            for reason in status.reasons if status else ():
                counts[status.plugin if status else "", reason] = (
                    counts.get((status.plugin if status else "", reason), 0) + 1
                )
        return counts

    def curable(self) -> Bools:
        """Return the rows that are feasible or that evictions could make so, shape (rows,)."""
        if self.early is not None or self.result is None:
            return np.zeros_like(self.feasible)
        mask = ~self.result.unresolvable()
        return mask if self._narrowed is None else mask & self._narrowed

    def _respect_nominated(self, rows: Sequence[int]) -> None:
        """Filter rows again with the pods nominated there counted in: both looks must pass."""
        if not rows:
            return
        undo: list[Undo] = [self._snapshot.place(pod, row) for row in rows for pod in self._nominated[row]]
        try:
            result = self._runtime.filter(self.state, self.pod, self._snapshot.nodes.select(np.array(rows)))
        finally:
            for step in reversed(undo):
                step()
        for position, row in enumerate(rows):
            if (status := result.status_at(position)) is not None:
                self.feasible[row] = False
                self._overrides[row] = status

    def _rescore(self, row: int, nodes: Nodes, *, was_feasible: bool) -> None:
        for part in self.parts:
            if part.plugin.READS_NODES_ONLY and was_feasible:
                continue
            if hasattr(part.plugin, "normalize"):
                rows = np.flatnonzero(self.feasible)
                select = self._snapshot.nodes.select(rows)
                part.scores[rows] = self._runtime.score_one(part.plugin, part.method, self.state, self.pod, select)
                self._sum()
                continue
            part.scores[row] = self._runtime.score_one(part.plugin, part.method, self.state, self.pod, nodes)[0]
        total = sum(int(part.scores[row]) * part.weight for part in self.parts)
        self._keys[row] = (total << _TIE_BITS) + int(self._ties[row])

    def _sum(self) -> None:
        total = np.zeros(len(self.feasible), dtype=np.int64)
        for part in self.parts:
            total += part.scores * part.weight
        self._keys = (total << _TIE_BITS) + self._ties


def is_error(status: Status | None) -> bool:
    """Tell whether a status is an accident."""
    return status is not None and status.code is Code.ERROR
