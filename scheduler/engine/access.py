"""Access: the framework's Handle, as the engine gives it to plugins.

For plugins.  What they ask for is done at the end of the running call: allow, reject and activate are only noted here.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from .placement import Placer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Trial, WaitingPod
    from scheduler.framework.runtime import Runtime
    from scheduler.framework.workload import Workload
    from scheduler.model import Budget, Pod
    from scheduler.state.cluster import ClusterState
    from scheduler.state.snapshot import Bools, Ints, Nodes, Snapshot

    from .flights import Flights


class Access:
    """What plugins may ask of the engine."""

    def __init__(
        self,
        cluster: ClusterState,
        flights: Flights,
        clock: Callable[[], float],
        runtimes: dict[str, Runtime],
        ties: Ties,
    ) -> None:
        """Take the parts that answer; `runtimes` is filled after the plugins are made."""
        self.cluster = cluster
        self.snapshot: Snapshot = cluster.snapshot()
        self._flights = flights
        self._clock = clock
        self._runtimes = runtimes
        self._ties = ties
        #: (pod uid, plugin, text), to be carried out by the engine.
        self.rejections: list[tuple[str, str, str]] = []
        self.activations: list[str] = []

    def now(self) -> float:
        """Return the time, in seconds since the epoch."""
        return self._clock()

    def waiting(self) -> Sequence[WaitingPod]:
        """Return all pods that wait at Permit."""
        return self._flights.waiting()

    def allow(self, uid: str, plugin: str) -> None:
        """End one plugin's wait for a pod."""
        self._flights.allow(uid, plugin)

    def reject(self, uid: str, plugin: str, text: str) -> None:
        """Send a waiting pod back."""
        self.rejections.append((uid, plugin, text))

    def activate(self, uids: Sequence[str]) -> None:
        """Move pods' workloads to the active queue."""
        self.activations.extend(uids)

    def nominated(self, node_name: str) -> Sequence[Pod]:
        """Return the pods nominated to a node, most important first."""
        return self.cluster.nominated_on(node_name)

    def budgets(self) -> Sequence[Budget]:
        """Return all PodDisruptionBudgets, sorted by namespace and name."""
        return [budget for _, budget in sorted(self.cluster.budgets.items())]

    def passes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Bools:
        """Tell which nodes pass every Filter, with nominated pods counted, as the snapshot is now."""
        runtime = self._runtimes[pod.scheduler_name]
        passing = runtime.filter(state, pod, nodes).passes()
        nominated = self.nominated_rows({pod.uid}, pod.priority)
        rows = nodes.rows
        for position in np.flatnonzero(passing & np.isin(rows, list(nominated))) if nominated else ():
            row = int(rows[position])
            undo = [self.snapshot.place(other, row) for other in nominated[row]]
            passing[position] = runtime.filter(state, pod, nodes.select(np.array([position]))).passes()[0]
            for step in reversed(undo):
                step()
        return passing

    def trial(self, workload: Workload, pods: Sequence[Pod]) -> Trial:
        """Return a what-if for pods of a workload on the snapshot as it is now."""
        return self.placer(workload, pods)

    def placer(self, workload: Workload, pods: Sequence[Pod]) -> Placer:
        """Return a Placer for pods of a workload on the current snapshot."""
        own = {pod.uid for pod in pods}
        rows = self.snapshot.row_of
        nominations = {
            uid: rows[name] for uid in own if (name := self.cluster.nominations.get(uid)) is not None and name in rows
        }
        return Placer(
            self._runtimes[pods[0].scheduler_name], self.snapshot, pods,
            self.nominated_rows(own, workload.priority), nominations, self._ties.of(self.snapshot),
        )  # fmt: skip

    def nominated_rows(self, own: set[str], priority: int) -> dict[int, list[Pod]]:
        """Return the pods, by row, for which room is kept against a workload of this priority."""
        found: dict[int, list[Pod]] = {}
        for name in self.cluster.nominated_nodes():
            row = self.snapshot.row_of.get(name)
            if row is None:
                continue
            pods = [p for p in self.cluster.nominated_on(name) if p.priority >= priority and p.uid not in own]
            if pods:
                found[row] = pods
        return found


class Ties:
    """The fixed rule that ends ties between equally good nodes: a rank per row, the highest wins."""

    def __init__(self, mode: str, seed: int) -> None:
        """Take `hash` (stable), `name` (first name) or `random` (seeded, anew in every cycle)."""
        self._mode = mode
        self._seed = seed
        self.cycle = 0

    def of(self, snapshot: Snapshot) -> Ints:
        """Return ranks between 0 and 2**32 - 1, shape (rows,)."""
        if self._mode == "name":
            return np.arange(len(snapshot.all_rows), 0, -1, dtype=np.int64)
        if self._mode == "random":
            salt = f"{self._seed}:{self.cycle}:"
            return np.array([zlib.crc32((salt + row.node.name).encode()) for row in snapshot.all_rows], dtype=np.int64)
        return snapshot.node_column("tie", lambda node: zlib.crc32(node.name.encode()), np.int64)
