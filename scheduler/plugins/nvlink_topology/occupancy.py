"""Which GPUs of each node are free, and which a pod would get; looked up again only for nodes whose pods changed.

For the plugin beside it.  What is known of a pod's GPUs, best first: the annotation it was bound with; the set remembered since
Reserve; for a bound pod without either, what the device plugin's policy would pick, in bind order (`scheduler.topology.free`);
and for a pod that is placed in a what-if, the best set of what then is left, in the order of placement.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.state.row_cache import RowFollower
from scheduler.topology import GPUS_ANNOTATION, Basis, BoundPod, Source, format_gpus, free_gpus, read_machine, table_of

from .scoring import UNKNOWN, Situations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scheduler.model import Node, Pod
    from scheduler.model.node_topology import DeviceReport, NodeTopology
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Ints, Nodes, Snapshot
    from scheduler.topology import GpuSet, Machine

NAME = "NVLinkTopology"

#: With more, all are forgotten and learned anew.
MOST_SITUATIONS = 65_536
#: Entries of nodes and rows that are gone, kept before somebody looks for them.
MOST_STALE = 1024
#: With fewer remembered sets, nobody looks for those that are not needed any more.
LEAST_REMEMBERED = 256
_NEVER_SEEN: tuple[None, int] = (None, UNKNOWN)


class Division(NamedTuple):
    """The free GPUs of a node as a mask, how they are known, and the sets of pods that are placed in a what-if, by uid."""

    free: int
    basis: Basis
    sets: dict[str, GpuSet]


def divide(
    machine: Machine,
    pods: Iterable[Pod],
    resource: str,
    remembered: Mapping[str, int],
    report: DeviceReport | None = None,
) -> Division:
    """Divide the GPUs of a node among its pods; `remembered` is uid to mask, `report` what the node agent has seen.

    A what-if pod that finds too few GPUs has no set and takes all that are left.
    """
    settled: list[BoundPod] = []
    placed: list[tuple[str, int]] = []
    for pod in pods:
        count = pod.requests.get(resource, 0)
        told = pod.annotations.get(GPUS_ANNOTATION) if pod.node_name else None
        if told is None and pod.uid in remembered:
            told = format_gpus(remembered[pod.uid], Basis.ASSUMED)
        if count and (pod.node_name or told is not None):
            settled.append(BoundPod(count, told, pod.key, pod.created, pod.started))
        elif count:
            placed.append((pod.uid, count))
    free, basis = (found := free_gpus(machine, settled, report)).mask, found.basis
    sets: dict[str, GpuSet] = {}
    for uid, count in placed:
        best = table_of(machine).best(free, count)
        free = 0 if best is None else free & ~best.mask
        if best is not None:
            sets[uid] = best
    return Division(free, basis, sets)


class Known(NamedTuple):
    """What was read of a node, and of which objects."""

    node: Node
    topology: NodeTopology | None
    #: None unless the resource counts whole GPUs.
    machine: Machine | None
    #: What could not be used, as a sentence; empty if all is well.
    problem: str

    @property
    def report(self) -> DeviceReport | None:
        """What the node agent has seen, where the machine is the one that it speaks of."""
        return self.topology.report if self.topology is not None and not self.problem else None


class Standing(RowFollower):
    """The situation of each row."""

    def __init__(self, number_of: Callable[[Row], int]) -> None:
        """Take how to look at a row."""
        super().__init__()
        self._number_of = number_of
        self.numbers: Ints = np.zeros(0, dtype=np.int64)

    def fill(self, snapshot: Snapshot) -> None:
        """Look at all rows."""
        rows = snapshot.all_rows
        self.numbers = np.fromiter(map(self._number_of, rows), dtype=np.int64, count=len(rows))

    def update(self, index: int, row: Row) -> None:
        """Look at one row."""
        self.numbers[index] = self._number_of(row)


class Occupancy:
    """The free GPUs of all nodes, for one resource."""

    def __init__(self, resource: str, topologies: Callable[[str], NodeTopology | None]) -> None:
        """Start without knowledge; `topologies` returns the NodeTopology of a node."""
        self._resource = resource
        self._topology_of = topologies
        self._situations = Situations()
        #: Row to its pods and its situation: true while a row of that identity holds the same pods in the same order.
        self._seen: dict[Row, tuple[tuple[str, ...], int]] = {}
        self._known: dict[str, Known] = {}
        #: Nodes whose sets were remembered or forgotten since the rows were looked at.
        self._stale: set[str] = set()
        self._sweep_at = LEAST_REMEMBERED
        #: Uid to mask, of pods that were given a set and are not seen with their annotation yet.
        self.remembered: dict[str, int] = {}

    @property
    def problems(self) -> dict[str, str]:
        """What could not be used of which node, a sentence by node name."""
        return {name: known.problem for name, known in self._known.items() if known.problem}

    def scores(self, nodes: Nodes, k: int) -> Ints:
        """Return the score of each node for a pod of k GPUs; O(1) for each node whose pods changed, else by column."""
        snapshot, situations = nodes.snapshot, self._forget_surplus(nodes.snapshot.all_rows)
        standing = snapshot.follower((NAME, situations), partial(Standing, self._number_of))
        for name in self._stale:
            if (index := snapshot.row_of.get(name)) is not None:
                standing.update(index, snapshot.all_rows[index])
        self._stale.clear()
        return situations.scores(nodes.at(standing.numbers), k)

    def choose(self, row: Row, pod: Pod) -> tuple[GpuSet, Basis] | None:
        """Return the set for a pod on a node, whether it is placed there already or not; None if none can be told."""
        known = self.read(row.node)
        if known.machine is None:
            return None
        pods = row.pods.values() if pod.uid in row.pods else (*row.pods.values(), pod)
        division = divide(known.machine, pods, self._resource, self.remembered, known.report)
        chosen = division.sets.get(pod.uid)
        return None if chosen is None else (chosen, division.basis)

    def quality(self, row: Row, chosen: GpuSet) -> int:
        """Return the bandwidth of a set as a percentage of the best of its size on an empty machine."""
        machine = self.read(row.node).machine
        return table_of(machine).quality(chosen.mask, len(chosen.gpus)) if machine is not None else 0

    def remember(self, uid: str, mask: int, row: Row, pods: Mapping[str, Pod]) -> None:
        """Keep a pod's set on a row until its annotation is known; `pods` are all known pods by uid. O(1) in the mean."""
        if len(self.remembered) >= self._sweep_at:
            self.remembered = {u: m for u, m in self.remembered.items() if _is_needed(pods.get(u))}
            self._sweep_at = max(LEAST_REMEMBERED, 2 * len(self.remembered))
        self.remembered[uid] = mask
        self._seen.pop(row, None)
        self._stale.add(row.node.name)

    def forget(self, uid: str, row: Row | None) -> None:
        """Drop a pod's set; nothing happens if there is none. `row` is None if the node is gone."""
        self.remembered.pop(uid, None)
        if row is not None:
            self._seen.pop(row, None)
            self._stale.add(row.node.name)

    def read(self, node: Node) -> Known:
        """Return what is known of a node's machine."""
        known, topology = self._known.get(node.name), self._topology_of(node.name)
        if known is not None and known.node is node and known.topology is topology:
            return known
        offered = node.allocatable.get(self._resource, 0)
        reading = read_machine(node.labels, node.annotations, topology, gpu_count=offered)
        problem = next((problem.text for problem in reading.problems if problem.source is not Source.LABEL), "")
        problem = problem or next((p.text for p in reading.problems if reading.machine is None), "")
        machine = reading.machine if reading.machine is not None and reading.machine.is_whole else None
        known = self._known[node.name] = Known(node, topology, machine, problem)
        return known

    def _number_of(self, row: Row) -> int:
        """Return a row's situation, looked up again if its pods are others."""
        uids, number = self._seen.get(row, _NEVER_SEEN)
        return number if uids == tuple(row.pods) else self._look(row)

    def _look(self, row: Row) -> int:
        """Return a row's situation, and note it."""
        known, number = self.read(row.node), UNKNOWN
        if known.machine is not None:
            division = divide(known.machine, row.pods.values(), self._resource, self.remembered, known.report)
            number = self._situations.number_of(known.machine, division.free)
        self._seen[row] = (tuple(row.pods), number)
        return number

    def _forget_surplus(self, all_rows: list[Row]) -> Situations:
        """Bound what is kept, however long the process runs, and return the situations; O(1) in the mean."""
        if len(self._situations) > MOST_SITUATIONS:
            self._situations = Situations()
            self._seen.clear()
        if len(self._known) > len(all_rows) + MOST_STALE:
            self._known.clear()
        if len(self._seen) > 2 * len(all_rows) + MOST_STALE:
            self._seen = {row: self._seen[row] for row in all_rows if row in self._seen}
        return self._situations


def _is_needed(pod: Pod | None) -> bool:
    """Tell whether the set of a pod has to be remembered: it is still there, and does not tell its GPUs itself."""
    return pod is not None and not pod.is_terminal and not (pod.node_name and GPUS_ANNOTATION in pod.annotations)
