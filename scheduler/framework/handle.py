"""Handle: what a plugin may ask of the framework.

For plugins; the engine implements it.  All calls are synchronous and return at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from scheduler.model import Budget, Pod, TopologyConstraint
    from scheduler.state.cluster import ClusterState
    from scheduler.state.snapshot import Bools, Nodes, Snapshot
    from scheduler.topology.fabric import Fabric

    from .counting import Counting
    from .cycle_state import CycleState
    from .effects import Effect
    from .status import Status
    from .workload import Workload

#: A pod that is still there so long after its grace period has ended is not counted on to go (`Handle.is_stuck`).
OVERDUE_SECONDS = 120.0


@dataclass(slots=True)
class WaitingPod:
    """A pod that waits at Permit."""

    pod: Pod
    node_name: str
    #: Plugin name to the time (seconds) at which its patience ends.
    pending: dict[str, float]


class Trial(Protocol):
    """A what-if: pods placed on the snapshot, until `clear`."""

    #: Pod uid to the pod and its row.
    placed: dict[str, tuple[Pod, int]]

    def evaluate(self) -> Generator[int, None, None]:
        """Look at all nodes once; yields node evaluations."""

    def place_all(
        self, needed: int, allowed: Bools | None = None, most: int | None = None
    ) -> Generator[int, None, bool]:
        """Place the pods (or `most` of them), at least `needed`, on allowed rows.

        Yields node evaluations, returns whether it worked; if not, nothing is placed.
        """

    def put(self, pod: Pod, row: int) -> None:
        """Place one pod, wherever it is."""

    def curable(self, pod: Pod) -> Bools:
        """Return the rows that a pod fits on or would after evictions."""

    def asks(self, pod: Pod) -> dict[str, int] | None:
        """Return what a pod counts against free resources, for bounds; None if no plugin counts."""

    def regions(self) -> list[Bools | None]:
        """Return the domains of which one has to hold the gang, those with most room first; just None if any rows will do."""

    def keepers(self, within: Bools | None) -> Sequence[tuple[Pod, int]]:
        """Return members of other gangs, with their rows, that keep the gang out of domains that rows of a mask are in."""

    def is_kept_out(self) -> bool:
        """Tell whether something is placed in a domain that another gang has for itself, as the snapshot is now."""

    def passes(self, pod: Pod, row: int) -> bool:
        """Tell whether a placed pod still passes every Filter on its row, as the snapshot is now."""

    def clear(self) -> None:
        """Take everything back."""


class Rules(Protocol):
    """Whom one workload may have evicted where there are queues, and what was taken for it so far."""

    #: When somebody becomes old enough to be evicted, in seconds since the epoch; None if nobody is too young.
    retry_at: float | None

    def may_evict(self, pod: Pod) -> bool:
        """Tell whether a pod might be evicted at all."""

    def may_follow(self, pod: Pod) -> bool:
        """Tell whether the room of a pod that is going anyway may be counted on."""

    def allows(self, pods: Sequence[Pod], surplus: Sequence[Pod] = ()) -> bool:
        """Tell whether pods may go now, together, after what was taken; `surplus` are those of them that their gang can spare."""

    def take(self, pods: Iterable[Pod]) -> None:
        """Count pods as gone."""

    def give_back(self, pods: Iterable[Pod]) -> None:
        """Count pods as there again: the inverse."""

    def is_enough(self) -> bool:
        """Tell whether the workload is within its queue's quota once what was taken is gone."""

    def relieves(self, pods: Iterable[Pod]) -> bool:
        """Tell whether quota that the workload is short of comes free with pods."""

    def rank(self, pods: Sequence[Pod]) -> int:
        """Return whom to take from first: the lowest."""


class Handle(Protocol):
    """The framework as plugins see it."""

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as this cycle sees it."""

    @property
    def cluster(self) -> ClusterState:
        """The live state, to read only: gangs, pods of a gang, budgets, priorities."""

    @property
    def gates(self) -> Mapping[str, bool]:
        """The feature gates that the configuration sets."""

    def fabric(self, constraint: TopologyConstraint | None = None) -> Fabric:
        """Return the tree of domains that a constraint speaks of, over the rows of the snapshot; without one, the usual one."""

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

    def is_ours(self, pod: Pod) -> bool:
        """Tell whether a pod is left to a profile of this process."""

    def is_stuck(self, uid: str) -> bool:
        """Tell whether a pod was evicted and did not go in time: evictions should not count on it again."""

    def passes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Bools:
        """Tell which nodes pass every Filter, with nominated pods counted, as the snapshot is now."""

    def verdict(self, state: CycleState, pod: Pod, row: int) -> Status | None:
        """Return what Filter says of a row as the snapshot is now; None if it passes.

        Pods nominated there are counted first; if it passes so, it is looked at without them, too.
        """

    def counting(self, state: CycleState, pod: Pod) -> Counting | None:
        """Return what is counted for a pod, if nothing else that stands on nodes keeps it off them, as the snapshot is now."""

    def rules(self, workload: Workload) -> Rules | None:
        """Return whom a workload may have evicted where there are queues; None without: then priority alone decides."""

    def emit(self, effect: Effect) -> None:
        """Ask the outside world for something; for PostFilter and Unreserve, which have to undo what PreBind had written."""

    def trial(
        self, workload: Workload, pods: Sequence[Pod], beside: Mapping[str, tuple[Pod, int]] = MappingProxyType({})
    ) -> Trial:
        """Return a what-if for pods of a workload on the snapshot as it is now.

        `beside` are pods of other what-ifs with their rows, by uid: domains that gangs have for themselves are theirs, too.
        """
