"""Lack: how much room a refused gang missed, so that an event need not cost a whole attempt.

For the queue.  A gang that misses a hundred places is not tried again for each of a thousand pods that end: the places
gained since its refusal are counted, O(pods of the node) per event, and it is tried when they may be enough: in one domain, where some
part has to be in one.  Room that is kept for others is none; whoever keeps it no longer is an event of its own.  The count is by
resources alone and never too low, so no cure is missed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.framework.status import ClusterEvent

from .bounds import places

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from scheduler.framework.status import Reason
    from scheduler.model import Pod
    from scheduler.state.cluster import ClusterState
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Ints, Nodes

    from .candidates import Candidate

    Counts = npt.NDArray[np.int32]


class Before(NamedTuple):
    """The places that a shape had when its gang was refused."""

    #: What a pod counts (see `bounds`).
    asks: Mapping[str, int]
    #: Places by row with what was free, and if all had gone that the gang may evict, both of shape (rows,).
    free: Counts
    reachable: Counts


def room_for(candidate: Candidate, nodes: Nodes, priority: int | None) -> tuple[Ints, Ints]:
    """Return the places of a shape, shape (rows,) each: free ones, and with those that evictions below a priority could free.

    Without a priority nobody is evicted.  Room that is kept for others is none.
    """
    open_to, curable = candidate.feasible, candidate.feasible if priority is None else candidate.curable()
    free = could = places(candidate.asks, nodes, open_to)
    if priority is not None:
        could = np.maximum(free, places(candidate.asks, nodes, curable, below=priority))
    if kept := candidate.kept_for():
        rows = np.fromiter(kept, dtype=np.int64)
        taken = {
            resource: np.array([sum(pod.requests.get(resource, 0) for pod in pods) for pods in kept.values()])
            for resource in candidate.asks or ()
        }
        taken["pods"] = np.array([len(pods) for pods in kept.values()])
        there = nodes.select(rows)
        free[rows] = places(candidate.asks, there, open_to[rows], taken=taken)
        if priority is not None:
            more = places(candidate.asks, there, curable[rows], below=priority, taken=taken)
            could[rows] = np.maximum(free[rows], more)
    return free, could


def before_of(candidate: Candidate, free: Ints, reachable: Ints) -> Before:
    """Return what places there were, to compare with; of reserved nodes none, so that all count that are there later."""
    before = Before(candidate.asks or {}, free.astype(np.int32), reachable.astype(np.int32))
    for row in candidate.reserved_rows():
        before.free[row] = before.reachable[row] = 0
    return before


@dataclass(slots=True, eq=False)
class Lack:
    """The places of each shape that there were on each node, and how many more are needed."""

    missing: int
    places: Sequence[Before]
    row_of: Mapping[str, int]
    #: Pods below this priority may be evicted for the gang; None for nobody.
    priority: int | None = None
    #: Evictions would have sufficed by this count and yet did not: then places that are free count, beside those that evictions free.
    is_stuck: bool = False
    #: Where all have to be in one domain: that of each row, shape (rows,), and how many places each misses, shape (domains,).
    domains: tuple[Ints, Ints] | None = None
    #: Some part is spread: a domain where none of its pods could stand any more takes no part, so that a node which is filled may help.
    is_spread: bool = False
    #: Who refused what, if a gang is woken by more than that says: it counts for room alone.
    blame: tuple[tuple[str, Reason], ...] = ()
    _gained: dict[str, int] = field(default_factory=dict)

    def counts(self, event: ClusterEvent) -> bool:
        """Tell whether counting places tells if an event may help."""
        return event == ClusterEvent.POD_REMOVED or (self.is_spread and event == ClusterEvent.POD_ASSIGNED)

    def is_helped(self, event: ClusterEvent, cluster: ClusterState, node_name: str, kept_for: Sequence[Pod]) -> bool:
        """Tell whether an event on a node, of those that count, may help: what a spread gang is helped by is a node that is full."""
        if event == ClusterEvent.POD_ASSIGNED:
            return self._is_full(cluster, node_name)
        return self.is_cured(cluster, node_name, kept_for)

    def is_cured(self, cluster: ClusterState, node_name: str, kept_for: Sequence[Pod] = ()) -> bool:
        """Look at a node that changed, with whom room is kept for there; tell whether all nodes, or those of its domain, gained enough."""
        row, index = cluster.view(node_name), self.row_of.get(node_name)
        if row is not None and index is None:
            return True
        gained = 0 if row is None or index is None else self._gained_on(cluster, row, index, kept_for)
        if gained:
            self._gained[node_name] = gained
        else:
            self._gained.pop(node_name, None)
        if self.domains is None or index is None:
            return sum(self._gained.values()) >= self.missing
        numbers, missing = self.domains
        mine = numbers[index]
        together = sum(count for name, count in self._gained.items() if numbers[self.row_of[name]] == mine)
        return together >= int(missing[mine])

    def _is_full(self, cluster: ClusterState, node_name: str) -> bool:
        """Tell whether a node has no place for any shape, as far as that is counted."""
        row = cluster.view(node_name)
        return row is None or not any(places_on(row, asks, [*row.pods.values()]) for asks, _, _ in self.places)

    def _gained_on(self, cluster: ClusterState, row: Row, index: int, kept_for: Sequence[Pod]) -> int:
        """Return how many places a node gained: of those that evictions can free, or that are free, if these count and are more."""
        there = [*row.pods.values(), *kept_for]
        firm = there if self.priority is None else [*firm_of(row, self.priority, cluster), *kept_for]
        total = 0
        for asks, free, reachable in self.places:
            gained = 0
            if self.priority is not None:
                gained = places_on(row, asks, firm) - int(reachable[index])
            if self.priority is None or self.is_stuck:
                gained = max(gained, places_on(row, asks, there) - int(free[index]))
            total += max(0, gained)
        return total


def firm_of(row: Row, priority: int, cluster: ClusterState) -> list[Pod]:
    """Return the pods of a node that stay whatever happens for pods of a priority."""
    return [pod for pod in row.pods.values() if pod.priority >= priority and not cluster.is_going(pod)]


def places_on(row: Row, asks: Mapping[str, int], pods: Sequence[Pod]) -> int:
    """Return how many more pods fit on a node by what they count, if these pods are on it."""
    offered = row.node.allocatable
    places = offered.get("pods", 0) - len(pods)
    for resource, count in asks.items():
        if resource != "pods" and count > 0:
            used = sum(pod.requests.get(resource, 0) for pod in pods)
            places = min(places, (offered.get(resource, 0) - used) // count)
    return max(0, places)
