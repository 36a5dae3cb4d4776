"""Workloads: groups pending pods into what the queue holds, and says what a group still lacks.

For the engine.  O(1) per pod event; a gang is looked at as a whole only when it is complete enough to be tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.status import ClusterEvent, Kind, Reason, Status
from scheduler.framework.workload import Workload
from scheduler.model import gang_key_of

if TYPE_CHECKING:
    from scheduler.model import Gang, GangKey, Pod
    from scheduler.state.cluster import ClusterState

_GROUP_CURES = ClusterEvent.GANG_CHANGED | ClusterEvent.POD_CREATED | ClusterEvent.POD_UPDATED


class Workloads:
    """Workloads by key; the pods in them are pending and in no flight."""

    def __init__(self, cluster: ClusterState) -> None:
        """Take the state that knows pods and groups."""
        self._cluster = cluster
        self._by_key: dict[str, Workload] = {}
        self._key_of_pod: dict[str, str] = {}
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
        gang_key = gang_key_of(pod)
        key = workload_key(gang_key, pod)
        left = None
        if self._key_of_pod.get(pod.uid, key) != key:
            left = self.drop(pod.uid)
        workload = self._by_key.get(key)
        if workload is None:
            workload = self._by_key[key] = Workload(key, since=now)
        workload.pods[pod.uid] = pod
        self._key_of_pod[pod.uid] = key
        if gate is None:
            self._gates.pop(pod.uid, None)
        else:
            self._gates[pod.uid] = gate
        return workload, left

    def drop(self, uid: str) -> Workload | None:
        """Take a pod out, as it is assigned, in flight or gone; return its former workload, which may be empty now."""
        key = self._key_of_pod.pop(uid, None)
        self._gates.pop(uid, None)
        workload = self._by_key.get(key or "")
        if workload is not None:
            workload.pods.pop(uid, None)
            if not workload.pods:
                del self._by_key[workload.key]
        return workload

    def refresh(self, workload: Workload) -> Status | None:
        """Bring need and priority up to date; return what keeps the workload from being tried, or None."""
        pods = [pod for pod in workload.pods.values() if pod.uid not in self._gates]
        gang_key = gang_key_of(next(iter(workload.pods.values())))
        if gang_key is None:
            pod = next(iter(workload.pods.values()))
            workload.gang, workload.needed, workload.priority = None, 1, pod.priority
            return self._gates.get(pod.uid)
        workload.gang = gang = self._cluster.gangs.get(gang_key)
        known = self._cluster.member_count(gang_key)
        if gang is not None and not gang.problems and known < gang.min_member:
            text = f"gang {gang_key} waits for members: {known} of {gang.min_member} pods exist"
            return Status.unresolvable(Reason("WaitingForMembers", text, _GROUP_CURES, Kind.NOT_NOW))
        workload.priority = self._priority(workload, gang)
        if gang is None:
            text = f"PodGroup {gang_key} ({gang_key.dialect}) does not exist"
            return Status.unresolvable(Reason("MissingPodGroup", text, _GROUP_CURES))
        problems = [*gang.problems, *self._class_problems(gang)]
        if problems:
            return Status.unresolvable(
                Reason("InvalidPodGroup", f"PodGroup {gang_key}: {'; '.join(problems)}", _GROUP_CURES)
            )
        placed = sum(1 for pod in self._cluster.members(gang_key) if counts_as_placed(pod, self._cluster))
        workload.needed = max(1, gang.min_member - placed)
        if len(pods) < workload.needed:
            gated = len(workload.pods) - len(pods)
            text = (
                f"gang {gang_key} waits for members: {placed + len(pods)} of {gang.min_member} pods are ready or placed"
            )
            text += f", {gated} more are gated" if gated else ""
            return Status.unresolvable(Reason("WaitingForMembers", text, _GROUP_CURES, Kind.NOT_NOW))
        return None

    def ready_pods(self, workload: Workload) -> list[Pod]:
        """Return the pods of a workload that no PreEnqueue plugin objects to, in order."""
        return [pod for pod in workload.ordered() if pod.uid not in self._gates]

    def gate_of(self, uid: str) -> Status | None:
        """Return why a pod is gated."""
        return self._gates.get(uid)

    def _priority(self, workload: Workload, gang: Gang | None) -> int:
        """Return the lowest priority of the members, or the group's class if that is lower."""
        lowest = min(pod.priority for pod in workload.pods.values())
        named = self._cluster.priority_classes.get(gang.priority_class_name) if gang else None
        return min(lowest, named.value) if named else lowest

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
    return f"gang:{gang_key.dialect}:{gang_key.namespace}/{gang_key.name}"


def counts_as_placed(pod: Pod, cluster: ClusterState) -> bool:
    """Tell whether a member counts towards the minimum: on a node (also only assumed), or finished well."""
    if pod.phase == "Succeeded":
        return True
    return not pod.is_terminal and not pod.is_terminating and cluster.node_of(pod.uid) is not None
