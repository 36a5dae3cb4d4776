"""Room: the largest gang of a shape that would fit now, in each domain of the fabric.

For metrics and pages of the process and for the command line.  It counts what the pods of one shape ask for against what is free
on nodes that take pods, by the live state, whatever what-if the engine is in.  Affinity, volumes and quotas of a particular gang are
not looked at: it is a bound that holds for gangs which ask for nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.topology.fabric import ROOT

from .bounds import LIMITLESS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.model import Node
    from scheduler.state.cluster import ClusterState
    from scheduler.state.snapshot import Ints, Snapshot
    from scheduler.topology.fabric import Fabric

#: So many domains of a level are named, those with most room first.
MOST_DOMAINS = 10
#: What the level above all others is called.
CLUSTER = "cluster"
#: Taints of the node controller say that a node does not work; what else a node is tainted with, its users tolerate.
CONTROLLER_TAINTS = "node.kubernetes.io/"
_KEEPING_OFF = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class LevelRoom:
    """The room for one shape on one level of the fabric."""

    level: str
    #: How many domains the level has.
    domains: int
    #: Names from the widest level down, joined by slashes, and how many pods fit there; most first, none with no room.
    largest: tuple[tuple[str, int], ...]

    @property
    def pods(self) -> int:
        """The largest gang that fits into one domain of this level."""
        return self.largest[0][1] if self.largest else 0


def largest_gangs(
    cluster: ClusterState, snapshot: Snapshot, fabric: Fabric, shapes: Sequence[Mapping[str, int]]
) -> list[list[LevelRoom]]:
    """Return for each shape the room for pods with these requests, from the whole cluster down to the nodes; cpu in millicores.

    Nodes that the snapshot does not know yet are left out.  O(nodes × (resources + shapes × levels)).
    """
    takes = snapshot.node_column(("room", "takes pods"), _takes_pods, np.bool_)
    free = _free(cluster, snapshot, sorted({resource for shape in shapes for resource in shape}))
    return [_by_level(fabric, np.where(takes, _places(free, shape), 0)) for shape in shapes]


def _by_level(fabric: Fabric, room: Ints) -> list[LevelRoom]:
    found = []
    for level in range(ROOT, len(fabric.levels)):
        totals = fabric.totals(level, room)
        order = np.argsort(-totals, kind="stable")[:MOST_DOMAINS].tolist()
        largest = tuple(("/".join(fabric.path(level, n)), int(totals[n])) for n in order if totals[n] > 0)
        found.append(LevelRoom(CLUSTER if level == ROOT else fabric.levels[level].name, len(totals), largest))
    return found


def _free(cluster: ClusterState, snapshot: Snapshot, resources: Sequence[str]) -> dict[str, Ints]:
    """Return what rows have left of each resource, and of room for pods under `pods`, shape (rows,), never below 0."""
    rows = [cluster.view(name) for name in snapshot.row_of]
    used = {resource: [0 if row is None else row.requested.get(resource, 0) for row in rows] for resource in resources}
    used["pods"] = [LIMITLESS if row is None else len(row.pods) for row in rows]
    return {
        resource: np.maximum(snapshot.column("allocatable", resource) - np.array(amounts, dtype=np.int64), 0)
        for resource, amounts in used.items()
    }


def _places(free: Mapping[str, Ints], requests: Mapping[str, int]) -> Ints:
    """Return how many pods with these requests each row has room for, shape (rows,)."""
    places = free["pods"]
    for resource, request in requests.items():
        if request > 0 and resource != "pods":
            places = np.minimum(places, free[resource] // request)
    return places


def _takes_pods(node: Node) -> bool:
    """Tell whether a node is neither cordoned nor out of order."""
    return not node.is_unschedulable and not any(
        taint.effect in _KEEPING_OFF and taint.key.startswith(CONTROLLER_TAINTS) for taint in node.taints
    )
