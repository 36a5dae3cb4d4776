"""Kubernetes' own PodGroup and CompositePodGroup (scheduling.k8s.io), and the field of pods that names a PodGroup.

For the list of dialects.  The shapes of 1.36 and 1.37 are read alike, whatever version an object claims.  Workload objects
are not read: a PodGroup holds a copy of all that its template says.  The finalizer is not ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.model.api import Condition, ObjectMeta
from scheduler.model.gang import Gang, GangKey, Membership
from scheduler.model.topology_constraint import TopologyConstraint
from scheduler.model.volume_api import ApiStruct

from .counts import checked, shown
from .dialect import Dialect, GroupSource
from .ranks import rank_of
from .reading import identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduler.model.api import ApiPod

NAME = "native"
#: Groups of groups have names of their own, which may equal those of PodGroups.
COMPOSITE_NAME = "native-composite"
GROUP = "scheduling.k8s.io"

#: Conditions that stay True once the minimum was on nodes; the second is what 1.36 calls the first.
COMPLETE_CONDITIONS = ("PodGroupInitiallyScheduled", "PodGroupScheduled", "CompositePodGroupInitiallyScheduled")
PREEMPTION_POLICIES = ("", "Never", "PreemptLowerPriority")
#: 1.37 has objects with one of the keys, 1.36 the texts; to whether the group is one unit.
DISRUPTION_MODES = {"single": False, "Pod": False, "all": True, "PodGroup": True}
LOWEST_PRIORITY = -(2**31)


class GangPolicy(ApiStruct, frozen=True):
    """How many pods, or groups, must start together."""

    min_count: int | None = None
    min_group_count: int | None = None


class SchedulingPolicy(ApiStruct, frozen=True):
    """One of the two: one by one, or together."""

    basic: dict[str, Any] | None = None
    gang: GangPolicy | None = None


class TopologyKey(ApiStruct, frozen=True):
    """The node label whose value all pods share."""

    key: str = ""


class SchedulingConstraints(ApiStruct, frozen=True):
    """Where the pods may go."""

    topology: list[TopologyKey] | None = None


class GroupClaim(ApiStruct, frozen=True):
    """A ResourceClaim that is the group's: by name, or made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class GroupSpec(ApiStruct, frozen=True):
    """The spec of a PodGroup and of a CompositePodGroup."""

    parent_composite_pod_group_name: str | None = None
    scheduling_policy: SchedulingPolicy | None = None
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: str | dict[str, Any] | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    resource_claims: list[GroupClaim] | None = None


class GroupStatus(ApiStruct, frozen=True):
    """The status of both."""

    conditions: list[Condition] | None = None


class ApiNativeGroup(ApiStruct, frozen=True):
    """A PodGroup or a CompositePodGroup."""

    api_version: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: GroupSpec = GroupSpec()
    status: GroupStatus = GroupStatus()


def member(pod: ApiPod) -> Membership | None:
    """Read `spec.schedulingGroup.podGroupName`."""
    group = pod.spec.scheduling_group
    if group is None or not group.pod_group_name:
        return None
    key = GangKey(NAME, pod.metadata.namespace or "default", group.pod_group_name)
    return Membership(key=key, rank=rank_of(pod))


def read(api: ApiNativeGroup) -> tuple[Gang, ...]:
    """Return the group that a PodGroup is; `min_member` is 0 if its policy is basic: no gang, pods go one by one."""
    problems: list[str] = []
    gang = _gang_policy(api.spec.scheduling_policy, problems)
    minimum = 0
    if gang is not None:
        minimum = checked(gang.min_count or 0, "spec.schedulingPolicy.gang.minCount", problems)
    shared = _shared(NAME, "PodGroup", api, problems)
    return (Gang(**shared, min_member=minimum, problems=tuple(problems)),)


