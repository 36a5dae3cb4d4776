"""Ledger: what each queue uses and asks for, from the pods as they are, kept up to date by what changed.

For ordering, limits, reclaim and the status.  Nothing is stored anywhere: after a restart or an edit the same pods give the same
numbers.  A pod of ours counts in its queue and in all those above.

| amount | counts pods |
|---|---|
| held | on nodes, or assumed there, also those that are being deleted |
| used | the same without those that are being deleted or evicted |
| kept | that wait and have room kept for them on a node |
| firm | of the used and the kept ones those that nobody may evict |
| wanted | that wait, with or without room |

Limits are compared with held and kept, fairness goes by used and kept, and the queue asks for held and wanted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from scheduler.model.preemptibility import is_firm

from .membership import Home, Membership, Wish, wish_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from scheduler.framework.workload import Workload
    from scheduler.model import GangKey, Pod
    from scheduler.state.cluster import ClusterState

    from .tree import Node

#: Every pod takes one of these; nobody divides them.
_NOT_DIVIDED = "pods"


class Charge(NamedTuple):
    """What one pod, or one waiting workload, counts for."""

    node: Node
    namespace: str
    amounts: Mapping[str, int]
    is_going: bool = False
    is_firm: bool = False
    #: It has no node yet, but room is kept for it.
    is_kept: bool = False


@dataclass(slots=True)
class Use:
    """Amounts of one queue by resource, in the resources' units."""

    held: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    firm: dict[str, int] = field(default_factory=dict)
    wanted: dict[str, int] = field(default_factory=dict)
    #: What each namespace uses, or has room kept for; for leaves alone.
    by_namespace: dict[str, dict[str, int]] = field(default_factory=dict)
    #: Grows with every change of what is on nodes, or has room kept.
    version: int = 0

    def fair(self, resource: str) -> int:
        """Return what fairness goes by."""
        return self.used.get(resource, 0) + self.kept.get(resource, 0)

    def limited(self, resource: str) -> int:
        """Return what a limit is compared with."""
        return self.held.get(resource, 0) + self.kept.get(resource, 0)


