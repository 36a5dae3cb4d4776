"""Core: the parts of the engine that its two halves share, with the few operations that touch several of them.

For intake (what happens outside) and commit (what was decided).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.change import Change
from scheduler.framework.registry import Registry
from scheduler.framework.runtime import PluginError, Runtime
from scheduler.plugins import BASE_ARGS, BASES, BUILT_IN
from scheduler.state.cluster import ClusterState

from .access import Access, Ties
from .flights import Flights
from .preempting import Preempting
from .queue import Entry, WorkQueue
from .reporter import Reporter
from .workloads import Workloads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduler.config import SchedulerConfiguration
    from scheduler.framework.effects import Effect
    from scheduler.framework.status import ClusterEvent, Reason, Status
    from scheduler.framework.workload import Workload
    from scheduler.model import GangKey, Pod

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
        self.workloads = Workloads(self.cluster)
        self.queue = WorkQueue(
            configuration.pod_initial_backoff_seconds,
            configuration.pod_max_backoff_seconds,
            configuration.unschedulable_flush_seconds,
        )
        self.flights = Flights(self.cluster, configuration.permit_max_seconds)
        self.ties = Ties(configuration.tie_break, seed)
        self.runtimes: dict[str, Runtime] = {}
        self.access = Access(self.cluster, self.flights, clock, self.runtimes, self.ties)
        self.preempting = Preempting(self.cluster, self.reporter, self.emit)
        #: Changes since the queue was last woken.
        self.changes: list[Change] = []
        #: Gangs with fewer members on nodes than they need after a failed binding → when the rest is rolled back.
        self.partial: dict[GangKey, float] = {}
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

    def changed(self, event: ClusterEvent, node_name: str = "", pod_uid: str = "") -> None:
        """Note something that may cure a refusal."""
        self.changes.append(Change(event, node_name, pod_uid))

    def wake(self, now: float) -> None:
        """Let the queue see the changes since the last time, equal ones once."""
        changes, self.changes = self.changes, []
        for change in dict.fromkeys(changes):
            self.queue.wake(change, now, self.could_cure)

    def could_cure(self, entry: Entry, change: Change) -> bool:
        """Ask the plugins that refused a workload whether a change could cure it."""
        if not entry.blame:
            return True
        runtime = self.runtime_of(entry.workload)
        pods = list({pod.shape: pod for pod in entry.workload.pods.values()}.values())[:_MOST_HINT_PODS]
        try:
            return any(
                runtime.cures(plugin, reason, change.event, change, pod)
                for plugin, reason in entry.blame
                for pod in pods
            )
        except PluginError:
            return True

    def add_pending(self, pod: Pod, now: float) -> None:
        """Put a pending pod of ours into its workload, and the workload into the queue."""
        try:
            gate = self.runtimes[pod.scheduler_name].pre_enqueue(pod)
        except PluginError as error:
            gate = error.status
        workload, left = self.workloads.add(pod, gate, now)
        if left is not None:
            self.enqueue(left, now)
        self.enqueue(workload, now)

    def drop_pending(self, uid: str, now: float) -> None:
        """Take a pod out of its workload."""
        workload = self.workloads.drop(uid)
        self.reporter.forget_pod(uid)
        if workload is not None:
            self.enqueue(workload, now)

    def enqueue(self, workload: Workload, now: float) -> None:
        """Bring a workload's place in the queue in line with what it is now; an empty one leaves."""
        if not workload.pods:
            self.queue.remove(workload.key)
            self.reporter.forget_workload(workload.key)
            self.preempting.end(workload.key)
            return
        gate = self.workloads.refresh(workload)
        self.queue.put(workload, self.runtime_of(workload).sort_key(workload), gate, now)
        if gate is not None:
            self.reporter.waits(workload, gate, now)
        else:
            self.reporter.moved(workload.key)
        if workload.gang is not None:
            self.reporter.gang_changed(workload.gang.key, now)

    def put_back(self, workload: Workload, pods: Iterable[Pod], now: float) -> Workload | None:
        """Return pods from a flight to their workload, which keeps its attempts; None if none of them is pending."""
        back: Workload | None = None
        for pod in pods:
            known = self.cluster.pods.get(pod.uid)
            if known is None or known.node_name or known.is_terminal or known.is_terminating:
                continue
            back, _ = self.workloads.add(known, self.workloads.gate_of(pod.uid), now)
            back.attempts = max(back.attempts, workload.attempts)
            back.since = min(back.since, workload.since)
        if back is not None:
            self.enqueue(back, now)
        return back

    def refuse(self, workload: Workload, status: Status, blame: tuple[tuple[str, Reason], ...], now: float) -> None:
        """Put a workload aside until something could cure its refusal, and tell why."""
        controller = next(iter(workload.pods.values())).scheduler_name
        self.reporter.refused(workload, self.workloads.ready_pods(workload), status, controller)
        self.queue.refuse(workload.key, status, blame, now, self.could_cure)
        if workload.gang is not None:
            self.reporter.gang_changed(workload.gang.key, now)
