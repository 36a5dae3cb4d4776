"""TaintToleration keeps pods off nodes whose taints they do not tolerate, and prefers nodes with fewer of them.

At Filter for NoSchedule and NoExecute, at Score for PreferNoSchedule.  Few sets of taints occur in a cluster, so each is
judged once for the tolerations of a pod, and the nodes take the judgement from a table.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Code, Reason
from scheduler.framework.verdicts import Verdicts
from scheduler.model.selectors import tolerates

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.framework.cycle_state import CycleState
    from scheduler.model import Node, Pod
    from scheduler.model.api import Taint, Toleration
    from scheduler.state.snapshot import Ints, Nodes

NAME = "TaintToleration"
TEXT = "node(s) had untolerated taint(s)"
CURES = ClusterEvent.NODE_ADDED | ClusterEvent.NODE_TAINTS | ClusterEvent.POD_UPDATED
#: Only so many different taints are named in reasons; the rest share one that names none.
MOST_NAMED = 16

#: Every set of taints seen by this process, numbered in the order of appearance.
_numbers: dict[tuple[Taint, ...], int] = {}


def first_untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """Return the first taint that keeps the pod off a node."""
    for taint in taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not any(tolerates(t, taint) for t in tolerations):
            return taint
    return None


def count_disliked(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> int:
    """Return how many PreferNoSchedule taints the pod does not tolerate."""
    soft = [taint for taint in taints if taint.effect == "PreferNoSchedule"]
    return sum(not any(tolerates(t, taint) for t in tolerations) for taint in soft)


class TaintToleration(Plugin):
    """Respect taints."""

    NAME: ClassVar[str] = NAME
    READS_NODES_ONLY: ClassVar[bool] = True
    READS_SHAPE_ONLY: ClassVar[bool] = True

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse nodes with a taint that the pod does not tolerate."""
        numbers = nodes.column(NAME, _number, np.int64)
        reason_of, reasons = _refusals(pod.tolerations, len(_numbers))
        verdicts = Verdicts(len(nodes))
        if reasons:
            found = reason_of[numbers]
            for index, reason in enumerate(reasons, start=1):
                verdicts.reject(found == index, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)
        return verdicts

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return how many PreferNoSchedule taints of each node the pod does not tolerate."""
        numbers = nodes.column(NAME, _number, np.int64)
        disliked: Ints = _dislikes(pod.tolerations, len(_numbers))[numbers]
        return disliked

    def normalize(self, state: CycleState, pod: Pod, scores: Ints) -> Ints:
        """Return 100 for the fewest such taints, scaled down to 0 for the most."""
        most = int(scores.max(initial=0))
        return 100 - scores * 100 // most if most else np.full_like(scores, 100)


def _number(node: Node) -> int:
    """Return the number of a node's set of taints."""
    return _numbers.setdefault(node.taints, len(_numbers))


@lru_cache(maxsize=1024)
def _refusals(tolerations: tuple[Toleration, ...], sets: int) -> tuple[Ints, tuple[Reason, ...]]:
    """Judge the first so many sets: 0 for those that let the pod in, else 1 + the index of the reason."""
    reasons: dict[Reason, int] = {}
    reason_of = np.zeros(sets, dtype=np.int64)
    for number, taints in enumerate(list(_numbers)[:sets]):
        if taint := first_untolerated(taints, tolerations):
            reason = _reason(taint)
            if len(reasons) >= MOST_NAMED and reason not in reasons:
                reason = Reason("UntoleratedTaint", TEXT, CURES)
            reason_of[number] = reasons.setdefault(reason, len(reasons) + 1)
    return reason_of, tuple(reasons)


@lru_cache(maxsize=1024)
def _dislikes(tolerations: tuple[Toleration, ...], sets: int) -> Ints:
    """Count the disliked taints of the first so many sets."""
    return np.array([count_disliked(taints, tolerations) for taints in list(_numbers)[:sets]], dtype=np.int64)


def _reason(taint: Taint) -> Reason:
    named = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
    return Reason("UntoleratedTaint", TEXT, CURES, numbers=(("taint", named),))
