"""Workloads: groups pending pods into what the queue holds, and says what a group still lacks.

For the engine.  O(1) per pod event; a gang is looked at as a whole only when it is complete enough to be tried.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scheduler.framework.status import ClusterEvent, Code, Kind, Reason, Status
from scheduler.framework.workload import Workload
from scheduler.model.needs import Needs, minimum_of, without_minima
from scheduler.state.groups import roles_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from scheduler.model import Gang, GangKey, Pod
    from scheduler.state.cluster import ClusterState

#: Of the problems of pods so many are told.
_MOST_PROBLEMS = 5
_GROUP_CURES = ClusterEvent.GANG_CHANGED | ClusterEvent.POD_CREATED | ClusterEvent.POD_UPDATED


class Workloads:
    """Workloads by key; the pods in them are pending and in no flight."""

    def __init__(self, cluster: ClusterState, completed: Collection[GangKey] = ()) -> None:
        """Take the state that knows pods and groups, and the gangs that were complete."""
        self._cluster = cluster
        self._completed = completed
        self._by_key: dict[str, Workload] = {}
        self._key_of_pod: dict[str, str] = {}
        #: Workload key to how often a pod came, or changed in a way that counts.
        self._news: dict[str, int] = {}
        #: Pods that a PreEnqueue plugin objects to, with its status.
        self._gates: dict[str, Status] = {}

    def get(self, key: str) -> Workload | None:
        """Return a workload by key."""
        return self._by_key.get(key)

    def all(self) -> list[Workload]:
        """Return all workloads, in the order of arrival."""
        return list(self._by_key.values())

    def of(self, uid: str) -> Workload | None:
        """Return the workload of a pending pod."""
        return self._by_key.get(self._key_of_pod.get(uid, ""))

    def add(self, pod: Pod, gate: Status | None, now: float) -> tuple[Workload, Workload | None]:
        """Put a pending pod where it belongs; return its workload, and the one that it left if it changed groups."""
        gang_key = self._cluster.gang_of(pod)
        key = workload_key(gang_key, pod)
        left = None
        if self._key_of_pod.get(pod.uid, key) != key:
            left = self.drop(pod.uid)
        workload = self._by_key.get(key)
        if workload is None:
            workload = self._by_key[key] = Workload(key, since=now)
        former = workload.pods.get(pod.uid)
        if former is None or not is_same_for_scheduling(former, pod) or gate != self._gates.get(pod.uid):
            self.news(key)
        workload.pods[pod.uid] = pod
        self._key_of_pod[pod.uid] = key
        self.gate(pod.uid, gate)
        return workload, left

    def news(self, key: str) -> None:
        """Note that something about a workload changed that makes it worth another attempt."""
        if key in self._by_key:
            self._news[key] = self._news.get(key, 0) + 1

    def drop(self, uid: str) -> Workload | None:
        """Take a pod out, as it is assigned, in flight or gone; return its former workload, which may be empty now."""
        key = self._key_of_pod.pop(uid, None)
        self._gates.pop(uid, None)
        workload = self._by_key.get(key or "")
        if workload is not None:
            workload.pods.pop(uid, None)
            if not workload.pods:
                del self._by_key[workload.key]
                self._news.pop(workload.key, None)
        return workload

    def refresh(self, workload: Workload) -> Status | None:
        """Bring need and priority up to date; return what keeps the workload from being tried, or None.

        O(members) for a gang, else O(1).
        """
        first = next(iter(workload.pods.values()))
        gang_key = self._cluster.gang_of(first)
        if gang_key is None:
            workload.gang, workload.needs, workload.needed, workload.priority = None, None, 1, first.priority
            workload.is_repair = False
            return self._gate(first.uid)
        workload.gang = gang = self._cluster.gangs.get(gang_key)
        workload.is_repair = False
        if gang is None:
            text = f"PodGroup {gang_key} ({gang_key.dialect}) does not exist"
            return Status.unresolvable(Reason("MissingPodGroup", text, _GROUP_CURES))
        problems = [*gang.problems, *self._class_problems(gang), *self._pod_problems(workload, gang_key)]
        if problems:
            text = f"{gang.kind} {gang_key}: {'; '.join(problems)}"
            return Status.unresolvable(Reason("InvalidPodGroup", text, _GROUP_CURES))
        workload.priority = self._priority(workload, gang)
        return self._lacks_members(workload, gang)

    def _lacks_members(self, workload: Workload, gang: Gang) -> Status | None:
        """Count what is placed and what could be tried; return what is missing, if the minimum cannot be reached with it."""
        cluster, role_of = self._cluster, self._cluster.groups.role_of
        placed = Counter(role_of(pod) for pod in cluster.members(gang.key) if cluster.counts_as_placed(pod))
        roles = {pod.uid: role_of(pod) for pod in workload.pods.values()}
        ready = Counter(roles[uid] for uid in workload.pods if self._gate(uid) is None)
        named = {uid: role for uid, role in roles.items() if role}
        workload.needs = needs = Needs(without_minima(gang) if gang.key in cluster.shrunk else gang, placed, named)
        minimum = minimum_of(gang)
        workload.needed = max(1, needs.missing())
        workload.is_repair = bool(placed) and gang.key in self._completed and needs.missing() > 0
        if ready and not needs.missing(ready):
            return None
        gated = len(workload.pods) - sum(ready.values())
        existing = Needs(gang, placed + Counter(roles.values()))
        if existing.missing():
            text = f"gang {gang.key} waits for members: {sum(placed.values()) + len(roles)} of {minimum} pods exist"
        else:
            count = sum(placed.values()) + sum(ready.values())
            text = f"gang {gang.key} waits for members: {count} of {minimum} pods are ready or placed"
        shortfalls = Needs(gang, placed + ready).shortfalls()
        text += (
            f" ({', '.join(f'{name}: {count} of {wanted}' for name, count, wanted in shortfalls)})"
            if shortfalls
            else ""
        )
        text += f", {gated} more are gated" if gated and not existing.missing() else ""
        if unknown := needs.unknown_roles():
            known = ", ".join(roles_of(cluster.gangs, gang.key))
            text += f"; there are pods of the roles {', '.join(unknown)}, which it does not have; it has {known}"
        return Status.unresolvable(Reason("WaitingForMembers", text, _GROUP_CURES, Kind.NOT_NOW))

    def _pod_problems(self, workload: Workload, gang_key: GangKey) -> list[str]:
        """Return what is wrong with what the pods say of their gang, each thing once."""
        found: dict[str, None] = {}
        for pod in workload.pods.values():
            for problem in pod.membership.problems if pod.membership is not None else ():
                found[f"pod {pod.name}: {problem}"] = None
        problems = list(found)[:_MOST_PROBLEMS]
        names = Counter(pod.scheduler_name for pod in self._cluster.members(gang_key) if not pod.is_terminal)
        if len(names) > 1:
            counts = ", ".join(f"{name or 'none'} ({count})" for name, count in sorted(names.items()))
            problems.insert(0, f"its pods name different schedulers: {counts}; allowed is one for all")
        return problems

    def look(self, workload: Workload) -> tuple[int, int, int]:
        """Return what tells whether a workload is worth another attempt: its news, need and priority."""
        return self._news.get(workload.key, 0), workload.needed, workload.priority

    def ready_pods(self, workload: Workload) -> list[Pod]:
        """Return the pods of a workload that no PreEnqueue plugin objects to, in order."""
        return [pod for pod in workload.ordered() if self._gate(pod.uid) is None]

    def gate(self, uid: str, gate: Status | None) -> None:
        """Note what a PreEnqueue plugin says of a pending pod now; an accident is no gate, but fails the attempt."""
        if gate is None:
            self._gates.pop(uid, None)
        else:
            self._gates[uid] = gate

    def gated_pods(self, workload: Workload) -> list[Pod]:
        """Return the pods that a PreEnqueue plugin objects to, or failed at."""
        return [pod for pod in workload.pods.values() if pod.uid in self._gates]

    def accident(self, workload: Workload) -> Status | None:
        """Return the Error of a PreEnqueue plugin that failed at one of the pods."""
        found = (self._gates[pod.uid] for pod in self.gated_pods(workload))
        return next((gate for gate in found if gate.code is Code.ERROR), None)

    def _gate(self, uid: str) -> Status | None:
        gate = self._gates.get(uid)
        return None if gate is None or gate.code is Code.ERROR else gate

    def _priority(self, workload: Workload, gang: Gang | None) -> int:
        """Return the lowest priority of the members, or the group's class if that is lower."""
        lowest = min(pod.priority for pod in workload.pods.values())
        named = self._cluster.priority_classes.get(gang.priority_class_name) if gang else None
        stated = [
            value for value in (named.value if named else None, gang.priority if gang else None) if value is not None
        ]
        return min(lowest, *stated) if stated else lowest

    def _class_problems(self, gang: Gang) -> list[str]:
        name = gang.priority_class_name
        if not name or name in self._cluster.priority_classes:
            return []
        known = ", ".join(sorted(self._cluster.priority_classes)) or "none"
        return [f"spec.priorityClassName: {name!r} does not exist; existing are {known}"]


def workload_key(gang_key: GangKey | None, pod: Pod) -> str:
    """Return the key of the workload that a pod belongs to."""
    if gang_key is None:
        return f"pod:{pod.namespace}/{pod.name}:{pod.uid}"
    return workload_key_of(gang_key)


def workload_key_of(gang_key: GangKey) -> str:
    """Return the key of a gang's workload."""
    return f"gang:{gang_key.dialect}:{gang_key}"


def is_same_for_scheduling(former: Pod, pod: Pod) -> bool:
    """Tell whether a pending pod changed in nothing that could change a verdict: the echo of our own writes, mostly."""
    return (former.shape, former.labels, former.gates, former.annotations, former.priority_class_name, former.claims) == (
        pod.shape, pod.labels, pod.gates, pod.annotations, pod.priority_class_name, pod.claims,
    )  # fmt: skip
