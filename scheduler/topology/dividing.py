"""Dividing: which nodes of a domain take how many equal pods, so that few domains of each level are used.

For the engine.  Level by level, over all that is left of the wider ones, the largest domains are kept, the last one the tightest that
holds the rest, down to the nodes; so a gang that fits into one rack is in one rack, and a rack with room for a bigger gang is not
nibbled.  Pure arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .fabric import ROOT

if TYPE_CHECKING:
    from .fabric import Fabric, Ints


def divide(fabric: Fabric, level: int, number: int, slots: Ints, count: int, worth: Ints) -> Ints | None:
    """Return how many pods each row takes, shape (rows,); None if the domain has fewer slots than pods.

    `slots` says how many each row could take, `worth` which of equal nodes is preferred (the higher), both of shape (rows,).
    O(rows of the domain × levels).
    """
    rows = fabric.rows(level, number)
    if int(slots[rows].sum()) < count:
        return None
    taken = np.zeros(len(slots), dtype=np.int64)
    for below in range(level + 1, len(fabric.levels) - 1):
        rows = _narrowed(fabric.of_rows[below][rows], rows, slots, count)
    _fill(rows, slots, count, worth, taken)
    return taken


def _narrowed(numbers: Ints, rows: Ints, slots: Ints, count: int) -> Ints:
    """Return the rows of the fewest domains that hold so many pods: the largest, the last one the tightest that holds the rest."""
    firsts = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))
    totals = np.add.reduceat(slots[rows], firsts)
    order = np.argsort(-totals, kind="stable")
    filled = np.cumsum(totals[order])
    whole = int(np.searchsorted(filled, count, side="left"))
    left = count - (int(filled[whole - 1]) if whole else 0)
    rest = order[whole:]
    holding = rest[totals[rest] >= left]
    last = holding[totals[holding].argmin()]
    chosen = np.zeros(len(totals), dtype=np.bool_)
    chosen[order[:whole]] = True
    chosen[last] = True
    sizes = np.diff(np.append(firsts, len(rows)))
    return rows[np.repeat(chosen, sizes)]


def _fill(rows: Ints, slots: Ints, count: int, worth: Ints, taken: Ints) -> None:
    """Fill nodes, the roomiest first; the last one is the tightest that holds the rest."""
    room = slots[rows]
    order = np.lexsort((-worth[rows], -room))
    filled = np.cumsum(room[order])
    whole = int(np.searchsorted(filled, count, side="left"))  # the node at which the count is reached
    before = int(filled[whole - 1]) if whole else 0
    left, rest = count - before, order[whole:]
    taken[rows[order[:whole]]] = room[order[:whole]]
    holding = rest[room[rest] >= left]
    last = holding[np.lexsort((-worth[rows[holding]], room[holding]))[0]]
    taken[rows[last]] = left


def even(counts: Ints, slots: Ints, count: int) -> Ints | None:
    """Return how many of `count` pods each domain takes so that no two differ by more than one, with those that are there.

    `counts` are the pods that each domain has, `slots` how many more it could take; None if that cannot be.
    """
    total, taken = counts.copy(), np.zeros(len(counts), dtype=np.int64)
    for _ in range(count):
        if not len(total):
            return None
        lowest = int(total.min())
        open_ = np.flatnonzero((taken < slots) & (total <= lowest))
        if not len(open_):
            return None
        chosen = int(open_[(slots - taken)[open_].argmax()])
        taken[chosen] += 1
        total[chosen] += 1
    return taken


def span(fabric: Fabric, level: int, rows: Ints) -> int:
    """Return how many domains of a level some rows lie in."""
    return 1 if level == ROOT else len(np.unique(fabric.of_rows[level][rows]))
