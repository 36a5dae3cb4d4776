"""Quality: how near together the members of a gang are, as its group publishes it.

For the engine, when a gang was placed.  Pure; O(members × levels).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.framework.effects import PlacementSummary
from scheduler.topology.fabric import ROOT

if TYPE_CHECKING:
    from scheduler.state.snapshot import Ints
    from scheduler.topology.fabric import Fabric


def summary_of(fabric: Fabric, rows: Ints, idle_slots: Ints) -> PlacementSummary:
    """Return where members are that stand on some rows, shape (members,).

    `idle_slots` says how many members each row could take if nothing else were there, shape (rows,): the fewest domains that the
    gang could be in follow from it.  The quality is the fewest possible domains over those used, averaged over the levels.
    """
    last = len(fabric.levels) - 1
    leaf = max(last - 1, 0)
    shares = []
    for level in range(last + 1):
        used = len(np.unique(fabric.of_rows[level][rows]))
        shares.append((used, fewest(fabric.totals(level, idle_slots), len(rows))))
    level, number = fabric.common(rows)
    domains = [(fabric.levels[k].name, fabric.path(k, fabric.ancestor(level, number, k))[-1]) for k in range(level + 1)]
    return PlacementSummary(
        domains=tuple(domains),
        leaf_domains=shares[leaf][0],
        leaf_minimum=shares[leaf][1],
        quality=round(float(np.mean([least / used for used, least in shares])), 4) if len(rows) else 0.0,
        bottleneck=fabric.levels[level].name if level != ROOT else "",
    )


def fewest(room: Ints, count: int) -> int:
    """Return in how few domains so many pods could stand; all of them if they could not. Shape of `room`: (domains,)."""
    filled = np.cumsum(np.sort(room)[::-1])
    return max(1, min(int(np.searchsorted(filled, count)) + 1, len(room))) if count else 0
