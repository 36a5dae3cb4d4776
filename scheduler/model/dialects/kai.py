"""KAI's PodGroup (scheduling.run.ai), and the annotation and label by which pods belong to it and to its subgroups.

For the list of dialects.  Minima, the tree of subgroups, topologies at every level, the priority class and the staleness
grace period, the queue and the preemptibility are honoured; in a queue all of a semi-preemptible group counts as preemptible.  Not honoured: `preemptionDelay`, `markUnschedulable` and
`schedulingBackoff`, and segments, which KAI keeps on owners.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from scheduler.model.api import ObjectMeta
from scheduler.model.gang import (
    DEFAULT_GRACE_SECONDS,
    Gang,
    GangKey,
    Membership,
    Subgroup,
)
from scheduler.model.topology_constraint import TopologyConstraint
from scheduler.model.volume_api import ApiStruct

from .counts import checked, shown
from .dialect import Dialect, GroupSource
from .ranks import rank_of
from .reading import identity, label
from .trees import least_members, tree_problems

if TYPE_CHECKING:
    from scheduler.model.api import ApiPod

NAME = "kai"
GROUP = "scheduling.run.ai"
GROUP_ANNOTATION = "pod-group-name"
SUBGROUP_LABEL = "kai.scheduler/subgroup-name"
QUEUE_LABEL = "kai.scheduler/queue"
PREEMPTIBILITY_LABEL = "kai.scheduler/preemptibility"
#: Of a group that is semi-preemptible, members above the minima may go.
SEMI_PREEMPTIBLE = "semi-preemptible"
PREEMPTIBILITIES = {"preemptible": True, "non-preemptible": False, SEMI_PREEMPTIBLE: True}


class Topology(ApiStruct, frozen=True):
    """Levels of a Topology object."""

    topology: str | None = None
    required_topology_level: str | None = None
    preferred_topology_level: str | None = None


class SubGroup(ApiStruct, frozen=True):
    """A part of the group: of pods if nothing names it as parent."""

    name: str = ""
    parent: str | None = None
    min_member: int | None = None
    min_sub_group: int | None = None
    topology_constraint: Topology | None = None


class GroupSpec(ApiStruct, frozen=True):
    """The spec of a PodGroup."""

    min_member: int | None = None
    min_sub_group: int | None = None
    sub_groups: list[SubGroup] | None = None
    topology_constraint: Topology | None = None
    preemptibility: str | None = None
    queue: str | None = None
    priority_class_name: str | None = None
    staleness_grace_period: str | None = None


class ApiKaiGroup(ApiStruct, frozen=True):
    """A PodGroup of KAI."""

    api_version: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: GroupSpec = GroupSpec()


def member(pod: ApiPod) -> Membership | None:
    """Read the annotation `pod-group-name` and the label `subgroup-name`."""
    annotations = pod.metadata.annotations
    if not annotations or not (name := annotations.get(GROUP_ANNOTATION)):
        return None
    return Membership(
        key=GangKey(NAME, pod.metadata.namespace or "default", name),
        role=(pod.metadata.labels or {}).get(SUBGROUP_LABEL, ""),
        rank=rank_of(pod),
    )


def read(api: ApiKaiGroup) -> tuple[Gang, ...]:
    """Return the one gang that a PodGroup is."""
    spec = api.spec
    problems: list[str] = []
    preemptibility = _preemptibility(api, problems)
    policy, grace_seconds = _staleness(spec.staleness_grace_period, problems)
    _only_one("spec", spec.min_member, spec.min_sub_group, problems)
    parents = {one.parent for one in spec.sub_groups or ()}
    gang = Gang(
        **identity(NAME, api.api_version, api.metadata),
        min_subgroups=_count(spec.min_sub_group, "spec.minSubGroup", problems, 1),
        subgroups=tuple(_subgroup(one, one.name in parents, problems) for one in spec.sub_groups or ()),
        topology=_topology(spec.topology_constraint),
        priority_class_name=spec.priority_class_name or "",
        incomplete_policy=policy,
        grace_seconds=grace_seconds,
        is_preemptible=PREEMPTIBILITIES.get(preemptibility),
        is_minimum_firm=preemptibility == SEMI_PREEMPTIBLE,
        queue=spec.queue or (api.metadata.labels or {}).get(QUEUE_LABEL, ""),
    )
    subgroups, faults = tree_problems(gang)
    stated = _count(spec.min_member, "spec.minMember", problems, 1)
    least = least_members(subgroups, gang.min_subgroups)
    minimum = max(stated, least) if stated is not None else least if gang.subgroups else 1
    whole = msgspec.structs.replace(gang, subgroups=subgroups, min_member=minimum, problems=(*problems, *faults))
    return (whole,)


def _preemptibility(api: ApiKaiGroup, problems: list[str]) -> str:
    """Return what the group says of its preemptibility, in the field or else in the label; empty for nothing."""
    text, field = api.spec.preemptibility or "", "spec.preemptibility"
    if not text:
        text, field = (api.metadata.labels or {}).get(PREEMPTIBILITY_LABEL, ""), label(PREEMPTIBILITY_LABEL)
    if text and text not in PREEMPTIBILITIES:
        problems.append(f"{field}: {shown(text)} is unknown; allowed are {', '.join(PREEMPTIBILITIES)}")
    return text


def _subgroup(api: SubGroup, is_parent: bool, problems: list[str]) -> Subgroup:
    """Return a subgroup; one of pods that states no minimum has one of 1, as the group itself."""
    field = f"spec.subGroups[{api.name}]"
    _only_one(field, api.min_member, api.min_sub_group, problems)
    minimum = _count(api.min_member, f"{field}.minMember", problems, 0)
    if minimum is None:
        minimum = 0 if is_parent else 1
    return Subgroup(
        name=api.name,
        parent=api.parent or "",
        min_member=minimum,
        min_subgroups=_count(api.min_sub_group, f"{field}.minSubGroup", problems, 0),
        topology=_topology(api.topology_constraint),
    )


def _count(value: int | None, field: str, problems: list[str], least: int) -> int | None:
    return None if value is None else checked(value, field, problems, least)


def _only_one(field: str, pods: int | None, groups: int | None, problems: list[str]) -> None:
    if pods is not None and groups is not None:
        problems.append(f"{field}: it has both minMember and minSubGroup; allowed is one of them")


def _topology(api: Topology | None) -> TopologyConstraint | None:
    """Return the constraint; one that names no level asks for nothing."""
    if api is None or not (api.required_topology_level or api.preferred_topology_level):
        return None
    return TopologyConstraint(
        topology=api.topology or "",
        required=api.required_topology_level or "",
        preferred=(api.preferred_topology_level,) if api.preferred_topology_level else (),
    )


def _staleness(text: str | None, problems: list[str]) -> tuple[str, float]:
    """Return what happens to a running gang below its minimum, and after how many seconds: KAI evicts it, or never does."""
    if not text:
        return "Evict", DEFAULT_GRACE_SECONDS
    from scheduler.config.duration import parse_duration  # noqa: PLC0415 - pydantic is slow to import

    try:
        seconds = parse_duration(text).total_seconds()
    except ValueError:
        allowed = "allowed is a duration such as 90s or 5m, or a negative one for never"
        problems.append(f"spec.stalenessGracePeriod: {shown(text)} is no duration; {allowed}")
        return "Evict", DEFAULT_GRACE_SECONDS
    return ("Replace", math.inf) if seconds < 0 else ("Evict", seconds)


KAI = Dialect(
    NAME,
    member,
    (GroupSource(GROUP, ("v2alpha2",), "podgroups", "PodGroup", ApiKaiGroup, read),),
    keys=frozenset({GROUP_ANNOTATION}),
)
