"""What resources have left on every node: Room, for Filter, and Shares, in percent, for Score.

For the plugin beside it; both follow the rows of a snapshot.  Quotients are those of integers, rounded down.  With amounts
up to 2**46 (64 TiB) they come from floating point, which is several times as fast and exact there: a quotient of x and y
that is no integer is at least 1/y away from one, and with quotients up to 100 and x + y below 2**53 that is more than
rounding can bridge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from scheduler.model.quantity import LARGEST
from scheduler.state.row_cache import RowFollower

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.state.rows import NodeView, Row
    from scheduler.state.snapshot import Bools, Ints, Nodes, Snapshot

#: Whole numbers, as float64, int64 or int32.
Numbers: TypeAlias = npt.NDArray[Any]
Small: TypeAlias = npt.NDArray[np.int32]
FULL = 100
EXACT = 2**46
#: Stands for the number of pods where the name of a resource does; no resource has this name.
PODS = ""
#: With more rows to look at, columns are read anew: one pass over all nodes costs as much as so many single rows.
MOST_UPDATES = 48


class Room(RowFollower):
    """Whether every node has room for so much of a resource, or for one more pod; only if not, nodes are looked at."""

    def __init__(self, resources: Iterable[str]) -> None:
        """Follow resources, and the number of pods."""
        super().__init__()
        self._resources = tuple(resources)

    def fill(self, snapshot: Snapshot) -> None:
        """Take over all rows."""
        #: By resource, PODS for the number of pods: no node has less left; one of them had so much at some time.
        self._least = {
            resource: int(_free(resource, snapshot.nodes).min(initial=LARGEST)) for resource in (*self._resources, PODS)
        }

    def update(self, index: int, row: Row) -> None:
        """Take over one row."""
        offered, requested, least = row.node.allocatable, row.requested, self._least
        for resource in self._resources:
            free = offered.get(resource, 0) - requested.get(resource, 0)
            if free < least[resource]:  # noqa: PLR1730 - a third of the price of min()
                least[resource] = free
        free = offered.get("pods", 0) - len(row.pods)
        if free < least[PODS]:  # noqa: PLR1730
            least[PODS] = free

    def has_for_all(self, counts: Iterable[tuple[str, int]]) -> bool:
        """Tell whether every node surely has room for one more pod with these requests."""
        least = self._least
        if least[PODS] < 1:
            return False
        for resource, count in counts:  # noqa: SIM110 - half the price of all()
            if least[resource] < count:
                return False
        return True

    def is_short(self, resource: str, count: int, nodes: Nodes) -> Bools | None:
        """Tell which nodes have less than so much left; None if none has."""
        if self._least[resource] >= count:
            return None
        free = _free(resource, nodes)
        is_short: Bools = free < count
        if is_short.any():
            return is_short
        if nodes.is_whole:
            self._least[resource] = int(free.min(initial=LARGEST))
        return None


class Shares(RowFollower):
    """What scores take of a resource: the share that is left or in use."""

    MOST_UPDATES = MOST_UPDATES

    def __init__(self, resource: str) -> None:
        """Follow a resource; scoring takes cpu and memory with the defaults of silent containers."""
        super().__init__()
        self._resource = resource
        self._place = {"cpu": 0, "memory": 1}.get(resource)

    def fill(self, snapshot: Snapshot) -> None:
        """Take over all rows."""
        offered = snapshot.nodes.allocatable(self._resource)
        self._is_float = bool(offered.max(initial=0) <= EXACT)
        dtype = np.float64 if self._is_float else np.int64
        #: Nodes that offer some; None if all do.
        self.has: Bools | None = None if offered.all() else offered > 0
        #: What each offers, 1 for nothing.
        self._divisor: Numbers = np.maximum(offered, 1).astype(dtype)
        #: In hundredths; none where more is used than offered.
        left = np.maximum(offered - snapshot.nodes.scored_usage(self._resource), 0)
        self._left: Numbers = (left * FULL).astype(dtype)
        #: No node has less; one of them had so much when it was last determined.
        self._least = int(self._left.min(initial=LARGEST * FULL))
        #: Where shares are worked out: arrays that are allocated anew each time cost as much as the arithmetic.
        self._work = np.empty_like(self._left)
        self._percent: Small = np.empty(len(left), dtype=np.int32)

    def update(self, index: int, row: Row) -> None:
        """Take over one row."""
        used = row.requested.get(self._resource, 0) if self._place is None else row.nonzero[self._place]
        left = (row.node.allocatable.get(self._resource, 0) - used) * FULL
        if left < self._least:
            self._least = left = max(left, 0)
        self._left[index] = left

    def percent(self, count: int, nodes: Nodes, *, is_most: bool) -> Small:
        """Return the share in percent with so much more in use, shape (len(nodes),); the caller's until the next question.

        It is what is left, 0 where it is too much; or, with `is_most`, what is in use, at most 100.  0 where nothing is offered.
        """
        kept, divisor, work, percent, has = self._left, self._divisor, self._work, self._percent, self.has
        if not nodes.is_whole:
            rows = nodes.rows
            kept, divisor, has = kept[rows], divisor[rows], None if has is None else has[rows]
            work, percent = np.empty_like(kept), np.empty(len(rows), dtype=np.int32)
        hundredths = min(count, LARGEST) * FULL
        np.subtract(kept, float(hundredths) if self._is_float else hundredths, out=work)
        if self._least < hundredths and nodes.is_whole:
            self._least = int(kept.min(initial=LARGEST * FULL))
        if self._least < hundredths:
            np.maximum(work, 0, out=work)
        if is_most:
            np.subtract(divisor * FULL, work, out=work)
            if has is not None:
                work *= has
        if self._is_float:
            np.divide(work, divisor, out=work)
        else:
            np.floor_divide(work, divisor, out=work)
        np.copyto(percent, work, casting="unsafe")  # none is negative; int32 is a third of the price of int64
        return percent


class Amounts(RowFollower):
    """The room for what a pod asks and the shares that are scored, brought up to date together."""

    MOST_UPDATES = MOST_UPDATES

    def __init__(self, asked: Iterable[str], scored: Iterable[str]) -> None:
        """Follow these resources."""
        super().__init__()
        self.room = Room(asked)
        #: In the order of `scored`.
        self.shares = [Shares(resource) for resource in scored]
        self._parts: tuple[RowFollower, ...] = (self.room, *self.shares)

    def fill(self, snapshot: Snapshot) -> None:
        """Take over all rows."""
        for part in self._parts:
            part.fill(snapshot)

    def update(self, index: int, row: Row) -> None:
        """Take over one row."""
        for part in self._parts:
            part.update(index, row)


def percent_at(resource: str, count: int, node: NodeView, *, is_most: bool) -> int:
    """Return the share of one resource on one node with so much more in use, as `Shares.percent` does for all."""
    offered = node.allocatable(resource)
    if offered <= 0:
        return 0
    left = max(max(offered - node.scored_usage(resource), 0) - count, 0)
    return (offered - left if is_most else left) * FULL // offered


def _free(resource: str, nodes: Nodes) -> Ints:
    if resource == PODS:
        return nodes.allocatable("pods") - nodes.pod_counts()
    return nodes.allocatable(resource) - nodes.requested(resource)
