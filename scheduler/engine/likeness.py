"""Likeness: which domains look the same to a gang, so that none is searched in vain like one before it.

For gathering.  Only where free resources are all that pods on a node change of what Filters say: then a placement in one domain is one in
every other whose nodes have the same left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model import Pod
    from scheduler.state.snapshot import Bools

    from .placement import Placer


class Likeness:
    """What every node has left for some pods at one moment."""

    def __init__(self, placer: Placer, pods: Sequence[Pod]) -> None:
        """Take what there is now; pods of kinds that are not only counted look at every domain anew."""
        candidates, nodes = placer.shapes_of(pods), placer.snapshot.nodes
        self._columns = None
        if all(candidate.is_only_counted for candidate in candidates):
            asked = sorted({name for candidate in candidates for name in candidate.asks or ()} - {"pods"})
            left = [nodes.allocatable(name) - nodes.requested(name) for name in asked]
            left.append(nodes.allocatable("pods") - nodes.pod_counts())
            #: Shape (rows, resources and shapes of pods).
            self._columns = np.column_stack([*left, *(candidate.feasible for candidate in candidates)])

    def look(self, rows: Bools) -> bytes | None:
        """Return what a domain looks like, the same for those that are alike; None if that cannot be told. O(rows · log)."""
        if self._columns is None:
            return None
        inside = self._columns[rows]
        return inside[np.lexsort(inside.T)].tobytes()
