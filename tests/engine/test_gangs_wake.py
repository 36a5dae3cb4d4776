"""Refused gangs sleep through nothing that cures them: held against a scheduler that starts anew and sees the same cluster."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import Gang, Subgroup, TopologyConstraint
from tests.builders import a_gang, a_node, a_pod
from tests.engine.world import World

RACK, ROLE = "network.topology.nvidia.com/leaf", "scheduling.ai-scheduler.io/role"
ASKS = [
    None,
    TopologyConstraint(required=RACK),
    TopologyConstraint(exclusive=RACK),
    TopologyConstraint(spread=RACK),
    TopologyConstraint(segment_size=2, segment_required=RACK),
    TopologyConstraint(preferred=(RACK,)),
]


def gang(count: int, asks: TopologyConstraint | None, role_asks: TopologyConstraint | None) -> Gang:
    """Return a group, with two roles if the second constraint is there."""
    made = msgspec.structs.replace(a_gang("job", count).build(), topology=asks)
    if role_asks is None:
        return made
    roles = (Subgroup(name="a", min_member=1, topology=role_asks), Subgroup(name="b", min_member=count - 1))
    return msgspec.structs.replace(made, min_member=0, subgroups=roles)


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 8), st.sampled_from([0, 9])), max_size=3), min_size=2, max_size=5),
    st.integers(2, 3),
    st.lists(st.integers(1, 8), min_size=3, max_size=3),
    st.sampled_from(ASKS),
    st.sampled_from([None, None, *ASKS[1:]]),
    st.sampled_from(["PreemptLowerPriority", "Never"]),
    st.randoms(use_true_random=False),
)
@settings(max_examples=40, deadline=None)
def test_a_refused_gang_goes_as_soon_as_it_can(
    nodes: list[list[tuple[int, int]]], count: int, sizes: list[int], asks: TopologyConstraint | None,
    role_asks: TopologyConstraint | None, policy: str, order: Any,
) -> None:  # fmt: skip
    """Pods end one by one; after each the gang is placed if, and only if, one that comes new would be."""
    machines = [a_node(f"n{k}").gpus(32).cpu(64).label(RACK, f"r{k // 2}") for k in range(len(nodes))]
    pods = {
        f"p{k}-{i}": a_pod(f"p{k}-{i}").gpus(gpus).cpu(1).priority(priority).on(f"n{k}").build()
        for k, there in enumerate(nodes)
        for i, (gpus, priority) in enumerate((*there, (8, 9)))
    }
    members = [
        a_pod(f"job-{k}").gpus(sizes[k]).cpu(1).priority(5).gang("job").label(ROLE, "a" if k == 0 else "b")
        if role_asks is not None
        else a_pod(f"job-{k}").gpus(sizes[k] + 12).cpu(1).priority(5).gang("job")
        for k in range(count)
    ]
    built = [msgspec.structs.replace(member.build(), preemption_policy=policy) for member in members]

    def is_placed(world: World) -> bool:
        return any(name.startswith("job-") for name in world.placed)

    world = World(machines, list(pods.values()), gang(count, asks, role_asks), built).run().wait(3)
    names = list(pods)
    order.shuffle(names)
    for name in names:
        if is_placed(world):
            break
        world.remove(name).run().wait(3)
        del pods[name]
        fresh = World(machines, list(pods.values()), gang(count, asks, role_asks), built).run().wait(3)
        assert is_placed(world) == is_placed(fresh)


def test_a_gang_is_tried_when_the_rest_can_be_evicted() -> None:
    """The more important half of a node ends: nothing fits yet, but now the other half may be evicted."""
    world = World(a_node("n0").gpus(8), a_pod("low").gpus(4).on("n0"), a_pod("high").gpus(4).priority(9).on("n0"))
    world.add(a_gang("job", 1), a_pod("job-0").gpus(8).priority(5).gang("job")).run()
    world.remove("high").run().wait(5)
    assert world.evicted == ["low"]
    assert "job-0" in world.placed


def test_room_in_another_rack_than_the_one_that_lacks_least_wakes_nobody() -> None:
    """Two places in one rack and one in the other are refused; a second one in the other helps as little, a third in one does."""
    machines = [a_node(f"n{k}").gpus(8).cpu(64).label(RACK, f"r{k // 3}") for k in range(6)]
    world = World(machines, [a_pod(f"full{k}").gpus(8).priority(9).on(f"n{k}") for k in (2, 4, 5)])
    topology = TopologyConstraint(required=RACK)
    world.add(gang(3, topology, None), *(a_pod(f"job-{k}").gpus(8).priority(5).gang("job") for k in range(3))).run()
    attempts = world.pending("job").attempts
    assert world.remove("full4").run().pending("job").attempts == attempts
    world.remove("full2").run()
    assert {world.placed[f"job-{k}"] for k in range(3)} == {"n0", "n1", "n2"}


def test_room_that_is_kept_for_a_gang_wakes_no_other() -> None:
    """Four pods are on their way out; the first gang waits for their room, and each that goes is nothing to the second."""
    world = World(a_node("n0").gpus(4).cpu(64), [a_pod(f"old-{k}").gpus(1).on("n0") for k in range(4)])
    for name in ("first", "second"):
        world.add(a_gang(name, 4), *(a_pod(f"{name}-{k}").gpus(1).gang(name) for k in range(4))).run().wait(1)
    for k in range(4):
        world.change(f"old-{k}", is_terminating=True)
    attempts = world.run().wait(15).remove("old-0").run().wait(15).pending("second").attempts
    for k in range(1, 4):
        assert world.remove(f"old-{k}").run().wait(15).pending("second").attempts == attempts
    assert set(world.placed) == {f"first-{k}" for k in range(4)}


def test_room_that_is_kept_no_longer_wakes_the_next_gang() -> None:
    """The gang that waited for the room is deleted before the room is there."""
    world = World(a_node("n0").gpus(4).cpu(64), [a_pod(f"old-{k}").gpus(1).on("n0") for k in range(4)])
    for name in ("first", "second"):
        world.add(a_gang(name, 4), *(a_pod(f"{name}-{k}").gpus(1).gang(name) for k in range(4))).run().wait(1)
    for k in range(4):
        world.change(f"old-{k}", is_terminating=True)
    world.run().wait(15)
    world.remove("old-0", "old-1", "old-2", "old-3", "first-0").run().wait(15)
    assert set(world.placed) == {f"second-{k}" for k in range(4)}


def test_pods_that_leave_one_by_one_wake_a_gang_when_all_have_to_be_gone() -> None:
    """What is free already counts once, also if it was on its way out when the gang was refused."""
    world = World(a_node("n0").gpus(4).cpu(64), [a_pod(f"old-{k}").gpus(1).on("n0") for k in range(4)])
    world.add(a_gang("job", 4), *(a_pod(f"job-{k}").gpus(1).gang("job") for k in range(4)))
    world.change("old-0", is_terminating=True).change("old-1", is_terminating=True).run().wait(15)
    world.remove("old-0").run().wait(15)
    attempts = world.pending("job").attempts
    world.remove("old-1").run().wait(15)
    assert world.pending("job").attempts == attempts
    world.change("old-2", is_terminating=True).run().wait(15).remove("old-2").run().wait(15)
    assert world.pending("job").attempts == attempts
    assert set(world.remove("old-3").run().wait(15).placed) == {f"job-{k}" for k in range(4)}


def test_surplus_is_woken_by_whatever_cures_it() -> None:
    """It is kept off a node by a pod's label, not by room; that it was left over when its gang started does not matter."""
    world = World(a_node("n0").gpus(1), a_node("n1").gpus(1), a_pod("other").label("app", "x").on("n1"))
    choosy = a_pod("job-1").gpus(1).gang("job").anti_affinity("kubernetes.io/hostname", app="x")
    first = a_pod("job-0").gpus(1).gang("job").select("kubernetes.io/hostname", "n0")
    world.add(a_gang("job", 1), first, choosy).run().wait(5)
    assert world.placed["job-0"] == "n0"
    world.change("other", labels={"app": "y"}).run()
    assert world.placed["job-1"] == "n1"