def read_composite(api: ApiNativeGroup) -> tuple[Gang, ...]:
    """Return the group of groups that a CompositePodGroup is; with a basic policy it waits for none of its groups."""
    problems: list[str] = []
    gang = _gang_policy(api.spec.scheduling_policy, problems)
    minimum = 0
    if gang is not None:
        minimum = checked(gang.min_group_count or 0, "spec.schedulingPolicy.gang.minGroupCount", problems)
    shared = _shared(COMPOSITE_NAME, "CompositePodGroup", api, problems)
    return (Gang(**shared, is_composite=True, min_member=0, min_subgroups=minimum, problems=tuple(problems)),)


def _gang_policy(policy: SchedulingPolicy | None, problems: list[str]) -> GangPolicy | None:
    """Return what the group asks for as a gang; None if it is none, or says nothing that makes sense."""
    if policy is None or (policy.basic is None) == (policy.gang is None):
        said = "neither" if policy is None or policy.basic is None else "both"
        problems.append(f"spec.schedulingPolicy: it has {said}; allowed is one of basic and gang")
        return None
    return policy.gang


def _shared(dialect: str, kind: str, api: ApiNativeGroup, problems: list[str]) -> dict[str, Any]:
    """Return the fields that groups of pods and groups of groups have alike."""
    spec = api.spec
    policy = spec.preemption_policy or ""
    if policy not in PREEMPTION_POLICIES:
        problems.append(
            f"spec.preemptionPolicy: {shown(policy)} is unknown; allowed are Never and PreemptLowerPriority"
        )
        policy = ""
    if (priority := spec.priority) is not None:
        priority = checked(priority, "spec.priority", problems, LOWEST_PRIORITY)
    return identity(dialect, api.api_version, api.metadata) | {
        "kind": kind,
        "parent": spec.parent_composite_pod_group_name or "",
        "topology": _topology(spec.scheduling_constraints, problems),
        "priority_class_name": spec.priority_class_name or "",
        "priority": priority,
        "preemption_policy": policy,
        "is_one_unit": _is_one_unit(spec.disruption_mode, problems),
        "shared_claims": tuple(_shared_claims(spec.resource_claims or (), problems)),
        "was_complete": any(
            condition.type in COMPLETE_CONDITIONS and condition.status == "True"
            for condition in api.status.conditions or ()
        ),
    }


def _shared_claims(listed: Sequence[GroupClaim], problems: list[str]) -> Iterator[tuple[str, str, str]]:
    for position, each in enumerate(listed):
        claim, template = each.resource_claim_name or "", each.resource_claim_template_name or ""
        if bool(claim) == bool(template):
            said = "both" if claim else "neither"
            where = f"spec.resourceClaims[{position}]"
            problems.append(
                f"{where}: it has {said}; allowed is one of resourceClaimName and resourceClaimTemplateName"
            )
        else:
            yield each.name, claim, template


def _topology(constraints: SchedulingConstraints | None, problems: list[str]) -> TopologyConstraint | None:
    """Return the constraint; the API allows one."""
    if constraints is None or not constraints.topology:
        return None
    if (count := len(constraints.topology)) > 1:
        problems.append(f"spec.schedulingConstraints.topology: {count} entries are too many; allowed is one")
    if not (key := constraints.topology[0].key):
        problems.append("spec.schedulingConstraints.topology[0].key: it is empty; allowed is the key of a node label")
    return TopologyConstraint(required=key)


def _is_one_unit(mode: str | dict[str, Any] | None, problems: list[str]) -> bool:
    """Tell whether a disruption takes all pods or none; by default it takes single ones."""
    named = [mode] if isinstance(mode, str) else [key for key, value in (mode or {}).items() if value is not None]
    if not named or named == [""]:
        return False
    if len(named) > 1 or named[0] not in DISRUPTION_MODES:
        said = " and ".join(map(shown, sorted(named)))
        problems.append(f"spec.disruptionMode: {said} is unknown; allowed is one of single and all")
        return False
    return DISRUPTION_MODES[named[0]]


NATIVE = Dialect(
    NAME,
    member,
    (
        GroupSource(GROUP, ("v1beta1", "v1alpha2"), "podgroups", "PodGroup", ApiNativeGroup, read),
        GroupSource(GROUP, ("v1alpha3",), "compositepodgroups", "CompositePodGroup", ApiNativeGroup, read_composite),
    ),
)
