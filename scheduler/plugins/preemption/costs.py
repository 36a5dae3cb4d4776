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
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scheduler.framework.handle import Handle, Rules, Trial
    from scheduler.model import Pod
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Bools

    from .victims import Unit, Units

Cost = tuple[int, int, int, int, float]


class Costs:
    """Rows and the units on them that may go."""

    def __init__(
        self, handle: Handle, units: Units, trial: Trial, pods: Sequence[Pod], within: Bools | None = None,
        rules: Rules | None = None,
    ) -> None:  # fmt: skip
        """Look at the shapes; `weigh` looks at the nodes, those of `within` only. `rules` say who may go where there are queues."""
        self._rules = rules
        self._handle, self._trial, self._within = handle, trial, within
        #: Units that go before those that room is made of: they hold domains (`open_domains`).
        self.holders: list[Unit] = []
        self._units = units
        self._shapes = list({pod.shape: pod for pod in pods}.values())
        self._asks = [trial.asks(pod) or {} for pod in self._shapes]
        self._counts = [sum(p.shape == pod.shape for p in pods) for pod in self._shapes]
        self._curable = [trial.curable(pod) for pod in self._shapes]
        if within is not None:
            self._curable = [curable & within for curable in self._curable]
        self._chosen: set[int] = set()
        self._weak: dict[int, list[Unit]] = {}
        self._by_unit: dict[int, list[int]] = {}
        self._violations: dict[str, bool] = {}
        #: Rows where some pod fits, shape (rows,); the slots on them by shape.
        self.allowed: Bools = np.zeros(len(handle.snapshot.all_rows), dtype=np.bool_)
        self._slots_on: dict[int, list[int]] = {}
        self._open_slots = [0] * len(self._shapes)

    def reachable(self, priority: int) -> int:
        """Return how many pods could fit at most if every pod below a priority went: a sound bound. O(nodes)."""
        nodes, total = self._handle.snapshot.nodes, 0
        for i, asks in enumerate(self._asks):
            left = nodes.allocatable("pods") - nodes.pod_counts() + nodes.requested_below(priority, "pods")
            places = np.where(self._curable[i], left, 0)
            for resource, request in asks.items():
                if request > 0 and resource != "pods":
                    free = nodes.allocatable(resource) - nodes.requested(resource)
                    np.minimum(places, (free + nodes.requested_below(priority, resource)) // request, out=places)
            total += min(self._counts[i], int(np.maximum(places, 0).sum()))
        return total

    def weigh(self, priority: int) -> None:
        """Look at every row that has room or that evictions may help. O(placed pods below the priority)."""
        nodes = self._handle.snapshot.nodes
        mask = np.logical_or.reduce(self._curable)
        weak = mask & (nodes.requested_below(priority, "pods") > 0)
        for row in np.flatnonzero(weak).tolist():
            units = self._weak_units(self._handle.snapshot.all_rows[row])
            self._weak[row] = units
            for unit in units:
                self._by_unit.setdefault(id(unit), []).append(row)
        self.open(np.flatnonzero(mask).tolist())

    def open(self, rows: Iterable[int], placed: Mapping[int, Sequence[Pod]] | None = None) -> None:
        """Count what fits on rows as the snapshot is now, but for `placed` pods of ours; only such rows are offered."""
        for row in rows:
            freed = _asked_by(placed.get(row, ())) if placed else {}
            counts = [self._slots(row, i, freed) if self._curable[i][row] else 0 for i in range(len(self._shapes))]
            former = self._slots_on.get(row)
            for i, count in enumerate(counts):
                self._open_slots[i] += count - (former[i] if former else 0)
            self._slots_on[row] = counts
            self.allowed[row] = any(counts)

    def open_domains(self) -> None:
        """Note the units that may go and keep the gang out of domains, as they are of gangs that have these for themselves."""
        rows = self._handle.snapshot.all_rows
        found = [self._units.of(pod, rows[row].node.name) for pod, row in self._trial.keepers(self._within)]
        self.holders = list({id(unit): unit for unit in found if unit is not None}.values())
        self._chosen.update(id(unit) for unit in self.holders)

    def slots_now(self) -> int:
        """Return how many pods of the gang could fit at most on the open rows, by resources."""
        return sum(map(min, self._counts, self._open_slots))

    def cheapest(self) -> Iterator[list[Unit]]:
        """Yield the units to evict for one more pod on some row, cheapest first, until nothing is left.

        The caller takes each batch of units off the snapshot before it asks for the next.
        """
        heap: list[tuple[Cost, str, int, int]] = []
        version = dict.fromkeys(self._weak, 0)

        def push(row: int) -> None:
            units = self._next_units(row)
            if units:
                version[row] += 1
                heapq.heappush(
                    heap, (self._cost(units), self._handle.snapshot.all_rows[row].node.name, row, version[row])
                )

        for row in self._weak:
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
        """Return the units on a row that may go, each once: those going anyway, then the least important, budget breakers last."""
        now, name = self._handle.now(), record.node.name
        pods = sorted(record.pods.values(), key=lambda pod: importance(pod, now))
        weak = [(pod, unit) for pod in pods if (unit := self._units.of(pod, name)) is not None]
        violating, _ = split_by_budget([pod for pod, unit in weak if not unit.is_going], self._handle.budgets())
        broken = {pod.uid for pod in violating}
        for pod, _ in weak:
            self._violations[pod.uid] = pod.uid in broken
        weak.reverse()
        weak.sort(
            key=lambda e: (not e[1].is_going, e[0].uid in broken, self._rank(e[1]), e[1].priority, len(e[1].pods))
        )
        return list({id(unit): unit for _, unit in weak}.values())

    def _next_units(self, row: int) -> list[Unit]:
        """Return the units that must go on a row, beyond those going anyway, before one more pod fits."""
        open_units = [unit for unit in self._weak[row] if id(unit) not in self._chosen]
        name = self._handle.snapshot.all_rows[row].node.name
        before = [self._slots(row, i, {}) for i in range(len(self._shapes))]
        taken: list[Unit] = []
        freed: dict[str, int] = {}
        try:
            for unit in open_units:
                if self._rules is not None and not unit.is_going:
                    if not self._rules.allows(unit.members, unit.surplus):
                        continue
                    self._rules.take(unit.members)
                taken.append(unit)
                _add(freed, unit, name)
                for i, slots in enumerate(before):
                    if self._curable[i][row] and self._slots(row, i, freed) > slots:
                        return taken
        finally:
            if self._rules is not None:
                self._rules.give_back(pod for unit in taken if not unit.is_going for pod in unit.members)
        return []

    def _cost(self, units: Sequence[Unit]) -> Cost:
        pods = [pod for unit in units if not unit.is_going for pod, _ in unit.pods]
        violations = sum(self._violations.get(pod.uid, False) for pod in pods)
        now = self._handle.now()
        run = sum(now - (now if pod.started is None else pod.started) for pod in pods)
        rank = max((self._rank(unit) for unit in units if not unit.is_going), default=_FREE)
        highest = max((unit.priority for unit in units if not unit.is_going), default=_FREE)
        return violations, rank, highest, len(pods), run

    def _rank(self, unit: Unit) -> int:
        """Return from how important a queue a unit is taken; all are alike without queues."""
        return 0 if self._rules is None else self._rules.rank(unit.members)

    def _slots(self, row: int, shape: int, freed: dict[str, int]) -> int:
        """Return how many pods of a shape fit on a row by what they count, with some more room."""
        record = self._handle.snapshot.all_rows[row]
        offered, requested = record.node.allocatable, record.requested
        slots = offered.get("pods", 0) - len(record.pods) + freed.get("pods", 0)
        for resource, request in self._asks[shape].items():
            if request > 0 and resource != "pods":
                free = offered.get(resource, 0) - requested.get(resource, 0) + freed.get(resource, 0)
                slots = min(slots, free // request)
        return max(0, slots)


#: Below every priority.
_FREE = -(2**62)


def _add(freed: dict[str, int], unit: Unit, node_name: str) -> None:
    """Count what a unit frees on one node."""
    for resource, count in _asked_by([pod for pod, node in unit.pods if node == node_name]).items():
        freed[resource] = freed.get(resource, 0) + count


def _asked_by(pods: Iterable[Pod]) -> dict[str, int]:
    """Return what pods ask for together, with their number as `pods`."""
    asked: dict[str, int] = {}
    for pod in pods:
        asked["pods"] = asked.get("pods", 0) + 1
        for resource, count in pod.requests.items():
            asked[resource] = asked.get(resource, 0) + count
    return asked
