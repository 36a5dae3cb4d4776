"""Preempting: who was evicted for whom, and until when room is kept.

For the engine.  A workload with a plan keeps its nominations until it is placed, its victims are gone without giving
room, or its patience ends; then it may plan again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.framework.effects import EvictPod, NominatePod

from .reporter import pod_key, pod_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduler.framework.effects import Effect
    from scheduler.framework.plugin import PostFilterResult
    from scheduler.framework.workload import Workload
    from scheduler.state.cluster import ClusterState

    from .reporter import Reporter

#: How long a single pod waits for its victims beyond the longest of their grace periods, in seconds.
PATIENCE_SECONDS = 120.0


@dataclass(slots=True)
class Plan:
    """A plan under way."""

    workload_key: str
    victims: set[str]
    nominated: tuple[str, ...]
    deadline: float


class Preempting:
    """Plans under way, by workload and by victim."""

    def __init__(self, cluster: ClusterState, reporter: Reporter, emit: Callable[[Effect], None]) -> None:
        """Take where nominations are kept and where effects go."""
        self._cluster = cluster
        self._reporter = reporter
        self._emit = emit
        self._plans: dict[str, Plan] = {}

    def begin(self, workload: Workload, room: PostFilterResult, now: float, controller: str) -> list[str]:
        """Nominate the pods, evict the victims; return the victims that are only assumed, for the engine to release."""
        self.end(workload.key)
        self._supersede(workload, set(room.nominations.values()))
        grace = max((v.pod.grace_period_seconds for v in room.victims), default=0)
        patience = workload.gang.schedule_timeout_seconds if workload.gang else grace + PATIENCE_SECONDS
        plan = Plan(workload.key, {v.pod.uid for v in room.victims}, tuple(room.nominations), now + patience)
        self._plans[workload.key] = plan
        for uid, node_name in room.nominations.items():
            if self._cluster.nominations.get(uid) != node_name:
                self._cluster.nominate(uid, node_name)
                self._emit(NominatePod(pod_key(self._cluster.pods[uid]), node_name))
        assumed = []
        for victim in room.victims:
            uid = victim.pod.uid
            if uid in self._cluster.assumed:
                assumed.append(uid)
                continue
            if victim.pod.is_terminating:
                continue
            who = workload.gang.key if workload.gang else next(iter(workload.pods.values())).key
            message = f"Preempted by {who} on node {victim.node_name}"
            self._emit(EvictPod(pod_key(victim.pod), "PreemptionByScheduler", message, victim.pod.grace_period_seconds))
            self._reporter.event(pod_ref(victim.pod), "Normal", "Preempted", "Preempting", message, controller)
        return assumed

    def victims_left(self, key: str, now: float) -> int:
        """Return how many victims of a workload's plan are still there; 0 if it has none or its patience ended."""
        plan = self._plans.get(key)
        if plan is None or plan.deadline <= now:
            return 0
        return sum(1 for uid in plan.victims if uid in self._cluster.pods and not self._cluster.pods[uid].is_terminal)

    def is_nominated(self, key: str) -> bool:
        """Tell whether a workload has a plan under way."""
        return key in self._plans

    def failed(self, victim_uid: str) -> str | None:
        """Forget the plan that a victim was to make room for, as it could not be evicted; return its workload's key."""
        for key, plan in self._plans.items():
            if victim_uid in plan.victims:
                self.end(key)
                return key
        return None

    def end(self, key: str) -> None:
        """Forget a workload's plan, and keep no room for those of its pods that are not placed."""
        plan = self._plans.pop(key, None)
        if plan is not None:
            self.clear(plan.nominated)

    def placed(self, key: str) -> None:
        """Forget a plan because its workload was placed: the API server clears the nominations."""
        plan = self._plans.pop(key, None)
        for uid in plan.nominated if plan else ():
            self._cluster.nominate(uid, "")

    def clear(self, uids: Iterable[str]) -> None:
        """Take nominations back, here and at the API server."""
        for uid in uids:
            if self._cluster.nominations.get(uid):
                self._cluster.nominate(uid, "")
                if uid in self._cluster.pods:
                    self._emit(NominatePod(pod_key(self._cluster.pods[uid]), ""))

    def late(self, now: float) -> list[str]:
        """Return the workloads whose patience with their victims has ended."""
        return [key for key, plan in self._plans.items() if plan.deadline <= now]

    def next_deadline(self) -> float | None:
        """Return when the next patience ends."""
        return min((plan.deadline for plan in self._plans.values()), default=None)

    def _supersede(self, workload: Workload, node_names: set[str]) -> None:
        """Take back the nominations of less important pods on nodes that the workload will use."""
        for name in sorted(node_names):
            self.clear([p.uid for p in self._cluster.nominated_on(name) if p.priority < workload.priority])
