"""Statuses: why each row is not feasible for a candidate, made when it is asked for.

For PostFilter plugins and explanations, which ask about few rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from collections.abc import Collection

    from scheduler.framework.status import Status

    from .candidates import Candidate


def counted(statuses: Collection[Status]) -> list[tuple[Status, int]]:
    """Count statuses by identity, in the order in which they come first: cheaper than to compare them."""
    numbers = Counter(map(id, statuses))
    return list(zip(dict(zip(map(id, statuses), statuses, strict=True)).values(), numbers.values(), strict=True))


class Statuses(Sequence["Status | None"]):
    """The statuses of a candidate, by row."""

    def __init__(self, candidate: Candidate) -> None:
        """Take whom to ask."""
        self._candidate = candidate

    def __len__(self) -> int:
        """Count the rows."""
        return len(self._candidate.feasible)

    @overload
    def __getitem__(self, row: int) -> Status | None: ...
    @overload
    def __getitem__(self, row: slice) -> list[Status | None]: ...
    def __getitem__(self, row: int | slice) -> Status | list[Status | None] | None:
        """Return one status, or those of a slice."""
        if isinstance(row, slice):
            return [self._candidate.status_at(r) for r in range(*row.indices(len(self)))]
        if not -len(self) <= row < len(self):
            raise IndexError(row)
        return self._candidate.status_at(row % len(self))
