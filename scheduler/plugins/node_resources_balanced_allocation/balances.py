"""How evenly nodes are used: the formula for all nodes at once and for one, and Balances, which keeps it ready.

For the plugin beside it.  Both forms of the formula give the same to the last bit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from scheduler.model.quantity import LARGEST
from scheduler.state.loops import balance_gain
from scheduler.state.row_cache import RowFollower

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Ints, Nodes, Snapshot

Floats: TypeAlias = npt.NDArray[np.float64]
Small: TypeAlias = npt.NDArray[np.int16]
#: Whole numbers, as float64 or int64.
Numbers: TypeAlias = npt.NDArray[Any]

PAIR = 2
#: Twice the score of a pod that changes nothing.
BASE = 150
#: Up to here floats count one by one.
EXACT = 2**53


def balance(used: list[Numbers], offered: list[Floats], *, is_everywhere: bool, is_within: bool) -> Floats:
    """Return (1 - standard deviation of the used shares)·100 per node, over the resources that it offers, to be cut off.

    The order of the float operations is kube-scheduler's: two resources are compared without a root.  `is_everywhere`:
    every node offers all of them; `is_within`: no node has more in use than it offers.  `used` may be overwritten.
    """
    if len(used) == PAIR and is_everywhere:
        first, second = (
            np.divide(u, o, out=u if u.dtype == o.dtype else None) for u, o in zip(used, offered, strict=True)
        )
        if not is_within:
            np.minimum(first, 1.0, out=first)
            np.minimum(second, 1.0, out=second)
        first -= second
        np.abs(first, out=first)
        np.subtract(2.0, first, out=first)
        first *= 50.0  # twice as much, and half of that: rounded as (1 - deviation / 2) * 100 is
        return first
    has = [o > 0 for o in offered]
    shares = [np.where(o > 0, np.minimum(u / np.maximum(o, 1), 1.0), 0.0) for u, o in zip(used, offered, strict=True)]
    kinds = np.add.reduce(has, dtype=np.int64)
    divisor = np.maximum(kinds, 1)
    mean = np.add.reduce(shares) / divisor
    squares = [np.where(h, (share - mean) * (share - mean), 0.0) for h, share in zip(has, shares, strict=True)]
    lowest = np.minimum.reduce([np.where(h, share, 2.0) for h, share in zip(has, shares, strict=True)])
    pair = (np.maximum.reduce(shares) - lowest) / 2
    deviation = np.where(kinds == PAIR, pair, np.sqrt(np.add.reduce(squares) / divisor))
    scores: Floats = (1 - deviation) * 100
    return scores


def balance_of(shares: list[float]) -> int:
    """Return the same for one node, from the shares that are in use of what it offers, each at most 1."""
    if len(shares) == PAIR:
        return int((1 - abs(shares[0] - shares[1]) / 2) * 100)
    total = squares = 0.0
    for share in shares:
        total += share
    mean = total / max(len(shares), 1)
    for share in shares:
        squares += (share - mean) * (share - mean)
    return int((1 - math.sqrt(squares / max(len(shares), 1))) * 100)


def share_of(used: int, offered: int) -> float:
    """Return which share of what a node offers is in use, at most 1."""
    return float(used) / float(offered) if used < offered else 1.0


class Balances(RowFollower):
    """What some resources have in use on every node, and how balanced that is before a pod comes."""

    #: With more rows to look at, a pass over all nodes is cheaper.
    MOST_UPDATES = 48

    def __init__(self, names: Sequence[str]) -> None:
        """Follow these resources."""
        super().__init__()
        self._names = names

    def fill(self, snapshot: Snapshot) -> None:
        """Take over all rows."""
        nodes = snapshot.nodes
        columns = [nodes.allocatable(name) for name in self._names]
        requested = [nodes.requested(name) for name in self._names]
        #: Sums of floats are those of integers as far as they are below what is offered; beyond that all shares are 1.
        self._is_exact = all(column.max(initial=0) <= EXACT for column in columns)
        self._used: list[Numbers] = [column.astype(np.float64 if self._is_exact else np.int64) for column in requested]
        #: Name, amounts in use and position of each resource, for `update`.
        self._columns = [
            (name, column, k) for k, (name, column) in enumerate(zip(self._names, self._used, strict=True))
        ]
        self._offered: list[Floats] = [column.astype(np.float64) for column in columns]
        self._is_everywhere = all(column.all() for column in columns)
        #: Two resources that every node offers, in floats: what is compiled.
        self._is_pair = len(columns) == PAIR and self._is_exact and self._is_everywhere
        #: By resource: no node has less left.
        self._least = [int((c - u).min(initial=LARGEST)) for c, u in zip(columns, requested, strict=True)]
        used = [column.copy() for column in self._used]
        before = balance(used, self._offered, is_everywhere=self._is_everywhere, is_within=False)
        #: What the balance after is added to for twice the score; int16 is a third of the price of int64.
        self._base: Small = BASE - before.astype(np.int16)
        #: Where balances are worked out: arrays that are allocated anew each time cost as much as the arithmetic.
        self._work = used
        self._twice = np.empty_like(self._base)

    def update(self, index: int, row: Row) -> None:
        """Take over one row."""
        requested, allocatable, least = row.requested, row.node.allocatable, self._least
        shares = []
        for name, column, number in self._columns:
            used, offered = requested.get(name, 0), allocatable.get(name, 0)
            column[index] = used if used < LARGEST else LARGEST  # noqa: FURB136 - a third of the price of min()
            free = offered - used
            if free < least[number]:  # noqa: PLR1730 - likewise
                least[number] = free
            if offered > 0:
                shares.append(float(used) / float(offered) if free > 0 else 1.0)
        if len(shares) == PAIR:
            first, second = shares
            self._base[index] = BASE - int((1 - abs(first - second) / 2) * 100)
        else:
            self._base[index] = BASE - balance_of(shares)

    def scores(self, counts: Sequence[int], nodes: Nodes) -> Ints:
        """Return 75 and half of what the balance of each node gains or loses by such a request."""
        kept, offered, work, twice, base = self._used, self._offered, self._work, self._twice, self._base
        if nodes.is_whole and self._is_pair:
            pairs = [(kept[k], offered[k], float(counts[k])) for k in (0, 1)]
            if (gains := balance_gain(pairs[0], pairs[1], base)) is not None:
                return gains
        if not nodes.is_whole:
            rows = nodes.rows
            kept, offered, base = [c[rows] for c in kept], [c[rows] for c in offered], base[rows]
            work, twice = kept, np.empty_like(base)
        is_within = True
        for number, count in enumerate(counts):
            np.add(kept[number], float(count) if self._is_exact else count, out=work[number])
            is_within = is_within and count <= self._least[number]
        after = balance(work, offered, is_everywhere=self._is_everywhere, is_within=is_within)
        np.copyto(twice, after, casting="unsafe")
        twice += base
        twice >>= 1
        return twice.astype(np.int64)


def score_of(amounts: Iterable[tuple[int, int, int]]) -> int:
    """Return the same score for one node, from what is requested, in use and offered of each resource."""
    before, after = [], []
    for count, used, offered in amounts:
        if offered > 0:
            before.append(share_of(used, offered))
            after.append(share_of(used + count, offered))
    return (BASE - balance_of(before) + balance_of(after)) >> 1
