"""Quality: how near together the members of a gang are, as its group publishes it.

For the engine, when a gang was placed, or was found on nodes after a restart.  Pure; O(members × levels).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from scheduler.framework.effects import PlacementSummary
from scheduler.framework.workload import Workload
from scheduler.state.fabrics import UnknownLevelError
from scheduler.topology.fabric import ROOT

from .bounds import places, size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model import Gang, Pod
    from scheduler.state.snapshot import Ints
    from scheduler.topology.fabric import Fabric

    from .access import Access


def summary_of(fabric: Fabric, rows: Ints, idle_slots: Ints) -> PlacementSummary:
    """Return where members are that stand on some rows, shape (members,).

    `idle_slots` says how many members each row could take if nothing else were there, shape (rows,): the fewest domains that the
    gang could be in follow from it; where it is in fewer, as some members are smaller than that, it is those.  The quality is the fewest possible domains over those used, averaged over the levels.
    """
    last = len(fabric.levels) - 1
    leaf = max(last - 1, 0)
    shares = []
    for level in range(last + 1):
        used = len(np.unique(fabric.of_rows[level][rows]))
        shares.append((used, min(used, fewest(fabric.totals(level, idle_slots), len(rows)))))
    level, number = fabric.common(rows)
    domains = [(fabric.levels[k].name, fabric.path(k, fabric.ancestor(level, number, k))[-1]) for k in range(level + 1)]
    return PlacementSummary(
        domains=tuple(domains),
        leaf_domains=shares[leaf][0],
        leaf_minimum=shares[leaf][1],
        quality=round(float(np.mean([least / used for used, least in shares])), 4) if len(rows) else 0.0,
        bottleneck=fabric.levels[level].name if level != ROOT else "",
    )


def summary_of_members(access: Access, gang: Gang, members: Sequence[Pod]) -> PlacementSummary | None:
    """Return where members are that are on nodes, for a gang that another process placed; None if no level is asked or known.

    How few domains could hold it is an estimate: by what its largest member asks and whole nodes offer, without affinities and
    taints, since the specs of assigned pods are not kept whole.  O(nodes + members × levels).
    """
    snapshot = access.snapshot
    placed = [
        (pod, row)
        for pod in members
        if not pod.is_terminal and (row := snapshot.row_of.get(access.cluster.node_of(pod.uid) or "")) is not None
    ]
    if not placed or not access.serves(placed[0][0].scheduler_name):
        return None
    try:
        fabric = access.fabric_for(Workload("", gang=gang), placed[0][0].scheduler_name, gang.topology)
    except UnknownLevelError:
        return None  # the gang's refusals say so
    if fabric is None:
        return None
    nodes = snapshot.nodes
    largest = max((pod for pod, _ in placed), key=lambda pod: size_of(pod.requests, nodes))
    slots = places(largest.requests, nodes, np.ones(len(nodes), dtype=np.bool_), is_empty=True)
    rows = np.array([row for _, row in placed], dtype=np.int64)
    return replace(summary_of(fabric, rows, np.minimum(slots, len(rows))), is_estimate=True)


def fewest(room: Ints, count: int) -> int:
    """Return in how few domains so many pods could stand; all of them if they could not. Shape of `room`: (domains,)."""
    filled = np.cumsum(np.sort(room)[::-1])
    return max(1, min(int(np.searchsorted(filled, count)) + 1, len(room))) if count else 0
