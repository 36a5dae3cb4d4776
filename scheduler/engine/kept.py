"""Kept: for whom room is kept on which rows, against workloads of a priority.

For candidates, which count these pods as if they were there.  What is known is kept from cycle to cycle and brought up to
date where nominations changed: O(changes), however many pods wait for their victims to go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.model import Pod
    from scheduler.state.change_log import Mark
    from scheduler.state.cluster import ClusterState
    from scheduler.state.snapshot import Snapshot

#: For so many priorities it is kept.
_MOST_PRIORITIES = 16


class Kept(Mapping[int, "list[Pod]"]):
    """Rows and the pods for which room is kept there, without a workload's own; valid until nominations change."""

    __slots__ = ("_known", "_length", "_own")

    def __init__(self, known: _Known | None = None, own: Mapping[int, list[Pod]] | None = None) -> None:
        """Take what is known for a priority, and what differs from it as some of the pods are the workload's own."""
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
    """What is kept against one priority, and the rows where that changed, in order."""

    def __init__(self) -> None:
        self.rows: dict[int, list[Pod]] = {}
        self.log: list[int] = []
        self.mark: Mark | None = None


class KeptRooms:
    """What is kept against each priority."""

    def __init__(self, cluster: ClusterState) -> None:
        """Take who knows the nominations."""
        self._cluster = cluster
        self._known: dict[int, _Known] = {}
        self._nodes = -1

    def against(self, priority: int, own: Iterable[str], snapshot: Snapshot) -> Kept:
        """Return what is kept against a workload of some pods, by rows of a snapshot."""
        cluster = self._cluster
        if self._nodes != snapshot.node_generation:
            self._known.clear()
            self._nodes = snapshot.node_generation
        known = self._known.pop(priority, None) or _Known()
        if len(self._known) >= _MOST_PRIORITIES:
            del self._known[next(iter(self._known))]
        self._known[priority] = known = self._up_to_date(known, priority, snapshot)
        uids = set(own)
        rows = {name: snapshot.row_of.get(name) for uid in uids if (name := cluster.nominations.get(uid)) is not None}
        without = {
            row: [pod for pod in known.rows[row] if pod.uid not in uids]
            for row in rows.values()
            if row is not None and row in known.rows
        }
        return Kept(known, without)

    def on(self, name: str, priority: int) -> list[Pod]:
        """Return the pods for which room is kept on one node."""
        return [pod for pod in self._cluster.nominated_on(name) if self.weight(pod) >= priority]

    def _up_to_date(self, known: _Known, priority: int, snapshot: Snapshot) -> _Known:
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
            pods = self.on(name, priority)
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
