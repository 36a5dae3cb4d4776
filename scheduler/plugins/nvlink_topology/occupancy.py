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
from scheduler.topology import (
    GPUS_ANNOTATION,
    NICS_ANNOTATION,
    Basis,
    BoundPod,
    Source,
    choose_nics,
    format_gpus,
    free_gpus,
    gpus_of_mask,
    mask_of_gpus,
    parse_nics,
    read_machine,
    table_of,
)

from .asking import nics_in
from .scoring import UNKNOWN, Situations, lost_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scheduler.model import Node, Pod
    from scheduler.model.node_topology import DeviceReport, NodeTopology
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Bools, Ints, Nodes, Snapshot
    from scheduler.topology import GpuSet, Machine, NicAsk, NicChoice

    from .asking import Ask

NAME = "NVLinkTopology"

#: With more, all are forgotten and learned anew.
MOST_SITUATIONS = 65_536
#: Entries of nodes and rows that are gone, kept before somebody looks for them.
MOST_STALE = 1024
#: With fewer remembered sets, nobody looks for those that are not needed any more.
LEAST_REMEMBERED = 256
_NEVER_SEEN: tuple[None, int] = (None, UNKNOWN)


class Choice(NamedTuple):
    """What a pod is given: a set of GPUs, NICs by index, how it is known which were free, and what later pods lose by it."""

    gpus: GpuSet
    nics: NicChoice | None
    basis: Basis
    lost: int


class Held(NamedTuple):
    """What a pod was given, as masks."""

    gpus: int
    nics: int = 0


class Division(NamedTuple):
    """The free GPUs and NICs of a node as masks, and what pods get that are placed in a what-if, by uid."""

    free: int
    free_nics: int
    choices: dict[str, Choice]


class Divider(NamedTuple):
    """Divides what a node has among its pods."""

    resource: str
    ask_of: Callable[[Pod], Ask]
    #: Uid to what the pod was given, where its annotation is not known yet.
    remembered: Mapping[str, Held]

    def divide(self, known: Known, pods: Iterable[Pod], wanted: Sequence[int] = ()) -> Division:
        """Divide the GPUs and NICs of a node; `wanted` are sets that what-if pods take where they are as good as the best.

        A what-if pod that finds too few GPUs has no set and takes all that are left.
        """
        machine = known.machine
        assert machine is not None, "the caller has looked"
        settled, placed, free_nics = self._settle(known, pods)
        free, basis = (found := free_gpus(machine, settled, known.report)).mask, found.basis
        choices: dict[str, Choice] = {}
        for uid, ask in placed:
            near = ask.near(free_nics)
            best = best_of(machine, free, ask, near, wanted)
            if best is None:
                free = 0
                continue
            nics = choose_nics(machine, best.mask, near) if ask.nics else None
            choices[uid] = Choice(best, nics, basis, lost_of(machine, free, best.mask))
            free &= ~best.mask
            if nics is not None and known.has_exclusive_nics:
                free_nics &= ~mask_of_gpus(nics.nics)
        return Division(free, free_nics, choices)

    def _settle(self, known: Known, pods: Iterable[Pod]) -> tuple[list[BoundPod], list[tuple[str, Ask]], int]:
        """Return the pods that have GPUs, those that are placed in a what-if, and the free NICs."""
        machine = known.machine
        assert machine is not None, "the caller has looked"
        settled: list[BoundPod] = []
        placed: list[tuple[str, Ask]] = []
        free_nics = (1 << len(machine.nics)) - 1
        for pod in pods:
            ask = self.ask_of(pod)
            told = pod.annotations.get(GPUS_ANNOTATION) if pod.node_name else None
            held = self.remembered.get(pod.uid) if told is None else None
            if held is not None:
                told = format_gpus(held.gpus, Basis.ASSUMED)
            if ask.nics and known.has_exclusive_nics and (pod.node_name or told is not None):
                free_nics &= ~_nics_of(machine, pod, ask, held, free_nics)
            if ask.gpus and (pod.node_name or told is not None):
                settled.append(BoundPod(ask.gpus, told, pod.key, pod.created, pod.started))
            elif ask.gpus:
                placed.append((pod.uid, ask))
        return settled, placed, free_nics


