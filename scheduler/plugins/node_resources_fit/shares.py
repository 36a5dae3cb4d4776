"""What one resource has left on every node: Room, for Filter, and Shares, in percent, for Score.

For the plugin beside it; both follow the rows of a snapshot.  Quotients are those of integers, rounded down.  With amounts up to 2**46 (64 TiB) they come from
floating point, which is several times as fast and exact there: a quotient of x and y that is no integer is at least 1/y
away from one, and with quotients up to 100 and x + y below 2**53 that is more than rounding can bridge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from scheduler.model.quantity import LARGEST
from scheduler.state.row_cache import RowFollower

if TYPE_CHECKING:
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Bools, Ints, Nodes, Snapshot

#: Whole numbers, as float64 or int64.
Numbers: TypeAlias = npt.NDArray[Any]
FULL = 100
EXACT = 2**46


class Room(RowFollower):
    """How much of a resource, or how many pods, may still come to each node."""

    def __init__(self, resource: str) -> None:
        """Follow a resource; the empty name stands for the number of pods."""
        super().__init__()
        self._resource = resource

    def fill(self, snapshot: Snapshot) -> None:
        """Take over all rows."""
        nodes = snapshot.nodes
        used = nodes.requested(self._resource) if self._resource else nodes.pod_counts()
        self.free: Ints = nodes.allocatable(self._resource or "pods") - used
        #: No node has less; one of them had so much when it was last determined.
        self._least = int(self.free.min(initial=LARGEST))

    def update(self, index: int, row: Row) -> None:
        """Take over one row."""
        used = min(row.requested.get(self._resource, 0), LARGEST) if self._resource else len(row.pods)
        self.free[index] = free = row.node.allocatable.get(self._resource or "pods", 0) - used
        self._least = min(self._least, free)

    def is_short(self, count: int, nodes: Nodes) -> Bools | None:
        """Tell which nodes have less than so much left; None if no node of the cluster has."""
        if self._least < count:
            self._least = int(self.free.min(initial=LARGEST))
        return nodes.at(self.free) < count if self._least < count else None


class Shares(RowFollower):
    """What scores take of a resource: the share that is left or in use."""

    def __init__(self, resource: str) -> None:
        """Follow a resource; scoring takes cpu and memory with the defaults of silent containers."""
        super().__init__()
        self._resource = resource
        self._place = {"cpu": 0, "memory": 1}.get(resource)

    def fill(self, snapshot: Snapshot) -> None:
        """Take over all rows."""
        offered = snapshot.nodes.allocatable(self._resource)
        self.is_float = bool(offered.max(initial=0) <= EXACT)
        dtype = np.float64 if self.is_float else np.int64
        #: Nodes that offer some; None if all do.
        self.has: Bools | None = None if offered.all() else offered > 0
        #: What each offers, 1 for nothing.
        self._divisor: Numbers = np.maximum(offered, 1).astype(dtype)
        #: In hundredths; none where more is used than offered.
        left = np.maximum(offered - snapshot.nodes.scored_usage(self._resource), 0)
        self._left: Numbers = (left * FULL).astype(dtype)

    def update(self, index: int, row: Row) -> None:
        """Take over one row."""
        used = row.requested.get(self._resource, 0) if self._place is None else row.nonzero[self._place]
        self._left[index] = max(row.node.allocatable.get(self._resource, 0) - used, 0) * FULL

    def least_allocated(self, count: int, nodes: Nodes) -> Numbers:
        """Return the share in percent that is left with so much more in use; 0 where it is too much, or nothing offered."""
        left = self._left_after(count, nodes)
        return self._quotients(left, nodes)

    def most_allocated(self, count: int, nodes: Nodes) -> Numbers:
        """Return the share in percent that is in use with so much more, at most 100; 0 where nothing is offered."""
        used = nodes.at(self._divisor) * FULL - self._left_after(count, nodes)
        if self.has is not None:
            used *= nodes.at(self.has)
        return self._quotients(used, nodes)

    def _left_after(self, count: int, nodes: Nodes) -> Numbers:
        left: Numbers = nodes.at(self._left) - min(count, LARGEST) * FULL
        if left.min(initial=0) < 0:  # half the price of taking the maximum
            np.maximum(left, 0, out=left)
        return left

    def _quotients(self, part: Numbers, nodes: Nodes) -> Numbers:
        if self.is_float:
            part /= nodes.at(self._divisor)
            np.floor(part, out=part)
        else:
            part //= nodes.at(self._divisor)
        return part
