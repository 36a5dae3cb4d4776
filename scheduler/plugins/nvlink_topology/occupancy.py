"""Which GPUs of each node are free, and which a pod would get; looked up again only for nodes whose pods changed.

For the plugin beside it.  What is known of a pod's GPUs, best first: the annotation it was bound with; the set remembered since
Reserve; for a bound pod without either, what the device plugin's policy would pick, in bind order (`scheduler.topology.free`);
and for a pod that is placed in a what-if, the best set of what then is left, in the order of placement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.topology import (
    GPUS_ANNOTATION,
    Basis,
    TopologyError,
    format_gpus,
    free_gpus,
    machine_of,
    table_of,
)

from .scoring import UNKNOWN, Situations

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.model import Node, Pod
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Ints, Nodes
    from scheduler.topology import GpuSet, Machine

#: With more, all are forgotten and learned anew.
MOST_SITUATIONS = 65_536
#: Entries of nodes and rows that are gone, kept before somebody looks for them.
MOST_STALE = 1024
#: With fewer remembered sets, nobody looks for those that are not needed any more.
LEAST_REMEMBERED = 256
_NEVER_SEEN: tuple[None, int] = (None, UNKNOWN)


def divide(
    machine: Machine, pods: Iterable[Pod], resource: str, remembered: Mapping[str, int]
) -> tuple[int, dict[str, GpuSet]]:
    """Return the mask of GPUs that are free on a node, and the sets of pods that are placed in a what-if, by uid.

    `remembered` is uid to mask.  A what-if pod that finds too few GPUs has no set and takes all that are left.
    """
    settled: list[tuple[int, str | None]] = []
    placed: list[tuple[str, int]] = []
    for pod in pods:
        count = pod.requests.get(resource, 0)
        told = pod.annotations.get(GPUS_ANNOTATION) if pod.node_name else None
        if told is None and pod.uid in remembered:
            told = format_gpus(remembered[pod.uid], Basis.ASSUMED)
        if count and (pod.node_name or told is not None):
            settled.append((count, told))
        elif count:
            placed.append((pod.uid, count))
    free = free_gpus(machine, settled).mask
    sets: dict[str, GpuSet] = {}
    for uid, count in placed:
        best = table_of(machine).best(free, count)
        free = 0 if best is None else free & ~best.mask
        if best is not None:
            sets[uid] = best
    return free, sets


class Occupancy:
    """The free GPUs of all nodes, for one resource."""

    def __init__(self, resource: str) -> None:
        """Start without knowledge."""
        self._resource = resource
        self._situations = Situations()
        #: Row to its pods and its situation: true while a row of that identity holds the same pods in the same order.
        self._seen: dict[Row, tuple[tuple[str, ...], int]] = {}
        #: Node name to the object that was read, its machine, and its situation without GPU pods.
        self._machines: dict[str, tuple[Node, Machine | None, int]] = {}
        self._sweep_at = LEAST_REMEMBERED
        #: Uid to mask, of pods that were given a set and are not seen with their annotation yet.
        self.remembered: dict[str, int] = {}
        #: Node name to what is wrong with its labels or annotation, as a sentence.
        self.problems: dict[str, str] = {}

    def scores(self, nodes: Nodes, k: int) -> Ints:
        """Return the score of each node for a pod of k GPUs.

        Nodes without GPU pods are looked up by column; O(1) for each other node whose pods did not change.
        """
        all_rows = nodes.snapshot.all_rows
        self._forget_surplus(all_rows)
        seen, situations = self._seen, self._situations
        numbers: Ints = nodes.column(("situation when empty", situations), self._situation_when_empty, np.int64)
        positions = np.flatnonzero((nodes.requested(self._resource) > 0) & (numbers != UNKNOWN))
        if len(positions):
            found = []
            for index in nodes.rows[positions].tolist():
                row = all_rows[index]
                uids, number = seen.get(row, _NEVER_SEEN)
                found.append(number if uids == tuple(row.pods) else self._look(row))
            numbers = numbers.copy()
            numbers[positions] = found
        return situations.scores(numbers, k)

    def choose(self, row: Row, pod: Pod) -> GpuSet | None:
        """Return the set for a pod on a node, whether it is placed there already or not; None if none can be told."""
        machine, _ = self._read(row.node)
        if machine is None:
            return None
        pods = row.pods.values() if pod.uid in row.pods else (*row.pods.values(), pod)
        return divide(machine, pods, self._resource, self.remembered)[1].get(pod.uid)

    def quality(self, row: Row, chosen: GpuSet) -> int:
        """Return the bandwidth of a set as a percentage of the best of its size on an empty machine."""
        machine, _ = self._read(row.node)
        return table_of(machine).quality(chosen.mask, len(chosen.gpus)) if machine is not None else 0

    def remember(self, uid: str, mask: int, row: Row, pods: Mapping[str, Pod]) -> None:
        """Keep a pod's set on a row until its annotation is known; `pods` are all known pods by uid. O(1) in the mean."""
        if len(self.remembered) >= self._sweep_at:
            self.remembered = {u: m for u, m in self.remembered.items() if _is_needed(pods.get(u))}
            self._sweep_at = max(LEAST_REMEMBERED, 2 * len(self.remembered))
        self.remembered[uid] = mask
        self._seen.pop(row, None)

    def forget(self, uid: str, row: Row | None) -> None:
        """Drop a pod's set; nothing happens if there is none. `row` is None if the node is gone."""
        self.remembered.pop(uid, None)
        if row is not None:
            self._seen.pop(row, None)

    def _look(self, row: Row) -> int:
        """Return a row's situation, and note it."""
        machine, number = self._read(row.node)
        if machine is not None:
            free, _ = divide(machine, row.pods.values(), self._resource, self.remembered)
            number = self._situations.number_of(machine, free)
        self._seen[row] = (tuple(row.pods), number)
        return number

    def _situation_when_empty(self, node: Node) -> int:
        return self._read(node)[1]

    def _read(self, node: Node) -> tuple[Machine | None, int]:
        """Return a node's machine, None unless its resource counts whole GPUs, and its situation without GPU pods.

        What cannot be read is noted once and left out: first the annotation, then the labels.
        """
        known = self._machines.get(node.name)
        if known is not None and known[0] is node:
            return known[1], known[2]
        machine, problem = machine_and_problem(node)
        self.problems.pop(node.name, None)
        if problem:
            self.problems[node.name] = problem
        number = UNKNOWN if machine is None else self._situations.number_of(machine, machine.all_gpus)
        self._machines[node.name] = (node, machine, number)
        return machine, number

    def _forget_surplus(self, all_rows: list[Row]) -> None:
        """Bound what is kept, however long the process runs; O(1) in the mean."""
        if len(self._situations) > MOST_SITUATIONS:
            self._situations = Situations()
            self._seen.clear()
            self._machines.clear()
        if len(self._machines) > len(all_rows) + MOST_STALE:
            self._machines.clear()
            self.problems.clear()
        if len(self._seen) > 2 * len(all_rows) + MOST_STALE:
            self._seen = {row: self._seen[row] for row in all_rows if row in self._seen}


def _is_needed(pod: Pod | None) -> bool:
    """Tell whether the set of a pod has to be remembered: it is still there, and does not tell its GPUs itself."""
    return pod is not None and not pod.is_terminal and not (pod.node_name and GPUS_ANNOTATION in pod.annotations)


def machine_and_problem(node: Node) -> tuple[Machine | None, str]:
    """Return the machine of a node whose resource counts whole GPUs, as far as it can be read, and what could not be."""
    problem = ""
    for trusted in (node.annotations, {}):
        try:
            machine = machine_of(node.labels, trusted)
        except TopologyError as error:
            problem = problem or str(error)
        else:
            return machine if machine is not None and machine.is_whole else None, problem
    return None, problem
