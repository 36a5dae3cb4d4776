"""Preempting: who was evicted for whom, and until when room is kept.

For the engine.  A workload with a plan keeps its nominations until it is placed, its victims are gone without giving
room, or its patience ends; then it may plan again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.framework.effects import EvictPod, NominatePod
from scheduler.plugins.preemption.victims import is_leaving_by_preemption

from .reporter import pod_key, pod_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduler.framework.effects import Effect
    from scheduler.framework.plugin import PostFilterResult
    from scheduler.framework.workload import Workload
    from scheduler.state.cluster import ClusterState

    from .moves import Moves
    from .reporter import Reporter

#: How long a single pod waits for its victims beyond the longest of their grace periods, in seconds.
PATIENCE_SECONDS = 120.0
#: Reason of the condition DisruptionTarget.
PREEMPTED = "PreemptionByScheduler"


@dataclass(slots=True)
class Plan:
    """A plan under way."""

    workload_key: str
    victims: set[str]
    nominated: tuple[str, ...]
    deadline: float


class Preempting:
    """Plans under way, by workload and by victim."""

    def __init__(
        self, cluster: ClusterState, reporter: Reporter, emit: Callable[[Effect], None], stuck: set[str], moves: Moves
    ) -> None:
        """Take where nominations are kept and where effects go; `stuck` collects victims that did not go in time."""
        self._cluster = cluster
        self._reporter = reporter
        self._emit = emit
        self._stuck = stuck
        self._moves = moves
        self._plans: dict[str, Plan] = {}

    def begin(
        self, workload: Workload, room: PostFilterResult, now: float, controller: str, in_flight: Callable[[str], bool]
    ) -> list[str]:
        """Nominate the pods, evict the victims; return the victims that are in flight, for the engine to release."""
        former = self._plans.pop(workload.key, None)
        self.clear([uid for uid in (former.nominated if former else ()) if uid not in room.nominations])
        self._supersede(workload, set(room.nominations.values()))
        grace = max((v.pod.grace_period_seconds for v in room.victims), default=0)
        patience = workload.gang.schedule_timeout_seconds if workload.gang else grace + PATIENCE_SECONDS
        plan = Plan(workload.key, {v.pod.uid for v in room.victims}, tuple(room.nominations), now + patience)
        self._plans[workload.key] = plan
        for uid, node_name in room.nominations.items():
            if self._cluster.nominations.get(uid) != node_name:
                self._cluster.nominate(uid, node_name)
                self._emit(NominatePod(pod_key(self._cluster.pods[uid]), node_name))
        who = workload.gang.key if workload.gang else next(iter(workload.pods.values())).key
        released = []
        for victim in room.victims:
            pod = self._cluster.pods.get(victim.pod.uid)
            if pod is None or pod.is_terminal or self._cluster.is_going(pod):
                continue
            if in_flight(pod.uid):
                released.append(pod.uid)
                continue
            message = f"Preempted by {who} on node {victim.node_name}"
            self._cluster.evicted.add(pod.uid)
            if victim.moves_to:
                message += f"; room is kept on node {victim.moves_to} for its replacement"
                self._moves.begin(pod, victim.moves_to, now)
            self._emit(EvictPod(pod_key(pod), PREEMPTED, message, pod.grace_period_seconds, victim.moves_to))
            self._reporter.event(pod_ref(pod), "Normal", "Preempted", "Preempting", message, controller)
        return released

    def adopt(self, workload: Workload, now: float) -> None:
        """Take up a plan that a former process began: victims that go on the nodes our pods are nominated to."""
        if workload.key in self._plans:
            return
        nominated = {uid: name for uid in workload.pods if (name := self._cluster.nominations.get(uid)) is not None}
        going = [
            pod
            for name in dict.fromkeys(nominated.values())
            if (row := self._cluster.view(name)) is not None
            for pod in row.pods.values()
            if pod.priority < workload.priority and is_leaving_by_preemption(pod) and pod.uid not in self._stuck
        ]
        if going:
            grace = max(pod.grace_period_seconds for pod in going)
            patience = workload.gang.schedule_timeout_seconds if workload.gang else grace + PATIENCE_SECONDS
            self._plans[workload.key] = Plan(workload.key, {pod.uid for pod in going}, tuple(nominated), now + patience)

    def victims_left(self, key: str) -> int:
        """Return how many victims of a workload's plan are still there; 0 if it has none."""
        plan = self._plans.get(key)
        return sum(self._is_there(uid) for uid in plan.victims) if plan is not None else 0

    def gone(self, uid: str) -> list[str]:
        """Return the workloads whose last victim is gone with this pod."""
        return [key for key, plan in self._plans.items() if uid in plan.victims and not self.victims_left(key)]

    def is_nominated(self, key: str) -> bool:
        """Tell whether a workload has a plan under way."""
        return key in self._plans

    def failed(self, victim_uid: str) -> list[str]:
        """Forget the plans that a victim was to make room for, as it could not be evicted; return their workloads."""
        keys = [key for key, plan in self._plans.items() if victim_uid in plan.victims]
        for key in keys:
            self.end(key)
        return keys

    def end(self, key: str) -> None:
        """Forget a workload's plan, and keep no room for those of its pods that are not placed."""
        plan = self._plans.pop(key, None)
        if plan is not None:
            self.clear(plan.nominated)

    def placed(self, key: str, uids: Iterable[str]) -> None:
        """Forget a plan because its workload was placed: the API server clears the nominations of pods that are bound."""
        plan = self._plans.pop(key, None)
        if plan is not None:
            placed = set(uids)
            self.clear([uid for uid in plan.nominated if uid not in placed])

    def clear(self, uids: Iterable[str]) -> None:
        """Take nominations back, here and at the API server."""
        for uid in uids:
            if self._cluster.nominations.get(uid):
                self._cluster.nominate(uid, "")
                if uid in self._cluster.pods:
                    self._emit(NominatePod(pod_key(self._cluster.pods[uid]), ""))

    def late(self, now: float) -> list[str]:
        """Give up the plans whose patience has ended; return their workloads. Victims still there are stuck."""
        keys = [key for key, plan in self._plans.items() if plan.deadline <= now]
        for key in keys:
            self._stuck.update(uid for uid in self._plans[key].victims if self._is_there(uid))
            self.end(key)
        return keys

    def next_deadline(self) -> float | None:
        """Return when the next patience ends."""
        return min((plan.deadline for plan in self._plans.values()), default=None)

    def _is_there(self, uid: str) -> bool:
        """Tell whether a victim still takes room, on its node or on the way to it."""
        pod = self._cluster.pods.get(uid)
        return pod is not None and not pod.is_terminal and self._cluster.node_of(uid) is not None

    def _supersede(self, workload: Workload, node_names: set[str]) -> None:
        """Take back the nominations of less important pods on nodes that the workload will use."""
        for name in sorted(node_names):
            self.clear([p.uid for p in self._cluster.nominated_on(name) if p.priority < workload.priority])
