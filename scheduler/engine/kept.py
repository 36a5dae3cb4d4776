"""Kept: for whom room is kept on which rows, against a rival.

For candidates, which count these pods as if they were there.  Room is kept against whoever is not more important.  With queues
that holds within a queue alone: it is kept against every other queue, as priority says nothing of who comes first among
queues; who may take from the one that it is kept for does so when that runs.  What is known is kept from cycle to cycle and brought up to
date where nominations changed: O(changes), however many pods wait for their victims to go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.model import Pod
    from scheduler.queues.tree import Node
    from scheduler.state.change_log import Mark
    from scheduler.state.cluster import ClusterState
    from scheduler.state.snapshot import Snapshot

#: For so many rivals it is kept.
_MOST_RIVALS = 64


class Rival(NamedTuple):
    """Who looks for room: for what counts here, many workloads are the same."""

    priority: int
    #: The queue that it is in; None without queues.
    queue: Node | None = None


class Kept(Mapping[int, "list[Pod]"]):
    """Rows and the pods for which room is kept there, without a workload's own; valid until nominations change."""

    __slots__ = ("_known", "_length", "_own")

    def __init__(self, known: _Known | None = None, own: Mapping[int, list[Pod]] | None = None) -> None:
        """Take what is known for a rival, and what differs from it as some of the pods are the workload's own."""
        self._known = known
        self._own = own or {}
        self._length = len(known.log) if known is not None else 0

    def changed_since(self, former: Kept) -> Iterable[int]:
        """Return rows among which are all that differ from what was kept before."""
        if former is self:
            return ()
        if self._known is None or self._known is not former._known:
            return (*former, *self)
        own = () if former._own == self._own else (*former._own, *self._own)
        return (*self._known.log[former._length :], *own)

    def __getitem__(self, row: int) -> list[Pod]:
        """Return the pods of a row, the most important first."""
        pods = self._own.get(row)
        if pods is None and self._known is not None:
            return self._known.rows[row]
        if not pods:
            raise KeyError(row)
        return pods

    def __iter__(self) -> Iterator[int]:
        """Walk over the rows where room is kept."""
        if self._known is not None:
            yield from (row for row in self._known.rows if row not in self._own)
        yield from (row for row, pods in self._own.items() if pods)

    def __len__(self) -> int:
        """Count them."""
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return next(iter(self), None) is not None


class _Known:
    """What is kept against one rival, and the rows where that changed, in order."""

    def __init__(self) -> None:
        self.rows: dict[int, list[Pod]] = {}
        self.log: list[int] = []
        self.mark: Mark | None = None


class KeptRooms:
    """What is kept against each rival."""

    def __init__(self, cluster: ClusterState, queue_of: Callable[[Pod], Node | None] = lambda _: None) -> None:
        """Take who knows the nominations, and the queue of a pod; None if it is in none."""
        self._cluster = cluster
        self._queue_of = queue_of
        self._known: dict[Rival, _Known] = {}
        self._nodes = -1

    def rival(self, priority: int, pod: Pod) -> Rival:
        """Return as whom a workload of a priority looks for room, by one of its pods."""
        return Rival(priority, self._queue_of(pod))

    def against(self, rival: Rival, own: Iterable[str], snapshot: Snapshot) -> Kept:
        """Return what is kept against a workload of some pods, by rows of a snapshot."""
        cluster = self._cluster
        if self._nodes != snapshot.node_generation:
            self._known.clear()
            self._nodes = snapshot.node_generation
        known = self._known.pop(rival, None) or _Known()
        if len(self._known) >= _MOST_RIVALS:
            del self._known[next(iter(self._known))]
        self._known[rival] = known = self._up_to_date(known, rival, snapshot)
        uids = set(own)
        rows = {name: snapshot.row_of.get(name) for uid in uids if (name := cluster.nominations.get(uid)) is not None}
        without = {
            row: [pod for pod in known.rows[row] if pod.uid not in uids]
            for row in rows.values()
            if row is not None and row in known.rows
        }
        return Kept(known, without)

    def on(self, name: str, rival: Rival) -> list[Pod]:
        """Return the pods for which room is kept on one node."""
        return [pod for pod in self._cluster.nominated_on(name) if self.is_kept(pod, rival)]

    def is_kept(self, pod: Pod, rival: Rival) -> bool:
        """Tell whether what is kept for a pod is kept against a rival."""
        queue = self._queue_of(pod) if rival.queue is not None else None
        if queue is not None and (queue is not rival.queue or queue.queue.ordering == "FIFO"):
            return True
        return self.weight(pod) >= rival.priority

    def _up_to_date(self, known: _Known, rival: Rival, snapshot: Snapshot) -> _Known:
        """Look again at the nodes that changed; at all in a new list if too much did."""
        cluster = self._cluster
        changed, mark = cluster.asides.since(known.mark)
        if changed is None:
            known, changed = _Known(), dict.fromkeys(cluster.nominated_nodes())
        known.mark = mark
        names: dict[str, None] = {}
        for entry in changed:
            if isinstance(entry, str):
                names[entry] = None
            else:
                uids = cluster.groups.uids(entry)
                names.update((name, None) for uid in uids if (name := cluster.nominations.get(uid)) is not None)
        for name in names:
            row = snapshot.row_of.get(name)
            if row is None:
                continue
            pods = self.on(name, rival)
            if pods != known.rows.get(row, []):
                known.log.append(row)
                known.rows.pop(row, None)
                if pods:
                    known.rows[row] = pods
        return known

    def weight(self, pod: Pod) -> int:
        """Return a pod's priority, or what its group states, by class or as a number, if that is lower: so much room is kept."""
        key = self._cluster.gang_of(pod)
        gang = self._cluster.gangs.get(key) if key is not None else None
        if gang is None:
            return pod.priority
        named = self._cluster.priority_classes.get(gang.priority_class_name)
        stated = (named.value if named is not None else None, gang.priority)
        return min((pod.priority, *(value for value in stated if value is not None)))
