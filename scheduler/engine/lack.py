"""Lack: how much room a refused gang missed, so that an event need not cost a whole attempt.

For the queue.  A gang that misses a hundred places is not tried again for each of a thousand pods that end: the places
gained since its refusal are counted, O(1) per event, and it is tried when they may be enough.  The count is by resources
alone and never too low, so no cure is missed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from scheduler.state.cluster import ClusterState
    from scheduler.state.rows import Row


@dataclass(slots=True, eq=False)
class Lack:
    """The places of each shape that there were on each node, and how many more are needed."""

    missing: int
    #: For each shape: what a pod counts (see `bounds`), and places by row.
    places: list[tuple[dict[str, int], npt.NDArray[np.int32]]]
    row_of: Mapping[str, int]
    _gained: dict[str, int] = field(default_factory=dict)

    def is_cured(self, cluster: ClusterState, node_name: str) -> bool:
        """Look at a node that changed; tell whether all nodes together gained enough places."""
        row, index = cluster.view(node_name), self.row_of.get(node_name)
        if row is None:
            self._gained.pop(node_name, None)
        elif index is None:
            return True
        else:
            gained = sum(max(0, places_on(row, asks) - int(before[index])) for asks, before in self.places)
            if gained:
                self._gained[node_name] = gained
            else:
                self._gained.pop(node_name, None)
        return sum(self._gained.values()) >= self.missing


def places_on(row: Row, asks: Mapping[str, int]) -> int:
    """Return how many pods fit on a node by what they count."""
    offered = row.node.allocatable
    places = offered.get("pods", 0) - len(row.pods)
    for resource, count in asks.items():
        if resource != "pods" and count > 0:
            places = min(places, (offered.get(resource, 0) - row.requested.get(resource, 0)) // count)
    return max(0, places)
