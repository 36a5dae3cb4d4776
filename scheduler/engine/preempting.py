"""Preempting: who was evicted for whom, and until when room is kept.

For the engine.  A workload with a plan keeps its nominations until it is placed, its victims are gone without giving
room, or its patience ends; then it may plan again.  Where a victim is to be told some time before (`notices`), all of the plan are
told at once and go together; when the time has come, the plan is made again, with those as good as gone, before anybody is evicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.framework.effects import EvictPod, NominatePod
from scheduler.framework.plugin import Victim
from scheduler.plugins.preemption.victims import is_leaving_by_preemption

from .ages import Ages
from .gangs import needs_with
from .notices import Notice, longest
from .reporter import pod_key, pod_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scheduler.framework.effects import Effect
    from scheduler.framework.plugin import PostFilterResult
    from scheduler.framework.workload import Workload
    from scheduler.model import Pod
    from scheduler.state.cluster import ClusterState

    from .moves import Moves
    from .notices import Notices
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
    #: Name of the scheduler that the workload asks for.
    controller: str = "ai-scheduler"


class Preempting:
    """Plans under way, by workload and by victim."""

    def __init__(
        self, cluster: ClusterState, reporter: Reporter, emit: Callable[[Effect], None], stuck: set[str], moves: Moves,
        notices: Notices, kept_for: Callable[[Workload, str], Sequence[Pod]],
    ) -> None:  # fmt: skip
        """Take where nominations are kept and where effects go; `stuck` collects victims that did not go in time.

        `kept_for` tells for whom room is kept on a node against a workload.
        """
        self._kept_for = kept_for
        self.notices = notices
        #: Ages of evicted pods, for those that replace them.
        self.ages = Ages()
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
        plan = Plan(
            workload.key, {v.pod.uid for v in room.victims}, tuple(room.nominations), now + patience, controller
        )  # fmt: skip
        self._plans[workload.key] = plan
        for uid, node_name in room.nominations.items():
            if self._cluster.nominations.get(uid) != node_name:
                self._cluster.nominate(uid, node_name)
                self._emit(NominatePod(pod_key(self._cluster.pods[uid]), node_name))
        rest = self._rest_of_gangs(plan)
        plan.victims.update(victim.pod.uid for victim in rest)
        for uid in self.notices.given_for(workload.key):
            if uid not in plan.victims:
                self._spare(uid, controller)
        return self._make_leave(workload, plan, [*room.victims, *rest], now, in_flight)

    def _rest_of_gangs(self, plan: Plan) -> list[Victim]:
        """Return the pods that were given notice with a victim of their gang, and whose gang has less than its minimum without it."""
        found: list[Victim] = []
        told = [self._cluster.pods[uid] for uid in self.notices.given_for(plan.workload_key) if uid not in plan.victims]
        for key in dict.fromkeys(self._cluster.gang_of(pod) for pod in told):
            gang = self._cluster.gangs.get(key) if key is not None else None
            members = self._cluster.members(key) if key is not None and gang is not None else []
            if gang is None or not any(member.uid in plan.victims for member in members):
                continue
            rest = [pod for pod in told if self._cluster.gang_of(pod) == key]
            staying = [pod for pod in members if self._cluster.counts_as_placed(pod)] + rest
            if gang.is_one_unit or needs_with(gang, staying, self._cluster).missing():
                found += [Victim(pod, pod.node_name) for pod in rest]
        return found

    def _make_leave(
        self, workload: Workload, plan: Plan, victims: Sequence[Victim], now: float, in_flight: Callable[[str], bool]
    ) -> list[str]:
        """Evict the victims, or tell them that they will be; return those that are in flight."""
        who = workload.gang.key if workload.gang else next(iter(workload.pods.values())).key
        pods = [(victim, self._cluster.pods.get(victim.pod.uid)) for victim in victims]
        there = [(v, pod) for v, pod in pods if pod is not None and not pod.is_terminal and not pod.is_terminating]
        fresh: list[tuple[Pod, Notice]] = []
        released = []
        for victim, pod in there:
            notice = self.notices.of(pod.uid)
            if notice is not None:
                if notice.key == workload.key and notice.due <= now:
                    self._evict(pod, notice, plan.controller, now)
            elif self._cluster.is_going(pod):
                continue
            elif in_flight(pod.uid):
                released.append(pod.uid)
            else:
                message = f"Preempted by {who} on node {victim.node_name}"
                if victim.moves_to:
                    message += f"; room is kept on node {victim.moves_to} for its replacement"
                fresh.append((pod, Notice(workload.key, now, message, victim.moves_to)))
        seconds = longest((pod for pod, _ in fresh), self.notices.seconds_of)
        plan.deadline += seconds
        for pod, notice in fresh:
            notice.due += seconds
            if seconds:
                self.notices.give(pod, notice, who, plan.controller)
            else:
                if notice.moves_to:
                    self._moves.begin(pod, notice.moves_to, now)
                self._evict(pod, notice, plan.controller, now)
        return released

    def _evict(self, pod: Pod, notice: Notice, controller: str, now: float) -> None:
        self.notices.drop(pod.uid)
        self.ages.evicted(pod, now)
        if (key := self._cluster.gang_of(pod)) is not None and (node := self._cluster.node_of(pod.uid)) is not None:
            self._cluster.former_nodes.setdefault(key, []).append(node)
        self._cluster.expect_leave(pod.uid)
        self._emit(EvictPod(pod_key(pod), PREEMPTED, notice.message, pod.grace_period_seconds, notice.moves_to))
        self._reporter.event(pod_ref(pod), "Normal", "Preempted", "Preempting", notice.message, controller)

    def _spare(self, uid: str, controller: str) -> None:
        """Withdraw a notice, unless another plan counts on it."""
        other = next((plan for plan in self._plans.values() if uid in plan.victims), None)
        notice = self.notices.of(uid)
        if other is not None and notice is not None and notice.key != other.workload_key:
            self.notices.take_over(uid, other.workload_key, other.controller)
        else:
            self.notices.withdraw(uid, controller)

    def _close(self, plan: Plan | None) -> None:
        """Withdraw the notices of a plan that is over, which is not among the plans any more."""
        if plan is not None:
            for uid in self.notices.given_for(plan.workload_key):
                self._spare(uid, plan.controller)

    def adopt(self, workload: Workload, now: float) -> None:
        """Take up a plan that a former process began: victims that go on the nodes our pods are nominated to."""
        if workload.key in self._plans:
            return
        told = self.notices.given_for(workload.key)
        nominated = {uid: name for uid in workload.pods if (name := self._cluster.nominations.get(uid)) is not None}
        going = [
            pod
            for name in dict.fromkeys(nominated.values())
            if (row := self._cluster.view(name)) is not None
            for pod in row.pods.values()
            if pod.priority < workload.priority and is_leaving_by_preemption(pod) and pod.uid not in self._stuck
        ]
        if going or told:
            grace = max((pod.grace_period_seconds for pod in going), default=0)
            patience = workload.gang.schedule_timeout_seconds if workload.gang else grace + PATIENCE_SECONDS
            notices = [notice for uid in told if (notice := self.notices.of(uid)) is not None]
            begins = max((now, *(notice.due for notice in notices)))
            victims, name = {*told, *(pod.uid for pod in going)}, next(iter(workload.pods.values())).scheduler_name
            self._plans[workload.key] = Plan(workload.key, victims, tuple(nominated), begins + patience, name)

    def victims_left(self, key: str) -> int:
        """Return how many victims of a workload's plan are still there; 0 if it has none."""
        plan = self._plans.get(key)
        return sum(self._is_there(uid) for uid in plan.victims) if plan is not None else 0

    def waits_for(self, key: str, now: float) -> int:
        """Return how many victims a workload waits for; none if their notice is over: then it plans again before they go."""
        return 0 if self.notices.is_due(key, now) else self.victims_left(key)

    def gone(self, uid: str) -> list[str]:
        """Return the workloads whose last victim is gone with this pod."""
        self.notices.drop(uid)
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
            self._close(plan)
            self.clear(plan.nominated)

    def placed(self, key: str, uids: Iterable[str]) -> None:
        """Forget a plan because its workload was placed: the API server clears the nominations of pods that are bound."""
        plan = self._plans.pop(key, None)
        if plan is not None:
            self._close(plan)
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
        """Give up the plans whose patience has ended; return their workloads. Victims still there are stuck.

        Those for whom the time of a notice has come are returned too.
        """
        keys = [key for key, plan in self._plans.items() if plan.deadline <= now]
        for key in keys:
            victims = self._plans[key].victims
            for uid in [uid for uid in victims if self._is_there(uid) and self.notices.of(uid) is None]:
                self._stuck.add(uid)
                self._cluster.note_aside(uid)
            self.end(key)
        self.notices.withdraw_orphans(now, self._plans)
        return list(dict.fromkeys((*keys, *self.notices.come_due(now))))

    def next_deadline(self) -> float | None:
        """Return when the next patience ends."""
        times = [plan.deadline for plan in self._plans.values()]
        if (notice := self.notices.next_deadline(self._plans)) is not None:
            times.append(notice)
        return min(times, default=None)

    def _is_there(self, uid: str) -> bool:
        """Tell whether a victim still takes room, on its node or on the way to it."""
        pod = self._cluster.pods.get(uid)
        return pod is not None and not pod.is_terminal and self._cluster.node_of(uid) is not None

    def _supersede(self, workload: Workload, node_names: set[str]) -> None:
        """Take back the nominations of less important pods on nodes that the workload will use, but what is kept against it."""
        for name in sorted(node_names):
            weak = [pod.uid for pod in self._cluster.nominated_on(name) if pod.priority < workload.priority]
            kept = {pod.uid for pod in self._kept_for(workload, name)} if weak else set()
            self.clear([uid for uid in weak if uid not in kept])
