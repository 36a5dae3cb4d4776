"""What plugin authors import, and nothing else.

from scheduler import Plugin, Reason, Status
"""

from scheduler.framework.change import Change
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.effects import BindPod, Effect, PodRef
from scheduler.framework.handle import Handle, WaitingPod
from scheduler.framework.plugin import AwaitEffects, Domain, Failure, Plugin, PostFilterResult, Victim
from scheduler.framework.status import ClusterEvent, Code, Kind, PreFilterResult, Reason, Status
from scheduler.framework.verdicts import Verdicts
from scheduler.framework.workload import Workload
from scheduler.model import Gang, Node, Pod, gang_key_of
from scheduler.state.rows import NodeView
from scheduler.state.snapshot import Nodes

__all__ = [
    "AwaitEffects",
    "BindPod",
    "Change",
    "ClusterEvent",
    "Code",
    "CycleState",
    "Domain",
    "Effect",
    "Failure",
    "Gang",
    "Handle",
    "Kind",
    "Node",
    "NodeView",
    "Nodes",
    "Plugin",
    "Pod",
    "PodRef",
    "PostFilterResult",
    "PreFilterResult",
    "Reason",
    "Status",
    "Verdicts",
    "Victim",
    "WaitingPod",
    "Workload",
    "gang_key_of",
]
