"""Tally: counts per slot that are mostly zero, kept small while they are few and fast when they are many.

For the index of pods.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]

#: So many slots that are not zero are kept one by one; more become an array over all slots.
MOST_SINGLE = 96


class Tally:
    """Counts by slot."""

    __slots__ = ("_many", "_single")

    def __init__(self) -> None:
        """Start with zeros."""
        self._single: dict[int, int] = {}
        self._many: Counts | None = None

    def add(self, slot: int, count: int, capacity: int) -> None:
        """Add to one slot's count."""
        if self._many is not None:
            self.column(capacity)[slot] += count
            return
        total = self._single.get(slot, 0) + count
        if total:
            self._single[slot] = total
            if len(self._single) > MOST_SINGLE:
                self._many = self.column(capacity)
                self._single = {}
        else:
            self._single.pop(slot, None)

    def column(self, capacity: int) -> Counts:
        """Return the counts as an array over all slots, not to be changed."""
        if self._many is not None:
            if len(self._many) < capacity:
                self._many = np.concatenate([self._many, np.zeros(capacity - len(self._many), dtype=np.int64)])
            return self._many
        column = np.zeros(capacity, dtype=np.int64)
        for slot, count in self._single.items():
            column[slot] = count
        return column

    def add_to(self, column: Counts, weight: int = 1) -> None:
        """Add all counts, so many times, to an array over all slots."""
        if self._many is not None:
            column[: len(self._many)] += self._many if weight == 1 else weight * self._many
        for slot, count in self._single.items():
            column[slot] += weight * count

    def is_zero(self) -> bool:
        """Tell whether every count is zero."""
        return not (self._many.any() if self._many is not None else self._single)
