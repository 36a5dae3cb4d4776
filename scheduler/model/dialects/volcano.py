"""Volcano's PodGroup (scheduling.volcano.sh), and the annotations and labels by which pods belong to it and to its roles.

For the list of dialects; `volcano_policies` reads the parts that divide a group.  Roles are the names of tasks.  Tiers are
levels of the Topology `hypernodes`, named `tier-N` or by the tier's own name: mode hard is required, soft prefers `tier-1`.
A group with `volcano.sh/preemptable` false is no victim, else its pods say so each.  Not honoured: `minResources`, preferred terms of `topologyAffinity`.  What Volcano would hold and this cannot
(required terms of `topologyAffinity`, a hard mode without a tier) is a problem: such a group waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.model.api import ObjectMeta
from scheduler.model.gang import Gang, GangKey, Membership, Subgroup
from scheduler.model.preemptibility import volcano_preemptable
from scheduler.model.volume_api import ApiStruct

from .counts import checked, number_of, shown
from .dialect import Dialect, GroupSource
from .ranks import rank_of
from .reading import annotation, identity
from .trees import least_members
from .volcano_policies import TASK_KEY, NetworkTopology, Parts, SubGroupPolicy, add_policy, topology_of

if TYPE_CHECKING:
    from scheduler.model.api import ApiPod

NAME = "volcano"
GROUP = "scheduling.volcano.sh"
#: Both name the group; Volcano reads the first one first.
GROUP_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
MINIMUM_ANNOTATION = "scheduling.volcano.sh/group-min-member"
#: Phases of a group whose minimum is, or was, on nodes.
COMPLETE_PHASES = ("Running", "Completed")


class GroupSpec(ApiStruct, frozen=True):
    """The spec of a PodGroup."""

    min_member: int | None = None
    min_task_member: dict[str, int] | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: list[SubGroupPolicy] | None = None
    topology_affinity: dict[str, Any] | None = None
    priority_class_name: str | None = None
    queue: str | None = None


class GroupStatus(ApiStruct, frozen=True):
    """The status of a PodGroup."""

    phase: str | None = None


class ApiVolcanoGroup(ApiStruct, frozen=True):
    """A PodGroup of Volcano."""

    api_version: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: GroupSpec = GroupSpec()
    status: GroupStatus = GroupStatus()


def member(pod: ApiPod) -> Membership | None:
    """Read the group's name, the task and the index of a pod.

    A pod that states `group-min-member` as well implies its group.  Without it the object is waited for, although Volcano's
    default is 1: a pod that came before its group must not start alone.
    """
    annotations = pod.metadata.annotations
    if not annotations or not (names := [name for key in GROUP_ANNOTATIONS if (name := annotations.get(key))]):
        return None
    key = GangKey(NAME, pod.metadata.namespace or "default", names[0])
    problems: list[str] = []
    if names[-1] != names[0]:
        field = annotation(GROUP_ANNOTATIONS[1])
        problems.append(
            f"{field}: {shown(names[-1])} is not {shown(names[0])}; allowed is what {GROUP_ANNOTATIONS[0]} says"
        )
    implied = None
    if text := annotations.get(MINIMUM_ANNOTATION):
        minimum = number_of(text, annotation(MINIMUM_ANNOTATION), problems)
        implied = Gang(key=key, min_member=minimum) if not problems else None
    role = annotations.get(TASK_KEY) or (pod.metadata.labels or {}).get(TASK_KEY, "")
    return Membership(
        key=key,
        role=role,
        rank=rank_of(pod),
        implied=implied,
        problems=tuple(problems),
    )


def read(api: ApiVolcanoGroup) -> tuple[Gang, ...]:
    """Return the one gang that a PodGroup is; `min_member` is never less than what its subgroups need together.

    With `minMember` 0 and no subgroup that has a minimum it is no gang: Volcano starts its pods one by one.
    """
    spec = api.spec
    problems: list[str] = []
    minimum = 1 if spec.min_member is None else checked(spec.min_member, "spec.minMember", problems, 0)
    parts = Parts(
        roles=_roles(spec.min_task_member or {}, minimum, problems),
        topology=topology_of(spec.network_topology, "spec.networkTopology", problems),
    )
    for index, policy in enumerate(spec.sub_group_policy or ()):
        add_policy(parts, policy, f"spec.subGroupPolicy[{policy.name or index}]", problems)
    is_firm = volcano_preemptable(api.metadata.annotations or {}, api.metadata.labels or {}) is False
    problems += _affinity_problems(spec.topology_affinity or {})
    subgroups = tuple(parts.roles[name] for name in sorted(parts.roles))
    gang = Gang(
        **identity(NAME, api.api_version, api.metadata),
        min_member=max(minimum, parts.min_member, least_members(subgroups, None)),
        subgroups=subgroups,
        topology=parts.topology,
        priority_class_name=spec.priority_class_name or "",
        was_complete=api.status.phase in COMPLETE_PHASES,
        is_preemptible=False if is_firm else None,
        queue=spec.queue or "",
        problems=tuple(problems),
    )
    return (gang,)


def _roles(minima: dict[str, int], minimum: int, problems: list[str]) -> dict[str, Subgroup]:
    """Return a subgroup for each task with a minimum.

    None at all if they come to more than `minMember`: then Volcano does not look at them (`JobInfo.CheckTaskReady`), and
    jobs count on it, whose tasks get their full size as minimum by default.
    """
    counts = {
        task: checked(count, f"spec.minTaskMember[{task}]", problems, 0) for task, count in sorted(minima.items())
    }
    if sum(counts.values()) > minimum:
        return {}
    return {task: Subgroup(name=task, min_member=count) for task, count in counts.items() if task and count}


def _affinity_problems(affinity: dict[str, Any]) -> list[str]:
    """Return a sentence for each block of `topologyAffinity` that requires something."""
    return [
        f"spec.topologyAffinity.{block}.required: it cannot be kept here; allowed are preferred terms"
        for block, terms in sorted(affinity.items())
        if isinstance(terms, dict) and terms.get("required")
    ]


VOLCANO = Dialect(
    NAME,
    member,
    (GroupSource(GROUP, ("v1beta1",), "podgroups", "PodGroup", ApiVolcanoGroup, read),),
    keys=frozenset(GROUP_ANNOTATIONS),
)
