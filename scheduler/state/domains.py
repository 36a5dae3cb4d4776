"""Domains: which value of a label each node has, and sums over the nodes that have the same.

For plugins that look at what stands in the same zone, rack or host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .loops import sum_by

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from scheduler.model import Node

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]


class Domains:
    """The values of one node label over all rows of a snapshot; they never change."""

    __slots__ = ("is_everywhere", "is_there", "is_unique", "number_with_absent", "numbers", "of_rows", "with_absent")

    def __init__(self, nodes: Iterable[Node], key: str) -> None:
        """Number the values in the order of appearance."""
        #: Value to number.
        self.numbers: dict[str, int] = {}
        #: The number of each row's value, from 1; 0 for rows without the label. Shape (rows,).
        self.of_rows: Ints = np.array([self._number(node.labels.get(key)) for node in nodes], dtype=np.int64)
        #: Which rows have the label, shape (rows,).
        self.is_there: Bools = self.of_rows > 0
        #: All rows have the label.
        self.is_everywhere = bool(self.is_there.all())
        #: No two rows have the same value.
        self.is_unique = len(self.numbers) == int(np.count_nonzero(self.is_there))
        #: As `of_rows`, but rows without the label form a domain, with those whose value is empty.
        self.with_absent: Ints = np.where(self.is_there, self.of_rows, self.numbers.get("", len(self.numbers) + 1))
        #: How many domains these are.
        self.number_with_absent = len(np.unique(self.with_absent))

    def _number(self, value: str | None) -> int:
        return 0 if value is None else self.numbers.setdefault(value, len(self.numbers) + 1)

    def totals(self, counts: Ints) -> Ints:
        """Return the sums of counts over the domains, by number; over rows themselves where every value is unique."""
        if self.is_unique:
            return counts if self.is_everywhere else counts * self.is_there
        totals = _summed(self.of_rows, counts, len(self.numbers) + 1)
        totals[:1] = 0
        return totals

    def totals_with_absent(self, counts: Ints) -> Ints:
        """Return the sums of counts over the domains, by the numbers of `with_absent`."""
        return _summed(self.with_absent, counts, len(self.numbers) + 2)

    def at_rows(self, by_domain: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return, for each row, what `totals`, or something made from it, says of its domain."""
        return by_domain if self.is_unique else by_domain.take(self.of_rows)

    def sums(self, counts: Ints) -> Ints:
        """Return, for each row, the sum of counts over the rows with the same value; 0 for rows without the label."""
        return self.at_rows(self.totals(counts))

    def lowest(self, totals: Ints, among: Bools | None) -> tuple[int, int]:
        """Return the lowest of the totals over the domains with a row among some, and how many such domains there are.

        The lowest of none is 0.
        """
        if among is None and (self.is_everywhere or not self.is_unique):
            known = totals if self.is_unique else totals[1:]
            return (int(known.min()) if len(known) else 0), len(known)
        mask = self.is_there if among is None else self.is_there & among
        if not self.is_unique:
            mask = np.bincount(self.of_rows, weights=mask, minlength=len(totals)) > 0
        number = int(np.count_nonzero(mask))
        return (int(np.min(totals, where=mask, initial=_HIGHEST)) if number else 0), number


def _summed(numbers: Ints, counts: Ints, size: int) -> Ints:
    """Return the sum of the counts that belong to each number below a size; looks at few if most counts are zero."""
    if (sums := sum_by(numbers, counts, size)) is not None:
        return sums
    (rows,) = (counts != 0).nonzero()
    if len(rows) * _FEW < len(counts):
        numbers, counts = numbers.take(rows), counts.take(rows)
    return np.bincount(numbers, weights=counts, minlength=size).astype(np.int64)


_HIGHEST = 2**62
#: Up to one in so many counts, picking those that are not zero pays.
_FEW = 4
