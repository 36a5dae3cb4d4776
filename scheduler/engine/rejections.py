"""Rejections: pods that a kubelet refused to start, though the scheduler had found room for them.

For the intake.  Somebody else used the room, or the node hands out devices and cores in another way than was thought: the gang
of such a pod keeps off the node for a while, or it would be sent there again at once.  A new process finds the refusals of the last
minutes at the pods that failed, as long as nobody has deleted them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from scheduler.model.times import parse_time

if TYPE_CHECKING:
    from scheduler.model import Pod

#: How long a gang keeps off a node that refused one of its members, in seconds.
SHUN_SECONDS = 300.0
#: Reasons of the kubelet's admission (pkg/kubelet: lifecycle, topologymanager, cpumanager, nodeshutdown).
_REASONS = frozenset(
    {
        "AppArmor",
        "InvalidNodeInfo",
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "NodeShutdown",
        "NodeUnschedulable",
        "PodFeatureUnsupported",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "SMTAlignmentError",
        "TaintToleration",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
    }
)
#: OutOfcpu, OutOfpods, OutOfnvidia.com/gpu and so on.
_OUT_OF = "OutOf"


def is_rejection(former: Pod | None, pod: Pod) -> bool:
    """Tell whether a pod failed because its node would not have it, or not any more: kubelets admit anew when they restart.

    `former` is the pod as it was before, None if this is the first sight of it.
    """
    if pod.phase != "Failed" or (former is not None and former.is_terminal):
        return False
    return pod.status_reason in _REASONS or pod.status_reason.startswith(_OUT_OF)


def rejected_at(pod: Pod) -> float | None:
    """Return when a pod was refused, as its status tells: the latest time in it, in seconds since the epoch; None if it has none.

    A kubelet that refuses a new pod notes its start time, and one that refuses what it ran ends its readiness (pkg/kubelet/status).
    """
    times = [pod.started] if pod.started is not None else []
    for condition in pod.conditions:
        with suppress(ValueError):  # whoever wrote it, it is no time
            moment = parse_time(condition.last_transition_time)
            times += [] if moment is None else [moment]
    return max(times, default=None)
