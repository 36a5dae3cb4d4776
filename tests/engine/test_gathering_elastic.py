"""Gangs with more pods than their minimum: any pods that make it up will do, whatever their shapes and roles.

Held against brute force, which tries every set of pods that is just enough.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import Gang, Subgroup, TopologyConstraint
from tests.builders import a_gang, a_node, a_pod
from tests.engine.world import World

RACK = "network.topology.nvidia.com/leaf"
ROLE, RANK = "scheduling.ai-scheduler.io/role", "scheduling.ai-scheduler.io/rank"
NOTHING, ONE_RACK = TopologyConstraint(), TopologyConstraint(required=RACK)


class Machine(NamedTuple):
    """A node."""

    gpus: int
    rack: int
    zone: int


class Member(NamedTuple):
    """A pod that may go to one zone only, or to both (None)."""

    gpus: int
    zone: int | None
    role: str


MACHINES = st.lists(st.builds(Machine, st.integers(1, 8), st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=5)
MEMBERS = st.lists(
    st.builds(Member, st.sampled_from([1, 2, 4, 5, 8]), st.sampled_from([None, None, 0, 1]), st.sampled_from("ab")),
    min_size=1,
    max_size=6,
)


def gang(minimum: int, asks: TopologyConstraint, **minima: int) -> Gang:
    """Return a group; the roles a and b are in one rack each where the group asks for nothing."""
    own = ONE_RACK if asks == NOTHING else None
    subgroups = tuple(Subgroup(name=role, min_member=least, topology=own) for role, least in minima.items())
    return msgspec.structs.replace(a_gang("job", 1).build(), min_member=minimum, topology=asks, subgroups=subgroups)


def world_of(machines: list[Machine], members: list[Member], group: Gang) -> World:
    """Return a world in which the gang was tried."""
    nodes = [
        a_node(f"n{k}").gpus(machine.gpus).cpu(64).label(RACK, f"r{machine.rack}").label("zone", str(machine.zone))
        for k, machine in enumerate(machines)
    ]
    pods = []
    for rank, member in enumerate(members):
        pod = a_pod(f"job-{rank}").gpus(member.gpus).gang("job").label(RANK, str(rank)).label(ROLE, member.role)
        pods.append(pod if member.zone is None else pod.select("zone", str(member.zone)))
    return World(nodes, group, pods).run()


def can_stand(machines: list[Machine], members: list[tuple[int, Member]], group: Gang) -> bool:
    """Tell by trying everything whether these members (with their ranks) can stand together."""
    free, at, asks = [machine.gpus for machine in machines], dict[int, int](), group.topology or NOTHING

    def part_of(rank: int, role: str) -> object:
        if asks.required:
            return "all"
        return rank // asks.segment_size if asks.segment_size else role

    def is_together(rank: int, role: str, node: int) -> bool:
        if not asks.levels and not group.subgroups:
            return True
        part = part_of(rank, role)
        return all(
            machines[at[other]].rack == machines[node].rack
            for other, member in members
            if other in at and part_of(other, member.role) == part
        )

    def put(position: int) -> bool:
        if position == len(members):
            return True
        rank, member = members[position]
        for node, machine in enumerate(machines):
            fits = free[node] >= member.gpus and member.zone in (None, machine.zone)
            if fits and is_together(rank, member.role, node):
                free[node] -= member.gpus
                at[rank] = node
                if put(position + 1):
                    return True
                del at[rank]
                free[node] += member.gpus
        return False

    return put(0)


def can_start(machines: list[Machine], members: list[Member], group: Gang) -> bool:
    """Tell whether some set of members that is just enough can stand together."""
    needed = max(group.min_member, sum(role.min_member for role in group.subgroups))
    return any(
        can_stand(machines, list(some), group)
        for some in itertools.combinations(enumerate(members), needed)
        if all([member.role for _, member in some].count(role.name) >= role.min_member for role in group.subgroups)
    )


@given(
    MACHINES, MEMBERS, st.data(),
    st.sampled_from([NOTHING, ONE_RACK, TopologyConstraint(segment_size=2, segment_required=RACK)]),
)  # fmt: skip
@settings(max_examples=120, deadline=None)
def test_any_pods_that_make_up_the_minimum_are_placed_whenever_they_can_be(
    machines: list[Machine], members: list[Member], data: st.DataObject, asks: TopologyConstraint
) -> None:
    """Pods of mixed shapes, some of which fit nowhere."""
    group = gang(data.draw(st.integers(1, len(members))), asks)
    world = world_of(machines, members, group)
    assert (len(world.placed) >= group.min_member) == can_start(machines, members, group)
    assert not 0 < len(world.placed) < group.min_member


@given(MACHINES, MEMBERS, st.data(), st.sampled_from([NOTHING, ONE_RACK]))
@settings(max_examples=120, deadline=None)
def test_what_the_minimum_asks_beyond_those_of_roles_comes_from_any_role(
    machines: list[Machine], members: list[Member], data: st.DataObject, asks: TopologyConstraint
) -> None:
    """The minimum of the group is no less than the minima of its roles together, and mostly more."""
    minima = {role: data.draw(st.integers(0, sum(m.role == role for m in members))) for role in "ab"}
    minimum = data.draw(st.integers(max(1, sum(minima.values())), len(members)))
    group = gang(minimum, asks, **minima)
    world = world_of(machines, members, group)
    assert (len(world.placed) >= minimum) == can_start(machines, members, group)
    assert not 0 < len(world.placed) < minimum


def test_a_first_pod_that_fits_nowhere_does_not_keep_the_others() -> None:
    """One of two is enough; the first is too large for the cluster."""
    world = world_of([Machine(4, 0, 0)], [Member(8, None, ""), Member(2, None, "")], gang(1, NOTHING))
    assert world.placed == {"job-1": "n0"}


def test_members_of_a_role_without_a_minimum_count_for_the_gang() -> None:
    """A launcher and any three workers of four, where there is room for three."""
    members = [Member(1, None, "a"), *[Member(8, None, "b")] * 4]
    world = world_of([Machine(9, 0, 0), *[Machine(8, 0, 0)] * 2], members, gang(4, NOTHING, a=1, b=0))
    assert set(world.placed) == {"job-0", "job-1", "job-2", "job-3"}


def test_cheapest_roles_that_do_not_fit_do_not_keep_others_from_starting() -> None:
    """One of two roles is enough: that of a single large pod fits nowhere, that of two small ones does."""
    members = [Member(8, None, "a"), Member(1, None, "b"), Member(1, None, "b")]
    group = msgspec.structs.replace(gang(0, NOTHING, a=1, b=2), min_subgroups=1)
    assert set(world_of([Machine(4, 0, 0)], members, group).placed) == {"job-1", "job-2"}


def test_part_of_a_segment_is_enough_where_the_minimum_is_less() -> None:
    """Three of five in segments of four: a rack with three places holds the first three."""
    asks = TopologyConstraint(segment_size=4, segment_required=RACK)
    world = world_of([Machine(3, 0, 0)], [Member(1, None, "")] * 5, gang(3, asks))
    assert set(world.placed) == {"job-0", "job-1", "job-2"}


def test_surplus_that_fits_nowhere_does_not_keep_other_surplus_of_a_spread_gang() -> None:
    """The second of three is too large for the cluster; the others go to a rack each."""
    members = [Member(1, None, ""), Member(9, None, ""), Member(1, None, "")]
    asks = TopologyConstraint(spread=RACK)
    world = world_of([Machine(8, 0, 0), Machine(8, 1, 0)], members, gang(1, asks))
    assert {world.placed[name] for name in ("job-0", "job-2")} == {"n0", "n1"}


def test_more_pods_than_can_be_searched_are_given_up_and_not_refused() -> None:
    """Ten of twelve pods of 5 and 4 on nodes of 7: there is room for ten by counting, and too many to try."""
    members = [Member(size, None, "") for size in [5, 4] * 6]
    world = world_of([Machine(9, 0, 0)] * 3 + [Machine(5, 0, 0)] * 3, members, gang(10, ONE_RACK))
    assert not world.placed
    assert world.pending("job").reason == "GaveUpSearching"
