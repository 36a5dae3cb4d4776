"""Reaches: on which rows of a snapshot something can be used, by node labels, with as few looks at nodes as can be.

For the modules beside it.
"""

from __future__ import annotations

from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from scheduler.model.label_tests import LabelTest
from scheduler.model.storage import NodeTest, Reach

if TYPE_CHECKING:
    from scheduler.state.snapshot import Bools, Ints, Snapshot

#: What labels must satisfy: at least one term of a reach, or all tests of a selector.
Condition: TypeAlias = Reach | tuple[LabelTest, ...]
Test: TypeAlias = NodeTest | LabelTest
_MOST_REMEMBERED = 65_536


class Reaches:
    """Rows by condition, remembered until a node changes."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Look at one snapshot as it is now."""
        self._snapshot = snapshot
        self._generation = snapshot.node_generation
        self._rows: dict[Condition, Ints] = {}

    def is_of(self, snapshot: Snapshot) -> bool:
        """Tell whether this is about a snapshot, and its nodes are still the same."""
        return self._snapshot is snapshot and self._generation == snapshot.node_generation

    def rows(self, condition: Condition) -> Ints:
        """Return the rows within reach, ascending; the first time in O(nodes)."""
        rows = self._rows.get(condition)
        if rows is None:
            if len(self._rows) >= _MOST_REMEMBERED:
                self._rows.clear()
            rows = self._rows[condition] = np.flatnonzero(self._holds(condition))
        return rows

    def mask(self, condition: Condition | None) -> Bools:
        """Return which rows are within reach; None reaches all."""
        if condition is None:
            return np.ones(len(self._snapshot.all_rows), dtype=np.bool_)
        mask = np.zeros(len(self._snapshot.all_rows), dtype=np.bool_)
        mask[self.rows(condition)] = True
        return mask

    def _holds(self, condition: Condition) -> Bools:
        if not isinstance(condition, Reach):
            return self._all_hold(condition)
        nowhere: Bools = np.zeros(len(self._snapshot.all_rows), dtype=np.bool_)
        return reduce(or_, [self._all_hold(term) for term in condition.terms], nowhere)

    def _all_hold(self, tests: tuple[Test, ...]) -> Bools:
        everywhere: Bools = np.ones(len(self._snapshot.all_rows), dtype=np.bool_)
        return reduce(and_, [self._test_holds(test) for test in tests], everywhere)

    def _test_holds(self, test: Test) -> Bools:
        if test.operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            return np.array([test.holds(row.node.labels) for row in self._snapshot.all_rows], dtype=np.bool_)
        domains = self._snapshot.domains(test.key)
        if test.operator in ("Exists", "DoesNotExist"):
            has_label: Bools = domains.of_rows > 0
            return has_label if test.operator == "Exists" else ~has_label
        is_in: Bools = np.zeros(len(self._snapshot.all_rows), dtype=np.bool_)
        for value in test.values:
            if (number := domains.numbers.get(value)) is not None:
                is_in |= domains.of_rows == number
        return is_in if test.operator == "In" else ~is_in
