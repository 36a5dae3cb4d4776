"""Rejections: pods that a kubelet refused to start, though the scheduler had found room for them.

For the intake.  Somebody else used the room, or the node hands out devices and cores in another way than was thought: the gang
of such a pod keeps off the node for a while, or it would be sent there again at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def is_rejection(former: Pod, pod: Pod) -> bool:
    """Tell whether a pod failed because its node would not have it, or not any more: kubelets admit anew when they restart."""
    if pod.phase != "Failed" or former.is_terminal:
        return False
    return pod.status_reason in _REASONS or pod.status_reason.startswith(_OUT_OF)
