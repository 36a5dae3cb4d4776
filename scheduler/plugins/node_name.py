"""NodeName lets a pod that names its node go there and nowhere else.

At PreFilter, where it narrows the search to that node, and at Filter.  A pod that waits to be scheduled never names
one, and has no shape if it does, so verdicts by shape stay right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Code, Kind, PreFilterResult, Reason
from scheduler.framework.verdicts import Verdicts

if TYPE_CHECKING:
    from scheduler.framework.change import Change
    from scheduler.framework.cycle_state import CycleState
    from scheduler.model import Node, Pod
    from scheduler.state.snapshot import Nodes

NAME = "NodeName"
OTHER_NODE = Reason(
    "OtherNodeRequested",
    "node(s) didn't match the requested node name",
    cures=ClusterEvent.NODE_ADDED,
    kind=Kind.NEVER,
)


class NodeName(Plugin):
    """Hold a pod to the node it names."""

    NAME: ClassVar[str] = NAME
    READS_NODES_ONLY: ClassVar[bool] = True
    READS_SHAPE_ONLY: ClassVar[bool] = True

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | None:
        """Narrow the search to the named node."""
        return PreFilterResult(frozenset((pod.node_name,))) if pod.node_name else None

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse every other node."""
        verdicts = Verdicts(len(nodes))
        if pod.node_name:
            is_other = nodes.column("name", _name, np.str_) != pod.node_name
            verdicts.reject(is_other, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, OTHER_NODE)
        return verdicts

    def queueing_hint(self, event: ClusterEvent, change: Change, pod: Pod, reason: Reason) -> bool:
        """Tell whether the node came that the pod names."""
        return not change.node_name or change.node_name == pod.node_name


def _name(node: Node) -> str:
    return node.name
