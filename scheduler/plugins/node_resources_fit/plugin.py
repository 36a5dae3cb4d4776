"""NodeResourcesFit refuses nodes without room for a pod's requests, and prefers emptier or fuller ones.

At Filter for every resource and for the number of pods; at Score by a strategy per resource.  What pods have reserved
counts, not what they use.  A request beyond what a node offers cannot be cured by evictions.  A resource that a DeviceClass stands
for is left to DynamicResources on nodes that offer none of it.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scheduler.framework.broken_line import broken_line
from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Code, Kind, Reason, Status
from scheduler.framework.verdicts import Verdicts
from scheduler.model.pod_devices import is_extended as may_be_served
from scheduler.state import loops
from scheduler.state.device_classes import DeviceClasses

from .shares import PODS, Amounts, percent_at
from .strategies import NodeResourcesFitArgs

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from scheduler.framework.change import Change
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.model import Pod
    from scheduler.state.rows import NodeView
    from scheduler.state.snapshot import Bools, Ints, Nodes

    from .shares import Shares, Small
    from .strategies import Strategy

NAME = "NodeResourcesFit"
NEW_ROOM = ClusterEvent.NODE_ADDED | ClusterEvent.NODE_ALLOCATABLE
TOO_MANY_PODS = Reason("TooManyPods", "Too many pods", ClusterEvent.POD_REMOVED | NEW_ROOM)
#: Scored even if the pod asks for none of them.
ALWAYS_SCORED = ("cpu", "memory", "ephemeral-storage")
PAIR = 2


@lru_cache(maxsize=4096)
def insufficient(resource: str, requested: int, *, ever: bool) -> Reason:
    """Return the reason for too little of a resource: now, or ever."""
    cures = NEW_ROOM | ClusterEvent.POD_UPDATED
    if may_be_served(resource):
        cures |= ClusterEvent.DEVICE_CLASS_CHANGED
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
    COUNTS_ONLY: ClassVar[bool] = True
    SIGNS_STORAGE_ONLY: ClassVar[bool] = True

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
        self._scored_names = _names_of(self._scored)
        self._has_optional = any(resource not in ALWAYS_SCORED for resource, _, _ in self._scored)
        self._kept_classes: DeviceClasses | None = None

    def sign(self, pod: Pod) -> Hashable:
        """Return the resources of a pod that devices may serve: of these, Filter refuses no node that offers none."""
        classes = self._classes
        return classes.served(pod) if classes is not None and pod.extended else ()

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse nodes without room, with a reason for each resource that lacks."""
        verdicts = Verdicts(len(nodes))
        room = self._amounts(pod, nodes).room
        if room.has_for_all(pod.requests.items()):
            return verdicts
        if (is_full := room.is_short(PODS, 1, nodes)) is not None:
            verdicts.reject(is_full, Code.UNSCHEDULABLE, TOO_MANY_PODS)
        for resource, count in pod.requests.items():
            if count == 0 or self._is_ignored(resource):
                continue
            is_short = room.is_short(resource, count, nodes)
            if is_short is not None:
                offered = nodes.allocatable(resource)
                if self._is_served(resource):
                    is_short = is_short & (offered > 0)
                never = is_short & (offered < count)
                reason = insufficient(resource, count, ever=True)
                verdicts.reject(never, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)
                verdicts.reject(is_short & ~never, Code.UNSCHEDULABLE, insufficient(resource, count, ever=False))
        return verdicts

    def filter(self, state: CycleState, pod: Pod, node: NodeView) -> Status | None:
        """Say the same of one node."""
        code, reasons = Code.SUCCESS, []
        used, offered = node.record.requested, node.record.node.allocatable
        if node.pod_count() >= offered.get("pods", 0):
            code = Code.UNSCHEDULABLE
            reasons.append(TOO_MANY_PODS)
        for resource, count in pod.requests.items():
            most = offered.get(resource, 0)
            if count == 0 or most - used.get(resource, 0) >= count or self._is_ignored(resource):
                continue
            if not most and self._is_served(resource):
                continue
            is_never = most < count
            code = max(code, Code.UNSCHEDULABLE_AND_UNRESOLVABLE if is_never else Code.UNSCHEDULABLE)
            reasons.append(insufficient(resource, count, ever=is_never))
        return Status(code, tuple(reasons)) if reasons else None

    def counted_requests(self, pod: Pod) -> dict[str, int]:
        """Return what Filter counts on every node: all requests but those that are left to others, on some nodes or on all."""
        return {
            resource: count
            for resource, count in pod.requests.items()
            if not self._is_ignored(resource) and not self._is_served(resource)
        }

    def queueing_hint(self, event: ClusterEvent, change: Change, pod: Pod, reason: Reason) -> bool:
        """Tell whether the node that changed has room for the pod now, or a class that did stands for the resource that lacked."""
        if event is ClusterEvent.DEVICE_CLASS_CHANGED:
            return any(name == "resource" and self._is_served(str(lacked)) for name, lacked in reason.numbers)
        if not event & (ClusterEvent.POD_REMOVED | NEW_ROOM) or not change.node_name:
            return True
        row = self.handle.cluster.view(change.node_name)
        if row is None or len(row.pods) >= row.node.allocatable.get("pods", 0):
            return False
        return all(
            row.node.allocatable.get(resource, 0) - row.requested.get(resource, 0) >= count
            for resource, count in pod.requests.items()
            if count
            and not self._is_ignored(resource)
            and (row.node.allocatable.get(resource, 0) or not self._is_served(resource))
        )

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return the weighted mean over the resources that a node offers."""
        scored = self._scored_for(pod)
        if not scored:
            return np.zeros(len(nodes), dtype=np.int64)
        shares = self._amounts(pod, nodes).shares
        if nodes.is_whole and not self._is_rounded and (means := _means(pod, scored, shares)) is not None:
            return means
        parts = [
            share.percent(_scored_request(pod, resource), nodes)
            for share, (resource, _, _) in zip(shares, scored, strict=True)
        ]
        offers = [share.has for share in shares]
        if self._is_rounded or any(has is not None for has in offers):
            return self._mean(scored, parts, offers, nodes)
        if len(parts) == PAIR and scored[0][1] == scored[1][1]:
            sums = parts[0]
            sums += parts[1]
            sums >>= 1
            return sums.astype(np.int64)
        total = np.zeros(len(nodes), dtype=np.int64)
        for part, (_, weight, _) in zip(parts, scored, strict=True):
            total += part * weight
        total //= sum([weight for _, weight, _ in scored])
        return total

    def score(self, state: CycleState, pod: Pod, node: NodeView) -> int:
        """Return the same for one node."""
        total = weights = 0
        for resource, weight, strategy in self._scored_for(pod):
            is_offered = node.allocatable(resource) > 0
            count = _scored_request(pod, resource)
            score = percent_at(resource, count, node, is_most=strategy != "LeastAllocated")
            if strategy == "RequestedToCapacityRatio" and self._line is not None:
                score = int(self._line[score]) if is_offered else 0
            weights += weight if (score > 0 if self._is_rounded else is_offered) else 0
            total += weight * score
        if not weights:
            return 0
        return (2 * total + weights) // (2 * weights) if self._is_rounded else total // weights

    def _mean(
        self, scored: Sequence[tuple[str, int, Strategy]], parts: Sequence[Small], offers: Sequence[Bools | None],
        nodes: Nodes,
    ) -> Ints:  # fmt: skip
        """Weigh by what each node offers, or, where a line gives the scores, by what is more than 0; then it is rounded."""
        totals = np.zeros(len(nodes), dtype=np.int64)
        weights = totals.copy()
        for (_, weight, strategy), part, has in zip(scored, parts, offers, strict=True):
            scores = part.astype(np.int64)
            if strategy == "RequestedToCapacityRatio" and self._line is not None:
                scores = self._line[part] if has is None else np.where(nodes.at(has), self._line[part], 0)
            totals += weight * scores
            weights += weight * (scores > 0) if self._is_rounded else weight if has is None else weight * nodes.at(has)
        if self._is_rounded:
            totals, weights = 2 * totals + weights, 2 * weights
        return (totals / np.maximum(weights, 1)).astype(np.int64)

    def _scored_for(self, pod: Pod) -> list[tuple[str, int, Strategy]]:
        """Return the resources that are scored for a pod, with weights and strategies: it asks for them, or all are."""
        if not self._has_optional:
            return self._scored
        return [entry for entry in self._scored if entry[0] in ALWAYS_SCORED or _scored_request(pod, entry[0])]

    def _amounts(self, pod: Pod, nodes: Nodes) -> Amounts:
        """Return what is kept for pods that ask for the same resources."""
        asked, scored = tuple(pod.requests), self._scored_names
        if self._has_optional:
            scored = _names_of(self._scored_for(pod))
        return nodes.snapshot.follower((NAME, asked, scored), partial(Amounts, asked, scored))

    @property
    def _classes(self) -> DeviceClasses | None:
        """The classes; made when first needed, as handles come before the state. None without a handle."""
        if self._kept_classes is None and self.handle is not None:
            self._kept_classes = DeviceClasses(self.handle.cluster.objects)
        return self._kept_classes

    def _is_served(self, resource: str) -> bool:
        """Tell whether a class stands for a resource: nodes that offer none may have devices."""
        classes = self._classes
        return classes is not None and may_be_served(resource) and classes.serving(resource) is not None

    def _is_ignored(self, resource: str) -> bool:
        """Tell whether Filter leaves a resource to others."""
        if not is_extended(resource):
            return False
        group = resource.partition("/")[0]
        return resource in self.args.ignored_resources or group in self.args.ignored_resource_groups


def _means(pod: Pod, scored: Sequence[tuple[str, int, Strategy]], shares: Sequence[Shares]) -> Ints | None:
    """Return the scores of all nodes in one pass; None if that cannot be had."""
    if loops.compiled is None or len(scored) > loops.MOST_PARTS:
        return None
    parts = []
    for share, (resource, weight, _) in zip(shares, scored, strict=True):
        if (part := share.part(_scored_request(pod, resource), weight)) is None:
            return None
        parts.append(part)
    return loops.mean_share(tuple(parts))


def _names_of(scored: Sequence[tuple[str, int, Strategy]]) -> tuple[tuple[str, bool], ...]:
    """Return the resources that are scored, and whether by what is in use of them."""
    return tuple([(resource, strategy != "LeastAllocated") for resource, _, strategy in scored])


def _scored_request(pod: Pod, resource: str) -> int:
    """Return what scoring takes as the pod's request of a resource."""
    if resource == "cpu":
        return pod.scored[0]
    if resource == "memory":
        return pod.scored[1]
    is_page = pod.scored_pages is not None and resource.startswith("hugepages-")
    return (pod.scored_pages or {}).get(resource, 0) if is_page else pod.requests.get(resource, 0)
