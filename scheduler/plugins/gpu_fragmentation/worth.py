"""What each node is worth to pods of one shape, kept for all nodes and brought up to date for those that changed.

For the plugin beside it; follows the rows of a snapshot.  A node is worth the more, the less of its idle GPUs the pod turns into
fragments (`popular`); nodes without idle GPUs lose nothing, so that pods without GPUs are kept off scarce GPUs, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.state.row_cache import RowFollower

from .asks import WHOLE
from .shares import gpu_count, left_on

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Bools, Ints, Nodes, Snapshot

    from .asks import GpuAsk
    from .popular import Floats, Popular

FULL = 100
#: Thousandths of GPUs: a pod that loses so much is worth a score of 27, one that saves so much 73 (the published scale).
SCALE = 1000.0
#: With more shapes, all are forgotten and scored anew.
MOST_SHAPES = 512
#: With more changes, or more different rows, all rows are taken over anew.
MOST_CHANGES = 65_536
#: So many rows are scored one by one; of more, only those that differ.
FEW = 64


class Worth(RowFollower):
    """Idle GPUs and cores of all nodes, and the scores of each shape that was asked for."""

    def __init__(self, whole: str, shares: str, remembered: Mapping[str, int]) -> None:
        """Follow these resources; `remembered` is read whenever a row changed."""
        super().__init__()
        self._whole, self._shares, self._remembered = whole, shares, remembered
        self._popular: Popular | None = None
        #: By shape: the scores of all rows, and how many of the changes they have seen.
        self._scores: dict[tuple[GpuAsk | None, int], tuple[Ints, int]] = {}

    def fill(self, snapshot: Snapshot) -> None:
        """Take over all rows."""
        self._snapshot = snapshot
        counts = [gpu_count(row.node, self._whole, self._shares) for row in snapshot.all_rows]
        width = max((count for count, _ in counts), default=0)
        self._has_shares: Bools = np.array([has_shares for _, has_shares in counts], dtype=np.bool_)
        #: Thousandths left by GPU, ascending, 0 for GPUs that are not there: shape (rows, GPUs).
        self._left: Ints = np.zeros((len(counts), max(width, 1)), dtype=np.int64)
        self._cpu: Ints = np.zeros(len(counts), dtype=np.int64)
        #: Rows with equal numbers are equal in both.
        self._state: Ints = np.zeros(len(counts), dtype=np.int64)
        self._numbers: dict[tuple[int, ...], int] = {}
        self._changed: list[int] = []
        self._popular = None
        for index, row in enumerate(snapshot.all_rows):
            self._take(index, row)

    def update(self, index: int, row: Row) -> None:
        """Take over one row; O(1) in the mean where only whole GPUs are counted."""
        if len(self._changed) >= MOST_CHANGES or len(self._numbers) >= MOST_CHANGES:
            self.fill(self._snapshot)
        else:
            self._take(index, row)
            self._changed.append(index)

    def refuses(self, ask: GpuAsk, nodes: Nodes) -> Bools:
        """Tell which nodes offer shares, but too few GPUs with enough left of each, shape (len(nodes),)."""
        refused: Bools = (nodes.at(self._left) >= ask.milli).sum(axis=1) < ask.gpus
        refused &= nodes.at(self._has_shares)
        return refused

    def scores(self, ask: GpuAsk | None, cpu: int, popular: Popular) -> Ints:
        """Return the score of every row for pods that ask for these GPUs and millicores, from 0 to 100, shape (rows,)."""
        if popular is not self._popular or len(self._scores) >= MOST_SHAPES:
            self._start_anew(popular)
        found, seen = self._scores.get((ask, cpu), (None, 0))
        if found is None:
            found = self._score(np.arange(len(self._cpu)), ask, cpu, popular)
        elif seen < len(self._changed):
            rows = np.array(sorted(set(self._changed[seen:])), dtype=np.int64)
            found[rows] = self._score(rows, ask, cpu, popular)
        self._scores[ask, cpu] = (found, len(self._changed))
        return found

    def _start_anew(self, popular: Popular) -> None:
        self._popular, self._scores = popular, {}
        self._changed.clear()
        self._suited = popular.suits(self._snapshot.nodes)
        self._before: Floats = np.zeros(len(self._cpu))
        self._looked_at = 0
        rows = np.arange(len(self._cpu))
        if self._suited is not None:
            self._before = popular.fragment(self._cpu, self._left, self._suited)
        elif len(rows):
            told, inverse = self._different(rows)
            self._before = popular.fragment(self._cpu[told], self._left[told], None)[inverse]

    def _score(self, rows: Ints, ask: GpuAsk | None, cpu: int, popular: Popular) -> Ints:
        """Return the scores of some rows; what is kept of the fragments without the pod is brought up to date with them."""
        stale = self._stale_rows()
        told, inverse = rows, None
        if len(rows) > FEW and self._suited is None:
            told, inverse = self._different(rows)
        both = np.concatenate([stale, told])
        left, free = self._left[both], self._cpu[both]
        free[len(stale) :] -= cpu
        if ask is not None:
            _take_out(left[len(stale) :], ask)
        fragments = popular.fragment(free, left, None if self._suited is None else self._suited[both])
        self._before[stale] = fragments[: len(stale)]
        growth = fragments[len(stale) :] - self._before[told]
        scores: Ints = (FULL / (1.0 + np.exp(growth / SCALE))).astype(np.int64)
        return scores if inverse is None else scores[inverse]

    def _different(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return some of the rows, no two of them equal, and for each row the position of its equal among them. O(rows)."""
        states = self._state[rows]
        some = np.full(len(self._numbers), -1, dtype=np.int64)
        some[states] = rows
        present = some >= 0
        position = np.cumsum(present) - 1
        return some[present], position[states]

    def _stale_rows(self) -> Ints:
        """Return the rows that changed since their fragments were determined, and take them as determined."""
        rows = np.array(sorted(set(self._changed[self._looked_at :])), dtype=np.int64)
        self._looked_at = len(self._changed)
        return rows

    def _take(self, index: int, row: Row) -> None:
        left = sorted(left_on(row, self._whole, self._shares, self._remembered))
        cpu = row.node.allocatable.get("cpu", 0) - row.requested.get("cpu", 0)
        width = self._left.shape[1]
        self._left[index, width - len(left) :] = left
        self._cpu[index] = cpu
        self._state[index] = self._numbers.setdefault((cpu, *left), len(self._numbers))


def _take_out(left: Ints, ask: GpuAsk) -> None:
    """Take a pod's GPUs out of what is left of nodes, shape (nodes, GPUs), ascending: the best fit; any if it does not fit."""
    if ask.milli < WHOLE:
        places = (np.arange(len(left)), (left >= ask.milli).argmax(axis=1))
        left[places] = np.maximum(left[places] - ask.milli, 0)
    else:
        left[:, max(left.shape[1] - ask.gpus, 0) :] = 0
