"""Bounds: cheap and sound answers to "can these pods fit at all": now, ever, or with evictions.

For the cycle, before it searches.  A bound may say "perhaps" where the truth is "no", never the other way: it counts only
what some Filter plugin of the profile says it counts.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.state.snapshot import Bools, Ints, Nodes

_NOTHING: Mapping[str, Ints] = MappingProxyType({})


def places(
    asks: Mapping[str, int] | None, nodes: Nodes, where: Bools, *, is_empty: bool = False, below: int | None = None,
    taken: Mapping[str, Ints] = _NOTHING,
) -> Ints:  # fmt: skip
    """Return how many pods each node could take at most, shape (len(nodes),).

    `asks` is what one pod counts (`Plugin.counted_requests`); None if nobody counts: then there is no limit.  `where`
    says which nodes are open to the pod.  `is_empty`: as if the nodes were empty; `below`: as if pods below a priority, and those that
    are going anyway, were away; `taken`: what is to be left on each node besides, shape (len(nodes),) each.  O(nodes × resources).
    """
    if asks is None:
        return np.where(where, LIMITLESS, 0)

    def used(resource: str) -> Ints | int:
        if is_empty:
            return 0
        there = nodes.pod_counts() if resource == "pods" else nodes.requested(resource)
        there = there if below is None else there - nodes.requested_below(below, resource)
        return there + taken[resource] if resource in taken else there

    count: Ints = np.where(where, nodes.allocatable("pods") - used("pods"), 0)
    for resource, request in asks.items():
        if resource != "pods" and request > 0:
            np.minimum(count, (nodes.allocatable(resource) - used(resource)) // request, out=count)
    return np.maximum(count, 0, out=count)


def size_of(requests: Mapping[str, int], nodes: Nodes) -> float:
    """Return how large a pod is: its largest share of what all nodes offer together."""
    return max((n / max(1, int(nodes.allocatable(r).sum())) for r, n in requests.items()), default=0.0)


#: More pods than anybody has; small enough to be summed over all nodes.
LIMITLESS = 2**32
