"""NodePorts keeps a pod off nodes where another pod claims one of its host ports.

At PreFilter, where pods without host ports are done, and at Filter.  Two claims clash if protocol and port are equal and
the addresses are equal or one of them is 0.0.0.0 (`::` is no wildcard, as in kube-scheduler).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Code, Reason, Status
from scheduler.framework.verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.framework.cycle_state import CycleState
    from scheduler.model import HostPort, Pod
    from scheduler.state.snapshot import Nodes

NAME = "NodePorts"
TAKEN = Reason(
    "HostPortTaken",
    "node(s) didn't have free ports for the requested pod ports",
    cures=ClusterEvent.POD_REMOVED | ClusterEvent.NODE_ADDED,
)
WILDCARD = "0.0.0.0"  # noqa: S104 - the wildcard of the API


def clash(wanted: Iterable[HostPort], claimed: Iterable[HostPort]) -> bool:
    """Tell whether any two claims exclude each other."""
    return any(
        a.port == b.port and a.protocol == b.protocol and (a.ip == b.ip or WILDCARD in (a.ip, b.ip))
        for b in claimed
        for a in wanted
    )


class NodePorts(Plugin):
    """Keep host ports unique."""

    NAME: ClassVar[str] = NAME
    READS_ONE_NODE: ClassVar[bool] = True
    READS_SHAPE_ONLY: ClassVar[bool] = True

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Leave pods without host ports alone."""
        return None if pod.ports else Status.skip()

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse nodes on which a port is taken; O(pods), for the few pods that ask."""
        verdicts = Verdicts(len(nodes))
        if wanted := pod.ports:
            every = nodes.snapshot.all_rows
            claims = [[p.ports for p in every[i].pods.values() if p.ports] for i in nodes.rows.tolist()]
            taken = [bool(ports) and any(clash(wanted, each) for each in ports) for ports in claims]
            verdicts.reject(np.array(taken, dtype=np.bool_), Code.UNSCHEDULABLE, TAKEN)
        return verdicts