class Ledger:
    """The books of one tree."""

    def __init__(self, cluster: ClusterState, membership: Membership, scheduler_names: Collection[str]) -> None:
        """Begin with every pod unread; `refresh` reads them."""
        self._cluster = cluster
        self._membership = membership
        self._names = scheduler_names
        self._charges: dict[str, Charge] = {}
        self._waiting: dict[str, Charge] = {}
        self._wishes: dict[GangKey, Wish] = {}
        self._evicted: set[str] = set()
        self._uses: dict[Node, Use] = {}
        #: Grows with every change.
        self.version = 0
        cluster.watched = set(cluster.pods)

    def use(self, node: Node) -> Use:
        """Return the amounts of a queue, to be read only; `refresh` brings them up to date."""
        found = self._uses.get(node)
        if found is None:
            found = self._uses[node] = Use()
        return found

    def refresh(self) -> None:
        """Read the pods that changed since the last time. O(changed pods)."""
        cluster = self._cluster
        touched, cluster.watched = cluster.watched or set(), set()
        if cluster.evicted != self._evicted:
            touched |= cluster.evicted ^ self._evicted
            self._evicted = set(cluster.evicted)
        while touched:
            self._read(touched.pop(), touched)

    def home_of(self, pod: Pod) -> Home:
        """Return where a pod belongs; all members of a gang belong to one queue."""
        key = self._cluster.gang_of(pod)
        gang = self._cluster.gangs.get(key) if key is not None else None
        if key is None or gang is None:
            return self._membership.home(wish_of(pod, None))
        wish = self._wishes.get(key)
        if wish is None:
            wish = self._wishes[key] = self._wish_of_gang(key, pod)
        return self._membership.home(wish)

    def names_of(self, workload: Workload) -> list[str]:
        """Return the different queues that the pods of a gang name, as they spell them."""
        wishes = {wish_of(pod, workload.gang).named for pod in workload.pods.values()}
        return sorted(name for _, name in filter(None, wishes))

    def gang_changed(self, key: GangKey) -> None:
        """Read the members of a gang again, as its object changed."""
        self._wishes.pop(key, None)
        if self._cluster.watched is not None:
            self._cluster.watched.update(pod.uid for pod in self._cluster.members(key))

    def charge_of(self, uid: str) -> Charge | None:
        """Return what a pod counts for; None if it does not."""
        return self._charges.get(uid)

    def charges_in(self, node: Node) -> Iterator[tuple[str, Charge]]:
        """Yield the uid and the charge of each pod that counts in a queue, or below it. O(charged pods)."""
        for uid, charge in self._charges.items():
            if charge.node is node or node in charge.node.path():
                yield uid, charge

    def waits(self, workload: Workload) -> Node:
        """Count what a workload waits for; return its queue."""
        pods = list(workload.pods.values())
        home = self.home_of(pods[0])
        amounts = sum_of(pods)
        former = self._waiting.pop(workload.key, None)
        charge = Charge(home.node, pods[0].namespace, amounts)
        if former != charge:
            if former is not None:
                self._post_wanted(former, -1)
            self._post_wanted(charge, 1)
            self.version += 1
        self._waiting[workload.key] = charge
        return home.node

    def left(self, key: str) -> None:
        """Forget a workload that does not wait any more."""
        former = self._waiting.pop(key, None)
        if former is not None:
            self._post_wanted(former, -1)
            self.version += 1

    def waiting(self) -> Mapping[str, Charge]:
        """Return what waits, by the keys of workloads."""
        return self._waiting

    def _wish_of_gang(self, key: GangKey, pod: Pod) -> Wish:
        """Return what the members of a gang say: the first by name, if they do not agree."""
        gang = self._cluster.gangs[key]
        members = self._cluster.members(key) or [pod]
        named = [wish.named for member in members if (wish := wish_of(member, gang)).named is not None]
        return Wish(pod.namespace, min(named)) if named else Wish(pod.namespace)

    def _read(self, uid: str, more: set[str]) -> None:
        pod = self._cluster.pods.get(uid)
        former = self._charges.pop(uid, None)
        charge = self._charge(pod, more) if pod is not None else None
        if charge is not None:
            self._charges[uid] = charge
        if former != charge:
            if former is not None:
                self._post(former, -1)
            if charge is not None:
                self._post(charge, 1)
            self.version += 1

    def _charge(self, pod: Pod, more: set[str]) -> Charge | None:
        cluster = self._cluster
        if pod.is_terminal or pod.scheduler_name not in self._names:
            return None
        key = cluster.gang_of(pod)
        gang = cluster.gangs.get(key) if key is not None else None
        if key is not None and gang is not None and self._wishes.get(key, wish_of(pod, gang)) != wish_of(pod, gang):
            wish = self._wish_of_gang(key, pod)
            if wish != self._wishes[key]:
                self._wishes[key] = wish
                more.update(member.uid for member in cluster.members(key))
        is_placed = cluster.node_of(pod.uid) is not None
        if not is_placed and pod.uid not in cluster.nominations:
            return None
        home, is_going = self.home_of(pod), cluster.is_going(pod)
        return Charge(home.node, pod.namespace, pod.requests, is_going, is_firm(pod, gang), not is_placed)

    def _post(self, charge: Charge, sign: int) -> None:
        for node in charge.node.path():
            use = self.use(node)
            use.version += 1
            if charge.is_kept:
                add_to(use.kept, charge.amounts, sign)
            else:
                add_to(use.held, charge.amounts, sign)
            if not charge.is_going:
                if not charge.is_kept:
                    add_to(use.used, charge.amounts, sign)
                if charge.is_firm:
                    add_to(use.firm, charge.amounts, sign)
        if not charge.is_going:
            by_namespace = self.use(charge.node).by_namespace
            amounts = by_namespace.setdefault(charge.namespace, {})
            add_to(amounts, charge.amounts, sign)
            if not amounts:
                del by_namespace[charge.namespace]

    def _post_wanted(self, charge: Charge, sign: int) -> None:
        for node in charge.node.path():
            add_to(self.use(node).wanted, charge.amounts, sign)


def add_to(amounts: dict[str, int], more: Mapping[str, int], sign: int = 1) -> None:
    """Add amounts by resource; what becomes zero is left out."""
    for resource, count in more.items():
        if resource == _NOT_DIVIDED or not count:
            continue
        total = amounts.get(resource, 0) + sign * count
        if total:
            amounts[resource] = total
        else:
            amounts.pop(resource, None)


def sum_of(pods: Iterable[Pod]) -> dict[str, int]:
    """Return what pods ask for together, by resource."""
    found: dict[str, int] = {}
    for pod in pods:
        add_to(found, pod.requests)
    return found
