"""Refused gangs sleep through nothing that cures them: held against a scheduler that starts anew and sees the same cluster."""

from __future__ import annotations

from typing import Any

import msgspec
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
