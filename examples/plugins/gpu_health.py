"""GPUHealth keeps GPU pods off nodes that counted too many GPU errors, and prefers those that counted the fewest."""

import numpy as np
from pydantic import Field
from scheduler import Change, ClusterEvent, Code, CycleState, Node, Nodes, Plugin, Pod, Reason, Verdicts
from scheduler.config import ConfigurationModel

NAME = "GPUHealth"
GPU = "nvidia.com/gpu"
CURES = ClusterEvent.NODE_ADDED | ClusterEvent.NODE_LABELS
TOO_MANY = Reason("TooManyGPUErrors", "node(s) had too many GPU errors", CURES)


class GPUHealthArgs(ConfigurationModel):
    """Arguments of GPUHealth."""

    label: str = Field(default="example.com/gpu-errors", min_length=1)
    """The node label that counts the errors."""
    most_errors: int = Field(default=3, ge=0)
    """A node with more of them gets no pods that ask for GPUs."""


class GPUHealth(Plugin):
    """Mind the errors that a node counted."""

    NAME = NAME
    Args = GPUHealthArgs
    READS_NODES_ONLY = True
    READS_SHAPE_ONLY = True

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse all nodes with too many errors at once."""
        verdicts = Verdicts(len(nodes))
        if pod.requests.get(GPU):
            is_bad = self._errors(nodes) > self.args.most_errors
            verdicts.reject(is_bad, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, TOO_MANY)
        return verdicts

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> np.ndarray:
        """Return the errors themselves; normalize turns them round."""
        return self._errors(nodes)

    def normalize(self, state: CycleState, pod: Pod, scores: np.ndarray) -> np.ndarray:
        """Return 100 where there are none, and 0 where there are most."""
        return 100 - scores * 100 // max(1, int(scores.max(initial=0)))

    def queueing_hint(self, event: ClusterEvent, change: Change, pod: Pod, reason: Reason) -> bool:
        """Wake a refused pod only if the node that changed is a healthy one now."""
        row = self.handle.cluster.view(change.node_name)
        return row is None or self._count(row.node) <= self.args.most_errors

    def _errors(self, nodes: Nodes) -> np.ndarray:
        return nodes.column((NAME, self.args.label), self._count, np.int64)

    def _count(self, node: Node) -> int:
        text = node.labels.get(self.args.label, "")
        return int(text) if text.isdecimal() else 0
