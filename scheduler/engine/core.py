"""Core: the parts of the engine that its two halves share, with the few operations that touch several of them.

For intake (what happens outside) and commit (what was decided).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from scheduler.framework.change import Change
from scheduler.framework.registry import Registry
from scheduler.framework.runtime import PluginError, Runtime
from scheduler.framework.status import ClusterEvent, Code
from scheduler.model.checkpoints import notice_seconds
from scheduler.plugins import BASE_ARGS, BASES, BUILT_IN
from scheduler.queues.admission import asks_of, is_for_quota
from scheduler.queues.keeping import is_kept_quota
from scheduler.queues.queues import Queues
from scheduler.state.cluster import ClusterState

from .access import Access, Ties
from .backfill import Backfill
from .flights import Flights
from .moves import Moves
from .notices import Notices
from .preempting import Preempting
from .queue import Entry, WorkQueue
from .queue_statuses import QueueStatuses
from .reporter import Reporter, pod_ref
from .topologies import TopologyStatuses
from .workloads import Workloads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scheduler.config import SchedulerConfiguration
    from scheduler.framework.effects import Effect, PlacementSummary
    from scheduler.framework.status import Reason, Status
    from scheduler.framework.workload import Workload
    from scheduler.model import GangKey, Node, Pod
    from scheduler.queues.order import Group

    from .lack import Lack

#: How many different pods of a workload a hint is asked about.
_MOST_HINT_PODS = 8


def registry() -> Registry:
    """Return the registry of built-in plugins and base sets."""
    return Registry(BUILT_IN, BASES, BASE_ARGS)


class Core:
    """State, queue, flights and plugins of one engine."""

    def __init__(self, configuration: SchedulerConfiguration, clock: Callable[[], float], seed: int) -> None:
        """Make all parts; RegistryError if a profile cannot be had."""
        self.clock = clock
        self.cluster = ClusterState()
        self.reporter = Reporter(self.cluster)
        #: Gangs that have had their minimum on nodes: a member that they lose later is replaced, not a failed start.
        self.completed: set[GangKey] = set()
        self.topologies = TopologyStatuses(self.cluster, self.emit)
        self.workloads = Workloads(self.cluster, self.completed)
        self.queue = WorkQueue(
            configuration.pod_initial_backoff_seconds,
            configuration.pod_max_backoff_seconds,
            configuration.unschedulable_flush_seconds,
        )
        self.flights = Flights(self.cluster, configuration.permit_max_seconds, self.plugin_failed)
        self.ties = Ties(configuration.tie_break, seed)
        self.runtimes: dict[str, Runtime] = {}
        self.queues = Queues(self.cluster, self.runtimes.keys(), clock, configuration.queue_usage_half_life_seconds)
        gates = configuration.feature_gates
        self.access = Access(self.cluster, self.flights, clock, self.runtimes, self.ties, gates, self.queues, self.emit)
        self.queue_statuses = QueueStatuses(
            self.cluster, self.queues, self.queue, self.emit, self.runtimes.keys()
        )  # fmt: skip
        self.moves = Moves(self.cluster, self.emit)
        notices = Notices(
            self.cluster, self.reporter, self.emit, self.moves, self._notice_seconds, self.runtimes.keys()
        )  # fmt: skip
        self.preempting = Preempting(
            self.cluster, self.reporter, self.emit, self.access.stuck, self.moves, notices, self.access.kept_for
        )  # fmt: skip
        like_upstream = {profile.scheduler_name for profile in configuration.profiles if profile.base == "kube-default"}
        self.backfill = Backfill(self, configuration.backfill, like_upstream)
        #: Changes since the queue was last woken.
        self.changes: dict[Change, None] = {}
        #: Workloads that changed since they were last looked at, by key.
        self.stale: dict[str, None] = {}
        #: Gangs with fewer members on nodes than they need after a failed binding → when the rest is rolled back.
        self.partial: dict[GangKey, float] = {}
        #: Where the members of gangs are, as their status tells.
        self.placements: dict[GangKey, PlacementSummary] = {}
        known = registry()
        for i, profile in enumerate(configuration.profiles):
            resolved = known.resolve(profile, self.access, f"profiles[{i}]")
            self.runtimes[profile.scheduler_name] = Runtime(resolved)

    def emit(self, effect: Effect) -> None:
        """Ask the outside world for something."""
        self.reporter.effects.append(effect)

    def runtime_of(self, workload: Workload) -> Runtime:
        """Return the profile that a workload asks for."""
        return self.runtimes[next(iter(workload.pods.values())).scheduler_name]

    def is_ours(self, members: Sequence[Pod]) -> bool:
        """Tell whether a gang is to be told of and minded here; of another scheduler, perhaps one like this, if all members are its."""
        return not members or any(pod.scheduler_name in self.runtimes for pod in members)

    def changed(
        self, event: ClusterEvent, node_name: str = "", pod_uid: str = "", key: tuple[str, str] = ("", ""), *,
        former_pod: Pod | None = None, former_node: Node | None = None,
    ) -> None:  # fmt: skip
        """Note something that may cure a refusal, with what was there before if that is known."""
        self.changes.setdefault(Change(event, node_name, pod_uid, key, former_pod, former_node))

    def settle(self, now: float) -> None:
        """Look once at every workload that changed, however often it did, and let the queue see what happened."""
        if self.queues.settle():
            self.changed(ClusterEvent.QUEUE_CHANGED)
            self.stale.update(dict.fromkeys(workload.key for workload in self.workloads.all()))
        if self.cluster.released:
            for name in self.cluster.released:
                self.changed(ClusterEvent.POD_REMOVED, name)
            self.cluster.released.clear()
        if not self.changes and not self.stale:
            return
        changes, self.changes = self.changes, {}
        gated: dict[str, None] = {}
        for change in changes:
            self.backfill.note(change)
            gated.update(dict.fromkeys(self.queue.wake(change, now, self.could_cure)))
        for key in gated:
            workload = self.workloads.get(key)
            if workload is not None:
                self.ask_again(workload)
        stale, self.stale = self.stale, {}
        for key in stale:
            workload = self.workloads.get(key)
            if workload is not None:
                self._put(workload, now)

    def could_cure(self, entry: Entry, change: Change) -> bool:
        """Ask the plugins that refused a workload whether a change could cure it."""
        if is_for_quota(entry.refusal) and change.event != ClusterEvent.QUEUE_CHANGED:
            return self.queues.has_quota(entry.workload)
        if is_kept_quota(entry.refusal) and change.event != ClusterEvent.QUEUE_CHANGED:
            return self.backfill.quota_refusal(entry, entry.workload) is None
        return self.backfill.leaves_room(entry, change) and self._asks_plugins(entry, change)

    def _asks_plugins(self, entry: Entry, change: Change) -> bool:
        runtime, blame = self.runtime_of(entry.workload), entry.blame
        if (lack := entry.lack) is not None and change.node_name and lack.counts(change.event):
            kept_for = self.access.kept_for(entry.workload, change.node_name)
            if lack.is_helped(change.event, self.cluster, change.node_name, kept_for):
                return True
            blame = tuple(one for one in (*blame, *lack.blame) if runtime.looks_far(one[0]))
            if not blame:
                return False
        if not blame:
            return True
        pods = list({pod.shape: pod for pod in entry.workload.pods.values()}.values())[:_MOST_HINT_PODS]
        try:
            return any(
                runtime.cures(plugin, reason, change.event, change, pod) for plugin, reason in blame for pod in pods
            )
        except PluginError:
            return True

    def add_pending(self, pod: Pod, now: float, since: float | None = None) -> None:
        """Put a pending pod of ours into its workload; it is looked at when everything has come in.

        `since` is when what it replaces was created, if that was evicted.
        """
        workload, left = self.workloads.add(pod, self.runtimes[pod.scheduler_name].pre_enqueue(pod), now)
        if since is not None:
            workload.since = min(workload.since, since)
        self.stale[workload.key] = None
        if left is not None:
            self._left(left)

    def drop_pending(self, uid: str) -> None:
        """Take a pod out of its workload."""
        workload = self.workloads.drop(uid)
        if workload is not None:
            self._left(workload)

    def ask_again(self, workload: Workload) -> None:
        """Ask PreEnqueue again about the pods that it objected to, or failed at."""
        runtime = self.runtime_of(workload)
        for pod in self.workloads.gated_pods(workload):
            self.workloads.gate(pod.uid, runtime.pre_enqueue(pod))
        self.stale[workload.key] = None

    def put_back(self, workload: Workload, pods: Iterable[Pod], now: float) -> Workload | None:
        """Return pods from a flight to their workload, which keeps its attempts; None if none of them is pending."""
        back: Workload | None = None
        for pod in pods:
            known = self.cluster.pods.get(pod.uid)
            if known is None or known.node_name or known.is_terminal or known.is_terminating:
                continue
            back, _ = self.workloads.add(known, self.runtimes[known.scheduler_name].pre_enqueue(known), now)
            back.attempts = max(back.attempts, workload.attempts)
            back.since = min(back.since, workload.since)
        if back is not None:
            self._put(back, now)
        return back

    def set_aside(
        self, workload: Workload, status: Status, blame: tuple[tuple[str, Reason], ...], now: float, *,
        lack: Lack | None = None, rests: bool = False, retry_at: float | None = None,
    ) -> None:  # fmt: skip
        """Put a workload aside until something could cure its refusal, and tell why; after an accident, for its backoff."""
        if not workload.pods:
            return
        controller = next(iter(workload.pods.values())).scheduler_name
        self.reporter.refused(workload, self.workloads.ready_pods(workload), status, controller)
        if status.code is Code.ERROR:
            self.queue.fail(workload.key, status, now, rests=True)
        else:
            self.queue.refuse(
                workload.key, status, blame, now, self.could_cure, lack=lack, rests=rests, retry_at=retry_at
            )
        if workload.gang is not None:
            self.reporter.gang_changed(workload.gang.key, now)

    def forget(self, key: str) -> None:
        """Take a workload out of the queue, as none of it waits any more."""
        self.backfill.left(key)
        self.backfill.promises.forget(key)
        self.queue.remove(key)
        self.queues.left(key)

    def choose(self, entries: list[Entry]) -> Entry:
        """Return whose turn it is among the first entries of several groups."""
        if not self.queues.is_on:
            return entries[0]
        for entry in entries:
            if entry.asks is None:
                entry.asks = asks_of(entry.workload)
        group = self.queues.next_of([(cast("Group", entry.group), entry.asks or {}) for entry in entries])
        return next(entry for entry in entries if entry.group == group)

    def update(self, workload: Workload, now: float) -> Status | None:
        """Bring the queue in line with what the engine itself made of a workload; return what gates it."""
        return self._put(workload, now, is_own=True)

    def sort_key(self, workload: Workload) -> tuple[Any, ...]:
        """Return a workload's sort key; the empty one, which sorts first, if the plugin fails: so that it fails soon."""
        try:
            return self.runtime_of(workload).sort_key(workload)
        except PluginError:
            return ()

    def _put(self, workload: Workload, now: float, *, is_own: bool = False) -> Status | None:
        gate = self.workloads.refresh(workload) or self.queues.gate(workload)
        group, sort_key = self.queues.waits(workload, self.sort_key(workload))
        look = self.workloads.look(workload)
        self.queue.put(workload, sort_key, gate, look, now, is_own=is_own, group=group)
        if gate is not None:
            self.backfill.left(workload.key)
            self.reporter.waits(workload.key, gate, now)
        else:
            self.reporter.moved(workload.key)
        if workload.gang is not None:
            self.reporter.gang_changed(workload.gang.key, now)
        return gate

    def _left(self, workload: Workload) -> None:
        """A pod left a workload; an empty one leaves the queue."""
        if workload.pods:
            self.stale[workload.key] = None
            return
        self.forget(workload.key)
        self.reporter.forget_workload(workload.key)
        self.preempting.end(workload.key)

    def _notice_seconds(self, pod: Pod) -> float:
        """Return how long before its eviction a pod is told, in seconds."""
        key = self.cluster.gang_of(pod)
        gang = self.cluster.gangs.get(key) if key is not None else None
        return notice_seconds(pod, gang, self.queues.notice_seconds(pod))

    def plugin_failed(self, pod: Pod, error: PluginError) -> None:
        """Say at a pod that a plugin failed where nothing can be refused any more."""
        self.reporter.event(
            pod_ref(pod), "Warning", "PluginFailed", "Scheduling", error.status.message, pod.scheduler_name
        )
