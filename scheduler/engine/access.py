"""Access: the framework's Handle, as the engine gives it to plugins.

For plugins.  What they ask for is done at the end of the running call: allow, reject and activate are only noted here.
"""

from __future__ import annotations

import zlib
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from scheduler.framework.counting import Counting
from scheduler.framework.handle import OVERDUE_SECONDS
from scheduler.framework.runtime import call
from scheduler.model.hypernode import HyperNode
from scheduler.state.fabrics import Fabrics, UnknownLevelError
from scheduler.topology.hypernodes import HYPERNODES

from .candidates import Candidate
from .holders import Holder, Holders
from .kept import KeptRooms
from .looks import imagine, looks_on
from .parts import parts_of
from .placement import Placer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.effects import Effect
    from scheduler.framework.handle import Trial, WaitingPod
    from scheduler.framework.runtime import Runtime
    from scheduler.framework.status import Status
    from scheduler.framework.workload import Workload
    from scheduler.model import Budget, Gang, GangKey, Pod, TopologyConstraint
    from scheduler.model.needs import Needs
    from scheduler.queues.queues import Queues
    from scheduler.queues.reclaim import Reclaim
    from scheduler.state.cluster import ClusterState
    from scheduler.state.snapshot import Bools, Ints, Nodes, Snapshot
    from scheduler.topology.fabric import Fabric

    from .flights import Flights
    from .kept import Kept, Rival
    from .looks import Look
    from .parts import Part

#: Shapes that are kept from cycle to cycle; a shape of a cluster of 5,000 nodes takes about 0.3 MB.
_MOST_CANDIDATES = 64
#: For so long nobody is evicted for a pod on a node where binding it failed: who is refused for ever must not clear nodes for ever.
BAR_SECONDS = 300.0


