"""Volcano's `subGroupPolicy` and `networkTopology`: which pods of a group stand near each other, and how many at least.

For the Volcano adapter.  A policy divides the pods that its selector matches by the values of its label keys; each part has
`subGroupSize` pods and a topology of its own, and `minSubGroups` parts are needed.  Understood are policies

| selector                   | matchLabelKeys         | become                                                              |
|----------------------------|------------------------|---------------------------------------------------------------------|
| none                       | none                   | topology and minimum of the whole gang                              |
| `volcano.sh/task-spec: T`  | none                   | topology and minimum of the role T                                  |
| `volcano.sh/task-spec: T`  | `volcano.sh/partition-id` | segments of the role T: Volcano numbers partitions by index / size |

which is what its job controller writes.  Any other is a problem if it has a hard topology or a minimum, else it is ignored.
Not honoured: that a part above `minSubGroups` starts as a whole; its pods follow one by one, inside the part's domain.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import msgspec

from scheduler.model.api import LabelSelector  # noqa: TC001 - msgspec reads it
from scheduler.model.gang import Subgroup
from scheduler.model.topology_constraint import TopologyConstraint
from scheduler.model.volume_api import ApiStruct

from .counts import checked, shown

#: Annotation and label of pods: the task that they belong to.
TASK_KEY = "volcano.sh/task-spec"
PARTITION_KEY = "volcano.sh/partition-id"
#: The Topology that is made of HyperNodes.
HYPERNODES = "hypernodes"
NEAREST_TIER = "tier-1"
_TIER = re.compile("tier-[0-9]+")


class NetworkTopology(ApiStruct, frozen=True):
    """The highest tier of HyperNodes that pods may be spread over."""

    mode: str | None = None
    highest_tier_allowed: int | None = None
    highest_tier_name: str | None = None


class SubGroupPolicy(ApiStruct, frozen=True):
    """How pods are divided."""

    name: str | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    sub_group_size: int | None = None
    min_sub_groups: int | None = None
    network_topology: NetworkTopology | None = None


@dataclass
class Parts:
    """What a group is divided into, as policy after policy adds to it."""

    #: Subgroups by the task that they are for.
    roles: dict[str, Subgroup]
    #: Of the whole gang.
    topology: TopologyConstraint | None
    min_member: int = 0
    #: Tasks that a policy has spoken of; empty for the whole gang.
    seen: set[str] = field(default_factory=set)


def topology_of(api: NetworkTopology | None, path: str, problems: list[str]) -> TopologyConstraint | None:
    """Return the constraint that a network topology is; mode is hard unless it says otherwise."""
    if api is None:
        return None
    if api.mode not in (None, "", "hard", "soft"):
        problems.append(f"{path}.mode: {shown(api.mode)} is unknown; allowed are hard and soft")
        return None
    if api.highest_tier_allowed is not None and api.highest_tier_name:
        problems.append(f"{path}: it has both highestTierAllowed and highestTierName; allowed is one of them")
    if api.mode == "soft":
        return TopologyConstraint(topology=HYPERNODES, preferred=(NEAREST_TIER,))
    if api.highest_tier_name:
        return TopologyConstraint(topology=HYPERNODES, required=api.highest_tier_name)
    if api.highest_tier_allowed is None:
        problems.append(f"{path}: mode hard names no tier; allowed is one of highestTierAllowed and highestTierName")
        return None
    tier = checked(api.highest_tier_allowed, f"{path}.highestTierAllowed", problems, 0)
    return TopologyConstraint(topology=HYPERNODES, required=f"tier-{tier}")


def add_policy(parts: Parts, policy: SubGroupPolicy, path: str, problems: list[str]) -> None:
    """Add what a policy asks for to the parts of its group, or a problem."""
    topology = topology_of(policy.network_topology, f"{path}.networkTopology", problems)
    size = 1
    if policy.sub_group_size is not None:
        size = checked(policy.sub_group_size, f"{path}.subGroupSize", problems)
    count = checked(policy.min_sub_groups or 0, f"{path}.minSubGroups", problems, 0)
    task = _task_of(policy.label_selector)
    keys = policy.match_label_keys or []
    is_divided = keys == [PARTITION_KEY] and bool(task) and policy.sub_group_size is not None
    if task is None or (keys and not is_divided):
        if count or (topology is not None and topology.required):
            allowed = f"{TASK_KEY} as selector with {PARTITION_KEY} and subGroupSize, or without matchLabelKeys"
            problems.append(f"{path}: its parts cannot be told from names and ranks; allowed is {allowed}")
        return
    if task in parts.seen:
        problems.append(f"{path}: another policy is for the same pods; allowed is one")
        return
    parts.seen.add(task)
    if is_divided:
        topology = _segments(size, topology)
    elif count > 1:
        problems.append(f"{path}.minSubGroups: {count} is out of range; allowed without matchLabelKeys are 0 and 1")
    least = checked(size * count, f"{path}: subGroupSize times minSubGroups", problems, 0)
    if task:
        least = max(least, parts.roles[task].min_member if task in parts.roles else 0)
        parts.roles[task] = Subgroup(name=task, min_member=least, topology=topology)
    else:
        parts.min_member = least
        parts.topology = _nearer(parts.topology, topology, path, problems)


def _task_of(selector: LabelSelector | None) -> str | None:
    """Return the task whose pods a selector matches, the empty text for all pods, None for anything else."""
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return ""
    labels = selector.match_labels or {}
    if selector.match_expressions or set(labels) != {TASK_KEY}:
        return None
    return labels[TASK_KEY] or None


def _segments(size: int, each: TopologyConstraint | None) -> TopologyConstraint | None:
    """Return the constraint by which so many pods each keep what one part is to keep."""
    if each is None:
        return None
    preferred = each.preferred[0] if each.preferred else ""
    return TopologyConstraint(
        topology=each.topology, segment_size=size, segment_required=each.required, segment_preferred=preferred
    )


def _nearer(
    one: TopologyConstraint | None, other: TopologyConstraint | None, path: str, problems: list[str]
) -> TopologyConstraint | None:
    """Return the constraint that keeps both of two for the same pods."""
    if one is None or other is None:
        return one or other
    required = {level for level in (one.required, other.required) if level}
    if len(required) > 1 and not all(map(_TIER.fullmatch, required)):
        tiers = " and ".join(map(shown, sorted(required)))
        problems.append(
            f"{path}.networkTopology: {tiers} cannot be compared; allowed is the tier of spec.networkTopology"
        )
    nearest = min(required, key=lambda level: (len(level), level), default="")
    return msgspec.structs.replace(one, required=nearest, preferred=one.preferred or other.preferred)