def best_of(machine: Machine, free: int, ask: Ask, near: NicAsk, wanted: Sequence[int]) -> GpuSet | None:
    """Return the best set for a pod; the first wanted one that is free and as good as it comes first."""
    table = table_of(machine)
    best = table.best_near(free, ask.gpus, near) if ask.nics else table.best(free, ask.gpus)
    if best is None:
        return None
    for mask in wanted:
        if not mask & ~free and mask.bit_count() == ask.gpus:
            candidate = table.set_of(mask)
            is_as_near = (
                not ask.nics or choose_nics(machine, mask, near)[1:] == choose_nics(machine, best.mask, near)[1:]
            )
            if candidate.bandwidth_gbps == best.bandwidth_gbps and is_as_near:
                return candidate
    return best


def _nics_of(machine: Machine, pod: Pod, ask: Ask, held: Held | None, free: int) -> int:
    """Return the NICs that a pod has: as it tells, as remembered, or the first that are free."""
    told = parse_nics(pod.annotations.get(NICS_ANNOTATION, ""), machine) or (held.nics if held is not None else 0)
    return told or mask_of_gpus(gpus_of_mask(free)[: ask.nics])


class Known(NamedTuple):
    """What was read of a node, and of which objects."""

    node: Node
    topology: NodeTopology | None
    #: The machine that slices tell.
    told: Machine | None
    #: None unless the resource counts whole GPUs.
    machine: Machine | None
    #: What could not be used, as a sentence; empty if all is well.
    problem: str
    #: The node offers no more NICs than it has, so a pod has those that it gets for itself.
    has_exclusive_nics: bool

    @property
    def report(self) -> DeviceReport | None:
        """What the node agent has seen, where the machine is the one that it speaks of."""
        if self.topology is None or self.problem or self.machine is None:
            return None
        return self.topology.report if len(self.topology.machine.gpus) == self.machine.gpu_count else None


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

    def __init__(
        self, resource: str, nic_names: Sequence[str], ask_of: Callable[[Pod], Ask],
        topologies: Callable[[str], NodeTopology | None], told: Callable[[str], Machine | None],
    ) -> None:  # fmt: skip
        """Start without knowledge; `ask_of` returns what a pod asks for, `topologies` the NodeTopology of a node.

        `told` returns the machine that the slices of a node tell.
        """
        self._resource = resource
        self._nic_names = nic_names
        self._ask_of = ask_of
        self._topology_of = topologies
        self._told = told
        self._situations = Situations()
        #: Row to its pods and its situation: true while a row of that identity holds the same pods in the same order.
        self._seen: dict[Row, tuple[tuple[str, ...], int]] = {}
        self._known: dict[str, Known] = {}
        #: Nodes whose sets were remembered or forgotten since the rows were looked at.
        self._stale: set[str] = set()
        self._sweep_at = LEAST_REMEMBERED
        #: Uid to what pods were given that are not seen with their annotation yet.
        self.remembered: dict[str, Held] = {}

    @property
    def problems(self) -> dict[str, str]:
        """What could not be used of which node, a sentence by node name."""
        return {name: known.problem for name, known in self._known.items() if known.problem}

    def scores(self, nodes: Nodes, ask: Ask) -> Ints:
        """Return the score of each node for a pod; O(1) for each node whose pods changed, else by column."""
        return self._situations.scores(self._numbers(nodes), ask)

    def far(self, nodes: Nodes, ask: Ask) -> tuple[Bools, Bools]:
        """Return which nodes have no free GPUs with NICs as near as required, and which never have; shape (nodes,)."""
        numbers = self._numbers(nodes)
        kinds, inverse = np.unique(numbers, return_inverse=True)
        near = np.array([self._situations.is_near(kind, ask) for kind in kinds.tolist()], dtype=np.bool_)
        ever = np.array([self._situations.is_ever_near(kind, ask) for kind in kinds.tolist()], dtype=np.bool_)
        return ~near[inverse], ~ever[inverse]

    def _numbers(self, nodes: Nodes) -> Ints:
        """Return the situation of each node."""
        snapshot, situations = nodes.snapshot, self._forget_surplus(nodes.snapshot.all_rows)
        standing = snapshot.follower((NAME, situations), partial(Standing, self._number_of))
        for name in self._stale:
            if (index := snapshot.row_of.get(name)) is not None:
                standing.update(index, snapshot.all_rows[index])
        self._stale.clear()
        return nodes.at(standing.numbers)

    def choose(self, row: Row, pod: Pod, wanted: Sequence[int] = ()) -> Choice | None:
        """Return what a pod gets on a node, whether it is placed there already or not; None if none can be told.

        Of sets that are equally good, the first of `wanted` that is free is taken.
        """
        known = self.read(row.node)
        if known.machine is None:
            return None
        pods = row.pods.values() if pod.uid in row.pods else (*row.pods.values(), pod)
        return self._divider().divide(known, pods, wanted).choices.get(pod.uid)

    def quality(self, row: Row, chosen: GpuSet) -> int:
        """Return the bandwidth of a set as a percentage of the best of its size on an empty machine."""
        machine = self.read(row.node).machine
        ideal = table_of(machine).best(machine.all_gpus, len(chosen.gpus)) if machine is not None else None
        if ideal is None:
            return 0
        return 100 * chosen.bandwidth_gbps // ideal.bandwidth_gbps if ideal.bandwidth_gbps else 100

    def machine(self, row: Row) -> Machine | None:
        """Return the machine of a row's node, if the resource counts whole GPUs of it."""
        return self.read(row.node).machine

    def _divider(self) -> Divider:
        return Divider(self._resource, self._ask_of, self.remembered)

    def remember(self, uid: str, held: Held, row: Row, pods: Mapping[str, Pod]) -> None:
        """Keep what a pod was given on a row until its annotation is known; `pods` are all known pods by uid. O(1) in the mean."""
        if len(self.remembered) >= self._sweep_at:
            self.remembered = {u: m for u, m in self.remembered.items() if _is_needed(pods.get(u))}
            self._sweep_at = max(LEAST_REMEMBERED, 2 * len(self.remembered))
        self.remembered[uid] = held
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
        known, topology, told = self._known.get(node.name), self._topology_of(node.name), self._told(node.name)
        if known is not None and known.node is node and known.topology is topology and known.told is told:
            return known
        offered = node.allocatable.get(self._resource, 0)
        reading = read_machine(node.labels, node.annotations, topology, gpu_count=offered, of_slices=told)
        problem = next((problem.text for problem in reading.problems if problem.source is not Source.LABEL), "")
        problem = problem or next((p.text for p in reading.problems if reading.machine is None), "")
        machine = reading.machine if reading.machine is not None and reading.machine.is_whole else None
        nics = len(machine.nics) if machine is not None else 0
        is_exclusive = 0 < nics_in(node.allocatable, self._nic_names) <= nics
        known = self._known[node.name] = Known(node, topology, told, machine, problem, is_exclusive)
        return known

    def _number_of(self, row: Row) -> int:
        """Return a row's situation, looked up again if its pods are others."""
        uids, number = self._seen.get(row, _NEVER_SEEN)
        return number if uids == tuple(row.pods) else self._look(row)

    def _look(self, row: Row) -> int:
        """Return a row's situation, and note it."""
        known, number = self.read(row.node), UNKNOWN
        if known.machine is not None:
            division = self._divider().divide(known, row.pods.values())
            number = self._situations.number_of(known.machine, division.free, division.free_nics)
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
