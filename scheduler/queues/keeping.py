"""Keeping: whether a workload would use up the quota that another one, which comes first, is waiting for.

For backfill.  Limits count at every queue that both belong to; what will have ended by the start of the first is free then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scheduler.framework.status import ClusterEvent, Kind, Reason, Status

from .tree import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from .ledger import Charge, Ledger
    from .tree import Node

#: The code of the refusal.
KEPT = "QueueReserved"
_CURES = ClusterEvent.POD_REMOVED | ClusterEvent.QUEUE_CHANGED


def is_kept_quota(status: Status | None) -> bool:
    """Tell whether a workload was refused because the quota that it has is kept for another one."""
    return status is not None and any(reason.code == KEPT for reason in status.reasons)


class Claim(NamedTuple):
    """What a workload asks of its queue, and its pods, which may be charged already."""

    node: Node
    asks: Mapping[str, int]
    uids: Collection[str]


class Clash(NamedTuple):
    """A limit that leaves no room for both."""

    node: Node
    resource: str
    limit: int
    #: By others, when the first one starts.
    used: int
    kept: int
    asks: int

    def status(self, whom: str, when: str) -> Status:
        """Return why the later one waits."""
        limit, used, kept, asks = (shown(self.resource, n) for n in (self.limit, self.used, self.kept, self.asks))
        text = (
            f"queue {self.node.key}: limit {limit} {self.resource}, {kept} of it reserved for {whom} {when}, "
            f"{used} used by others then, asks {asks}"
        )
        return Status.unschedulable(Reason(KEPT, text, _CURES, Kind.NOT_NOW))


def clash(first: Claim, later: Claim, ledger: Ledger, is_gone: Callable[[str], bool]) -> Clash | None:
    """Return the limit that both cannot stay within, when those have gone that `is_gone` says; None if there is none."""
    for node, resource, limit in _limits(first):
        asks, kept = later.asks.get(resource, 0), first.asks[resource]
        if not asks or node not in later.node.path():
            continue
        used = ledger.use(node).limited(resource)
        if used + kept + asks <= limit:
            continue
        for uid, charge in ledger.charges_in(node):
            if uid in first.uids or uid in later.uids or is_gone(uid):
                used -= charge.amounts.get(resource, 0)
        if used + kept + asks > limit:
            return Clash(node, resource, limit, used, kept, asks)
    return None


def free_at(claim: Claim, ledger: Ledger, end_of: Callable[[str, Charge], float | None], now: float) -> float | None:
    """Return when quota will be free for a workload, as pods of its queues are expected to end; None if nobody knows. O(pods)."""
    moment = now
    for node, resource, limit in _limits(claim):
        missing = ledger.use(node).limited(resource) + claim.asks[resource] - limit
        ends: list[tuple[float, int]] = []
        for uid, charge in ledger.charges_in(node) if missing > 0 else ():
            count = charge.amounts.get(resource, 0)
            if uid in claim.uids:
                missing -= count
            elif count and (end := end_of(uid, charge)) is not None:
                ends.append((end, count))
        for end, count in sorted(ends):
            if missing <= 0:
                break
            missing -= count
            moment = max(moment, end)
        if missing > 0:
            return None
    return moment


def _limits(claim: Claim) -> Iterator[tuple[Node, str, int]]:
    """Yield the limits that a workload counts against, with the queue and the resource."""
    for node in claim.node.path():
        for resource, quota in node.queue.quotas.items():
            if quota.limit is not None and claim.asks.get(resource, 0) > 0:
                yield node, resource, quota.limit
