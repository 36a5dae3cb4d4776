"""Costs: what it takes to make room on each node, cheapest first.

For GangPreemption.  The cost of a row is that of the units that have to go before one more pod of the gang's largest
shape fits by resources; a gang counts with all its members, and is free once it is going anyway.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from .budgets import Allowances
from .losses import Losses

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scheduler.framework.handle import Handle, Rules, Trial
    from scheduler.model import Pod
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Bools

    from .losses import Loss
    from .victims import Unit, Units


class Costs:
    """Rows and the units on them that may go."""

    def __init__(
        self, handle: Handle, units: Units, trial: Trial, pods: Sequence[Pod], within: Bools | None = None,
        rules: Rules | None = None,
    ) -> None:  # fmt: skip
        """Look at the shapes; `weigh` looks at the nodes, those of `within` only. `rules` say who may go where there are queues."""
        self._rules = rules
        self._handle, self._trial, self._within = handle, trial, within
        self.losses = Losses(handle, rules)
        self._allowances = Allowances(handle.budgets())
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
        #: What a unit frees on a row, by its id and the row.
        self._freed: dict[tuple[int, int], dict[str, int]] = {}
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

    def weighed(self, priority: int) -> Costs:
        """Look at all rows, and note who holds domains; return itself."""
        self.weigh(priority)
        self.open_domains()
        return self

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
        self._choose(self.holders)

    def relief(self) -> list[Unit]:
        """Return the units, wherever they are, with which quota comes free that the gang is short of: the cheapest first.

        Those that are going anyway come before the others. O(placed pods) while quota is short, else nothing.
        """
        if self._rules is None or self._rules.is_enough():
            return []
        found: dict[int, Unit] = {}
        for row, record in enumerate(self._handle.snapshot.all_rows):
            units = self._weak[row] if row in self._weak else self._weak_units(record)
            found |= {id(unit): unit for unit in units if self._rules.relieves(unit.members)}
        units = [unit for unit in found.values() if id(unit) not in self._chosen]
        return sorted(units, key=lambda unit: (not unit.is_going, self.losses.of(unit)))

    def take(self, unit: Unit) -> bool:
        """Choose a unit to go, if its queue can still spare it; the caller takes it off the snapshot."""
        if not self._is_still_allowed([unit]):
            return False
        self._choose([unit])
        return True

    def slots_now(self) -> int:
        """Return how many pods of the gang could fit at most on the open rows, by resources."""
        return sum(map(min, self._counts, self._open_slots))

    def can_spare(self, unit: Unit, placed: Mapping[int, Sequence[Pod]], needed: int) -> bool:
        """Tell whether resources would do with a unit back, where the gang is placed or elsewhere; a "no" is certain.

        The unit is away; nothing is changed.
        """
        records, stays = self._handle.snapshot.all_rows, True
        change = [0] * len(self._shapes)
        for row in self._rows_of(unit):
            back, mine = self._frees(unit, row), placed.get(row, ())
            if mine:
                offered, requested = records[row].node.allocatable, records[row].requested
                stays = stays and all(
                    requested.get(r, 0) + count <= offered.get(r, 0) for r, count in back.items() if self._is_counted(r)
                )
                stays = stays and len(records[row].pods) + back["pods"] <= offered.get("pods", 0)
            if (former := self._slots_on.get(row)) is not None:
                room = _asked_by(mine)
                for resource, count in back.items():
                    room[resource] = room.get(resource, 0) - count
                for i, slots in enumerate(former):
                    change[i] += (self._slots(row, i, room) if self._curable[i][row] else 0) - slots
        if stays:
            return True
        in_all = [have + more for have, more in zip(self._open_slots, change, strict=True)]
        return sum(map(min, self._counts, in_all)) >= needed

    def cheapest(self) -> Iterator[list[Unit]]:
        """Yield the units to evict for one more pod on some row, cheapest first, until nothing is left.

        The caller takes each batch of units off the snapshot before it asks for the next.
        """
        heap: list[tuple[Loss, str, int, int, list[Unit]]] = []
        version = dict.fromkeys(self._weak, 0)

        def push(row: int, units: list[Unit]) -> None:
            if units:
                version[row] += 1
                name = self._handle.snapshot.all_rows[row].node.name
                heapq.heappush(heap, (self._cost(units, row), name, row, version[row], units))

        for row in self._weak:
            push(row, self._next_units(row))
        while heap:
            loss, _, row, number, units = heapq.heappop(heap)
            if number != version[row]:
                continue
            if not self._is_still_allowed(units):
                others = self._next_units(row)
                push(row, others if others != units else [])
                continue
            if self._allowances.is_any and self._cost(units, row) > loss:  # budgets were used up meanwhile
                push(row, self._next_units(row))
                continue
            self._choose(units)
            yield units
            for other in dict.fromkeys(r for unit in units for r in self._by_unit[id(unit)]):
                version[other] += 1
                push(other, self._next_units(other))

    def loss_of(self, units: Iterable[Unit], placed: Mapping[int, Sequence[Pod]]) -> Loss:
        """Return what a whole plan costs that evicts units and places the gang on rows."""
        units = [unit for unit in units if not unit.is_going]
        cascade = sum(
            len(unit.pods) - sum(self._frees(unit, row)["pods"] for row in self._rows_of(unit) if placed.get(row))
            for unit in units
        )
        violations = Allowances(self._handle.budgets()).broken_by(pod for unit in units for pod in unit.members)
        return self.losses.together(units, len(violations), cascade)

    def _choose(self, units: Iterable[Unit]) -> None:
        for unit in units:
            self._chosen.add(id(unit))
            if not unit.is_going:
                self._allowances.charge(unit.members)

    def _weak_units(self, record: Row) -> list[Unit]:
        """Return the units on a row that may go, each once: those going anyway, then the cheapest, budget breakers last."""
        name = record.node.name
        found: dict[int, Unit] = {}
        for pod in sorted(record.pods.values(), key=lambda pod: pod.uid, reverse=True):
            unit = self._units.of(pod, name)
            if unit is not None:
                found[id(unit)] = unit
        units = sorted(found.values(), key=lambda unit: (not unit.is_going, self.losses.of(unit)))
        broken = self._allowances.broken_by(pod for unit in units if not unit.is_going for pod in unit.members)
        if broken:
            units.sort(key=lambda unit: any(pod.uid in broken for pod in unit.members))
        return units

    def _next_units(self, row: int) -> list[Unit]:
        """Return the units that must go on a row, beyond those going anyway, before one more pod fits."""
        open_units = [unit for unit in self._weak[row] if id(unit) not in self._chosen]
        if not open_units:
            return []
        before = [self._slots(row, i, {}) for i in range(len(self._shapes))]
        taken: list[Unit] = []
        found: list[Unit] = []
        freed: dict[str, int] = {}
        try:
            for unit in open_units:
                if self._rules is not None and not unit.is_going:
                    if not self._rules.allows(unit.members, unit.surplus):
                        continue
                    self._rules.take(unit.members)
                taken.append(unit)
                _add(freed, self._frees(unit, row))
                for i, slots in enumerate(before):
                    if self._curable[i][row] and self._slots(row, i, freed) > slots:
                        found = self._trimmed(taken, row, i, slots + 1, freed)
                        break
                if found:
                    break
        finally:
            if self._rules is not None:
                self._rules.give_back(pod for unit in taken if not unit.is_going for pod in unit.members)
        return self._alone(found, open_units, row, before) or found

    def _alone(self, units: Sequence[Unit], open_units: Sequence[Unit], row: int, before: Sequence[int]) -> list[Unit]:
        """Return the cheapest unit that makes room for one more pod by itself if it costs less than several others together."""
        if sum(not unit.is_going for unit in units) <= 1:
            return []
        going = [unit for unit in units if unit.is_going]
        freed: dict[str, int] = {}
        for unit in going:
            _add(freed, self._frees(unit, row))
        loss, best = self._cost(units, row), None
        for unit in open_units:
            if unit.is_going or not self._is_still_allowed([unit]):
                continue
            with_it = dict(freed)
            _add(with_it, self._frees(unit, row))
            makes_room = any(
                self._curable[i][row] and self._slots(row, i, with_it) > slots for i, slots in enumerate(before)
            )
            if makes_room and (alone := self._cost([unit], row)) < loss:
                loss, best = alone, unit
        return [*going, best] if best is not None else []

    def _is_still_allowed(self, units: Sequence[Unit]) -> bool:
        """Tell whether the queues of units can still spare all of them."""
        if self._rules is None:
            return True
        taken: list[Unit] = []
        for unit in units:
            if not unit.is_going:
                if not self._rules.allows(unit.members, unit.surplus):
                    break
                self._rules.take(unit.members)
            taken.append(unit)
        self._rules.give_back(pod for unit in taken if not unit.is_going for pod in unit.members)
        return len(taken) == len(units)

    def _trimmed(self, units: list[Unit], row: int, shape: int, slots: int, freed: Mapping[str, int]) -> list[Unit]:
        """Return units without those whose room is not needed for so many slots, the dearest first."""
        if len(units) == 1:
            return units
        record = self._handle.snapshot.all_rows[row]
        offered, requested = record.node.allocatable, record.requested
        spare = {
            r: offered.get(r, 0) - requested.get(r, 0) + freed.get(r, 0) - slots * request
            for r, request in self._asks[shape].items()
            if request > 0 and r != "pods"
        }
        spare["pods"] = offered.get("pods", 0) - len(record.pods) + freed.get("pods", 0) - slots
        kept: list[Unit] = []
        for unit in reversed(units):
            frees = self._frees(unit, row)
            if all(frees.get(r, 0) <= count for r, count in spare.items()):
                for r in spare:
                    spare[r] -= frees.get(r, 0)
            else:
                kept.append(unit)
        return kept[::-1]

    def _cost(self, units: Sequence[Unit], row: int) -> Loss:
        pods = [pod for unit in units if not unit.is_going for pod in unit.members]
        cascade = sum(len(unit.pods) - self._frees(unit, row)["pods"] for unit in units if not unit.is_going)
        return self.losses.together(units, len(self._allowances.broken_by(pods)), cascade)

    def _rows_of(self, unit: Unit) -> list[int]:
        """Return the rows that a unit is on."""
        rows = self._handle.snapshot.row_of
        return list(dict.fromkeys(rows[node] for _, node in unit.pods if node in rows))

    def _frees(self, unit: Unit, row: int) -> dict[str, int]:
        """Return what a unit frees on one row, with its pods there as `pods`."""
        found = self._freed.get((id(unit), row))
        if found is None:
            name = self._handle.snapshot.all_rows[row].node.name
            found = _asked_by([pod for pod, node in unit.pods if node == name])
            found.setdefault("pods", 0)
            self._freed[id(unit), row] = found
        return found

    def _is_counted(self, resource: str) -> bool:
        return any(asks.get(resource, 0) > 0 for asks in self._asks)

    def _slots(self, row: int, shape: int, freed: Mapping[str, int]) -> int:
        """Return how many pods of a shape fit on a row by what they count, with some more room."""
        record = self._handle.snapshot.all_rows[row]
        offered, requested = record.node.allocatable, record.requested
        slots = offered.get("pods", 0) - len(record.pods) + freed.get("pods", 0)
        for resource, request in self._asks[shape].items():
            if request > 0 and resource != "pods":
                free = offered.get(resource, 0) - requested.get(resource, 0) + freed.get(resource, 0)
                slots = min(slots, free // request)
        return max(0, slots)


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for resource, count in more.items():
        total[resource] = total.get(resource, 0) + count


def _asked_by(pods: Iterable[Pod]) -> dict[str, int]:
    """Return what pods ask for together, with their number as `pods`."""
    asked: dict[str, int] = {}
    for pod in pods:
        asked["pods"] = asked.get("pods", 0) + 1
        for resource, count in pod.requests.items():
            if resource != "pods":
                asked[resource] = asked.get(resource, 0) + count
    return asked
