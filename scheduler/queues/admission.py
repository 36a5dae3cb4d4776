"""Admission: whether a queue, and those above it, have quota left for a workload, and what is said if not.

For the engine, before it places anything.  A gang is charged as a whole: its minimum at once, and of the members beyond it as many
as there is quota for.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from scheduler.framework.status import ClusterEvent, Kind, Reason, Status
from scheduler.model.preemptibility import is_firm

from .ledger import add_to, sum_of
from .tree import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.framework.workload import Workload
    from scheduler.model import Pod

    from .ledger import Charge, Ledger
    from .tree import Node

LIMIT, FIRM = "QueueLimit", "QueueGuarantee"
_CURES = ClusterEvent.POD_REMOVED | ClusterEvent.QUEUE_CHANGED


class Excess(NamedTuple):
    """By how much a workload is beyond what a queue may use of a resource."""

    node: Node
    resource: str
    bound: int
    used: int
    asks: int
    is_firm: bool

    @property
    def over(self) -> int:
        """How much has to go before it fits."""
        return self.used + self.asks - self.bound

    def reason(self, *, is_fixed: bool) -> Reason:
        """Return the reason; it is final if the workload alone is too much, and there is no smaller form of it."""
        asks, bound, used = (shown(self.resource, n) for n in (self.asks, self.bound, self.used))
        kind = Kind.NEVER if is_fixed and self.asks > self.bound else Kind.NOT_NOW
        numbers = (("limit", self.bound), ("used", self.used), ("asks", self.asks))
        if self.is_firm:
            text = (
                f"queue {self.node.key}: guaranteed {bound} {self.resource}, {used} used by workloads that are not preemptible, "
                f"asks {asks}; such workloads may use no more than what is guaranteed"
            )
            return Reason(FIRM, text, _CURES, kind, numbers)
        text = f"queue {self.node.key}: limit {bound} {self.resource}, {used} used, asks {asks}"
        return Reason(LIMIT, text, _CURES, kind, numbers)


class Admission(NamedTuple):
    """What a workload may try to place now."""

    pods: Sequence[Pod]
    #: What the workload's minimum is beyond; empty if it may be placed.
    excesses: tuple[Excess, ...] = ()
    is_fixed: bool = True

    @property
    def status(self) -> Status | None:
        """Why it may not be placed; evictions in the queue may help unless the reason is final."""
        if not self.excesses:
            return None
        reasons = tuple(excess.reason(is_fixed=self.is_fixed) for excess in self.excesses)
        if any(reason.kind is Kind.NEVER for reason in reasons):
            return Status.unresolvable(*reasons)
        return Status.unschedulable(*reasons)


def admit(workload: Workload, pods: Sequence[Pod], node: Node, ledger: Ledger) -> Admission:
    """Return which of a workload's pods its quota allows to be placed now."""
    own = [charge for pod in pods if (charge := ledger.charge_of(pod.uid)) is not None and charge.is_kept]
    is_gang_firm = any(is_firm(pod, workload.gang) for pod in pods)
    everything = sum_of(pods)
    if not excesses_of(node, everything, ledger, own, firm=is_gang_firm):
        return Admission(pods)
    least = needed_pods(workload, pods)
    amounts = sum_of(least)
    is_fixed = workload.gang is None or (
        workload.gang.min_subgroups is None and all(s.min_subgroups is None for s in workload.gang.subgroups)
    )
    if found := excesses_of(node, amounts, ledger, own, firm=is_gang_firm):
        short = {excess.resource for excess in found}
        cheapest_first = sorted(pods, key=lambda pod: sum(pod.requests.get(resource, 0) for resource in short))
        least = needed_pods(workload, cheapest_first)
        amounts = sum_of(least)
        if found := excesses_of(node, amounts, ledger, own, firm=is_gang_firm):
            return Admission(pods, tuple(found), is_fixed)
    chosen = {pod.uid for pod in least}
    for pod in pods:
        if pod.uid in chosen:
            continue
        more = dict(amounts)
        add_to(more, pod.requests)
        if not excesses_of(node, more, ledger, own, firm=is_gang_firm):
            chosen.add(pod.uid)
            amounts = more
    return Admission([pod for pod in pods if pod.uid in chosen])


def asks_of(workload: Workload) -> dict[str, int]:
    """Return what a workload asks for at once, by resource. O(pods)."""
    return sum_of(needed_pods(workload, workload.ordered()))


def is_for_quota(status: Status | None) -> bool:
    """Tell whether a workload was refused because its queue has no quota left for it."""
    return status is not None and any(reason.code in (LIMIT, FIRM) for reason in status.reasons)


def needed_pods(workload: Workload, pods: Sequence[Pod]) -> list[Pod]:
    """Return as few pods as make up what the workload needs at once, in their order; one, if its minimum is there already."""
    needs = workload.needs
    if needs is None:
        return list(pods)[: workload.needed]
    chosen: list[Pod] = []
    counts: Counter[str] = Counter()
    missing = needs.missing(counts)
    if not missing:
        return list(pods)[:1]
    for pod in pods:
        if not missing:
            break
        role = needs.roles.get(pod.uid, "")
        counts[role] += 1
        left = needs.missing(counts)
        if left < missing:
            chosen.append(pod)
            missing = left
        else:
            counts[role] -= 1
    return chosen


def excesses_of(
    node: Node, asks: Mapping[str, int], ledger: Ledger, own: Iterable[Charge] = (), *, firm: bool = False
) -> list[Excess]:
    """Return what is too much, one entry for each queue and resource; `own` is charged already and does not count."""
    mine: dict[str, int] = {}
    for charge in own:
        add_to(mine, charge.amounts)
    found: list[Excess] = []
    for above in node.path():
        use = ledger.use(above)
        for resource, quota in above.queue.quotas.items():
            count = asks.get(resource, 0)
            if not count:
                continue
            if (
                quota.limit is not None
                and (used := use.limited(resource) - mine.get(resource, 0)) + count > quota.limit
            ):
                found.append(Excess(above, resource, quota.limit, used, count, is_firm=False))
            if (lent := _lent_to(above, resource, ledger)) is not None:
                used = use.limited(resource) - mine.get(resource, 0)
                if used + count > max(lent, quota.guaranteed or 0):
                    found.append(Excess(above, resource, max(lent, quota.guaranteed or 0), used, count, is_firm=False))
            if firm and quota.guaranteed is not None:
                used = use.firm.get(resource, 0) - mine.get(resource, 0)
                if used + count > quota.guaranteed:
                    found.append(Excess(above, resource, quota.guaranteed, used, count, is_firm=True))
    return found


def _lent_to(node: Node, resource: str, ledger: Ledger) -> int | None:
    """Return what a queue may use of a resource as siblings keep parts of their guarantees for themselves; None if none does.

    What a sibling does not lend counts as if it used it: Kueue's `lendingLimit`.
    """
    siblings = node.parent.children if node.parent is not None else []
    quotas = {sibling: sibling.quota(resource) for sibling in siblings if sibling is not node}
    if all(quota.lending is None for quota in quotas.values()):
        return None
    bound = node.quota(resource).guaranteed
    if bound is None:
        return None
    for sibling, quota in quotas.items():
        if quota.guaranteed is not None:
            lent = quota.guaranteed if quota.lending is None else quota.lending
            bound += quota.guaranteed - max(ledger.use(sibling).limited(resource), quota.guaranteed - lent)
    return bound
