"""NodeUnschedulable keeps pods off cordoned nodes (`spec.unschedulable`), unless they tolerate that.

At Filter, beside the taint that the node controller sets, which may come late or never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Code, Reason
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api import Taint
from scheduler.model.selectors import tolerates

if TYPE_CHECKING:
    from scheduler.framework.change import Change
    from scheduler.framework.cycle_state import CycleState
    from scheduler.model import Node, Pod
    from scheduler.state.snapshot import Nodes

NAME = "NodeUnschedulable"
UNSCHEDULABLE = Reason(
    "NodeUnschedulable",
    "node(s) were unschedulable",
    cures=ClusterEvent.NODE_ADDED | ClusterEvent.NODE_TAINTS | ClusterEvent.POD_UPDATED,
)
TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def is_tolerated(pod: Pod) -> bool:
    """Tell whether a pod tolerates the taint of a cordoned node."""
    return any(tolerates(toleration, TAINT) for toleration in pod.tolerations)


class NodeUnschedulable(Plugin):
    """Avoid cordoned nodes."""

    NAME: ClassVar[str] = NAME
    READS_NODES_ONLY: ClassVar[bool] = True
    READS_SHAPE_ONLY: ClassVar[bool] = True

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse cordoned nodes to pods that do not tolerate the taint of a cordoned node."""
        verdicts = Verdicts(len(nodes))
        if not is_tolerated(pod):
            is_cordoned = nodes.column(NAME, _is_unschedulable)
            verdicts.reject(is_cordoned, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, UNSCHEDULABLE)
        return verdicts

    def queueing_hint(self, event: ClusterEvent, change: Change, pod: Pod, reason: Reason) -> bool:
        """Tell whether the node that changed takes pods now, or this one all the same."""
        node = self.handle.cluster.nodes.get(change.node_name)
        return node is None or not node.is_unschedulable or is_tolerated(pod)


def _is_unschedulable(node: Node) -> bool:
    return node.is_unschedulable
