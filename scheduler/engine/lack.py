"""Lack: how much room a refused gang missed, so that an event need not cost a whole attempt.

For the queue.  A gang that misses a hundred places is not tried again for each of a thousand pods that end: the places
gained since its refusal are counted, O(pods of the node) per event, and it is tried when they may be enough: in one domain, where some
part has to be in one.  The count is by resources alone and never too low, so no cure is missed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from scheduler.framework.status import Reason
    from scheduler.model import Pod
    from scheduler.state.cluster import ClusterState
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Ints

    Counts = npt.NDArray[np.int32]


class Before(NamedTuple):
    """The places that a shape had when its gang was refused."""

    #: What a pod counts (see `bounds`).
    asks: Mapping[str, int]
    #: Places by row with what was free, and if all had gone that the gang may evict, both of shape (rows,).
    free: Counts
    reachable: Counts


@dataclass(slots=True, eq=False)
class Lack:
    """The places of each shape that there were on each node, and how many more are needed."""

    missing: int
    places: Sequence[Before]
    row_of: Mapping[str, int]
    #: Pods below this priority may be evicted for the gang; None for nobody.
    priority: int | None = None
    #: Where all have to be in one domain: that of each row, shape (rows,), and how many places each misses, shape (domains,).
    domains: tuple[Ints, Ints] | None = None
    #: Who refused what, if a gang is woken by more than that says: it counts for room alone.
    blame: tuple[tuple[str, Reason], ...] = ()
    _gained: dict[str, int] = field(default_factory=dict)

    def is_cured(self, cluster: ClusterState, node_name: str) -> bool:
        """Look at a node that changed; tell whether all nodes together, or those of its domain, gained enough places."""
        row, index = cluster.view(node_name), self.row_of.get(node_name)
        if row is not None and index is None:
            return True
        gained = 0 if row is None or index is None else self._gained_on(cluster, row, index)
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

    def _gained_on(self, cluster: ClusterState, row: Row, index: int) -> int:
        """Return how many places a node gained: of those that are free, or of those that evictions can free, if these are more."""
        firm = list(row.pods.values())
        if self.priority is not None:
            firm = [pod for pod in firm if pod.priority >= self.priority and not cluster.is_going(pod)]
        total = 0
        for asks, free, reachable in self.places:
            gained = places_on(row, asks, list(row.pods.values())) - int(free[index])
            if self.priority is not None:
                gained = max(gained, places_on(row, asks, firm) - int(reachable[index]))
            total += max(0, gained)
        return total


def places_on(row: Row, asks: Mapping[str, int], pods: Sequence[Pod]) -> int:
    """Return how many more pods fit on a node by what they count, if these pods are on it."""
    offered = row.node.allocatable
    places = offered.get("pods", 0) - len(pods)
    for resource, count in asks.items():
        if resource != "pods" and count > 0:
            used = sum(pod.requests.get(resource, 0) for pod in pods)
            places = min(places, (offered.get(resource, 0) - used) // count)
    return max(0, places)
