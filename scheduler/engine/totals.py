"""Totals: what the Score plugins gave each row, part by part, and the weighted sums by which rows are preferred.

For a candidate, which says which rows are feasible and what ends ties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .gains import SAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.framework.runtime import ScorePart
    from scheduler.state.snapshot import Bools, Ints

TIE_BITS = 32


class Totals:
    """Scores of all rows by part."""

    def __init__(self, parts: Sequence[ScorePart], size: int) -> None:
        """Make room for the scores of so many rows; whoever scores fills `normal` and appends to `raw`, part by part."""
        self.parts = parts
        #: Before they are normalised; SAME for a part that gives every row the same.
        self.raw: list[Ints] = []
        #: After that, shape (parts, rows).
        self.normal: Ints = np.empty((len(parts), size), dtype=np.int64)
        self._same = 0

    def take_same(self, part: ScorePart, normal: Ints, score: int) -> None:
        """Take that a part gives every row the same."""
        normal.fill(score)
        self._same += score * part.weight
        self.raw.append(SAME)

    def differing(self) -> list[tuple[ScorePart, Ints, Ints]]:
        """Return the parts whose scores differ from row to row, with these before and after they are normalised."""
        known = zip(self.parts, self.raw, self.normal, strict=True)
        return [(part, raw, normal) for part, raw, normal in known if raw is not SAME]

    def keys(self, feasible: Bools, ties: Ints) -> Ints:
        """Return a key for each row by which it is preferred: its total, then the tie; -1 where it is not feasible."""
        keys = np.full(len(feasible), self._same, dtype=np.int64)
        for part, _, normal in self.differing():
            keys += normal if part.weight == 1 else normal * part.weight
        keys <<= TIE_BITS
        keys += ties
        if not feasible.all():
            keys[~feasible] = -1
        return keys

    def keys_at(self, rows: Ints, ties: Ints) -> Ints:
        """Return the keys of some feasible rows, shape (len(rows),)."""
        keys = np.full(len(rows), self._same, dtype=np.int64)
        for part, _, normal in self.differing():
            keys += normal[rows] * part.weight
        return (keys << TIE_BITS) + ties[rows]

    def shown(self, rows: Sequence[int]) -> list[dict[str, int]]:
        """Return each plugin's normalised scores of some feasible rows."""
        names = [part.plugin.NAME for part in self.parts]
        return [dict(zip(names, scores, strict=True)) for scores in self.normal[:, rows].T.tolist()]
