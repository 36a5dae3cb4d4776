"""NVLinkTopology prefers nodes whose free GPUs are joined best by NVLink.

At Score for pods that ask for whole GPUs, and at Reserve, where it chooses the set of GPUs that it scored and publishes it as
annotations of the binding.  It refuses nothing; that gangs stay inside one NVLink domain is FabricTopology's concern.

It does not allocate: with a device plugin the kubelet chooses the GPUs, so the set that is published is *assumed*.  It is what
NVIDIA's device plugin picks too where its policy agrees; the choice of the node is what this plugin decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from scheduler.config import ConfigurationModel
from scheduler.framework.plugin import Plugin
from scheduler.framework.status import Status
from scheduler.model.node_topology import NodeTopology
from scheduler.topology import GPUS_ANNOTATION, clique_of, format_gpus

from .occupancy import Occupancy

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.model import Pod
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Ints, Nodes

NAME = "NVLinkTopology"
PLACEMENT_ANNOTATION = "scheduling.ai-scheduler.io/placement"
DOMAIN_ANNOTATION = "scheduling.ai-scheduler.io/domain"
#: First part of the key under which DefaultBinder finds what to publish; the second is the pod's uid.
ANNOTATIONS = "annotations"


class NVLinkTopologyArgs(ConfigurationModel):
    """Arguments of NVLinkTopology."""

    resource_name: str = Field(default="nvidia.com/gpu", min_length=1)
    """The resource that counts whole GPUs."""


class NVLinkTopology(Plugin):
    """Give pods GPUs that reach each other."""

    NAME: ClassVar[str] = NAME
    Args = NVLinkTopologyArgs
    READS_ONE_NODE: ClassVar[bool] = True
    READS_SHAPE_ONLY: ClassVar[bool] = True

    def __init__(self, args: NVLinkTopologyArgs | None, handle: Handle) -> None:
        """Start without memory: after a restart, the annotations of bound pods tell as much."""
        super().__init__(args or NVLinkTopologyArgs(), handle)
        self._resource: str = self.args.resource_name
        self._occupancy = Occupancy(self._resource, self._topology_of)

    @property
    def problems(self) -> dict[str, str]:
        """What could not be read of which node, a sentence by node name; something that is trusted less is used instead."""
        return {name: text for name, text in self._occupancy.problems.items() if name in self.handle.snapshot.row_of}

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Leave pods without GPUs alone."""
        return None if pod.requests.get(self._resource) else Status.skip()

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return what the best free set of each node is worth (`scoring.score`)."""
        return self._occupancy.scores(nodes, pod.requests.get(self._resource, 0))

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Choose the pod's GPUs, remember them, and leave them for the Binding to publish; others' annotations win."""
        row = self._row(node_name)
        if row is None or not pod.requests.get(self._resource):
            return
        self.unreserve(state, pod, node_name)
        annotations = {} if (clique := clique_of(row.node.labels)) is None else {DOMAIN_ANNOTATION: clique}
        if (found := self._occupancy.choose(row, pod)) is not None:
            chosen, basis = found
            self._occupancy.remember(pod.uid, chosen.mask, row, self.handle.cluster.pods)
            quality = self._occupancy.quality(row, chosen)
            annotations[GPUS_ANNOTATION] = format_gpus(chosen.mask, basis)
            annotations[PLACEMENT_ANNOTATION] = f"quality={quality};bandwidth-gbps={chosen.bandwidth_gbps}"
        others = state.read((ANNOTATIONS, pod.uid), {})
        state.write((NAME, pod.uid), annotations.keys() - others.keys())
        state.write((ANNOTATIONS, pod.uid), {**annotations, **others})

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Forget the set, and take back the annotations that Reserve added."""
        self._occupancy.forget(pod.uid, self._row(node_name))
        if added := state.read((NAME, pod.uid)):
            published = state.read((ANNOTATIONS, pod.uid), {})
            state.write((NAME, pod.uid), None)
            state.write((ANNOTATIONS, pod.uid), {key: text for key, text in published.items() if key not in added})

    def _topology_of(self, node_name: str) -> NodeTopology | None:
        """Return what the agent of a node says of it, if anything."""
        return self.handle.cluster.objects.get(NodeTopology, "", node_name) if self.handle is not None else None

    def _row(self, node_name: str) -> Row | None:
        """Return what is known of a node in this cycle; None if it is gone."""
        index = self.handle.snapshot.row_of.get(node_name)
        return None if index is None else self.handle.snapshot.all_rows[index]