def test_a_pod_that_fills_a_domain_wakes_a_gang_that_is_spread() -> None:
    """Six pods over racks of 3, 3 and 1 nodes cannot be even; once the last has no place for any of them, it takes no part."""
    machines = [a_node(f"n{k}").gpus(8).label(RACK, f"r{k // 3}") for k in range(7)]
    members = [a_pod(f"job-{k}").gpus(8).gang("job") for k in range(6)]
    world = World(machines, gang(6, TopologyConstraint(spread=RACK), None), members).run().wait(5)
    assert not world.placed
    attempts = world.pending("job").attempts
    world.add(a_pod("small").on("n0").scheduler("other")).run()
    assert world.pending("job").attempts == attempts
    world.add(a_pod("large").gpus(8).on("n6").scheduler("other")).run()
    assert {world.placed[f"job-{k}"] for k in range(6)} == {f"n{k}" for k in range(6)}


@pytest.mark.parametrize("fields", [{"is_terminating": True}, {"phase": "Failed"}, None])
def test_members_that_leave_a_domain_let_late_ones_go_elsewhere(fields: dict[str, Any] | None) -> None:
    """One rack has to hold the gang; where its only member goes there is no other node, and that one is cordoned."""
    machines = [a_node("n0").gpus(8).label(RACK, "r0"), a_node("n1").gpus(8).label(RACK, "r1").cordoned()]
    world = World(machines, gang(1, TopologyConstraint(required=RACK), None), a_pod("job-0").gpus(8).gang("job")).run()
    cordoned = msgspec.structs.replace(world.nodes["n0"], is_unschedulable=True)
    world.add(cordoned, msgspec.structs.replace(world.nodes["n1"], is_unschedulable=False))
    world.add(a_pod("job-1").gpus(8).gang("job")).run().wait(5)
    assert "job-1" not in world.placed
    (world.change("job-0", **fields) if fields else world.remove("job-0")).run()
    assert world.placed["job-1"] == "n1"


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 4), st.sampled_from([0, 5, 9])), max_size=4), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.sampled_from([0, 5, 9])), min_size=2, max_size=4),
    st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=14),
)
@settings(max_examples=60, deadline=None)
def test_nobody_sleeps_where_a_new_scheduler_would_place(
    nodes: list[list[tuple[int, int]]], gangs: list[tuple[int, int, int]], story: list[tuple[bool, int]]
) -> None:
    """Pods start to leave and are gone at last, gangs wait for the room of others; a restart then finds nothing more to place."""
    world = World([a_node(f"n{k}").gpus(8).cpu(64) for k in range(len(nodes))])
    for k, there in enumerate(nodes):
        for i, (gpus, priority) in enumerate(there):
            world.add(a_pod(f"old-{k}-{i}").gpus(min(gpus, 2)).priority(priority).on(f"n{k}"))
    for number, (count, gpus, priority) in enumerate(gangs):
        name = f"g{number}"
        members = [a_pod(f"{name}-{k}").gpus(gpus).priority(priority).gang(name) for k in range(count)]
        world.add(a_gang(name, count), *members).run()
    for is_going, choice in story:
        names = sorted(pod.name for pod in world.pods.values() if not is_going or not pod.is_terminating)
        if not names:
            continue
        name = names[choice % len(names)]
        if is_going and world.pod(name).node_name:
            world.change(name, is_terminating=True)
        else:
            world.remove(name)
        world.run().wait(1)
    for name in sorted(pod.name for pod in world.pods.values() if pod.is_terminating):
        world.remove(name).run().wait(1)
    world.wait(20)
    placed = dict(world.placed)
    assert world.restart().run().wait(20).placed == placed
