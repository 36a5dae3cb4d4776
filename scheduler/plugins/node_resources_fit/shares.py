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
from scheduler.state.loops import Part
from scheduler.state.row_cache import RowFollower

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.state.rows import NodeView, Row
    from scheduler.state.snapshot import Bools, Ints, Nodes, Snapshot

#: Whole numbers, as float64 or int64.
Numbers: TypeAlias = npt.NDArray[Any]
Small: TypeAlias = npt.NDArray[np.int16]
FULL = 100
EXACT = 2**46
#: Stands for the number of pods where the name of a resource does; no resource has this name.
PODS = ""
#: With more rows to look at, columns are read anew: one pass over all nodes costs as much as so many single rows.
MOST_UPDATES = 48
#: Where a row keeps what scoring takes of these.
_PLACES = {"cpu": 0, "memory": 1}


class Room:
    """Whether every node has room for so much of a resource, or for one more pod; only if not, nodes are looked at."""

    def __init__(self, least: dict[str, int]) -> None:
        """Take what no node has less of, by resource, PODS for the number of pods; some node had so much at some time."""
        self._least = least

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


class Shares:
    """What scores take of a resource: the share that is left or in use."""

    def __init__(self, resource: str, nodes: Nodes, *, is_most: bool) -> None:
        """Take over all rows; `is_most`: the share that is in use.

        Scoring takes cpu and memory with the defaults of silent containers.
        """
        offered = nodes.allocatable(resource)
        self._is_float = bool(offered.max(initial=0) <= EXACT)
        self._is_most = is_most
        dtype = np.float64 if self._is_float else np.int64
        #: Nodes that offer some; None if all do.
        self.has: Bools | None = None if offered.all() else offered > 0
        #: What each offers, 1 for nothing.
        self._divisor: Numbers = np.maximum(offered, 1).astype(dtype)
        #: In hundredths; none where more is used than offered.
        self.left: Numbers = (np.maximum(offered - nodes.scored_usage(resource), 0) * FULL).astype(dtype)
        #: No node has less; one of them had so much when it was last determined.
        self.least = int(self.left.min(initial=LARGEST * FULL))
        #: Where shares are worked out: arrays that are allocated anew each time cost as much as the arithmetic.
        self._work = np.empty_like(self.left)
        self._percent: Small = np.empty(len(offered), dtype=np.int16)

    def part(self, count: int, weight: int) -> Part | None:
        """Return what is scored with so much more in use, on all nodes; None where floats are not exact."""
        if not self._is_float:
            return None
        taken = float((count if count < LARGEST else LARGEST) * FULL)  # noqa: FURB136 - as below
        return Part(self.left, self._divisor, self.has, taken, self._is_most, weight)

    def percent(self, count: int, nodes: Nodes) -> Small:
        """Return the share in percent with so much more in use, shape (len(nodes),); the caller's until the next question.

        It is what is left, 0 where it is too much; or what is in use, at most 100.  0 where nothing is offered.
        """
        kept, divisor, work, percent, has = self.left, self._divisor, self._work, self._percent, self.has
        if not nodes.is_whole:
            rows = nodes.rows
            kept, divisor, has = kept[rows], divisor[rows], None if has is None else has[rows]
            work, percent = np.empty_like(kept), np.empty(len(rows), dtype=np.int16)
        hundredths = (count if count < LARGEST else LARGEST) * FULL  # noqa: FURB136 - a third of the price of min()
        np.subtract(kept, float(hundredths) if self._is_float else hundredths, out=work)
        if self.least < hundredths and nodes.is_whole:
            self.least = int(kept.min(initial=LARGEST * FULL))
        if self.least < hundredths:
            np.maximum(work, 0, out=work)
        if self._is_most:
            np.subtract(divisor * FULL, work, out=work)
            if has is not None:
                work *= has
        if self._is_float:
            np.divide(work, divisor, out=work)
        else:
            np.floor_divide(work, divisor, out=work)
        np.copyto(percent, work, casting="unsafe")  # none is negative; int16 is a third of the price of int64
        return percent


class Amounts(RowFollower):
    """The room for what a pod asks and the shares that are scored, brought up to date together."""

    MOST_UPDATES = MOST_UPDATES

    def __init__(self, asked: Iterable[str], scored: Iterable[tuple[str, bool]]) -> None:
        """Follow the resources that are asked for, and those that are scored, with whether by what is in use."""
        super().__init__()
        self._asked, self._scored = tuple(asked), tuple(scored)
        #: By resource, PODS for the number of pods: no node has less left; one of them had so much at some time.
        self._least: dict[str, int] = {}
        self.room = Room(self._least)
        #: In the order of `scored`.
        self.shares: list[Shares] = []
        #: Resource, its place among what scoring takes with defaults (None: it takes it as it is), and its shares.
        self._followed: list[tuple[str, int | None, Shares]] = []

    def fill(self, snapshot: Snapshot) -> None:
        """Take over all rows."""
        nodes = snapshot.nodes
        self._least.update({resource: int(_free(resource, nodes).min(initial=LARGEST)) for resource in self._asked})
        self._least[PODS] = int(_free(PODS, nodes).min(initial=LARGEST))
        self.shares = [Shares(resource, nodes, is_most=is_most) for resource, is_most in self._scored]
        self._followed = [
            (resource, _PLACES.get(resource), shares)
            for (resource, _), shares in zip(self._scored, self.shares, strict=True)
        ]

    def update(self, index: int, row: Row) -> None:
        """Take over one row."""
        offered, requested, nonzero, least = row.node.allocatable, row.requested, row.nonzero, self._least
        for resource in self._asked:
            free = offered.get(resource, 0) - requested.get(resource, 0)
            if free < least[resource]:  # noqa: PLR1730 - a third of the price of min()
                least[resource] = free
        free = offered.get("pods", 0) - len(row.pods)
        if free < least[PODS]:  # noqa: PLR1730
            least[PODS] = free
        for resource, place, shares in self._followed:
            used = requested.get(resource, 0) if place is None else nonzero[place]
            left = (offered.get(resource, 0) - used) * FULL
            if left < shares.least:
                shares.least = left = max(left, 0)
            shares.left[index] = left


def percent_at(resource: str, count: int, node: NodeView, *, is_most: bool) -> int:
    """Return the share of one resource on one node with so much more in use, as `Shares.percent` does for all."""
    row = node.record
    offered = row.node.allocatable.get(resource, 0)
    if offered <= 0:
        return 0
    place = _PLACES.get(resource)
    left = offered - (row.requested.get(resource, 0) if place is None else row.nonzero[place])
    left = max(max(left, 0) - count, 0)
    return (offered - left if is_most else left) * FULL // offered


def _free(resource: str, nodes: Nodes) -> Ints:
    if resource == PODS:
        return nodes.allocatable("pods") - nodes.pod_counts()
    return nodes.allocatable(resource) - nodes.requested(resource)
