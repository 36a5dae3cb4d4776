"""Row: one node and what stands on it; NodeView: how a narrow plugin sees it.

For the snapshot, which keeps a row for each node, and for whoever counts pods on one node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.model import HostPort, Node, Pod


class Row:
    """One node and what stands on it: the record behind a row of every column."""

    __slots__ = ("_away", "_freed", "_turns", "node", "nonzero", "pods", "requested")

    def __init__(self, node: Node) -> None:
        """Start with an empty node."""
        self.node = node
        #: Pods by uid, in the order in which they were assigned.
        self.pods: dict[str, Pod] = {}
        self.requested: dict[str, int] = {}
        self.nonzero: list[int] = [0, 0]
        #: Turns of the pods when the first of those that are away was lifted off, and how many are away.
        self._turns: dict[str, int] = {}
        self._away = 0
        #: Host ports of lifted pods that others claim as well.
        self._freed: set[HostPort] = set()

    def add(self, pod: Pod) -> None:
        """Count a pod in."""
        self.pods[pod.uid] = pod
        for name, count in pod.requests.items():
            self.requested[name] = self.requested.get(name, 0) + count
        self.nonzero[0] += pod.nonzero[0]
        self.nonzero[1] += pod.nonzero[1]

    def put(self, pod: Pod) -> None:
        """Count a pod in, or in place of its former view; it keeps its turn in the order."""
        former = self.pods.get(pod.uid)
        if former is None:
            self.add(pod)
        elif former.requests == pod.requests and former.nonzero == pod.nonzero:
            self.pods[pod.uid] = pod
        else:
            order = list(self.pods)
            self.drop(pod.uid)
            self.add(pod)
            self.pods = {uid: self.pods[uid] for uid in order}

    def drop(self, uid: str) -> Pod:
        """Count a pod out and return it."""
        pod = self.pods.pop(uid)
        for name, count in pod.requests.items():
            self.requested[name] -= count
        self.nonzero[0] -= pod.nonzero[0]
        self.nonzero[1] -= pod.nonzero[1]
        return pod

    def lift(self, uid: str) -> Pod:
        """Count a pod out for a while and return it; `lower` is the inverse, in whatever order pods come back."""
        if not self._away:
            self._turns = {known: turn for turn, known in enumerate(self.pods)}
        self._away += 1
        pod = self.drop(uid)
        if pod.ports:
            others = {port for other in self.pods.values() for port in other.ports}
            self._freed |= others.intersection(pod.ports)
        return pod

    def lower(self, pod: Pod) -> None:
        """Count a lifted pod in again, at its old turn among those that were there with it."""
        self.add(pod)
        self._away -= 1
        self._freed.difference_update(pod.ports)
        last = len(self._turns)
        self.pods = dict(sorted(self.pods.items(), key=lambda item: self._turns.get(item[0], last)))

    def claimed_ports(self) -> list[HostPort]:
        """Return the host ports that are taken.

        A port that two pods share is free as soon as one of them is lifted off: kube-scheduler's nodes keep ports as a set.
        """
        return [port for pod in self.pods.values() if pod.ports for port in pod.ports if port not in self._freed]

    def contents(self) -> tuple[dict[str, int], list[int], frozenset[str]]:
        """Return what stands here in a form to compare: requests that are not zero, scored usage, pod uids."""
        return {name: n for name, n in self.requested.items() if n}, self.nonzero, frozenset(self.pods)

    def copy(self) -> Row:
        """Return an independent copy; the pods themselves are immutable."""
        other = Row(self.node)
        other.pods = dict(self.pods)
        other.requested = dict(self.requested)
        other.nonzero = list(self.nonzero)
        return other


class NodeView:
    """One node as a narrow plugin sees it."""

    __slots__ = ("_row",)

    def __init__(self, row: Row) -> None:
        """Wrap a row; it must not be changed through the view."""
        self._row = row

    @property
    def record(self) -> Row:
        """The record behind the view, to be read only."""
        return self._row

    @property
    def node(self) -> Node:
        """The Node object."""
        return self._row.node

    @property
    def name(self) -> str:
        """The node's name."""
        return self._row.node.name

    @property
    def labels(self) -> dict[str, str]:
        """The node's labels."""
        return self._row.node.labels

    @property
    def pods(self) -> list[Pod]:
        """The pods on the node, in the order of assignment."""
        return list(self._row.pods.values())

    def allocatable(self, resource: str) -> int:
        """How much of a resource the node offers."""
        return self._row.node.allocatable.get(resource, 0)

    def requested(self, resource: str) -> int:
        """How much of a resource its pods ask for."""
        return self._row.requested.get(resource, 0)

    def scored_usage(self, resource: str) -> int:
        """How much scoring counts as used: as `requested`, but cpu and memory with the defaults of silent containers."""
        if resource == "cpu":
            return self._row.nonzero[0]
        return self._row.nonzero[1] if resource == "memory" else self.requested(resource)

    def pod_count(self) -> int:
        """How many pods the node has."""
        return len(self._row.pods)

    def free(self, resource: str) -> int:
        """How much of a resource is left; negative if over-committed."""
        return self.allocatable(resource) - self.requested(resource)
