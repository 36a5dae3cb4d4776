"""Reporter: turns what happens to workloads into conditions, events and group statuses, and writes each once.

For the engine.  Writes are dear: a refusal is written once per reason, a wait only after two seconds, a group's status
at most twice a second; while nothing changes nothing is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from scheduler.framework.effects import (
    EmitEvent,
    ObjectRef,
    PodRef,
    SetGangStatus,
    SetPodScheduled,
    SetPromisedStart,
)
from scheduler.framework.status import Code, Status
from scheduler.model.dialects.own import NAME as OWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.framework.effects import Effect, PlacementSummary
    from scheduler.framework.workload import Workload
    from scheduler.model import Gang, GangKey, Node, Pod
    from scheduler.state.cluster import ClusterState

#: How long something may wait before it is written that it does, in seconds.
WAIT_BEFORE_WRITING = 2.0
#: How long changes of a group are gathered before its status is written, in seconds.
GANG_STATUS_DELAY = 0.5
#: Longer sentences are cut: conditions are bounded to 32 KiB, events to 1 KiB.
_LONGEST_MESSAGE = 1000
#: Waits that somebody has to do something about, or may wonder about, and the type of their events.
_EVENT_TYPES = {
    "MissingPodGroup": "Warning",
    "InvalidPodGroup": "Warning",
    "WaitingForMembers": "Normal",
    "UnknownQueue": "Warning",
    "QueueNotAllowed": "Warning",
}
_API_VERSIONS = {"ai-scheduler": "scheduling.ai-scheduler.io/v1alpha1", "coscheduling": "scheduling.x-k8s.io/v1alpha1"}
#: Dialects whose objects have a status that is ours to write.
WRITTEN = ("ai-scheduler", "native", "native-composite")


#: Status, reason and message.
Condition: TypeAlias = tuple[str, str, str]


class Reporter:
    """Effects that tell people and programs what happened."""

    def __init__(self, cluster: ClusterState) -> None:
        """Take the state to report on."""
        self._cluster = cluster
        self.effects: list[Effect] = []
        self._said: dict[str, tuple[str, ...]] = {}
        self._said_of_workload: dict[str, tuple[str, ...]] = {}
        self._waits_said: dict[str, str] = {}
        #: Workload key → when its wait is to be written.
        self._waits: dict[str, tuple[float, Status]] = {}
        #: Gang → when its status is to be written; and what was written last.
        self._gangs_due: dict[GangKey, float] = {}
        self._gangs_written: dict[GangKey, SetGangStatus] = {}

    def refused(self, workload: Workload, pods: Iterable[Pod], status: Status, controller: str) -> None:
        """Write that pods found no place, once per reason: a condition each, events at the group and at one pod."""
        self._waits.pop(workload.key, None)
        reason = "SchedulerError" if status.code is Code.ERROR else "Unschedulable"
        first = status.reasons[0].text if status.reasons else status.message
        codes = (reason, *sorted({r.code for r in status.reasons}))
        pods = list(pods)
        for pod in pods:
            self._condition(pod, codes, reason, first)
        if self._said_of_workload.get(workload.key) != codes:
            self._said_of_workload[workload.key] = codes
            for about in refs(workload, pods):
                self.event(about, "Warning", "FailedScheduling", "Scheduling", first, controller)

    def waits(self, key: str, status: Status, now: float) -> None:
        """Remember that a workload or flight waits for pods, a group, a gate or a plugin; written if it lasts."""
        due = self._waits[key][0] if key in self._waits else now + WAIT_BEFORE_WRITING
        self._waits[key] = (due, status)

    def moved(self, key: str) -> None:
        """Forget that a workload waits."""
        self._waits.pop(key, None)

    def forget_pod(self, uid: str) -> None:
        """Forget what was written about a pod."""
        self._said.pop(uid, None)

    def forget_workload(self, key: str) -> None:
        """Forget what was written about a workload."""
        self._waits.pop(key, None)
        self._said_of_workload.pop(key, None)
        self._waits_said.pop(key, None)

    def due_waits(self, now: float) -> list[tuple[str, Status]]:
        """Return the workloads whose wait is to be written now; they are not returned again."""
        due = [(key, status) for key, (time, status) in self._waits.items() if time <= now]
        for key, _ in due:
            del self._waits[key]
        return due

    def gated(self, workload: Workload, pods: Iterable[Pod], status: Status) -> None:
        """Write that pods wait for something other than room; what is amiss with a group also as events."""
        pods = list(pods)
        code = status.reasons[0].code if status.reasons else ""
        if code in _EVENT_TYPES and self._waits_said.get(workload.key) != code:
            self._waits_said[workload.key] = code
            for about in refs(workload, pods):
                self.event(about, _EVENT_TYPES[code], code, "Scheduling", status.message, pods[0].scheduler_name)
        for pod in pods:
            self._condition(
                pod, ("SchedulingGated", *sorted({r.code for r in status.reasons})), "SchedulingGated", status.message
            )

    def event(
        self,
        about: ObjectRef,
        kind: str,
        reason: str,
        action: str,
        note: str,
        controller: str,
        related: ObjectRef | None = None,
    ) -> None:
        """Record an event."""
        self.effects.append(EmitEvent(about, kind, reason, action, _cut(note), related, controller))

    def node_problems(self, node: Node, controller: str) -> None:
        """Say at a node what is wrong with it."""
        about = ObjectRef("v1", "Node", "", node.name, node.uid)
        self.event(about, "Warning", "InvalidNode", "Scheduling", "; ".join(node.problems), controller)

    def gang_changed(self, key: GangKey, now: float) -> None:
        """Remember that a group's status may have to be written."""
        if key in self._cluster.gangs:
            self._gangs_due.setdefault(key, now + GANG_STATUS_DELAY)

    def promised(self, workload: Workload, start: float | None, now: float) -> None:
        """Write when a workload is expected to start, in seconds since the epoch, or that this cannot be told any more.

        It stands in the status of a group of ours, for all others at the first pod.
        """
        if workload.gang is not None and workload.gang.key.dialect == OWN and workload.gang.uid:
            self.gang_changed(workload.gang.key, now)
        elif workload.pods:
            self.effects.append(SetPromisedStart(pod_key(workload.ordered()[0]), start))

    def forget_gang(self, key: GangKey) -> None:
        """Forget a group that is gone."""
        self._gangs_due.pop(key, None)
        self._gangs_written.pop(key, None)

    def due_gangs(self, now: float) -> list[GangKey]:
        """Return the groups whose status is to be written now; they are not returned again."""
        due = [key for key, time in self._gangs_due.items() if time <= now]
        for key in due:
            del self._gangs_due[key]
        return due

    def gang_status(
        self, gang: Gang, phase: str, counts: dict[str, int], scheduled: Condition, satisfied: Condition,
        placement: PlacementSummary | None, promised_start: float | None = None,
    ) -> None:  # fmt: skip
        """Write a group's status, unless it is what was written last; other projects' objects are never written.

        The conditions are (status, reason, message); that of `satisfied` may be empty.
        """
        if gang.key.dialect not in WRITTEN or not gang.uid:
            return
        status = SetGangStatus(
            gang.key.namespace, gang.key.name, gang.uid, phase, gang.generation, tuple(sorted(counts.items())),
            *scheduled[:2], _cut(scheduled[2]), *satisfied[:2], _cut(satisfied[2]), placement, gang.key.dialect,
            promised_start,
        )  # fmt: skip
        if self._gangs_written.get(gang.key) != status:
            self._gangs_written[gang.key] = status
            self.effects.append(status)

    def next_time(self) -> float | None:
        """Return when something is due next."""
        times = [*(time for time, _ in self._waits.values()), *self._gangs_due.values()]
        return min(times, default=None)

    def _condition(self, pod: Pod, codes: tuple[str, ...], reason: str, message: str) -> None:
        if self._said.get(pod.uid) == codes:
            return
        self._said[pod.uid] = codes
        message = _cut(message)
        known = next((c for c in pod.conditions if c.type == "PodScheduled"), None)
        if known is not None and (known.status, known.reason, known.message) == ("False", reason, message):
            return
        self.effects.append(SetPodScheduled(pod_key(pod), reason, message))


def refs(workload: Workload, pods: list[Pod]) -> list[ObjectRef]:
    """Return where people look for events about a workload: its group, if there is one, and its first pod."""
    group = [gang_ref(workload.gang)] if workload.gang is not None and workload.gang.uid else []
    return group + [pod_ref(pod) for pod in pods[:1]]


def pod_key(pod: Pod) -> PodRef:
    """Return what names a pod in effects."""
    return PodRef(pod.namespace, pod.name, pod.uid)


def pod_ref(pod: Pod) -> ObjectRef:
    """Return what names a pod in events."""
    return ObjectRef("v1", "Pod", pod.namespace, pod.name, pod.uid)


def gang_ref(gang: Gang, members: Sequence[Pod] = ()) -> ObjectRef:
    """Return what names a group in events: the first of its members, if there is no object of it."""
    if not gang.uid and members:
        return pod_ref(members[0])
    api_version = gang.api_version or _API_VERSIONS.get(gang.key.dialect, "")
    return ObjectRef(api_version, gang.kind, gang.key.namespace, gang.key.name, gang.uid)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 1] + "…"
