"""Our own PodGroup (scheduling.ai-scheduler.io), and the labels by which pods belong to it.

For the list of dialects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from scheduler.model.api import ApiPodGroup
from scheduler.model.gang import (
    BELOW_MINIMUM,
    COMPLETE_PHASES,
    DEFAULT_GRACE_SECONDS,
    DEFAULT_SCHEDULE_TIMEOUT_SECONDS,
    FAILED,
    INCOMPLETE_POLICIES,
    PREFIX,
    SATISFIED,
    SHRUNK,
    Gang,
    GangKey,
    Membership,
    Subgroup,
)
from scheduler.model.promise import moment_in
from scheduler.model.times import parse_time
from scheduler.model.topology_constraint import TopologyConstraint

from .counts import count_of, shown
from .dialect import Dialect, GroupSource
from .ranks import rank_of
from .trees import least_members, tree_problems

if TYPE_CHECKING:
    from scheduler.model.api import ApiPod, PodGroupSpec, PodGroupStatus
    from scheduler.model.podgroup_api import Role, TopologyWish, WhenIncomplete

NAME = "ai-scheduler"
GROUP_LABEL = f"{PREFIX}/pod-group"
ROLE_LABEL = f"{PREFIX}/role"
MOST_ROLES = 64
DISRUPTION_MODES = ("Single", "All")


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
    gang = Gang(
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
        was_complete=_was_complete(api.status, dialect),
        problems=tuple(problems),
        **_shortfall(api.status),
        promised_start=moment_in(api.status.promised_start),
    )
    return _with_own(gang, api.spec) if dialect == NAME else gang


def read(api: ApiPodGroup) -> tuple[Gang, ...]:
    """Return the one gang that a PodGroup is."""
    return (gang_from_api(api),)


def _was_complete(status: PodGroupStatus, dialect: str) -> bool:
    """Tell whether a status says that the minimum was on nodes before, and some of its pods have been there since.

    A group of Coscheduling's fails only after its minimum has been on nodes.
    """
    return (
        status.phase in COMPLETE_PHASES
        or (dialect != NAME and status.phase == FAILED)
        or any(
            condition.reason == BELOW_MINIMUM or (condition.type == SATISFIED and condition.status in ("True", "False"))
            for condition in status.conditions or ()
        )
    )


def _shortfall(status: PodGroupStatus) -> dict[str, Any]:
    """Return the fields of a Gang that tell since when it is below its minimum, and whether it goes on like that."""
    for condition in status.conditions or ():
        if condition.type == SATISFIED and condition.status == "False":
            return {"short_since": parse_time(condition.last_transition_time), "is_shrunk": condition.reason == SHRUNK}
    return {}


def _with_own(gang: Gang, spec: PodGroupSpec) -> Gang:
    """Return the gang with what only our own groups can say."""
    problems: list[str] = list(gang.problems)
    roles = spec.roles or []
    if len(roles) > MOST_ROLES:
        problems.append(f"spec.roles: {len(roles)} are too many; allowed are {MOST_ROLES}")
    asked = structs.replace(
        gang,
        min_subgroups=_least(spec.min_roles, "spec.minRoles", problems),
        subgroups=tuple(_subgroup(role, problems) for role in roles[:MOST_ROLES]),
    )
    subgroups, faults = tree_problems(asked, field="spec.roles", minimum="minRoles")
    policy, grace_seconds = _when_incomplete(spec.when_incomplete, problems)
    if spec.disruption_mode and spec.disruption_mode not in DISRUPTION_MODES:
        allowed = " and ".join(DISRUPTION_MODES)
        problems.append(f"spec.disruptionMode: {shown(spec.disruption_mode)} is unknown; allowed are {allowed}")
    return structs.replace(
        asked,
        min_member=max(gang.min_member, least_members(subgroups, asked.min_subgroups)),
        subgroups=subgroups,
        topology=_topology(spec.topology, "spec.topology", problems),
        incomplete_policy=policy,
        grace_seconds=grace_seconds,
        is_one_unit=spec.disruption_mode == "All",
        problems=(*problems, *faults),
    )


def _subgroup(role: Role, problems: list[str]) -> Subgroup:
    field = f"spec.roles[{role.name}]"
    return Subgroup(
        name=role.name,
        parent=role.parent,
        min_member=count_of(role.min_member, f"{field}.minMember", problems) or 0,
        min_subgroups=_least(role.min_roles, f"{field}.minRoles", problems),
        topology=_topology(role.topology, f"{field}.topology", problems),
    )


def _least(count: int | None, field: str, problems: list[str]) -> int | None:
    return None if count is None else count_of(count, field, problems, 1)


def _topology(wish: TopologyWish | None, field: str, problems: list[str]) -> TopologyConstraint | None:
    """Return the constraint; one that names no level asks for nothing."""
    if wish is None:
        return None
    segment = wish.segment
    size = 0
    if segment is not None:
        size = count_of(segment.size, f"{field}.segment.size", problems, 1) or 0
        if not segment.required and not segment.preferred:
            problems.append(f"{field}.segment: it names no level; required or preferred must be one")
    constraint = TopologyConstraint(
        topology=wish.name,
        required=wish.required,
        preferred=tuple(wish.preferred or ()),
        segment_size=size,
        segment_required=segment.required if segment is not None else "",
        segment_preferred=segment.preferred if segment is not None else "",
        spread=wish.spread,
        exclusive=wish.exclusive,
    )
    return constraint if constraint.levels else None


def _when_incomplete(wish: WhenIncomplete | None, problems: list[str]) -> tuple[str, float]:
    """Return the policy and its grace, in seconds."""
    policy = wish.policy if wish is not None and wish.policy else INCOMPLETE_POLICIES[0]
    if policy not in INCOMPLETE_POLICIES:
        allowed = ", ".join(INCOMPLETE_POLICIES)
        problems.append(f"spec.whenIncomplete.policy: {shown(policy)} is unknown; allowed are {allowed}")
        policy = INCOMPLETE_POLICIES[0]
    grace = wish.grace_period_seconds if wish is not None else None
    if grace is not None and grace < 0:
        problems.append(f"spec.whenIncomplete.gracePeriodSeconds: {grace} is out of range; allowed are seconds from 0")
        grace = None
    return policy, DEFAULT_GRACE_SECONDS if grace is None else grace


OWN = Dialect(
    NAME,
    member,
    (GroupSource(PREFIX, ("v1alpha1",), "podgroups", "PodGroup", ApiPodGroup, read),),
    keys=frozenset({GROUP_LABEL}),
)
