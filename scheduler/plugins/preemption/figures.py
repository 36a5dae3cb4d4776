"""Figures: the criteria of candidates as columns over the rows, so that the best of many is found in a few passes.

For what is known of rows (`known`): by kube-scheduler's criteria, or by what is lost.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np

from .candidate import PricedCandidate

if TYPE_CHECKING:
    from scheduler.state.snapshot import Ints

    from .candidate import Candidate


class Figures(Protocol):
    """What both kinds of columns do."""

    #: How many victims of a row's candidate go against a budget, shape (rows,).
    violations: Ints

    def put(self, row: int, candidate: Candidate) -> None:
        """Take over the figures of a row's candidate."""

    def best(self, rows: Ints, now: float) -> int:
        """Return the first of some rows, which have candidates, that no other is better than."""


class CriteriaFigures:
    """kube-scheduler's: violations, highest priority, sum of priorities, number of victims, latest start."""

    def __init__(self, size: int) -> None:
        """Start with nothing on so many rows."""
        self._figures: Ints = np.zeros((4, size), dtype=np.int64)
        self.violations = self._figures[0]
        #: Infinite, and "now" counts too, if a victim has none.
        self._start = np.zeros(size, dtype=np.float64)
        self._has_unstarted = np.zeros(size, dtype=np.bool_)

    def put(self, row: int, candidate: Candidate) -> None:
        """Take over the figures of a row's candidate."""
        *self._figures[:, row], self._start[row], self._has_unstarted[row] = candidate.figures()

    def best(self, rows: Ints, now: float) -> int:
        """Return the row that the criteria pick."""
        for figures in self._figures:
            if len(rows) == 1:
                break
            values = figures[rows]
            rows = rows[values == values.min()]
        starts = np.where(self._has_unstarted[rows], np.minimum(self._start[rows], now), self._start[rows])
        return int(rows[starts == starts.max()].min())


class PriceFigures:
    """What is lost, in the order of `Price`."""

    def __init__(self, size: int) -> None:
        """Start with nothing on so many rows."""
        #: Violations, priority, work (rate and base), pods, restart, cascade, run (rate and base).
        self._figures: Ints = np.zeros((9, size), dtype=np.int64)
        self.violations = self._figures[0]

    def put(self, row: int, candidate: Candidate) -> None:
        """Take over the price of a row's candidate."""
        assert isinstance(candidate, PricedCandidate)
        price = candidate.price
        self._figures[:, row] = (*price[:2], *price.work, *price[3:6], *price.run)

    def best(self, rows: Ints, now: float) -> int:
        """Return the row where least is lost at a time."""
        second, figures = math.floor(now), self._figures
        for column in (0, 1, (2, 3), 4, 5, 6, (7, 8)):
            if len(rows) == 1:
                break
            if isinstance(column, tuple):
                rate, base = column
                values = figures[rate, rows] * second - figures[base, rows]
            else:
                values = figures[column, rows]
            rows = rows[values == values.min()]
        return int(rows.min())
