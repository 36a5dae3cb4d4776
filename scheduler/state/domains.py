"""Domains: which value of a label each node has, and sums over the nodes that have the same.

For plugins that look at what stands in the same zone, rack or host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from scheduler.model import Node

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]


class Domains:
    """The values of one node label over all rows of a snapshot; they never change."""

    __slots__ = ("is_there", "is_unique", "numbers", "of_rows")

    def __init__(self, nodes: Iterable[Node], key: str) -> None:
        """Number the values in the order of appearance."""
        #: Value to number.
        self.numbers: dict[str, int] = {}
        #: The number of each row's value, from 1; 0 for rows without the label. Shape (rows,).
        self.of_rows: Ints = np.array([self._number(node.labels.get(key)) for node in nodes], dtype=np.int64)
        #: Which rows have the label, shape (rows,).
        self.is_there: Bools = self.of_rows > 0
        #: No two rows have the same value.
        self.is_unique = len(self.numbers) == int(np.count_nonzero(self.is_there))

    def _number(self, value: str | None) -> int:
        return 0 if value is None else self.numbers.setdefault(value, len(self.numbers) + 1)

    def sums(self, counts: Ints) -> Ints:
        """Return, for each row, the sum of counts over the rows with the same value; 0 for rows without the label."""
        if self.is_unique:
            return counts * self.is_there
        totals = np.bincount(self.of_rows, weights=counts).astype(np.int64)
        totals[:1] = 0
        summed: Ints = totals[self.of_rows]
        return summed

    def lowest(self, sums: Ints, among: Bools | None) -> tuple[int, int]:
        """Return the lowest of the sums over the domains with a row among some, and how many such domains there are.

        The lowest of none is 0.
        """
        mask = self.is_there if among is None else self.is_there & among
        if self.is_unique:
            number = int(np.count_nonzero(mask))
        elif among is None:
            number = len(self.numbers)
        else:
            number = int(np.count_nonzero(np.bincount(self.of_rows[mask])))
        return (int(np.min(sums, where=mask, initial=_HIGHEST)) if number else 0), number

    def with_absent(self) -> Ints:
        """Return the numbers of rows where those without the label form a domain, with those whose value is empty."""
        absent = self.numbers.get("", len(self.numbers) + 1)
        return np.where(self.is_there, self.of_rows, absent)


_HIGHEST = 2**62
