"""TaintToleration keeps pods off nodes whose taints they do not tolerate, and prefers nodes with fewer of them.

At Filter for NoSchedule and NoExecute, at Score for PreferNoSchedule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Code, Reason
from scheduler.framework.verdicts import Verdicts
from scheduler.state.node_taints import disliked, dislikes_nothing, first_untolerated, untolerated

if TYPE_CHECKING:
    from scheduler.framework.change import Change
    from scheduler.framework.cycle_state import CycleState
    from scheduler.model import Pod
    from scheduler.model.api import Taint
    from scheduler.state.snapshot import Ints, Nodes

NAME = "TaintToleration"
TEXT = "node(s) had untolerated taint(s)"
CURES = ClusterEvent.NODE_ADDED | ClusterEvent.NODE_TAINTS | ClusterEvent.POD_UPDATED
#: The feature gate that lets tolerations compare numbers (Lt, Gt); off by default, as in Kubernetes 1.37.
GATE = "TaintTolerationComparisonOperators"
#: Only so many different taints are named in reasons; the rest share one that names none.
MOST_NAMED = 16


class TaintToleration(Plugin):
    """Respect taints."""

    NAME: ClassVar[str] = NAME
    READS_NODES_ONLY: ClassVar[bool] = True
    READS_SHAPE_ONLY: ClassVar[bool] = True

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse nodes with a taint that the pod does not tolerate."""
        found, taints = untolerated(nodes, pod.tolerations, compares=self.is_gate_on(GATE))
        verdicts = Verdicts(len(nodes))
        if not taints:
            return verdicts
        for order, index in enumerate(np.flatnonzero(np.bincount(found)[1:]).tolist(), start=1):
            if order > MOST_NAMED:
                rest = found > index
                verdicts.reject(rest, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Reason("UntoleratedTaint", TEXT, CURES))
                break
            verdicts.reject(found == index + 1, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, _reason(taints[index]))
        return verdicts

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return how many PreferNoSchedule taints of each node the pod does not tolerate."""
        return disliked(nodes, pod.tolerations, compares=self.is_gate_on(GATE))

    def same_score(self, pod: Pod, nodes: Nodes) -> int | None:
        """Return 100 where nodes have no such taints."""
        return 100 if dislikes_nothing(nodes, pod.tolerations, compares=self.is_gate_on(GATE)) else None

    def normalize(self, state: CycleState, pod: Pod, scores: Ints) -> Ints:
        """Return 100 for the fewest such taints, scaled down to 0 for the most."""
        most = int(scores.max(initial=0))
        return 100 - scores * 100 // most if most else np.full_like(scores, 100)

    def queueing_hint(self, event: ClusterEvent, change: Change, pod: Pod, reason: Reason) -> bool:
        """Tell whether the node that changed lets the pod in now."""
        node = self.handle.cluster.nodes.get(change.node_name)
        if node is None or not event & (ClusterEvent.NODE_ADDED | ClusterEvent.NODE_TAINTS):
            return True
        return first_untolerated(node.taints, pod.tolerations, compares=self.is_gate_on(GATE)) is None


def _reason(taint: Taint) -> Reason:
    named = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
    return Reason("UntoleratedTaint", TEXT, CURES, numbers=(("taint", named),))
