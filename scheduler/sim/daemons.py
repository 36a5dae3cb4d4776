"""The DaemonSet controller: a pod for each node that its selectors and tolerations allow, bound to it by a node affinity.

For the embedded cluster.  As in Kubernetes the controller picks the nodes and the scheduler looks for room on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from scheduler.model.api import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, Requirement, Toleration
from scheduler.model.selectors import matches_node, tolerates

from .defaults import suffix_of
from .workloads import Controller

if TYPE_CHECKING:
    from scheduler.model import Node
    from scheduler.model.api import PodSpec

    from .cluster import Cluster, SimPod
    from .objects import ApiReplicas, PodTemplate
    from .world import ControllerObject

_NAME_FIELD = "metadata.name"
_NODE_TAINT = "node.kubernetes.io"
#: What daemons endure always: (taint, effect).
_ENDURED = (
    ("not-ready", "NoExecute"), ("unreachable", "NoExecute"), ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"), ("pid-pressure", "NoSchedule"), ("unschedulable", "NoSchedule"),
)  # fmt: skip


class DaemonController(Controller):
    """A DaemonSet: one pod per node, for ever."""

    def __init__(self, item: ControllerObject, api: ApiReplicas, cluster: Cluster) -> None:
        """Keep the spec."""
        super().__init__(item.owner, item.root, cluster)
        self._template = api.spec.template

    @property
    def wanted(self) -> int:
        """How many nodes there are for it now."""
        return len(self._nodes())

    @property
    def template(self) -> PodTemplate:
        """The template."""
        return self._template

    def pod_ended(self, sim: SimPod) -> None:
        """Leave a daemon that has ended as it is: one that fails at once would be made again for ever."""
        self.active.pop(sim.pod.uid, None)

    def pod_terminating(self, sim: SimPod) -> None:
        """Wait until it is gone: a node has one daemon at a time."""
        self.active.pop(sim.pod.uid, None)

    def reconcile(self) -> None:
        """Make the missing pods."""
        present = {node_of(sim.api.spec) for sim in self.cluster.pods.values() if sim.controller is self}
        for node in self._nodes():
            if node not in present:
                name = f"{self.owner.name}-{suffix_of(*self.owner, node, self.made)}"
                self.make_pod(name, spec=_spec_for(self._template.spec, node))

    def _nodes(self) -> list[str]:
        return [name for name, node in sorted(self.cluster.nodes.items()) if _may_run(self._template.spec, node)]


def node_of(spec: PodSpec) -> str:
    """Return the node of a daemon: where it is bound, or where its affinity sends it."""
    if spec.node_name:
        return spec.node_name
    required = spec.affinity.node_affinity if spec.affinity else None
    selector = required.required_during_scheduling_ignored_during_execution if required else None
    for term in selector.node_selector_terms if selector else ():
        for line in term.match_fields or ():
            if line.key == _NAME_FIELD and line.values:
                return line.values[0]
    return ""


def _may_run(spec: PodSpec, node: Node) -> bool:
    """Tell whether a daemon belongs on a node: its selector, its affinity, and the taints that it endures."""
    if any(node.labels.get(key) != value for key, value in (spec.node_selector or {}).items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is not None and not matches_node(required, node.labels, node.name):
        return False
    tolerations = _tolerations(spec)
    return all(
        taint.effect == "PreferNoSchedule" or any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in node.taints
    )


def _tolerations(spec: PodSpec) -> list[Toleration]:
    endured = [*_ENDURED, ("network-unavailable", "NoSchedule")] if spec.host_network else _ENDURED
    added = [Toleration(key=f"{_NODE_TAINT}/{name}", operator="Exists", effect=effect) for name, effect in endured]
    return [*(spec.tolerations or ()), *added]


def _spec_for(spec: PodSpec, node: str) -> PodSpec:
    """Return the spec of the pod for a node; its name takes the place of the required affinity, which has been looked at."""
    term = NodeSelectorTerm(match_fields=[Requirement(key=_NAME_FIELD, operator="In", values=[node])])
    affinity = (spec.affinity.node_affinity if spec.affinity else None) or NodeAffinity()
    required = NodeSelector(node_selector_terms=[term])
    bound = msgspec.structs.replace(affinity, required_during_scheduling_ignored_during_execution=required)
    return msgspec.structs.replace(spec, affinity=Affinity(node_affinity=bound), tolerations=_tolerations(spec))
