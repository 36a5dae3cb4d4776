"""AvoidNode keeps new pods off nodes that are in maintenance now, and puts them last where it comes soon."""

from scheduler import ClusterEvent, CycleState, NodeView, Plugin, Pod, Reason, Status

LABEL = "example.com/maintenance"
NOW = Reason("InMaintenance", "node(s) are in maintenance", ClusterEvent.NODE_ADDED | ClusterEvent.NODE_LABELS)


class AvoidNode(Plugin):
    """Respect the label example.com/maintenance: now, or soon."""

    NAME = "AvoidNode"

    def filter(self, state: CycleState, pod: Pod, node: NodeView) -> Status | None:
        """Refuse a node that is in maintenance; no eviction can cure that."""
        return Status.unresolvable(NOW) if node.labels.get(LABEL) == "now" else None

    def score(self, state: CycleState, pod: Pod, node: NodeView) -> int:
        """Give 0 to a node whose maintenance comes soon, 100 to all others."""
        return 0 if node.labels.get(LABEL) == "soon" else 100
