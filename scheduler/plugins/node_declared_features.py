"""NodeDeclaredFeatures keeps pods off nodes whose kubelet lacks a feature that they cannot run without.

At PreFilter, where pods without such needs are done, and at Filter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Code, Reason, Status
from scheduler.framework.verdicts import Verdicts

if TYPE_CHECKING:
    from scheduler.framework.change import Change
    from scheduler.framework.cycle_state import CycleState
    from scheduler.model import Pod
    from scheduler.state.snapshot import Nodes

NAME = "NodeDeclaredFeatures"
MISSING = Reason(
    "FeatureMissing",
    "node(s) didn't match Pod's required features",
    cures=ClusterEvent.NODE_ADDED | ClusterEvent.NODE_FEATURES | ClusterEvent.POD_UPDATED,
)


class NodeDeclaredFeatures(Plugin):
    """Match pods with what kubelets can do."""

    NAME: ClassVar[str] = NAME
    READS_NODES_ONLY: ClassVar[bool] = True
    READS_SHAPE_ONLY: ClassVar[bool] = True

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Leave pods that need no feature alone."""
        return None if pod.needed_features else Status.skip()

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse nodes that do not declare every feature that the pod needs."""
        verdicts = Verdicts(len(nodes))
        if needed := pod.needed_features:
            has_all = nodes.column((NAME, needed), lambda node: node.declared_features.issuperset(needed))
            verdicts.reject(~has_all, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, MISSING)
        return verdicts

    def queueing_hint(self, event: ClusterEvent, change: Change, pod: Pod, reason: Reason) -> bool:
        """Tell whether the node that changed declares every feature now."""
        node = self.handle.cluster.nodes.get(change.node_name)
        return node is None or node.declared_features.issuperset(pod.needed_features)
