"""Reaches: on which rows of a snapshot something can be used, by node labels, with as few looks at nodes as can be.

For the modules beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from scheduler.model.label_tests import LabelTest
from scheduler.model.storage import NodeTest, Reach

if TYPE_CHECKING:
    from scheduler.state.snapshot import Bools, Ints, Snapshot

#: What labels must satisfy: at least one term of a reach, or all tests of a selector.
Condition: TypeAlias = Reach | tuple[LabelTest, ...]
Test: TypeAlias = NodeTest | LabelTest
#: Bounds of what is remembered: conditions seen, and rows of different ones.
_MOST_CONDITIONS = 65_536
_MOST_ROWS = 4_000_000


class Reaches:
    """Rows by condition, remembered until a node changes."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Look at one snapshot as it is now."""
        self._snapshot = snapshot
        self._generation = snapshot.node_generation
        self._size = len(snapshot.all_rows)
        #: By identity, with the condition itself, as that is looked for quickest; equal ones share their rows.
        self._seen: dict[int, tuple[Condition, Ints]] = {}
        self._rows: dict[Condition, Ints] = {}
        self._held = 0
        self._by_value: dict[str, dict[str, Ints]] = {}

    def is_of(self, snapshot: Snapshot) -> bool:
        """Tell whether this is about a snapshot, and its nodes are still the same."""
        return self._snapshot is snapshot and self._generation == snapshot.node_generation

    def rows(self, condition: Condition) -> Ints:
        """Return the rows within reach, ascending; the first time in O(rows within reach), or O(nodes) without an In test."""
        seen = self._seen.get(id(condition))
        if seen is not None:
            return seen[1]
        if len(self._seen) >= _MOST_CONDITIONS or self._held >= _MOST_ROWS:
            self._seen, self._rows, self._held = {}, {}, 0
        rows = self._rows.get(condition)
        if rows is None:
            rows = self._rows[condition] = self._find(condition)
            self._held += len(rows)
        self._seen[id(condition)] = (condition, rows)
        return rows

    def mask(self, condition: Condition | None) -> Bools:
        """Return which rows are within reach; None reaches all."""
        mask = np.full(self._size, condition is None, dtype=np.bool_)
        if condition is not None:
            mask[self.rows(condition)] = True
        return mask

    def _find(self, condition: Condition) -> Ints:
        if not isinstance(condition, Reach):
            return self._rows_of(condition)
        terms = [self._rows_of(term) for term in condition.terms]
        return terms[0] if len(terms) == 1 else np.unique(np.concatenate([_NONE, *terms]))

    def _rows_of(self, tests: tuple[Test, ...]) -> Ints:
        """Return the rows where all tests hold; one that names values narrows the search for the others."""
        first = next((test for test in tests if test.operator == "In"), None)
        rows: Ints = np.arange(self._size, dtype=np.int64)
        if first is not None:
            of_value = self._rows_by_value(first.key)
            found = [of_value[value] for value in set(first.values) if value in of_value]
            rows = found[0] if len(found) == 1 else np.sort(np.concatenate([_NONE, *found]))
        others, nodes = [test for test in tests if test is not first], self._snapshot.all_rows
        if others:
            rows = rows[[all(test.holds(nodes[row].node.labels) for test in others) for row in rows.tolist()]]
        return rows

    def _rows_by_value(self, key: str) -> dict[str, Ints]:
        """Return the rows of each value of a label."""
        found = self._by_value.get(key)
        if found is None:
            domains = self._snapshot.domains(key)
            order = np.argsort(domains.of_rows, kind="stable")
            ends = np.searchsorted(domains.of_rows[order], np.arange(len(domains.numbers) + 1), side="right")
            found = self._by_value[key] = {
                value: order[ends[number - 1] : ends[number]] for value, number in domains.numbers.items()
            }
        return found


_NONE: Ints = np.zeros(0, dtype=np.int64)
