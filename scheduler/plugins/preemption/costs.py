"""Costs: what it takes to make room on each node, cheapest first.

For GangPreemption.  The cost of a row is that of the units that have to go before one more pod of the gang's largest
shape fits by resources; a gang counts with all its members, and is free once it is going anyway.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from .victims import importance, split_by_budget

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scheduler.framework.handle import Handle, Trial
    from scheduler.model import Pod
    from scheduler.state.snapshot import Bools, Row

    from .victims import Unit, Units

Cost = tuple[int, int, int, float]


class Costs:
    """Rows and the units on them that may go."""

    def __init__(self, handle: Handle, units: Units, trial: Trial, pods: Sequence[Pod]) -> None:
        """Look at every row that evictions may help. O(placed pods of lower priority)."""
        self._handle = handle
        self._units = units
        self._trial = trial
        self._shapes = list({pod.shape: pod for pod in pods}.values())
        self._counts = {pod.shape: sum(1 for p in pods if p.shape == pod.shape) for pod in self._shapes}
        self._curable = {pod.shape: trial.curable(pod) for pod in self._shapes}
        self._chosen: set[int] = set()
        self._weak: dict[int, list[Unit]] = {}
        self._violations: dict[str, bool] = {}
        mask = np.logical_or.reduce([self._curable[pod.shape] for pod in self._shapes])
        self._rows = [int(row) for row in np.flatnonzero(mask)]
        for row in self._rows:
            self._weak[row] = self._weak_units(handle.snapshot.all_rows[row])
        #: Rows where some pod fits, shape (rows,); the slots on them by shape.
        self.allowed: Bools = np.zeros(len(handle.snapshot.all_rows), dtype=np.bool_)
        self._slots_on: dict[int, list[int]] = {}
        self._open_slots = [0] * len(self._shapes)
        self.open(self._rows)
        self._by_unit: dict[int, list[int]] = {}
        for row, weak in self._weak.items():
            for unit in weak:
                self._by_unit.setdefault(id(unit), []).append(row)

    def slots_with_evictions(self) -> int:
        """Return how many pods of the gang could fit at most if every weak unit went: a sound bound."""
        total = 0
        for pod in self._shapes:
            places = 0
            for row in self._rows:
                if self._curable[pod.shape][row]:
                    places += self._slots(row, pod, self._freed(row, self._weak[row]))
            total += min(self._counts[pod.shape], places)
        return total

    def open(self, rows: Iterable[int]) -> None:
        """Count what fits on rows as the snapshot is now; only such rows are offered to the placement."""
        for row in rows:
            counts = [self._slots(row, p, {}) if self._curable[p.shape][row] else 0 for p in self._shapes]
            for i, (new, old) in enumerate(zip(counts, self._slots_on.get(row, counts), strict=True)):
                self._open_slots[i] += new - (old if row in self._slots_on else 0)
            self._slots_on[row] = counts
            self.allowed[row] = any(counts)

    def slots_now(self) -> int:
        """Return how many pods of the gang could fit at most on the open rows, by resources."""
        return sum(min(self._counts[p.shape], n) for p, n in zip(self._shapes, self._open_slots, strict=True))

    def cheapest(self) -> Iterator[list[Unit]]:
        """Yield the units to evict for one more pod on some row, cheapest first, until nothing is left.

        The caller takes each batch of units off the snapshot before it asks for the next.
        """
        heap: list[tuple[Cost, str, int, int]] = []
        version = dict.fromkeys(self._rows, 0)

        def push(row: int) -> None:
            units = self._next_units(row)
            if units:
                version[row] += 1
                heapq.heappush(
                    heap, (self._cost(units), self._handle.snapshot.all_rows[row].node.name, row, version[row])
                )

        for row in self._rows:
            push(row)
        while heap:
            _, _, row, number = heapq.heappop(heap)
            if number != version[row]:
                continue
            units = self._next_units(row)
            if not units:
                continue
            self._chosen.update(id(unit) for unit in units)
            yield units
            for other in dict.fromkeys(r for unit in units for r in self._by_unit[id(unit)]):
                push(other)

    def _weak_units(self, record: Row) -> list[Unit]:
        """Return the units on a row that may go, the least important first, each once; budget breakers last."""
        now = self._handle.now()
        pods = sorted(record.pods.values(), key=lambda pod: importance(pod, now))
        weak = [(pod, unit) for pod in pods if (unit := self._units.of(pod, record.node.name)) is not None]
        violating, _ = split_by_budget([pod for pod, _ in weak], self._handle.budgets())
        broken = {pod.uid for pod in violating}
        for pod, _ in weak:
            self._violations[pod.uid] = pod.uid in broken
        ordered = sorted(
            weak[::-1], key=lambda entry: (entry[0].uid in broken, entry[1].priority, len(entry[1].pods))
        )
        return list({id(unit): unit for _, unit in ordered}.values())

    def _next_units(self, row: int) -> list[Unit]:
        """Return the units that must go on a row, beyond those going anyway, before one more pod fits."""
        open_units = [unit for unit in self._weak[row] if id(unit) not in self._chosen]
        name = self._handle.snapshot.all_rows[row].node.name
        room_before = [self._slots(row, pod, {}) for pod in self._shapes]
        taken: list[Unit] = []
        freed: dict[str, int] = {}
        for unit in open_units:
            taken.append(unit)
            _add(freed, unit, name)
            for pod, before in zip(self._shapes, room_before, strict=True):
                if self._curable[pod.shape][row] and self._slots(row, pod, freed) > before:
                    return taken
        return []

    def _cost(self, units: Sequence[Unit]) -> Cost:
        pods = [pod for unit in units for pod, _ in unit.pods]
        violations = sum(self._violations.get(pod.uid, False) for pod in pods)
        now = self._handle.now()
        run = sum(now - (now if pod.started is None else pod.started) for pod in pods)
        return violations, max(unit.priority for unit in units), len(pods), run

    def _freed(self, row: int, units: Sequence[Unit]) -> dict[str, int]:
        freed: dict[str, int] = {}
        for unit in units:
            _add(freed, unit, self._handle.snapshot.all_rows[row].node.name)
        return freed

    def _slots(self, row: int, pod: Pod, freed: dict[str, int]) -> int:
        """Return how many pods of a shape fit on a row by resources, with some more room."""
        record = self._handle.snapshot.all_rows[row]
        slots = record.node.allocatable.get("pods", 0) - len(record.pods) + freed.get("pods", 0)
        for resource, request in pod.requests.items():
            if request > 0:
                free = (
                    record.node.allocatable.get(resource, 0)
                    - record.requested.get(resource, 0)
                    + freed.get(resource, 0)
                )
                slots = min(slots, free // request)
        return max(0, slots)


def _add(freed: dict[str, int], unit: Unit, node_name: str) -> None:
    """Count what a unit frees on one node."""
    for pod, node in unit.pods:
        if node != node_name:
            continue
        freed["pods"] = freed.get("pods", 0) + 1
        for resource, count in pod.requests.items():
            freed[resource] = freed.get(resource, 0) + count
