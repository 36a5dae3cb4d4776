"""Picks the source that knows a node's machine best, and reads which NVLink clique the node belongs to.

In order of trust: DRA ResourceSlices, which somebody else reads (`of_slices`); the NodeTopology object; the `node-topology`
annotation; the labels of NVIDIA's GPU feature discovery (GFD).  A source that cannot be used, or that speaks of other GPUs than the
node has, becomes a problem, and the next one counts.
"""

from __future__ import annotations

import re
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from .annotation import NODE_TOPOLOGY_ANNOTATION, parse_node_topology
from .graph import MAX_GPUS, Machine, TopologyError, with_links_of
from .machines import COUNT_LABEL, PRODUCT_LABEL, board_of, counts_whole_gpus, known_machine, parse_count
from .told import machine_of_told

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.model.node_topology import NodeTopology

GFD_CLIQUE_LABEL = "nvidia.com/gpu.clique"

OTHER_CLIQUE_LABELS = (
    "accelerator.topograph.run/domain",
    "network.topology.nvidia.com/accelerator",
    "topology.k8s.aws/ultraserver-id",
)
"""Labels that name the NVLink domain of a node: Topograph from 1.0 on, Topograph before, AWS UltraServers."""


class Source(StrEnum):
    """Where a machine is known from, in order of trust."""

    SLICES = "ResourceSlice"
    OBJECT = "NodeTopology"
    ANNOTATION = "annotation"
    LABEL = "label"


class Problem(NamedTuple):
    """What is wrong with a source; the text names no node, so that equal faults of many nodes are one kind."""

    source: Source
    text: str


class Reading(NamedTuple):
    """The machine of a node, None if nothing speaks of NVIDIA GPUs; where it is known from; what could not be used."""

    machine: Machine | None
    source: Source | None = None
    problems: tuple[Problem, ...] = ()


_CLIQUE = re.compile(r"(?P<cluster>[0-9A-Fa-f-]{36})\.[0-9]{1,10}")


def read_machine(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    topology: NodeTopology | None = None,
    *,
    gpu_count: int = 0,
    of_slices: Machine | None = None,
) -> Reading:
    """Return the machine of a node from the best source that can be used; never raises.

    `gpu_count` is how many GPUs the node offers; it counts where no label tells how many there are.  `of_slices` is the machine
    that the node's ResourceSlices tell; where a device plugin offers another number of GPUs, they speak of others.  Slices
    tell NVLinks alone, so PCIe switches and NICs are those of the object or the annotation.
    """
    if of_slices is not None and gpu_count in (0, of_slices.gpu_count):
        layout = _layout_of(labels, annotations, topology, of_slices.gpu_count)
        return Reading(of_slices if layout is None else with_links_of(layout, of_slices), Source.SLICES)
    problems: list[Problem] = []
    if topology is not None:
        try:
            return Reading(_machine_of_object(labels, topology, gpu_count), Source.OBJECT)
        except TopologyError as error:
            problems.append(Problem(Source.OBJECT, str(error)))
    for source, trusted in ((Source.ANNOTATION, annotations), (Source.LABEL, {})):
        if source is Source.ANNOTATION and NODE_TOPOLOGY_ANNOTATION not in annotations:
            continue
        try:
            machine = machine_of(labels, trusted)
        except TopologyError as error:
            problems.append(Problem(source, str(error)))
        else:
            if machine is not None and source is Source.LABEL and not machine.is_known:
                problems.append(Problem(source, _unknown_text(labels, machine)))
            return Reading(machine, source if machine is not None else None, tuple(problems))
    return Reading(None, None, tuple(problems))


def _layout_of(
    labels: Mapping[str, str], annotations: Mapping[str, str], topology: NodeTopology | None, gpu_count: int
) -> Machine | None:
    """Return what the object, else the annotation, tells of a machine of so many GPUs; None if neither can be used."""
    found = None
    with suppress(TopologyError):  # what is wrong there is no matter while slices tell the machine
        if topology is not None:
            found = _machine_of_object(labels, topology, gpu_count)
        elif NODE_TOPOLOGY_ANNOTATION in annotations:
            found = machine_of(labels, annotations)
    return found if found is not None and found.gpu_count == gpu_count else None


def _machine_of_object(labels: Mapping[str, str], topology: NodeTopology, gpu_count: int) -> Machine:
    """Return the machine that an object tells; raises TopologyError, also if it has other GPUs than the node."""
    told = topology.machine
    product, label = labels.get(PRODUCT_LABEL, ""), labels.get(COUNT_LABEL, "")
    board = board_of(product)
    is_whole = counts_whole_gpus(product)
    has = int(label) if re.fullmatch(r"[0-9]{1,3}", label) else gpu_count if is_whole else 0
    if has and len(told.gpus) != has:
        raise TopologyError(f"spec.gpus: {len(told.gpus)} GPUs where the node has {has}; allowed are those of the node")
    gbps_per_link, pcie_gbps = (board.gbps_per_link, board.pcie_gbps) if board is not None else (None, None)
    return machine_of_told(told, gbps_per_link, pcie_gbps, is_whole=is_whole)


def _unknown_text(labels: Mapping[str, str], machine: Machine) -> str:
    product = labels.get(PRODUCT_LABEL, "")[:63]
    return (
        f"label {PRODUCT_LABEL}: {product!r} with {machine.gpu_count} GPUs is no machine that is known, so nothing is known "
        f"of its links; a NodeTopology or the annotation {NODE_TOPOLOGY_ANNOTATION} can tell them"
    )


def machine_of(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Machine | None:
    """Return the machine of a node from its annotation, else its labels; None when neither speaks of NVIDIA GPUs.

    With the annotation, the product label still gives the speed of NVLinks and slots. Raises TopologyError that names the
    annotation or label and what it may hold; a caller that wants the labels then asks again without annotations.
    """
    product, count = labels.get(PRODUCT_LABEL), labels.get(COUNT_LABEL)
    annotation = annotations.get(NODE_TOPOLOGY_ANNOTATION)
    if annotation is not None:
        board = board_of(product or "")
        if board is None:
            return parse_node_topology(annotation)
        return parse_node_topology(annotation, board.gbps_per_link, board.pcie_gbps)
    if product is None and count is None:
        return None
    if count is None:
        raise TopologyError(
            f"label {COUNT_LABEL}: missing beside {PRODUCT_LABEL}; allowed is a whole number, 1 to {MAX_GPUS}"
        )
    return known_machine(product or "", parse_count(count))


def clique_of(labels: Mapping[str, str]) -> str | None:
    """Return the name of the NVLink domain that spans nodes, or None for a node that is in none.

    GFD's label is `<cluster uuid>.<clique id>`; a malformed one, and the all-zero cluster of a machine that is joined to no
    other, count as none. The first label that is set wins: a cluster should use one kind.
    """
    clique = _CLIQUE.fullmatch(labels.get(GFD_CLIQUE_LABEL, ""))
    if clique is not None and clique["cluster"].strip("0-"):
        return clique[0]
    return next((labels[label] for label in OTHER_CLIQUE_LABELS if labels.get(label)), None)
