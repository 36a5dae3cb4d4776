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
    #: Rows that members were evicted from: nobody has to go back there, but it is preferred, shape (members,).
    former: Ints = field(default_factory=lambda: NOWHERE)

    @property
    def home(self) -> Ints:
        """Rows on which there are members, shape (members,)."""
        return np.array([row for _, row in self.placed], dtype=np.int64) if self.placed else NOWHERE

    @property
    def is_divided(self) -> bool:
        """Whether its pods stand in segments, or are spread."""
        return bool(self.constraint.spread or self.constraint.segment_size)

    def is_any(self, test: Callable[[Part], bool]) -> bool:
        """Tell whether something is true of it or of a part below."""
        return test(self) or any(part.is_any(test) for part in self.parts)

    def all_pods(self) -> Iterator[Pod]:
        """Yield its own pods and those below."""
        yield from self.pods
        for part in self.parts:
            yield from part.all_pods()

    def needed_pods(self) -> list[Pod]:
        """Return pods that complete it: of each part the first ones, as few as will do, the cheapest parts first.

        What its minimum asks for beyond those of its parts are its own pods, then others of the parts.
        """
        if not self.parts:
            return self.pods[: self.minimum]
        chosen = sorted(self.parts, key=lambda part: part.minimum)
        found = [pod for part in chosen[: self.wanted] for pod in part.needed_pods()]
        found += self.pods[: max(0, self.minimum - len(found))]
        if len(found) < self.minimum:
            uids = {pod.uid for pod in found}
            found += [pod for pod in self.all_pods() if pod.uid not in uids][: self.minimum - len(found)]
        return found


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
    rows = [snapshot.row_of[name] for name in cluster.former_nodes.get(gang.key, ()) if name in snapshot.row_of]
    root.former = np.array(rows, dtype=np.int64)
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
        below.former = part.former
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
    """Return a part's pods in segments, each of which is kept together; members that are placed belong to theirs by rank.

    Of a part with parts below, all pods are counted through: part by part, each in the order of its ranks.
    """
    size = part.constraint.segment_size
    constraint = TopologyConstraint(
        topology=part.constraint.topology,
        required=part.constraint.segment_required,
        preferred=(part.constraint.segment_preferred,) if part.constraint.segment_preferred else (),
    )
    groups: dict[int, Part] = {}
    pending, placed, _ = _numbered(part, 0)
    for number, pod in pending:
        segment = number // size
        if segment not in groups:
            groups[segment] = Part(f"{part.name}[{segment}]", [], 0, constraint=constraint, fabric=part.fabric)
        groups[segment].pods.append(pod)
        groups[segment].minimum += 1
    for number, member in placed:
        if number // size in groups:
            groups[number // size].placed.append(member)
    return [groups[segment] for segment in sorted(groups)] if part.parts else list(groups.values())


_Numbered = tuple[list[tuple[int, "Pod"]], list[tuple[int, tuple["Pod", int]]], int]


def _numbered(part: Part, first: int) -> _Numbered:
    """Return pods and members of a part with their numbers, the first of which is given, and the number after the last.

    Members of a part without ranks have no numbers: nobody can tell whose place a new one takes.
    """
    pending, placed, next_ = list[tuple[int, "Pod"]](), list[tuple[int, tuple["Pod", int]]](), first
    for below in part.parts:
        more, there, next_ = _numbered(below, next_)
        pending += more
        placed += there
    below_ = {pod.uid for below in part.parts for pod, _ in below.placed}
    members = [entry for entry in part.placed if entry[0].uid not in below_]
    ranks = [_number(pod) for pod in part.pods]
    if None in ranks:
        pending += [(next_ + position, pod) for position, pod in enumerate(part.pods)]
        last = -1
    else:
        pending += [(next_ + (rank or 0), pod) for rank, pod in zip(ranks, part.pods, strict=True)]
        known = [(rank, entry) for entry in members if (rank := _number(entry[0])) is not None]
        placed += [(next_ + rank, entry) for rank, entry in known]
        last = max([*(rank or 0 for rank in ranks), *(rank for rank, _ in known)], default=-1)
    size = max(last + 1, len(part.pods) + len(members), 0 if part.parts else part.minimum + len(members))
    return pending, placed, next_ + size


def _number(pod: Pod) -> int | None:
    """Return a rank that is one number; None for others."""
    rank = pod.membership.rank if pod.membership is not None else ()
    return rank[0] if len(rank) == 1 else None
