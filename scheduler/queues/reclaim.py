"""Reclaim: whom a workload may have evicted where there are queues.

For GangPreemption, through the handle.  Within a queue the less important make room, as everywhere, unless its ordering is FIFO.  Of another queue only what it
uses beyond its own can be taken, and only by a queue that stays within its own with it:

| the preemptor's queue, with the workload, is | then a victim's queue must use more than |
|---|---|
| within its guarantee, at every level below the queue that both have above them | its guarantee |
| within its fair share, at every such level | its fair share, and its guarantee |
| beyond that | nobody can be taken from |

The last workload that is taken may reach below that bound, as workloads are not divided; taken alone it was beyond it.  So what
was taken cannot be taken back: the victim's queue was beyond its own with it, and would be again, and the preemptor's queue is within
its own.  Only resources that the preemptor asks for count: those that one of the queues names, else those that are scarce.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from .ledger import add_to, sum_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.framework.workload import Workload
    from scheduler.model import Pod

    from .admission import Excess
    from .fairness import Fairness
    from .ledger import Charge, Ledger
    from .tree import Node


class Reclaim:
    """The rules for one workload, and what has been taken for it so far."""

    def __init__(
        self, workload: Workload, asks: Mapping[str, int], node: Node, ledger: Ledger, fairness: Fairness,
        excesses: Iterable[Excess], now: float,
    ) -> None:  # fmt: skip
        """Take the preemptor with what it asks for at once, and by how much it is beyond its quota."""
        self._priority = workload.priority
        self._asks = {r: n for r, n in asks.items() if n and r != "pods"}
        self._node = node
        self._ledger = ledger
        self._fairness = fairness
        self._excesses = tuple(excesses)
        self._now = now
        self._above = set(node.path())
        self._own = dict.fromkeys(self._asks, 0)
        for pod in workload.pods.values():
            charge = ledger.charge_of(pod.uid)
            if charge is not None and charge.is_kept:
                add_to(self._own, charge.amounts)
        #: What was taken so far: the pods, and of each queue how much of what it uses.
        self._taken: dict[str, int] = {}
        self._from: dict[Node, dict[str, int]] = {}
        #: How much quota comes free with it: also that of pods that are going anyway, which their queues do not use any more.
        self._freed: dict[Node, dict[str, int]] = {}
        #: Victim's queue → the queues on its way up to what both have above them, and the way of the preemptor.
        self._ways: dict[Node, tuple[list[Node], list[Node]]] = {}
        self._bounds: dict[Node, list[tuple[Node, dict[str, Fraction | int]]] | None] = {}
        self._counting: dict[Node, list[str]] = {}
        #: When somebody becomes old enough to be evicted, seconds; None if nobody is too young.
        self.retry_at: float | None = None

    def may_evict(self, pod: Pod) -> bool:
        """Tell whether a pod might be evicted at all."""
        charge = self._ledger.charge_of(pod.uid)
        if charge is None:
            return pod.priority < self._priority and not self._excesses
        if charge.is_firm or charge.is_kept:
            return False
        if self._excesses and not any(excess.node in set(charge.node.path()) for excess in self._excesses):
            return False
        if charge.node is self._node:
            return pod.priority < self._priority and charge.node.queue.ordering != "FIFO"
        return self._bounds_of(charge.node) is not None

    def may_follow(self, pod: Pod) -> bool:
        """Tell whether the room of a pod that is going anyway may be counted on: as if it had to be taken."""
        charge = self._ledger.charge_of(pod.uid)
        return charge is None or charge.node is self._node or self._bounds_of(charge.node) is not None

    def allows(self, pods: Sequence[Pod], surplus: Sequence[Pod] = ()) -> bool:
        """Tell whether pods may go now, together, after what was taken; `surplus` are those of them that their gang can spare."""
        charge = self._ledger.charge_of(pods[0].uid)
        if charge is None:
            return True
        if not self._is_old_enough(charge, pods, is_surplus=len(surplus) == len(pods)):
            return False
        if charge.node is self._node:
            return True
        bounds = self._bounds_of(charge.node)
        if bounds is None:
            return False
        spared = (
            sum_of(pod for pod in surplus if pod.uid not in self._taken) if surplus and len(surplus) < len(pods) else {}
        )
        given = charge.amounts if len(pods) == 1 else sum_of(pods)
        return any(
            all(
                self._ledger.use(node).used.get(r, 0) - self._from.get(node, {}).get(r, 0) - spared.get(r, 0)
                > bound.get(r, 0)
                for node, bound in bounds
            )
            for r in self._resources(charge.node)
            if given.get(r)
        )

    def take(self, pods: Iterable[Pod]) -> None:
        """Count pods as gone. `give_back` is the inverse."""
        self._move(pods, 1)

    def give_back(self, pods: Iterable[Pod]) -> None:
        """Count pods as there again."""
        self._move(pods, -1)

    def is_enough(self) -> bool:
        """Tell whether the workload is within its quota once what was taken is gone."""
        return all(
            self._freed.get(excess.node, {}).get(excess.resource, 0) >= excess.over and not excess.is_firm
            for excess in self._excesses
        )

    def relieves(self, pods: Iterable[Pod]) -> bool:
        """Tell whether quota that the workload is short of comes free with pods."""
        charges = [charge for pod in pods if (charge := self._ledger.charge_of(pod.uid)) is not None]
        return any(
            charge.amounts.get(excess.resource, 0) > 0 and excess.node in charge.node.path()
            for excess in self._excesses
            for charge in charges
        )

    def rank(self, pods: Sequence[Pod]) -> int:
        """Return how dear it is to take from a pod's queue: its own first, then queues of low priority."""
        charge = self._ledger.charge_of(pods[0].uid)
        if charge is None or charge.node is self._node:
            return -(2**31) - 1
        way, _ = self._way(charge.node)
        return way[-1].queue.priority

    def _move(self, pods: Iterable[Pod], sign: int) -> None:
        freed: dict[Node, dict[str, int]] = {}
        moved: dict[Node, dict[str, int]] = {}
        for pod in pods:
            count = self._taken.get(pod.uid, 0) + sign
            self._taken[pod.uid] = count
            if (sign, count) not in ((1, 1), (-1, 0)):
                continue  # it is part of two units
            if not count:
                del self._taken[pod.uid]
            charge = self._ledger.charge_of(pod.uid)
            if charge is None:
                continue
            add_to(freed.setdefault(charge.node, {}), charge.amounts)
            if not charge.is_going:
                add_to(moved.setdefault(charge.node, {}), charge.amounts)
        for totals, found in ((self._freed, freed), (self._from, moved)):
            for leaf, amounts in found.items():
                for node in leaf.path():
                    add_to(totals.setdefault(node, {}), amounts, sign)

    def _is_old_enough(self, charge: Charge, pods: Sequence[Pod], *, is_surplus: bool) -> bool:
        """Tell whether pods have run for as long as their queue wants; what a gang can spare is not protected."""
        if is_surplus:
            return True
        is_own = charge.node is self._node
        least = next(
            (
                seconds
                for node in charge.node.path()
                if (seconds := node.queue.preempt_min_seconds if is_own else node.queue.reclaim_min_seconds)
            ),
            0.0,
        )
        if not least:
            return True
        starts = [pod.started for pod in pods if pod.started is not None]
        end = (max(starts) if len(starts) == len(pods) else self._now) + least
        if end <= self._now:
            return True
        self.retry_at = end if self.retry_at is None else min(self.retry_at, end)
        return False

    def _way(self, victim: Node) -> tuple[list[Node], list[Node]]:
        """Return the victim's and the preemptor's queues below the one that both have above them, the leaves first."""
        known = self._ways.get(victim)
        if known is None:
            theirs = [node for node in victim.path() if node not in self._above]
            common = set(victim.path())
            known = self._ways[victim] = (theirs, [node for node in self._node.path() if node not in common])
        return known

    def _bounds_of(self, victim: Node) -> list[tuple[Node, dict[str, Fraction | int]]] | None:
        """Return, for each queue on the victim's way, what it keeps; None if nothing can be taken from it."""
        if victim not in self._bounds:
            self._bounds[victim] = self._find_bounds(victim)
        return self._bounds[victim]

    def _find_bounds(self, victim: Node) -> list[tuple[Node, dict[str, Fraction | int]]] | None:
        theirs, ours = self._way(victim)
        if not theirs or not ours or not all(node.queue.is_reclaimable for node in theirs):
            return None
        resources = self._resources(victim)
        guarantees = [(node, self._guarantees(node, resources)) for node in theirs]
        if self._is_within(ours, resources, is_fair=False):
            return guarantees
        if not self._is_within(ours, resources, is_fair=True):
            return None
        top, kept = guarantees[-1]
        fair: dict[str, Fraction | int] = {r: max(Fraction(kept[r]), self._fairness.share(top, r)) for r in resources}
        return [*guarantees[:-1], (top, fair)]

    def _guarantees(self, node: Node, resources: Iterable[str]) -> dict[str, Fraction | int]:
        """Return what is guaranteed to a queue; an unlimited guarantee is all that it uses."""
        found: dict[str, Fraction | int] = {}
        for r in resources:
            guaranteed = self._fairness.guaranteed(node, r)
            found[r] = self._ledger.use(node).used.get(r, 0) if guaranteed is None else guaranteed
        return found

    def _is_within(self, ours: Sequence[Node], resources: Iterable[str], *, is_fair: bool) -> bool:
        """Tell whether every queue of the preemptor has what it asks for coming to it."""
        for node in ours:
            use = self._ledger.use(node)
            for r in resources:
                guaranteed = self._fairness.guaranteed(node, r)
                if guaranteed is None:
                    continue
                bound = max(Fraction(guaranteed), self._fairness.share(node, r)) if is_fair else guaranteed
                if use.fair(r) - self._own.get(r, 0) + self._asks[r] > bound:
                    return False
        return True

    def _resources(self, victim: Node) -> list[str]:
        """Return the resources that count between two queues."""
        if victim not in self._counting:
            self._counting[victim] = self._find_resources(victim)
        return self._counting[victim]

    def _find_resources(self, victim: Node) -> list[str]:
        theirs, ours = self._way(victim)
        named = [r for r in self._asks if any(r in node.queue.quotas for node in (*theirs, *ours))]
        return named or [r for r in self._asks if self._fairness.is_scarce(r)] or list(self._asks)
