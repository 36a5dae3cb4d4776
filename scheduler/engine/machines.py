"""MachineWarnings: says what cannot be used of what is told about the machines of nodes, once per kind.

For the intake, which calls it when something that is told has changed.  A fault of labels or of an annotation is said at the first
node that has it, whatever number of nodes there are; a fault of a NodeTopology at that object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.effects import ObjectRef
from scheduler.model.gang import PREFIX
from scheduler.model.node_topology import NodeTopology
from scheduler.state.slice_machines import SliceMachines
from scheduler.topology import Source, read_machine

if TYPE_CHECKING:
    from scheduler.model import Node

    from .core import Core

GPU = "nvidia.com/gpu"
#: With so many kinds of faults, all are forgotten and said anew.
_MOST_KINDS = 1024


class MachineWarnings:
    """Warnings about machines; each is said once."""

    def __init__(self, core: Core) -> None:
        """Take where nodes are known and warnings go."""
        self._core = core
        self._slices = SliceMachines(core.cluster.objects)
        self._said: set[tuple[str, str]] = set()

    def look(self, node_name: str) -> None:
        """Look at what is told of a node; nothing is said of one that is not there or has no GPUs."""
        cluster = self._core.cluster
        node, topology = cluster.nodes.get(node_name), cluster.objects.get(NodeTopology, "", node_name)
        if node is None or not node.allocatable.get(GPU):
            return
        told, offered = self._slices.machine_of(node_name), node.allocatable[GPU]
        reading = read_machine(node.labels, node.annotations, topology, gpu_count=offered, of_slices=told)
        for source, text in reading.problems:
            self._say(node, topology if source is Source.OBJECT else None, source, text)

    def _say(self, node: Node, topology: NodeTopology | None, source: Source, text: str) -> None:
        kind = (topology.name if topology is not None else "", text)
        if kind in self._said:
            return
        if len(self._said) >= _MOST_KINDS:
            self._said.clear()
        self._said.add(kind)
        about = ObjectRef("v1", "Node", "", node.name, node.uid)
        if topology is not None:
            about = ObjectRef(f"{PREFIX}/v1alpha1", "NodeTopology", "", topology.name, topology.uid)
        controller = next(iter(self._core.runtimes))
        reason = "UnknownMachine" if source is Source.LABEL else "InvalidNodeTopology"
        self._core.reporter.event(about, "Warning", reason, "Scheduling", text, controller)
