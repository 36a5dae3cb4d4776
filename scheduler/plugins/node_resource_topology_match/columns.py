"""The NUMA nodes of all nodes as arrays, so that one pod is held against all of them at once.

For `aligning` and `scoring`.  Axes are rows of the snapshot, then NUMA nodes in the order of their numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.model.node_resource_topology import LARGEST_COST, POD_SCOPE, SINGLE_NUMA_NODE
from scheduler.model.quantity import LARGEST
from scheduler.state.row_cache import RowFollower

if TYPE_CHECKING:
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Bools, Ints, Snapshot

    from .reports import Reports

#: What a NUMA node has of a resource that it does not tell of.
ABSENT = -1


class Amounts(NamedTuple):
    """What is known of one resource."""

    #: What is left, and what there is at all, `ABSENT` where it is not told; both of shape (rows, NUMA nodes).
    left: Ints
    total: Ints
    #: What a what-if set free somewhere in a row; shape (rows,).
    freed: Ints


class Columns(RowFollower):
    """What `Reports` say of every row."""

    def __init__(self, reports: Reports) -> None:
        """Ask these reports."""
        super().__init__()
        self._reports = reports
        self._snapshot: Snapshot | None = None

    def fill(self, snapshot: Snapshot) -> None:
        """Take over all rows."""
        self._snapshot = snapshot
        self._start(len(snapshot.all_rows), width=1)
        for index, row in enumerate(snapshot.all_rows):
            self.update(index, row)

    def _start(self, size: int, width: int) -> None:
        #: Which rows have a report; whose kubelet has the policy single-numa-node; and the scope pod. Shape (rows,).
        self.is_reported: Bools = np.zeros(size, dtype=np.bool_)
        self.is_single: Bools = np.zeros(size, dtype=np.bool_)
        self.is_pod_scope: Bools = np.zeros(size, dtype=np.bool_)
        #: Which NUMA nodes there are, shape (rows, NUMA nodes); and how far they are from each other, with one axis more.
        self.is_there: Bools = np.zeros((size, width), dtype=np.bool_)
        self.costs: Ints = np.full((size, width, width), LARGEST_COST, dtype=np.int64)
        self._amounts: dict[str, Amounts] = {}

    def update(self, index: int, row: Row) -> None:
        """Take over one row."""
        room = self._reports.room(row)
        if self.is_reported[index]:
            self._clear(index)
        if room is None:
            return
        zones = room.report.zones
        if len(zones) > self.is_there.shape[1]:
            self._widen(len(zones))
        self.is_reported[index] = True
        self.is_single[index] = room.policy == SINGLE_NUMA_NODE
        self.is_pod_scope[index] = room.scope == POD_SCOPE
        self.is_there[index, : len(zones)] = True
        for position, zone in enumerate(zones):
            for other, neighbour in enumerate(zones):
                self.costs[index, position, other] = zone.costs.get(neighbour.id, LARGEST_COST)
            for resource, count in zone.available.items():
                amounts = self._of(resource)
                amounts.left[index, position] = max(0, count - room.unreported.get(resource, 0))
                amounts.total[index, position] = max(count, zone.allocatable.get(resource, 0))
        for resource, count in room.freed.items():
            self._of(resource).freed[index] = min(count, LARGEST)

    def settle(self, now: float) -> None:
        """Look at the rows again for which time has passed."""
        for name in self._reports.overdue(now):
            if self._snapshot is not None and (index := self._snapshot.row_of.get(name)) is not None:
                self.update(index, self._snapshot.all_rows[index])

    def amounts(self, resource: str) -> Amounts | None:
        """Return what is known of a resource, not to be changed; None if no NUMA node tells of it."""
        return self._amounts.get(resource)

    def _of(self, resource: str) -> Amounts:
        amounts = self._amounts.get(resource)
        if amounts is None:
            shape = self.is_there.shape
            amounts = self._amounts[resource] = Amounts(
                np.full(shape, ABSENT, dtype=np.int64),
                np.full(shape, ABSENT, dtype=np.int64),
                np.zeros(shape[0], dtype=np.int64),
            )
        return amounts

    def _clear(self, index: int) -> None:
        for flags in (self.is_reported, self.is_single, self.is_pod_scope, self.is_there):
            flags[index] = False
        self.costs[index] = LARGEST_COST
        for amounts in self._amounts.values():
            amounts.left[index] = amounts.total[index] = ABSENT
            amounts.freed[index] = 0

    def _widen(self, width: int) -> None:
        """Make room for more NUMA nodes."""
        more = width - self.is_there.shape[1]
        side = ((0, 0), (0, more))
        self.is_there = np.pad(self.is_there, side)
        self.costs = np.pad(self.costs, (*side, (0, more)), constant_values=LARGEST_COST)
        for resource, amounts in self._amounts.items():
            left, total = (np.pad(column, side, constant_values=ABSENT) for column in amounts[:2])
            self._amounts[resource] = Amounts(left, total, amounts.freed)
