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
from scheduler.state.row_cache import RowFollower

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.framework.change import Change
    from scheduler.framework.cycle_state import CycleState
    from scheduler.model import HostPort, Pod
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Nodes, Snapshot

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


class Claims(RowFollower):
    """Which rows use a port number, and with which claims."""

    def fill(self, snapshot: Snapshot) -> None:
        """Take over all rows."""
        self.rows_by_number: dict[int, dict[int, list[HostPort]]] = {}
        self._numbers: dict[int, set[int]] = {}
        for index, row in enumerate(snapshot.all_rows):
            self.update(index, row)

    def update(self, index: int, row: Row) -> None:
        """Take over one row."""
        for number in self._numbers.pop(index, ()):
            del self.rows_by_number[number][index]
        if claimed := row.claimed_ports():
            self._numbers[index] = {port.port for port in claimed}
            for port in claimed:
                self.rows_by_number.setdefault(port.port, {}).setdefault(index, []).append(port)


class NodePorts(Plugin):
    """Keep host ports unique."""

    NAME: ClassVar[str] = NAME
    READS_ONE_NODE: ClassVar[bool] = True
    READS_SHAPE_ONLY: ClassVar[bool] = True

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Leave pods without host ports alone."""
        return None if pod.ports else Status.skip()

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse nodes on which a port is taken; O(nodes that use one of the numbers)."""
        verdicts = Verdicts(len(nodes))
        if wanted := pod.ports:
            claims = nodes.snapshot.follower(NAME, Claims)
            taken = np.zeros(len(nodes.snapshot.all_rows), dtype=np.bool_)
            for number in {port.port for port in wanted}:
                rows = claims.rows_by_number.get(number, {})
                taken[[row for row, ports in rows.items() if clash(wanted, ports)]] = True
            verdicts.reject(nodes.at(taken), Code.UNSCHEDULABLE, TAKEN)
        return verdicts

    def queueing_hint(self, event: ClusterEvent, change: Change, pod: Pod, reason: Reason) -> bool:
        """Tell whether the pod that went had claimed one of the ports."""
        gone = change.former_pod
        return event is not ClusterEvent.POD_REMOVED or gone is None or clash(pod.ports, gone.ports)
