"""Parts: a gang as a tree of what is to be placed: its subgroups, their pods, and the members that they have on nodes already.

For the placer.  Made once per attempt; O(members).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scheduler.model.topology_constraint import TopologyConstraint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scheduler.framework.workload import Workload
    from scheduler.model import Pod
    from scheduler.model.gang import Subgroup
    from scheduler.model.needs import Needs
    from scheduler.state.cluster import ClusterState
    from scheduler.state.snapshot import Ints, Snapshot
    from scheduler.topology.fabric import Fabric

    FabricOf = Callable[[TopologyConstraint | None], Fabric | None]

NOWHERE: Ints = np.zeros(0, dtype=np.int64)
_NO_CONSTRAINT = TopologyConstraint()


@dataclass(slots=True, eq=False)
class Part:
    """A gang, one of its subgroups, or one segment of pods."""

    name: str
    #: The pods that are directly in it, neighbours in rank beside each other.
    pods: list[Pod]
    #: How many pods, its own and those below, have to be placed for it to be complete.
    minimum: int
    parts: list[Part] = field(default_factory=list)
    #: How many of the parts below have to be complete; None for all.
    wanted: int | None = None
    constraint: TopologyConstraint = _NO_CONSTRAINT
    #: The tree of domains that it is kept together in; None if it need not be.
    fabric: Fabric | None = None
    #: Members on nodes, with their rows: its own, and those below.
    placed: list[tuple[Pod, int]] = field(default_factory=list)

    @property
    def home(self) -> Ints:
        """Rows on which there are members, shape (members,)."""
        return np.array([row for _, row in self.placed], dtype=np.int64) if self.placed else NOWHERE

    def all_pods(self) -> Iterator[Pod]:
        """Yield its own pods and those below."""
        yield from self.pods
        for part in self.parts:
            yield from part.all_pods()

    def needed_pods(self) -> list[Pod]:
        """Return pods that complete it: of each part the first ones, as few as will do, the cheapest parts first."""
        if not self.parts:
            return self.pods[: self.minimum]
        chosen = sorted(self.parts, key=lambda part: part.minimum)
        found = [pod for part in chosen[: self.wanted] for pod in part.needed_pods()]
        return found + self.pods[: max(0, self.minimum - len(found))]


def parts_of(workload: Workload, snapshot: Snapshot, cluster: ClusterState, fabric_of: FabricOf) -> Part:
    """Return the tree of a gang's pending pods; `fabric_of` raises UnknownLevelError for a level that is not there."""
    gang, needs = workload.gang, workload.needs
    assert gang is not None
    assert needs is not None
    role_of = cluster.groups.role_of
    placed: dict[str, list[tuple[Pod, int]]] = {}
    for member in cluster.members(gang.key):
        if member.uid in workload.pods:
            continue  # it waits
        if cluster.counts_as_placed(member) and (name := cluster.node_of(member.uid)) is not None:
            row = snapshot.row_of.get(name)
            if row is not None and not member.is_terminal:
                placed.setdefault(role_of(member), []).append((member, row))
    pending: dict[str, list[Pod]] = {}
    for pod in in_rank_order(workload.ordered()):
        pending.setdefault(needs.roles.get(pod.uid, ""), []).append(pod)
    known = {subgroup.name for subgroup in gang.subgroups}
    stray = [pod for role, pods in pending.items() if role not in known for pod in pods]
    strays = [entry for role, entries in placed.items() if role not in known for entry in entries]
    root = Part(
        "", stray, needs.missing(), wanted=gang.min_subgroups, constraint=gang.topology or _NO_CONSTRAINT,
        fabric=fabric_of(gang.topology), placed=strays,
    )  # fmt: skip
    _add_below(root, "", needs, pending, placed, fabric_of)
    return root


def in_rank_order(pods: Sequence[Pod]) -> list[Pod]:
    """Return pods with neighbours in rank beside each other; those without a rank stay as they are, at the end."""
    return sorted(pods, key=_rank)


def _rank(pod: Pod) -> tuple[bool, tuple[int, ...]]:
    rank = pod.membership.rank if pod.membership is not None else ()
    return not rank, rank


def _add_below(
    part: Part, name: str, needs: Needs, pending: dict[str, list[Pod]], placed: dict[str, list[tuple[Pod, int]]],
    fabric_of: FabricOf,
) -> None:  # fmt: skip
    for subgroup in needs.children(name):
        below = _part_of(subgroup, needs, pending, placed, fabric_of)
        if fabric_of is not None and below.fabric is None:
            below.fabric = part.fabric
        _add_below(below, subgroup.name, needs, pending, placed, fabric_of)
        part.parts.append(below)
        part.placed += below.placed


def _part_of(
    subgroup: Subgroup, needs: Needs, pending: dict[str, list[Pod]], placed: dict[str, list[tuple[Pod, int]]],
    fabric_of: FabricOf,
) -> Part:  # fmt: skip
    return Part(
        subgroup.name, pending.get(subgroup.name, []), needs.missing_of(subgroup), wanted=subgroup.min_subgroups,
        constraint=subgroup.topology or _NO_CONSTRAINT,
        fabric=fabric_of(subgroup.topology) if subgroup.topology is not None else None,
        placed=list(placed.get(subgroup.name, ())),
    )  # fmt: skip


def segments_of(part: Part) -> list[Part]:
    """Return a part's pods in segments, each of which is kept together; members that are placed belong to theirs by rank."""
    size = part.constraint.segment_size
    constraint = TopologyConstraint(
        topology=part.constraint.topology,
        required=part.constraint.segment_required,
        preferred=(part.constraint.segment_preferred,) if part.constraint.segment_preferred else (),
    )
    groups: dict[int, Part] = {}
    is_ranked = all(_number(pod) is not None for pod in part.pods)
    for position, pod in enumerate(part.pods):
        number = _number(pod) if is_ranked else None
        segment = (position if number is None else number) // size
        if segment not in groups:
            groups[segment] = Part(f"{part.name}[{segment}]", [], 0, constraint=constraint, fabric=part.fabric)
        groups[segment].pods.append(pod)
        groups[segment].minimum += 1
    for member, row in part.placed if is_ranked else ():
        number = _number(member)
        if number is not None and number // size in groups:
            groups[number // size].placed.append((member, row))
    return list(groups.values())


def _number(pod: Pod) -> int | None:
    """Return a rank that is one number; None for others."""
    rank = pod.membership.rank if pod.membership is not None else ()
    return rank[0] if len(rank) == 1 else None