class Access:
    """What plugins may ask of the engine."""

    def __init__(
        self,
        cluster: ClusterState,
        flights: Flights,
        clock: Callable[[], float],
        runtimes: dict[str, Runtime],
        ties: Ties,
        gates: Mapping[str, bool] = MappingProxyType({}),
        queues: Queues | None = None,
        emit: Callable[[Effect], None] = lambda _: None,
    ) -> None:
        """Take the parts that answer; `runtimes` is filled after the plugins are made."""
        self.gates = gates
        self.queues = queues
        self._emit = emit
        self.cluster = cluster
        self.fabrics = Fabrics(cluster.objects)
        self.snapshot: Snapshot = cluster.snapshot()
        self._flights = flights
        self._clock = clock
        self._runtimes = runtimes
        self._ties = ties
        self._kept = KeptRooms(cluster, queues.queue_of) if queues is not None else KeptRooms(cluster)
        #: All budgets as they were last, and sorted.
        self._budgets: tuple[list[Budget], list[Budget]] = ([], [])
        self._candidates: dict[tuple[str, object], Candidate] = {}
        #: The gang that was looked at last, its parts, and who keeps it out of domains: the same for all tries of an attempt.
        self._in_parts: tuple[Workload, Part, Holders, int] | None = None
        #: (pod uid, plugin, text), to be carried out by the engine.
        self.rejections: list[tuple[str, str, str]] = []
        self.activations: list[str] = []
        #: What those are promised that come before the workload that is tried: the looks at each row.
        self.reserved: Mapping[int, Sequence[Look]] = {}
        #: Where its own pods are promised room, by uid.
        self.promised: Mapping[str, str] = {}
        #: Uids of victims that did not go in time: not to be counted on again.
        self.stuck: set[str] = set()
        #: Pod uid to the nodes that binding it failed on.
        self.avoided: dict[str, set[str]] = {}
        #: Pod uid to such nodes with the time until which nobody is evicted for it there, seconds.
        self.barred: dict[str, dict[str, float]] = {}
        #: Gang to the nodes that refused to start a member of it, with the time until which it keeps off them.
        self.shunned: dict[GangKey, dict[str, float]] = {}

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

    def emit(self, effect: Effect) -> None:
        """Ask the outside world for something."""
        self._emit(effect)

    def nominated(self, node_name: str) -> Sequence[Pod]:
        """Return the pods nominated to a node, most important first."""
        return self.cluster.nominated_on(node_name)

    def budgets(self) -> Sequence[Budget]:
        """Return all PodDisruptionBudgets, sorted by namespace and name."""
        budgets = list(self.cluster.budgets.values())
        if budgets != self._budgets[0]:
            self._budgets = budgets, [budget for _, budget in sorted(self.cluster.budgets.items())]
        return self._budgets[1]

    def is_ours(self, pod: Pod) -> bool:
        """Tell whether a pod is left to a profile of this process."""
        return pod.scheduler_name in self._runtimes

    def is_stuck(self, uid: str) -> bool:
        """Tell whether a pod was to go, for anybody's sake, and did not in time."""
        pod = self.cluster.pods.get(uid)
        is_overdue = pod is not None and pod.deletes_at is not None and self._clock() - pod.deletes_at > OVERDUE_SECONDS
        return is_overdue or uid in self.stuck

    def passes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Bools:
        """Tell which nodes pass every Filter, with nominated pods counted, as the snapshot is now."""
        runtime, snapshot = self._runtimes[pod.scheduler_name], self.snapshot
        passing = runtime.filter(state, pod, nodes).passes()
        nominated, reserved = self._kept_from(pod), self.reserved
        rows = [*nominated, *reserved]
        for position in np.flatnonzero(passing & np.isin(nodes.rows, rows)) if rows else ():
            row, one = int(nodes.rows[position]), nodes.select(np.array([position]))
            for look in looks_on(row, nominated, reserved):
                mark, undo = snapshot.mark(), imagine(snapshot, row, look)
                try:
                    passing[position] &= runtime.filter(state, pod, one).passes()[0]
                finally:
                    for step in reversed(undo):
                        step()
                    snapshot.is_as_at(mark)
        return passing

    def verdict(self, state: CycleState, pod: Pod, row: int) -> Status | None:
        """Return what Filter says of a row as the snapshot is now: with nominated pods counted, then without."""
        runtime, snapshot = self._runtimes[pod.scheduler_name], self.snapshot
        nodes = snapshot.nodes
        for look in looks_on(row, self._kept_from(pod), self.reserved):
            mark, undo = snapshot.mark(), imagine(snapshot, row, look)
            try:
                status = runtime.status_at(state, pod, nodes, row)
            finally:
                for step in reversed(undo):
                    step()
                snapshot.is_as_at(mark)
            if status is not None:
                return status
        return runtime.status_at(state, pod, nodes, row)

    def counting(self, state: CycleState, pod: Pod) -> Counting | None:
        """Return what is counted for a pod, if nothing else that stands on nodes keeps it off them."""
        runtime, snapshot = self._runtimes[pod.scheduler_name], self.snapshot
        found = runtime.counting_filter(state, pod)
        if found is None or self.reserved:
            return None
        plugin, asked = found
        asks = tuple([(resource, count) for resource, count in asked.items() if count > 0])

        kept = self._kept_from(pod)
        is_open = runtime.opened(state, pod, snapshot.nodes)
        return Counting(asks, is_open, kept, partial(runtime.verdict_of, plugin, state, pod))

    def rules(self, workload: Workload) -> Reclaim | None:
        """Return whom a workload may have evicted where there are queues; None without."""
        return self.queues.rules(workload) if self.queues is not None else None

    def trial(
        self, workload: Workload, pods: Sequence[Pod], beside: Mapping[str, tuple[Pod, int]] = MappingProxyType({})
    ) -> Trial:
        """Return a what-if for pods of a workload on the snapshot as it is now, beside other what-ifs."""
        return self.placer(workload, pods, beside)

    def placer(
        self, workload: Workload, pods: Sequence[Pod], beside: Mapping[str, tuple[Pod, int]] = MappingProxyType({})
    ) -> Placer:
        """Return a Placer for pods of a workload on the current snapshot."""
        own, rows = {pod.uid for pod in pods}, self.snapshot.row_of
        at = {**self.promised, **self.cluster.nominations} if self.promised else self.cluster.nominations
        nominations = {uid: rows[name] for uid in own if (name := at.get(uid)) is not None and name in rows}
        avoided = {
            uid: {rows[name] for name in names if name in rows}
            for uid in own
            if (names := self.avoided.get(uid)) is not None
        }
        kept = self._kept.against(self._rival(workload), own, self.snapshot)
        placer = Placer(self.snapshot, pods, self._candidates_of(pods, kept), nominations, avoided)
        if self.barred:
            self._bar(placer, own)
        if workload.gang is not None and workload.needs is not None:
            self._put_in_parts(placer, workload, workload.needs, beside)
        return placer

    def _bar(self, placer: Placer, uids: Iterable[str]) -> None:
        """Tell a placer where nobody is evicted for its pods, as binding one of them failed there not long ago."""
        now, rows = self.now(), self.snapshot.row_of
        barred = [entry for uid in uids for entry in self.barred.get(uid, {}).items() if entry[1] > now]
        placer.barred = frozenset(rows[name] for name, _ in barred if name in rows)
        placer.barred_until = min((until for _, until in barred), default=None)

    def bound_or_gone(self, uid: str) -> None:
        """Forget where binding a pod failed."""
        self.avoided.pop(uid, None)
        self.barred.pop(uid, None)

    def binding_failed(self, uid: str, node_name: str) -> None:
        """Note that a pod could not be bound to a node: it comes last, and for a while nobody is evicted for the pod there."""
        self.avoided.setdefault(uid, set()).add(node_name)
        self.barred.setdefault(uid, {})[node_name] = self.now() + BAR_SECONDS

    def shunned_rows(self, key: GangKey, now: float) -> set[int]:
        """Return the rows that a gang keeps off, as they refused to start a member of it."""
        rows = self.snapshot.row_of
        return {rows[name] for name, until in self.shunned.get(key, {}).items() if until > now and name in rows}

    def shun_no_more(self, now: float) -> list[GangKey]:
        """Forget what is over; return the gangs that may use a node again."""
        found = [key for key, nodes in self.shunned.items() if min(nodes.values()) <= now]
        for key in found:
            left = {name: until for name, until in self.shunned.pop(key).items() if until > now}
            if left:
                self.shunned[key] = left
        return found

    def fabric(self, constraint: TopologyConstraint | None = None) -> Fabric:
        """Return the tree of domains for a constraint; UnknownLevelError if there is no such topology or level."""
        return self.fabrics.of(self.snapshot, constraint)

    def fabric_for(
        self, workload: Workload, scheduler_name: str, constraint: TopologyConstraint | None
    ) -> Fabric | None:
        """Return the tree that a gang is placed in: what it asks for, else what a plugin of its profile wants; None for none.

        UnknownLevelError for a level that is not there.
        """
        if constraint is not None and self._is_vain(constraint):
            constraint = None
        if constraint is not None and (constraint.levels or constraint.topology):
            return self.fabric(constraint)
        plugins = self._runtimes[scheduler_name].plugins("placement_generate")
        generators = (plugin for plugin in plugins if hasattr(plugin, "fabric_for"))
        fabrics = (call(plugin, "fabric_for", workload, constraint) for plugin in generators)
        return next((fabric for fabric in fabrics if fabric is not None), None)

    def serves(self, scheduler_name: str) -> bool:
        """Tell whether a profile has this name."""
        return scheduler_name in self._runtimes

    def _put_in_parts(
        self, placer: Placer, workload: Workload, needs: Needs, beside: Mapping[str, tuple[Pod, int]]
    ) -> None:
        """Let a gang be placed in domains, if it has roles, asks for levels, or a plugin wants to keep it together."""

        def fabric_of(constraint: TopologyConstraint | None) -> Fabric | None:
            return self.fabric_for(workload, placer.pods[0].scheduler_name, constraint)

        placer.needs = needs
        placer.shunned = frozenset(self.shunned_rows(needs.gang.key, self.now()))
        if self._in_parts is None or self._in_parts[0] is not workload or self._in_parts[3] != self.snapshot.generation:
            try:
                parts = parts_of(workload, self.snapshot, self.cluster, fabric_of)
                holders = self._holders(self._rival(workload), needs.gang, beside)
                self._in_parts = workload, parts, holders, self.snapshot.generation
            except UnknownLevelError as error:
                placer.problem = str(error)
                return
        _, parts, placer.holders, _ = self._in_parts
        if parts.fabric is not None or needs.gang.subgroups or placer.shunned:
            placer.parts = parts

    def _is_vain(self, constraint: TopologyConstraint) -> bool:
        """Tell whether a constraint only prefers levels of HyperNodes, and there are none: others need not know of it."""
        is_soft = not (constraint.required or constraint.segment_required or constraint.exclusive or constraint.spread)
        return is_soft and constraint.topology == HYPERNODES and not self.cluster.objects.all(HyperNode)

    def _holders(self, rival: Rival, gang: Gang, beside: Mapping[str, tuple[Pod, int]]) -> Holders:
        """Return the members of other gangs that have domains for themselves which this one asks for.

        Those that are not there yet, as room is being made for them, count if that is kept against the gang.
        """
        holders, rows = Holders(self.snapshot), self.snapshot.row_of
        for constraint in (constraint for constraint in _constraints(gang) if constraint.exclusive):
            fabric = self.fabric(constraint)
            level = fabric.level_of(constraint.exclusive)
            assert level is not None
            found = []
            for other in self.cluster.gangs.values():
                if other.key == gang.key or not self._has_for_itself(other, fabric.levels[level].label):
                    continue
                for member, row in beside.values():
                    if self.cluster.gang_of(member) == other.key:
                        found.append(Holder(member, row, is_nominated=False))
                for member in self.cluster.members(other.key):
                    node, nominated = self.cluster.node_of(member.uid), self.cluster.nominations.get(member.uid)
                    is_there = node is not None or self._kept.is_kept(member, rival)
                    name = node or nominated
                    if not member.is_terminal and is_there and name is not None and name in rows:
                        found.append(Holder(member, rows[name], node is None))
            holders.add(constraint, fabric.of_rows[level], found)
        return holders

    def _has_for_itself(self, gang: Gang, label: str) -> bool:
        """Tell whether a gang asks for a domain of its own on the level that a label tells, by whatever name."""
        for constraint in _constraints(gang):
            if constraint.exclusive:
                try:
                    fabric = self.fabric(constraint)
                except UnknownLevelError:
                    continue
                level = fabric.level_of(constraint.exclusive)
                if level is not None and fabric.levels[level].label == label:
                    return True
        return False

    def _candidates_of(self, pods: Sequence[Pod], kept: Kept) -> dict[str, Candidate]:
        """Return each pod's candidate: one for each shape, from an earlier cycle where plugins allow it."""
        runtime = self._runtimes[pods[0].scheduler_name]
        ties, found, by_shape = self._ties.of(self.snapshot), {}, dict[object, Candidate]()
        keys: dict[object, object] = {}
        for pod in pods:
            alike = (
                pod.shape,
                tuple(pod.labels.items()),
                pod.owners[:1],
                pod.uid if pod.volumes or pod.claims or not pod.shape else "",
            )
            if alike not in keys:
                keys[alike] = runtime.key_of(pod)
            shared = keys[alike]
            shape = pod.uid if shared is None else shared
            candidate = by_shape.get(shape)
            if candidate is None:
                key = (pod.scheduler_name, shape)
                is_lasting = shared is not None
                candidate = (self._candidates.pop(key, None) if is_lasting else None) or Candidate(
                    runtime, self.snapshot, pod
                )
                candidate.attend(pod, kept, ties, self.reserved)
                by_shape[shape] = candidate
                if is_lasting:
                    self._candidates[key] = candidate
            found[pod.uid] = candidate
        while len(self._candidates) > _MOST_CANDIDATES:
            del self._candidates[next(iter(self._candidates))]
        return found

    def kept_for(self, workload: Workload, node_name: str) -> list[Pod]:
        """Return the pods for which room is kept on a node against a workload."""
        return [pod for pod in self._kept.on(node_name, self._rival(workload)) if pod.uid not in workload.pods]

    def kept_from(self, pod: Pod, node_name: str) -> list[Pod]:
        """Return the pods for which room is kept on a node against a single pod."""
        rival = self._kept.rival(pod.priority, pod)
        return [other for other in self._kept.on(node_name, rival) if other.uid != pod.uid]

    def _kept_from(self, pod: Pod) -> Kept:
        """Return what is kept against a single pod."""
        return self._kept.against(self._kept.rival(pod.priority, pod), (pod.uid,), self.snapshot)

    def _rival(self, workload: Workload) -> Rival:
        return self._kept.rival(workload.priority, next(iter(workload.pods.values())))


def _constraints(gang: Gang) -> list[TopologyConstraint]:
    """Return what a gang and its subgroups ask of the fabric."""
    return [c for c in (gang.topology, *(subgroup.topology for subgroup in gang.subgroups)) if c is not None]


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
            left = iter(range(len(snapshot.all_rows), 0, -1))
            return snapshot.node_column("tie by name", lambda _: next(left), np.int64)
        if self._mode == "random":
            salt = f"{self._seed}:{self.cycle}:"
            return np.array([zlib.crc32((salt + row.node.name).encode()) for row in snapshot.all_rows], dtype=np.int64)
        return snapshot.node_column("tie", lambda node: zlib.crc32(node.name.encode()), np.int64)
