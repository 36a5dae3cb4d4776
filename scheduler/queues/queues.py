"""Queues: everything that the engine asks about queues, in one place; without any Queue object it is off and costs nothing.

For the engine.  It follows the objects: a change of one makes a new tree and new books, at the next `settle`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from scheduler.framework.status import ClusterEvent, Reason, Status
from scheduler.model.queue import Queue

from .admission import Admission, admit, asks_of
from .fairness import Fairness
from .history import History
from .keeping import Claim
from .ledger import Ledger
from .membership import NOT_ALLOWED, UNKNOWN, Membership
from .order import Group, Head, Order
from .reclaim import Reclaim
from .tree import Tree, build

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from scheduler.framework.workload import Workload
    from scheduler.model import GangKey, Pod
    from scheduler.state.cluster import ClusterState

    from .ledger import Use
    from .tree import Node

_GATE_CURES = ClusterEvent.QUEUE_CHANGED | ClusterEvent.NAMESPACE_CHANGED | ClusterEvent.POD_UPDATED
#: Where everything is without queues.
NO_GROUP = Group("")


class _Books:
    """A tree with what belongs to it."""

    def __init__(
        self, tree: Tree, cluster: ClusterState, names: Collection[str], offered: dict[str, int], history: History
    ) -> None:
        self.tree = tree
        self.membership = Membership(tree, cluster.objects)
        self.ledger = Ledger(cluster, self.membership, names)
        self.fairness = Fairness(tree, self.ledger, offered)
        self.order = Order(self.ledger, history)
        #: The queue of each group that something has waited in.
        self.nodes: dict[Group, Node] = {}


class Queues:
    """The queues of one engine."""

    def __init__(
        self, cluster: ClusterState, names: Collection[str], clock: Callable[[], float], half_life_seconds: float = 0
    ) -> None:
        """Take the state, which has the objects, the names of our schedulers, and how fast past usage fades (0: at once)."""
        self._history = History(half_life_seconds)
        self._cluster = cluster
        self._names = names
        self._clock = clock
        self._books: _Books | None = None
        self._good: dict[Any, Queue] = {}
        self._is_stale = False
        self._offered: dict[str, int] = {}
        self._offered_at = -1

    @property
    def is_on(self) -> bool:
        """Whether there is any queue."""
        return self._books is not None

    @property
    def tree(self) -> Tree | None:
        """The tree as it counts."""
        return self._books.tree if self._books is not None else None

    def changed(self, kind: type) -> None:
        """Note that an object changed: a queue, a name of one in a namespace, or a namespace."""
        self._is_stale |= kind is Queue or self.is_on

    def gang_changed(self, key: GangKey) -> None:
        """Note that a group changed, which may name another queue now."""
        if self._books is not None:
            self._books.ledger.gang_changed(key)

    def settle(self) -> bool:
        """Follow the objects; tell whether anything about queues is different now. O(1) if none changed, else O(pods)."""
        if not self._is_stale:
            return False
        self._is_stale = False
        queues = list(self._cluster.objects.all(Queue).values())
        if not queues:
            was_on, self._books, self._good = self.is_on, None, {}
            self._cluster.watched = None
            return was_on
        tree = build(queues, self._good)
        former = self._books
        if (
            former is not None
            and former.tree.good == tree.good
            and former.tree.problems == tree.problems
            and former.membership.is_same(Membership(tree, self._cluster.objects))
        ):
            return False
        self._good = tree.good
        self._books = _Books(tree, self._cluster, self._names, self._offered, self._history)
        return True

    def gate(self, workload: Workload) -> Status | None:
        """Return why a workload may not wait where it wants to; None if it may, or there are no queues."""
        books = self._books
        if books is None:
            return None
        home = books.ledger.home_of(next(iter(workload.pods.values())))
        if home.code == UNKNOWN:
            return Status.unresolvable(Reason(UNKNOWN, home.problem, _GATE_CURES))
        if home.problem:
            return Status.unresolvable(Reason(NOT_ALLOWED, home.problem, _GATE_CURES))
        if workload.gang is not None and len(names := books.ledger.names_of(workload)) > 1:
            text = f"pods of gang {workload.gang.key} name different queues: {', '.join(names)}; allowed is one"
            return Status.unresolvable(Reason(NOT_ALLOWED, text, _GATE_CURES))
        return None

    def waits(self, workload: Workload, sort_key: tuple[Any, ...]) -> tuple[Group, tuple[Any, ...]]:
        """Count what a workload waits for; return where it waits, and its place there."""
        if self._books is None:
            return NO_GROUP, sort_key
        node = self._books.ledger.waits(workload)
        group = Group(str(node.key))
        if node.queue.ordering == "Fair":
            group = Group(group.queue, next(iter(workload.pods.values())).namespace)
        self._books.nodes[group] = node
        if node.queue.ordering == "FIFO":
            created = min(pod.created for pod in workload.pods.values())
            if workload.gang is not None and workload.gang.created:
                created = min(created, workload.gang.created)
            return group, (created, not workload.is_repair, workload.since, workload.key)
        return group, sort_key

    def left(self, key: str) -> None:
        """Forget a workload that does not wait any more."""
        if self._books is not None:
            self._books.ledger.left(key)

    def next_of(self, heads: Sequence[tuple[Group, Mapping[str, int]]]) -> Group:
        """Return whose turn it is among groups, each with what its next workload asks for at once. O(groups)."""
        books = self._books
        assert books is not None
        self._refresh(books)
        found = [Head(group, books.nodes[group], group.namespace, asks) for group, asks in heads]
        return books.order.next_of(found, self.offered()).group

    def admit(self, workload: Workload, pods: Sequence[Pod]) -> Admission:
        """Return which pods may be placed now, or why none may."""
        if self._books is None or not pods:
            return Admission(pods)
        self._refresh(self._books)
        return admit(workload, pods, self._node_of(workload, self._books), self._books.ledger)

    def claim_of(self, workload: Workload) -> Claim | None:
        """Return what a workload asks of its queue at once; None without queues."""
        if self._books is None:
            return None
        self._refresh(self._books)
        return Claim(self._node_of(workload, self._books), asks_of(workload), workload.pods.keys())

    def queue_of(self, pod: Pod) -> Node | None:
        """Return the queue that a pod of ours belongs to; None without queues."""
        if self._books is None or pod.scheduler_name not in self._names:
            return None
        return self._books.ledger.home_of(pod).node

    def ledger(self) -> Ledger:
        """Return the books; there must be queues."""
        assert self._books is not None
        return self._books.ledger

    def has_quota(self, workload: Workload) -> bool:
        """Tell whether a workload that was refused for its quota would not be now."""
        if self._books is None:
            return True
        return not self.admit(workload, workload.ordered()).excesses

    def rules(self, workload: Workload) -> Reclaim | None:
        """Return whom a workload may have evicted; None without queues: then priority alone decides."""
        books = self._books
        if books is None:
            return None
        self._refresh(books)
        self.offered()
        node, pods = self._node_of(workload, books), workload.ordered()
        admission = admit(workload, pods, node, books.ledger)
        return Reclaim(
            workload, asks_of(workload), node, books.ledger, books.fairness, admission.excesses, self._clock()
        )

    def version(self) -> object:
        """Return what is different whenever a number or the tree is; O(changed pods)."""
        if self._books is None:
            return None
        self._refresh(self._books)
        return id(self._books), self._books.ledger.version, self._cluster.offered_generation

    def use(self, node: Node) -> Use:
        """Return what a queue of the tree uses; there must be queues."""
        assert self._books is not None
        return self._books.ledger.use(node)

    def fairness(self) -> Fairness:
        """Return the fair shares; there must be queues."""
        assert self._books is not None
        return self._books.fairness

    def place_of(self, workload: Workload) -> tuple[str, Fraction]:
        """Return the queue that a workload waits in, empty if it may not be there, and what its namespace uses of a fair one."""
        books = self._books
        first = next(iter(workload.pods.values()))
        if books is None or (home := books.ledger.home_of(first)).problem:
            return "", Fraction(0)
        share = Fraction(0)
        if home.node.queue.ordering == "Fair":
            amounts = books.ledger.use(home.node).by_namespace.get(first.namespace, {})
            cluster = self.offered()
            share = max((Fraction(n, cluster[r]) for r, n in amounts.items() if cluster.get(r)), default=share)
        return str(home.node.key), share

    def notice_seconds(self, pod: Pod) -> float | None:
        """Return how long before its eviction a pod's queue, or the next one above that says so, has it told; None if none does."""
        if self._books is None:
            return None
        path = self._books.ledger.home_of(pod).node.path()
        return next((node.queue.notice_seconds for node in path if node.queue.notice_seconds is not None), None)

    def offered(self) -> dict[str, int]:
        """Return what nodes that take pods offer together, by resource."""
        if self._offered_at != self._cluster.offered_generation:
            self._offered_at = self._cluster.offered_generation
            self._offered.clear()
            for node in self._cluster.nodes.values():
                if not node.is_unschedulable:
                    for resource, count in node.allocatable.items():
                        if resource != "pods" and count:
                            self._offered[resource] = self._offered.get(resource, 0) + count
        return self._offered

    def differences(self) -> list[str]:
        """Compare the books with new ones made from scratch; return what differs, as sentences."""
        books = self._books
        if books is None:
            return []
        self._refresh(books)
        fresh = Ledger(self._cluster, books.membership, self._names)
        fresh.refresh()
        return [
            f"queue {key}: {name} is {mine}, recounted {theirs}"
            for key, node in sorted(books.tree.nodes.items())
            for name in ("held", "used", "kept", "firm", "by_namespace")
            if (mine := getattr(books.ledger.use(node), name)) != (theirs := getattr(fresh.use(node), name))
        ]

    def _refresh(self, books: _Books) -> None:
        """Let the time pass that has passed, then read what changed."""
        self._history.advance(self._clock(), books.tree.nodes.values(), books.ledger.use)
        books.ledger.refresh()

    def _node_of(self, workload: Workload, books: _Books) -> Node:
        return books.ledger.home_of(next(iter(workload.pods.values()))).node
