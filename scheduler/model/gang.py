"""Gang: pods that must start together, read from a PodGroup of any dialect; and which pods belong to which.

For state and engine.  A dialect is one adapter here: the label or field that names the group, and the object's shape.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from .api import ApiBudget, ApiPodGroup, ApiPriorityClass, LabelSelector
from .pod import Pod, parse_time

PREFIX = "scheduling.ai-scheduler.io"
GROUP_LABEL = f"{PREFIX}/pod-group"
COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
#: Dialect to the API group of its PodGroup.
DIALECTS = {"ai-scheduler": PREFIX, "coscheduling": "scheduling.x-k8s.io"}

#: How long a gang may hold reservations, in seconds, when its group does not say.
DEFAULT_SCHEDULE_TIMEOUT_SECONDS = 600


#: Phases of a gang whose minimum is, or was, on nodes.
COMPLETE_PHASES = ("Scheduled", "Running", "Finished", "Failed")
#: Reason of the condition Scheduled of a gang that was complete and has lost members since.
BELOW_MINIMUM = "BelowMinimum"


class GangKey(NamedTuple):
    """What names a gang: its dialect, namespace and name."""

    dialect: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return namespace and name."""
        return f"{self.namespace}/{self.name}"


class Gang(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What scheduling needs to know of a group."""

    key: GangKey
    uid: str = ""
    generation: int = 0
    created: float = 0.0
    min_member: int = 1
    schedule_timeout_seconds: int = DEFAULT_SCHEDULE_TIMEOUT_SECONDS
    priority_class_name: str = ""
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}
    #: The phase in the object's status, to write only what changes.
    phase: str = ""
    #: Its status says that the minimum was on nodes before.
    was_complete: bool = False
    #: What is wrong with the object; while there is something, its pods wait.
    problems: tuple[str, ...] = ()


class PriorityClass(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A named priority."""

    name: str
    value: int
    is_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


class Budget(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PodDisruptionBudget: how many of its pods may go now."""

    namespace: str
    name: str
    selector: LabelSelector | None = None
    disruptions_allowed: int = 0
    disrupted_pods: frozenset[str] = frozenset()


def gang_key_of(pod: Pod) -> GangKey | None:
    """Return the gang that a pod names, or None; our own label comes before those of other dialects."""
    for dialect, label in (("ai-scheduler", GROUP_LABEL), ("coscheduling", COSCHEDULING_LABEL)):
        if name := pod.labels.get(label):
            return GangKey(dialect, pod.namespace, name)
    return None


def gang_from_api(api: ApiPodGroup, dialect: str) -> Gang:
    """Return the view of a PodGroup; a field out of range becomes a problem, never an exception."""
    problems = []
    if api.spec.min_member < 1:
        problems.append(f"spec.minMember: {api.spec.min_member} is out of range; allowed are numbers from 1")
    timeout = api.spec.schedule_timeout_seconds
    if timeout is not None and timeout < 1:
        problems.append(f"spec.scheduleTimeoutSeconds: {timeout} is out of range; allowed are seconds from 1")
        timeout = None
    meta = api.metadata
    return Gang(
        key=GangKey(dialect, meta.namespace or "default", meta.name),
        uid=meta.uid,
        generation=meta.generation,
        created=parse_time(meta.creation_timestamp) or 0.0,
        min_member=api.spec.min_member,
        schedule_timeout_seconds=DEFAULT_SCHEDULE_TIMEOUT_SECONDS if timeout is None else timeout,
        priority_class_name=api.spec.priority_class_name,
        annotations=meta.annotations or {},
        labels=meta.labels or {},
        phase=api.status.phase,
        was_complete=api.status.phase in COMPLETE_PHASES
        or any(condition.reason == BELOW_MINIMUM for condition in api.status.conditions or ()),
        problems=tuple(problems),
    )


def priority_class_from_api(api: ApiPriorityClass) -> PriorityClass:
    """Return the view of a PriorityClass."""
    return PriorityClass(
        name=api.metadata.name,
        value=api.value,
        is_default=api.global_default,
        preemption_policy=api.preemption_policy or "PreemptLowerPriority",
    )


def budget_from_api(api: ApiBudget) -> Budget:
    """Return the view of a PodDisruptionBudget."""
    return Budget(
        namespace=api.metadata.namespace or "default",
        name=api.metadata.name,
        selector=api.spec.selector,
        disruptions_allowed=api.status.disruptions_allowed,
        disrupted_pods=frozenset(api.status.disrupted_pods or ()),
    )
