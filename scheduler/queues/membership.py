"""Membership: which queue a pod or a gang belongs to, and who may not use the one that it names.

For the ledger and for the gate.  In order: the label `scheduling.ai-scheduler.io/queue` of the group or of the pod; what it says in
the words of another project whose queues are there; the first queue by name that selects its namespace; `default`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scheduler.model.label_tests import selects
from scheduler.model.owners import Namespace
from scheduler.model.queue import DEFAULT_QUEUE, OWN, QUEUE_LABEL, QueueKey, QueueUse
from scheduler.model.queue_dialects import KAI, KUEUE, VOLCANO, queue_of_labels

if TYPE_CHECKING:
    from scheduler.model import Gang, Pod
    from scheduler.state.objects import Objects

    from .tree import Node, Tree

#: The codes of refusals.
UNKNOWN, NOT_ALLOWED = "UnknownQueue", "QueueNotAllowed"
#: So many allowed queues are listed in a message.
_MOST_LISTED = 10


class Home(NamedTuple):
    """Where a workload belongs."""

    #: The queue; where there is a problem, the one that what it has on nodes is counted in.
    node: Node
    #: Code and sentence of what keeps it from being tried; empty if nothing does.
    code: str = ""
    problem: str = ""


class Wish(NamedTuple):
    """What a workload says of its queue: the namespace, and dialect and name of the queue if it names one."""

    namespace: str
    named: tuple[str, str] | None = None


def wish_of(pod: Pod, gang: Gang | None) -> Wish:
    """Return what a pod says, or its group for it."""
    if gang is not None:
        if name := gang.labels.get(QUEUE_LABEL):
            return Wish(pod.namespace, (OWN, name))
        if gang.queue and gang.key.dialect in (KAI, VOLCANO) and QUEUE_LABEL not in pod.labels:
            return Wish(pod.namespace, (gang.key.dialect, gang.queue))
    if name := pod.labels.get(QUEUE_LABEL):
        return Wish(pod.namespace, (OWN, name))
    return Wish(pod.namespace, queue_of_labels(pod.labels, pod.annotations))


class Membership:
    """Answers for one tree, each kept until the tree or a namespace changes."""

    def __init__(self, tree: Tree, objects: Objects) -> None:
        """Take the tree, and the objects among which namespaces and names of queues in namespaces are."""
        self._tree = tree
        self._objects = objects
        self._default = tree.nodes.get(QueueKey(OWN, DEFAULT_QUEUE))
        self._leaves = tree.leaves()
        self._dialects = {key.dialect for key in tree.nodes}
        self._homes: dict[Wish, Home] = {}

    def home(self, wish: Wish) -> Home:
        """Return where a workload belongs."""
        known = self._homes.get(wish)
        if known is None:
            known = self._homes[wish] = self._find(wish)
        return known

    def is_same(self, other: Membership) -> bool:
        """Tell whether another one answers all that this one was asked as this one did, with queues of the same names."""
        return all(
            (home.node.key, home.code, home.problem) == (theirs.node.key, theirs.code, theirs.problem)
            for wish, home in self._homes.items()
            for theirs in (other.home(wish),)
        )

    def _find(self, wish: Wish) -> Home:
        named = wish.named
        if named is not None and named[0] != OWN and named[0] not in self._dialects:
            named = None  # that project's queues are not here
        if named is None:
            return self._by_namespace(wish.namespace)
        key = QueueKey(*named)
        if key.dialect == KUEUE:
            use = self._objects.get(QueueUse, wish.namespace, key.name)
            if use is None:
                return self._refused(wish, UNKNOWN, f"there is no LocalQueue {wish.namespace}/{key.name}")
            key = use.queue
        node = self._tree.nodes.get(key)
        if node is None:
            why = self._tree.problems.get(key)
            text = f"queue {key} cannot be used: {'; '.join(why)}" if why else f"there is no queue {key}"
            return self._refused(wish, UNKNOWN, text)
        text = ""
        if not node.is_leaf:
            text = f"queue {key} is divided into queues, and holds no workloads"
        elif node.queue.is_closed:
            text = f"queue {key} is closed"
        elif not self._may_use(node, wish.namespace):
            text = f"namespace {wish.namespace} may not use queue {key}"
        return self._refused(wish, NOT_ALLOWED, text) if text else Home(node)

    def _by_namespace(self, namespace: str) -> Home:
        for node in self._leaves:
            if self._belongs(node, namespace) and not node.queue.is_closed:
                return Home(node)
        if self._default is not None and self._default.is_leaf:
            return Home(self._default)
        return self._refused(Wish(namespace), UNKNOWN, f"no queue is for namespace {namespace}")

    def _refused(self, wish: Wish, code: str, text: str) -> Home:
        allowed = [str(node.key) for node in self._leaves if self._may_use(node, wish.namespace)]
        listed = ", ".join(allowed[:_MOST_LISTED]) + (" and others" if len(allowed) > _MOST_LISTED else "")
        return Home(self._fallback(), code, f"{text}; allowed are {listed or 'none'}")

    def _fallback(self) -> Node:
        """Return where what is on nodes already is counted, if it may not be where it is."""
        return self._default if self._default is not None else self._tree.root

    def _belongs(self, node: Node, namespace: str) -> bool:
        queue = node.queue
        if queue.dialect == KUEUE:
            return False  # there one gets to a queue by a LocalQueue only
        if namespace in queue.namespace_names:
            return True
        return queue.namespaces is not None and selects(queue.namespaces, self._labels(namespace))

    def _may_use(self, node: Node, namespace: str) -> bool:
        queue = node.queue
        if queue.is_closed:
            return False
        if queue.namespace_names:
            return namespace in queue.namespace_names
        return queue.namespaces is None or selects(queue.namespaces, self._labels(namespace))

    def _labels(self, namespace: str) -> dict[str, str]:
        known = self._objects.get(Namespace, "", namespace)
        return {} if known is None else known.labels
