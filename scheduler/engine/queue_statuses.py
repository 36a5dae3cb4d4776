"""QueueStatuses: what is said at our Queue objects, and where each workload stands in its queue.

For the engine.  Where several schedulers of this kind run, the status of a queue is that of one of them: of the one that the queue
names, else of the one that wrote first (the edge sees to that).  Changes are gathered for some seconds, and what was said last is not said again; queues of other projects are
read only.  Every position is for whoever asks (`positions`); the first ones stand in the object.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from scheduler.framework.effects import QueuePlace, QueueResource, SetQueueStatus
from scheduler.model.queue import OWN, Queue, QueueKey
from scheduler.queues.tree import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from scheduler.queues.queues import Queues
    from scheduler.queues.tree import Node
    from scheduler.state.cluster import ClusterState

    from .queue import Entry, WorkQueue

#: How long changes are gathered before statuses are written, in seconds.
STATUS_DELAY = 5.0
#: So many workloads stand in the status of their queue.
MOST_SHOWN = 20


def _nothing(key: str) -> float | None:
    """Tell of no promise."""
    del key
    return None


class QueueStatuses:
    """Statuses of our queues."""

    def __init__(
        self, cluster: ClusterState, queues: Queues, work: WorkQueue, emit: Callable[[SetQueueStatus], None],
        names: Collection[str],
    ) -> None:  # fmt: skip
        """Take what knows the objects, the queues and what waits in them, whom to tell, and the names of our schedulers."""
        self._names = names
        self._cluster = cluster
        self._queues = queues
        self._work = work
        self._emit = emit
        self._due: float | None = None
        self._seen: object = None
        self._told: dict[str, SetQueueStatus] = {}

    def next_time(self) -> float | None:
        """Return when statuses are looked at next."""
        return self._due

    def write(self, now: float) -> None:
        """Write the statuses that differ from what was written last, if it is time. O(1) while nothing changes."""
        if not self._queues.is_on:
            self._due, self._told = None, {}
            return
        seen = (self._queues.version(), self._work.version)
        if self._due is None:
            if seen != self._seen:
                self._due = now + STATUS_DELAY
            return
        if self._due > now:
            return
        self._due, self._seen = None, seen
        places = self.positions()
        own = [queue for queue in self._cluster.objects.all(Queue).values() if self._is_told(queue)]
        self._told = {one.uid: self._told[one.uid] for one in own if one.uid in self._told}
        for queue in sorted(own, key=lambda one: one.name):
            effect = self._status(queue, places)
            if self._told.get(queue.uid) != effect:
                self._told[queue.uid] = effect
                self._emit(effect)

    def _is_told(self, queue: Queue) -> bool:
        """Tell whether a queue's status is ours to write: it has an object of ours that names no other scheduler."""
        return queue.dialect == OWN and bool(queue.uid) and queue.scheduler_name in ("", *self._names)

    def positions(self, promised: Callable[[str], float | None] = _nothing) -> dict[str, list[QueuePlace]]:
        """Return what waits in each queue, in the order in which it will be tried. O(workloads · log).

        `promised` tells the start that a workload was told, by its key.
        """
        waiting: dict[str, list[tuple[Fraction, Entry]]] = {}
        for entry in self._work:
            name, share = self._queues.place_of(entry.workload)
            if name:
                waiting.setdefault(name, []).append((share, entry))
        found: dict[str, list[QueuePlace]] = {}
        for name, entries in sorted(waiting.items()):
            entries.sort(key=lambda one: (one[0], one[1].sort_key, one[1].workload.key))
            found[name] = [
                _place(number, entry, promised(entry.workload.key))
                for number, (_, entry) in enumerate(entries, start=1)
            ]
        return found

    def _status(self, queue: Queue, places: dict[str, list[QueuePlace]]) -> SetQueueStatus:
        tree, key = self._queues.tree, QueueKey(queue.dialect, queue.name)
        assert tree is not None
        node, problems = tree.nodes.get(key), tree.problems.get(key, ())
        waiting = [place for leaf in _leaves(node) for place in places.get(str(leaf.key), ())] if node else []
        if node is not None and not node.is_leaf:
            waiting = []
        message = "; ".join(problems)
        if problems:
            message += "; its last usable state counts" if node is not None else "; until then there is no such queue"
        resources, share = self._resources(node) if node is not None else ((), "0.000")
        count = sum(len(places.get(str(leaf.key), ())) for leaf in _leaves(node)) if node is not None else 0
        return SetQueueStatus(
            queue.name, queue.uid, queue.generation, resources, share, count, tuple(waiting[:MOST_SHOWN]),
            "False" if problems else "True", "InvalidQueue" if problems else "Usable", message,
            queue.scheduler_name or min(self._names), bool(queue.scheduler_name),
        )  # fmt: skip

    def _resources(self, node: Node) -> tuple[tuple[QueueResource, ...], str]:
        """Return amounts by resource, and the largest part of any that the cluster has."""
        queues, cluster = self._queues, self._queues.offered()
        use = queues.use(node)
        names = sorted({*node.queue.quotas, *use.held, *use.wanted})
        share = max((Fraction(use.held.get(r, 0), cluster[r]) for r in names if cluster.get(r)), default=Fraction(0))
        found = []
        for name in names:
            guaranteed = queues.fairness().guaranteed(node, name)
            held, asked = use.held.get(name, 0), use.held.get(name, 0) + use.wanted.get(name, 0)
            fair = int(queues.fairness().share(node, name))
            found.append(
                QueueResource(
                    name, "unlimited" if guaranteed is None else shown(name, guaranteed), shown(name, held),
                    shown(name, asked), shown(name, fair),
                )
            )  # fmt: skip
        thousandths = min(1000, int(share * 1000))
        return tuple(found), f"{thousandths // 1000}.{thousandths % 1000:03}"


def _leaves(node: Node | None) -> list[Node]:
    if node is None:
        return []
    return [node] if node.is_leaf else [leaf for child in node.children for leaf in _leaves(child)]


def _place(number: int, entry: Entry, promised: float | None) -> QueuePlace:
    workload = entry.workload
    first = next(iter(workload.pods.values()))
    kind = "gang" if workload.key.startswith("gang:") else "pod"
    name = workload.key.rpartition("/")[2] if kind == "gang" else first.name
    status = entry.status
    reason = status.reasons[0].code if status and status.reasons else ""
    return QueuePlace(number, kind, first.namespace, name, reason, promised)
