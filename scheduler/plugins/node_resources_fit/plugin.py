"""NodeResourcesFit refuses nodes without room for a pod's requests, and prefers emptier or fuller ones.

At Filter for every resource and for the number of pods; at Score by a strategy per resource.  What pods have reserved
counts, not what they use.  A request beyond what a node offers cannot be cured by evictions.
"""

from __future__ import annotations

from functools import lru_cache, partial, reduce
from operator import add
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scheduler.framework.broken_line import broken_line
from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Code, Kind, Reason
from scheduler.framework.verdicts import Verdicts

from .shares import PODS, Amounts
from .strategies import NodeResourcesFitArgs

if TYPE_CHECKING:
    from scheduler.framework.change import Change
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.model import Pod
    from scheduler.state.snapshot import Ints, Nodes

    from .shares import Numbers, Shares
    from .strategies import Strategy

NAME = "NodeResourcesFit"
NEW_ROOM = ClusterEvent.NODE_ADDED | ClusterEvent.NODE_ALLOCATABLE
TOO_MANY_PODS = Reason("TooManyPods", "Too many pods", ClusterEvent.POD_REMOVED | NEW_ROOM)
#: Scored even if the pod asks for none of them.
ALWAYS_SCORED = ("cpu", "memory", "ephemeral-storage")


@lru_cache(maxsize=4096)
def insufficient(resource: str, requested: int, *, ever: bool) -> Reason:
    """Return the reason for too little of a resource: now, or ever."""
    cures = NEW_ROOM | ClusterEvent.POD_UPDATED
    return Reason(
        "InsufficientResource",
        f"Insufficient {resource}",
        cures=cures if ever else cures | ClusterEvent.POD_REMOVED,
        kind=Kind.NEVER if ever else Kind.NOT_NOW,
        numbers=(("resource", resource), ("requested", requested)),
    )


def is_extended(resource: str) -> bool:
    """Tell whether a resource is none of Kubernetes' own."""
    return "/" in resource and "kubernetes.io/" not in resource


class NodeResourcesFit(Plugin):
    """Fit pods into what nodes have left."""

    NAME: ClassVar[str] = NAME
    Args = NodeResourcesFitArgs
    READS_ONE_NODE: ClassVar[bool] = True
    READS_SHAPE_ONLY: ClassVar[bool] = True

    def __init__(self, args: NodeResourcesFitArgs | None, handle: Handle) -> None:
        """Prepare the strategy of each resource."""
        super().__init__(args or NodeResourcesFitArgs(), handle)
        strategy = self.args.scoring_strategy
        ratio = strategy.requested_to_capacity_ratio
        self._line = broken_line(ratio.shape) if ratio else None
        self._is_rounded = strategy.type == "RequestedToCapacityRatio"
        self._scored: list[tuple[str, int, Strategy]] = [
            (resource.name, resource.weight, resource.type or strategy.type) for resource in strategy.resources
        ]
        self._scored_names = tuple([resource for resource, _, _ in self._scored])

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse nodes without room, with a reason for each resource that lacks."""
        verdicts = Verdicts(len(nodes))
        room = self._amounts(pod, nodes).room
        if (is_full := room.is_short(PODS, 1, nodes)) is not None:
            verdicts.reject(is_full, Code.UNSCHEDULABLE, TOO_MANY_PODS)
        for resource, count in pod.requests.items():
            if count == 0 or self._is_ignored(resource):
                continue
            is_short = room.is_short(resource, count, nodes)
            if is_short is not None:
                never = nodes.allocatable(resource) < count
                reason = insufficient(resource, count, ever=True)
                verdicts.reject(never, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)
                verdicts.reject(is_short & ~never, Code.UNSCHEDULABLE, insufficient(resource, count, ever=False))
        return verdicts

    def counted_requests(self, pod: Pod) -> dict[str, int]:
        """Return what Filter counts: all requests but those that are left to others."""
        return {resource: count for resource, count in pod.requests.items() if not self._is_ignored(resource)}

    def queueing_hint(self, event: ClusterEvent, change: Change, pod: Pod, reason: Reason) -> bool:
        """Tell whether the node that changed has room for the pod now."""
        if not event & (ClusterEvent.POD_REMOVED | NEW_ROOM) or not change.node_name:
            return True
        row = self.handle.cluster.view(change.node_name)
        if row is None or len(row.pods) >= row.node.allocatable.get("pods", 0):
            return False
        return all(
            row.node.allocatable.get(resource, 0) - row.requested.get(resource, 0) >= count
            for resource, count in pod.requests.items()
            if count and not self._is_ignored(resource)
        )

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return the weighted mean over the resources that a node offers."""
        amounts = self._amounts(pod, nodes)
        parts: list[Numbers] = []
        weights: Numbers | int = 0
        for resource, weight, strategy in self._scored:
            count = _scored_request(pod, resource)
            if count == 0 and resource not in ALWAYS_SCORED:
                continue
            shares = amounts.shares[resource]
            scores = self._score(strategy, shares, count, nodes)
            parts.append(scores if weight == 1 else weight * scores)
            if self._is_rounded:
                weights = weights + weight * (scores > 0)
            else:
                weights = weights + (weight if shares.has is None else weight * nodes.at(shares.has))
        if not parts:
            return np.zeros(len(nodes), dtype=np.int64)
        return _mean(reduce(add, parts), weights, is_rounded=self._is_rounded)

    def _score(self, strategy: Strategy, shares: Shares, count: int, nodes: Nodes) -> Numbers:
        """Score one resource; 0 for nodes that offer none."""
        if strategy == "LeastAllocated":
            return shares.least_allocated(count, nodes)
        most = shares.most_allocated(count, nodes)
        if strategy == "MostAllocated" or self._line is None:
            return most
        scores = self._line[most]
        return scores if shares.has is None else np.where(nodes.at(shares.has), scores, 0)

    def _amounts(self, pod: Pod, nodes: Nodes) -> Amounts:
        """Return what is kept for pods that ask for the same resources."""
        asked, scored = tuple(pod.requests), self._scored_names
        return nodes.snapshot.follower((NAME, asked, scored), partial(Amounts, asked, scored))

    def _is_ignored(self, resource: str) -> bool:
        """Tell whether Filter leaves a resource to others."""
        if not is_extended(resource):
            return False
        group = resource.partition("/")[0]
        return resource in self.args.ignored_resources or group in self.args.ignored_resource_groups


def _mean(total: Numbers, weights: Numbers | int, *, is_rounded: bool) -> Ints:
    """Divide, and drop the rest or round; 0 where nothing has weight."""
    if is_rounded:
        total, weights = 2 * total + weights, 2 * weights
    quotients: Numbers = total // weights if isinstance(weights, int) else total / np.maximum(weights, 1)
    return quotients.astype(np.int64)


def _scored_request(pod: Pod, resource: str) -> int:
    """Return what scoring takes as the pod's request of a resource."""
    if resource == "cpu":
        return pod.scored[0]
    if resource == "memory":
        return pod.scored[1]
    is_page = pod.scored_pages is not None and resource.startswith("hugepages-")
    return (pod.scored_pages or {}).get(resource, 0) if is_page else pod.requests.get(resource, 0)
