"""How evenly nodes are used: the formula for all nodes at once and for one, and Balances, which keeps it ready.

For the plugin beside it.  Both forms of the formula give the same to the last bit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from scheduler.model.quantity import LARGEST
from scheduler.state.row_cache import RowFollower

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Ints, Nodes, Snapshot

Floats: TypeAlias = npt.NDArray[np.float64]
#: Whole numbers, as float64 or int64.
Numbers: TypeAlias = npt.NDArray[Any]

PAIR = 2
#: Up to here floats count one by one.
EXACT = 2**53


def balance(used: list[Numbers], offered: list[Floats], *, is_everywhere: bool) -> Ints:
    """Return (1 - standard deviation of the used shares)·100 per node, over the resources that it offers.

    The order of the float operations is kube-scheduler's: two resources are compared without a root.  `is_everywhere`:
    every node offers all of them.
    """
    if len(used) == PAIR and is_everywhere:
        first, second = (_shares(u, o) for u, o in zip(used, offered, strict=True))
        first -= second
        np.abs(first, out=first)
        np.subtract(2, first, out=first)
        first *= 50  # twice as much, and half of that: rounded as (1 - deviation / 2) * 100 is
        return first.astype(np.int64)
    has = [o > 0 for o in offered]
    shares = [np.where(o > 0, np.minimum(u / np.maximum(o, 1), 1.0), 0.0) for u, o in zip(used, offered, strict=True)]
    kinds = np.add.reduce(has, dtype=np.int64)
    divisor = np.maximum(kinds, 1)
    mean = np.add.reduce(shares) / divisor
    squares = [np.where(h, (share - mean) * (share - mean), 0.0) for h, share in zip(has, shares, strict=True)]
    lowest = np.minimum.reduce([np.where(h, share, 2.0) for h, share in zip(has, shares, strict=True)])
    pair = (np.maximum.reduce(shares) - lowest) / 2
    deviation = np.where(kinds == PAIR, pair, np.sqrt(np.add.reduce(squares) / divisor))
    scores: Ints = ((1 - deviation) * 100).astype(np.int64)
    return scores


def balance_of(used: list[int], offered: list[int]) -> int:
    """Return the same for one node."""
    shares = [min(float(u) / float(o), 1.0) for u, o in zip(used, offered, strict=True) if o > 0]
    if len(shares) == PAIR:
        return int((1 - abs(shares[0] - shares[1]) / 2) * 100)
    total = squares = 0.0
    for share in shares:
        total += share
    mean = total / max(len(shares), 1)
    for share in shares:
        squares += (share - mean) * (share - mean)
    return int((1 - math.sqrt(squares / max(len(shares), 1))) * 100)


class Balances(RowFollower):
    """What some resources have in use on every node, and how balanced that is before a pod comes."""

    def __init__(self, names: Sequence[str]) -> None:
        """Follow these resources."""
        super().__init__()
        self._names = names

    def fill(self, snapshot: Snapshot) -> None:
        """Take over all rows."""
        nodes = snapshot.nodes
        columns = [nodes.allocatable(name) for name in self._names]
        #: Sums of floats are those of integers as far as they are below what is offered; beyond that all shares are 1.
        is_exact = all(column.max(initial=0) <= EXACT for column in columns)
        self._used = [nodes.requested(name).astype(np.float64 if is_exact else np.int64) for name in self._names]
        self._offered: list[Floats] = [column.astype(np.float64) for column in columns]
        self._is_everywhere = all(column.all() for column in columns)
        self._before = balance(list(self._used), self._offered, is_everywhere=self._is_everywhere)

    def update(self, index: int, row: Row) -> None:
        """Take over one row."""
        counts = [min(row.requested.get(name, 0), LARGEST) for name in self._names]
        for used, count in zip(self._used, counts, strict=True):
            used[index] = count
        self._before[index] = balance_of(counts, [row.node.allocatable.get(name, 0) for name in self._names])

    def scores(self, counts: Sequence[int], nodes: Nodes) -> Ints:
        """Return 75 and half of what the balance of each node gains or loses by such a request."""
        used = [nodes.at(column) + count for column, count in zip(self._used, counts, strict=True)]
        scores = balance(used, [nodes.at(column) for column in self._offered], is_everywhere=self._is_everywhere)
        scores -= nodes.at(self._before)
        scores += 150
        scores >>= 1
        return scores


def _shares(used: Numbers, offered: Floats) -> Floats:
    shares: Floats = used / offered
    if shares.max(initial=0.0) > 1.0:  # half the price of taking the minimum
        np.minimum(shares, 1.0, out=shares)
    return shares
