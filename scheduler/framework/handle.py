"""Handle: what a plugin may ask of the framework.

For plugins; the engine implements it.  All calls are synchronous and return at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model import Budget, Gang, Pod
    from scheduler.state.cluster import ClusterState
    from scheduler.state.snapshot import Nodes, Snapshot

    from .cycle_state import CycleState
    from .status import Status
    from .verdicts import Verdicts
    from .workload import Workload


@dataclass(slots=True)
class WaitingPod:
    """A pod that waits at Permit."""

    pod: Pod
    node_name: str
    #: Plugin name to the time (seconds) at which its patience ends.
    pending: dict[str, float]


class Handle(Protocol):
    """The framework as plugins see it."""

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as this cycle sees it."""

    @property
    def cluster(self) -> ClusterState:
        """The live state, to read only: gangs, pods of a gang, budgets, priorities."""

    def now(self) -> float:
        """The time of the step, in seconds since the epoch."""

    def waiting(self) -> Sequence[WaitingPod]:
        """Return all pods that wait at Permit, ordered by namespace and name."""

    def allow(self, uid: str, plugin: str) -> None:
        """End one plugin's wait for a pod; the pod goes on when nobody else waits."""

    def reject(self, uid: str, plugin: str, text: str) -> None:
        """Send a waiting pod back; everything reserved for its workload is released."""

    def activate(self, uids: Sequence[str]) -> None:
        """Move pods' workloads to the active queue at the end of this cycle."""

    def nominated(self, node_name: str) -> Sequence[Pod]:
        """Return the pods nominated to a node, most important first."""

    def budgets(self) -> Sequence[Budget]:
        """Return all PodDisruptionBudgets, sorted by namespace and name."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Run every Filter plugin on some nodes, with nominated pods counted, against the snapshot as it is now."""

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Sequence[int]:
        """Return the weighted total of every Score plugin for nodes that are feasible."""


__all__ = ["Gang", "Handle", "Status", "WaitingPod", "Workload"]
