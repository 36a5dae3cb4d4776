"""Our own PodGroup (scheduling.ai-scheduler.io), and the labels by which pods belong to it.

For the list of dialects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.api import ApiPodGroup
from scheduler.model.gang import (
    BELOW_MINIMUM,
    COMPLETE_PHASES,
    DEFAULT_SCHEDULE_TIMEOUT_SECONDS,
    PREFIX,
    Gang,
    GangKey,
    Membership,
)
from scheduler.model.times import parse_time

from .dialect import Dialect, GroupSource
from .ranks import rank_of

if TYPE_CHECKING:
    from scheduler.model.api import ApiPod

NAME = "ai-scheduler"
GROUP_LABEL = f"{PREFIX}/pod-group"
ROLE_LABEL = f"{PREFIX}/role"


def member(pod: ApiPod) -> Membership | None:
    """Read the labels `pod-group` and `role`."""
    labels = pod.metadata.labels
    if not labels or not (name := labels.get(GROUP_LABEL)):
        return None
    return Membership(
        key=GangKey(NAME, pod.metadata.namespace or "default", name),
        role=labels.get(ROLE_LABEL, ""),
        rank=rank_of(pod),
    )


def gang_from_api(api: ApiPodGroup, dialect: str = NAME) -> Gang:
    """Return the view of a PodGroup, ours or Coscheduling's; a field out of range becomes a problem."""
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
        api_version=api.api_version,
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


def read(api: ApiPodGroup) -> tuple[Gang, ...]:
    """Return the one gang that a PodGroup is."""
    return (gang_from_api(api),)


OWN = Dialect(NAME, member, (GroupSource(PREFIX, ("v1alpha1",), "podgroups", "PodGroup", ApiPodGroup, read),))
