"""NVLinkTopology prefers nodes whose free GPUs are joined best by NVLink, and have the NICs near them that the pod asks for.

At PreFilter and Filter for pods that ask for NICs which have to be near (the annotation `scheduling.ai-scheduler.io/nic-scope`: switch,
numa or node), which is all that it refuses; at Score for pods that ask for whole GPUs; and at Reserve, where it chooses the set of
GPUs that it scored and publishes it as annotations of the binding.  NICs are asked for by resources such as `rdma/hca`.

It does not allocate: with a device plugin the kubelet chooses the GPUs and NICs, so what is published is what was scored.  It is what
NVIDIA's device plugin picks too where its policy agrees; the choice of the node is what this plugin decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from scheduler.config import ConfigurationModel
from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Code, Reason, Status
from scheduler.framework.verdicts import Verdicts
from scheduler.model.node_topology import NodeTopology
from scheduler.state.slice_machines import SliceMachines
from scheduler.topology import (
    NIC_SCOPE_ANNOTATION,
    TopologyError,
    clique_of,
    mask_of_gpus,
    parse_scope,
)

from .asking import NIC_RESOURCES, Ask, ask_of
from .occupancy import Held, Occupancy
from .publishing import published, sets_of_siblings

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.model import Pod
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Ints, Nodes
    from scheduler.topology import Machine

NAME = "NVLinkTopology"
DOMAIN_ANNOTATION = "scheduling.ai-scheduler.io/domain"
#: First part of the key under which DefaultBinder finds what to publish; the second is the pod's uid.
ANNOTATIONS = "annotations"
CURES = ClusterEvent.POD_REMOVED | ClusterEvent.NODE_ANY | ClusterEvent.NODE_TOPOLOGY_CHANGED
NICS_FAR = Reason("NicsTooFar", "node(s) had no free GPUs with as many free NICs as near as required", CURES)
NICS_NEVER = Reason("NicsNeverNear", "node(s) have no GPUs with as many NICs as near as required", CURES)


class NVLinkTopologyArgs(ConfigurationModel):
    """Arguments of NVLinkTopology."""

    resource_name: str = Field(default="nvidia.com/gpu", min_length=1)
    """The resource that counts whole GPUs."""
    nic_resource_names: list[str] = Field(default_factory=lambda: list(NIC_RESOURCES))
    """The resources that count NICs; a name stands for all that begin with it."""
    required_nic_scope: Literal["switch", "numa", "node"] | None = None
    """How near all NICs have to be that a pod asks for: on a PCIe switch of its GPUs, on a NUMA node of theirs, or on the node; the
    pod's own annotation `scheduling.ai-scheduler.io/nic-scope` goes before it. Without either, near NICs are only preferred."""


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
        self._machines: SliceMachines | None = None
        self._occupancy = Occupancy(
            self._resource, self.args.nic_resource_names, self._ask_of, self._topology_of, self._told_by_slices
        )

    @property
    def problems(self) -> dict[str, str]:
        """What could not be read of which node, a sentence by node name; something that is trusted less is used instead."""
        return {name: text for name, text in self._occupancy.problems.items() if name in self.handle.snapshot.row_of}

    def sign(self, pod: Pod) -> Hashable:
        """Return how near the pod's NICs have to be."""
        return self._ask_of(pod).required

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Leave pods alone whose NICs may be anywhere; refuse one whose annotation cannot be read."""
        if (text := pod.annotations.get(NIC_SCOPE_ANNOTATION)) is not None:
            try:
                parse_scope(text)
            except TopologyError as error:
                return Status.unresolvable(Reason("InvalidNicScope", str(error), ClusterEvent.POD_UPDATED))
        ask = self._ask_of(pod)
        return None if ask.gpus and ask.required is not None else Status.skip()

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse nodes without free GPUs that have the NICs as near as required."""
        verdicts, ask = Verdicts(len(nodes)), self._ask_of(pod)
        if ask.gpus and ask.required is not None:
            far, never = self._occupancy.far(nodes, ask)
            verdicts.reject(far & ~never, Code.UNSCHEDULABLE, NICS_FAR)
            verdicts.reject(never, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NICS_NEVER)
        return verdicts

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Leave pods without GPUs alone."""
        return None if pod.requests.get(self._resource) else Status.skip()

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return what the best free set of each node is worth (`scoring.score`)."""
        return self._occupancy.scores(nodes, self._ask_of(pod))

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Choose the pod's GPUs, remember them, and leave them for the Binding to publish; others' annotations win."""
        row = self._row(node_name)
        if row is None or not pod.requests.get(self._resource):
            return
        self.unreserve(state, pod, node_name)
        annotations = {} if (clique := clique_of(row.node.labels)) is None else {DOMAIN_ANNOTATION: clique}
        wanted = sets_of_siblings(state, pod, self.handle.cluster, self._occupancy.remembered)
        if (choice := self._occupancy.choose(row, pod, wanted)) is not None:
            nics = mask_of_gpus(choice.nics.nics) if choice.nics is not None else 0
            self._occupancy.remember(pod.uid, Held(choice.gpus.mask, nics), row, self.handle.cluster.pods)
            annotations |= published(choice, self._occupancy.quality(row, choice.gpus), self._occupancy.machine(row))
            if choice.gpus.mask not in wanted:
                wanted.append(choice.gpus.mask)
        others = state.read((ANNOTATIONS, pod.uid), {})
        state.write((NAME, pod.uid), annotations.keys() - others.keys())
        state.write((ANNOTATIONS, pod.uid), {**annotations, **others})

    def _ask_of(self, pod: Pod) -> Ask:
        return ask_of(pod, self._resource, self.args.nic_resource_names, self.args.required_nic_scope)

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

    def _told_by_slices(self, node_name: str) -> Machine | None:
        """Return the machine that the ResourceSlices of a node tell, if they tell one."""
        if self._machines is None and self.handle is not None:
            self._machines = SliceMachines(self.handle.cluster.objects)
        return self._machines.machine_of(node_name) if self._machines is not None else None

    def _row(self, node_name: str) -> Row | None:
        """Return what is known of a node in this cycle; None if it is gone."""
        index = self.handle.snapshot.row_of.get(node_name)
        return None if index is None else self.handle.snapshot.all_rows[index]
