"""Gangs in the fabric that once hung, slept, were refused wrongly, or left their domain: small inputs, each a kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from scheduler.model import Gang, Subgroup, TopologyConstraint
from tests.builders import a_gang, a_node, a_pod
from tests.engine.world import World

if TYPE_CHECKING:
    from tests.builders import NodeBuilder, PodBuilder

BLOCK, RACK = "fabric.topograph.run/tier-1", "fabric.topograph.run/tier-0"


def node(name: str, block: str, rack: str, gpus: int = 8, cpu: int = 64) -> NodeBuilder:
    """Return a node in a block and a rack."""
    return a_node(name).gpus(gpus).cpu(cpu).label(BLOCK, block).label(RACK, rack)


def gang(name: str, minimum: int, **fields: Any) -> Gang:
    """Return a group."""
    return msgspec.structs.replace(a_gang(name, 1).build(), min_member=minimum, **fields)


def pod(name: str, of: str, gpus: int = 8, role: str = "", priority: int = 0, cpu: int = 1) -> PodBuilder:
    """Return a member."""
    made = a_pod(name).gang(of).cpu(cpu).priority(priority)
    made = made.gpus(gpus) if gpus else made
    return made.label("scheduling.ai-scheduler.io/role", role) if role else made


def asks(**fields: Any) -> TopologyConstraint:
    """Return a constraint."""
    return TopologyConstraint(**fields)


@pytest.mark.parametrize("more", [{}, {"segment_size": 1, "segment_required": RACK}, {"spread": RACK}])
def test_late_member_that_fits_nowhere_where_its_role_must_be_waits_in_peace(more: dict[str, Any]) -> None:
    """The gang is complete: an attempt that places nobody is a refusal, not a plan."""
    subgroups = (Subgroup(name="w", min_member=1, topology=asks(required=RACK, **more)),)
    world = World(node("a0", "A", "r0"), node("b0", "B", "r1"), gang("g", 0, subgroups=subgroups))
    world.add(pod("g-0", "g", role="w")).run()
    world.add(pod("g-1", "g", role="w")).run(most_steps=200).wait(5)
    assert len(world.placed) == 1


def test_late_members_stay_in_the_required_domain_when_a_tighter_one_is_preferred() -> None:
    """The preferred rack may be another one; the block may not."""
    topology = asks(required=BLOCK, preferred=(RACK,))
    world = World(
        *(node(f"a{k}", "A", f"r{k}") for k in range(3)), gang("g", 1, topology=topology), pod("g-0", "g")
    ).run()
    world.add(node("b0", "B", "r3"), node("b1", "B", "r3"), pod("g-1", "g"), pod("g-2", "g")).run()
    assert {name[0] for name in world.placed.values()} == {"a"}
    assert len(world.placed) == 3


def test_room_that_was_made_is_used_only_if_it_is_still_in_one_domain() -> None:
    """A node moves to another rack while its victim goes."""
    topology = asks(required=RACK)
    low = [a_pod(f"low{k}").gpus(8).cpu(1).on(f"a{k}") for k in range(2)]
    world = World(node("a0", "A", "r0"), node("a1", "A", "r0"), low)
    world.grace = 20
    world.add(gang("g", 2, topology=topology), pod("g-0", "g", priority=5), pod("g-1", "g", priority=5)).run()
    world.add(node("a1", "A", "r9")).run().wait(30)
    assert not any(name.startswith("g-") for name in world.placed)


@pytest.mark.parametrize("change", ["relabelled", "unshared", "left"])
def test_what_changes_in_the_fabric_wakes_a_gang(change: str) -> None:
    """Not only room does."""
    if change == "relabelled":
        world = World(node("n0", "A", "r0"), node("n1", "A", "r1"), gang("g", 2, topology=asks(required=RACK)))
        world.add(pod("g-0", "g"), pod("g-1", "g")).run()
        world.add(node("n1", "A", "r0"))
    else:
        world = World(node("a0", "A", "r0"), gang("e", 1, topology=asks(exclusive=RACK)), pod("e-0", "e", gpus=0)).run()
        world.add(gang("g", 1, topology=asks(exclusive=RACK)), pod("g-0", "g", gpus=4)).run()
        assert "g-0" not in world.placed
        if change == "left":
            world.remove("e-0")
        else:
            world.add(gang("e", 1, generation=3))
    world.run().wait(15)
    assert "g-0" in world.placed


def test_surplus_is_placed_with_the_minimum_where_shapes_differ() -> None:
    """The exact search does not stop at the minimum when there is room for all."""
    world = World(
        node("n0", "B", "r0", cpu=16),
        node("n1", "A", "r1"),
        gang("g", 0, subgroups=(Subgroup(name="x", min_member=2),)),
    )
    world.add(
        pod("g-0", "g", role="x"), pod("g-1", "g", gpus=2, role="x"), pod("g-2", "g", gpus=0, cpu=8, role="x")
    ).run()
    assert len(world.placed) == 3


def test_surplus_is_placed_beside_the_room_that_was_made() -> None:
    """The pod above the minimum fits on the emptied node too."""
    world = World(node("n0", "A", "r0"), a_pod("low").gpus(8).cpu(1).on("n0"), gang("g", 1))
    world.add(pod("g-0", "g", gpus=2, priority=5), pod("g-1", "g", gpus=2, priority=5)).run().wait(5)
    assert {"g-0", "g-1"} <= set(world.placed)


def test_surplus_evicts_nobody_however_long_it_waits() -> None:
    """Members above the minimum are worth no eviction, also when they alone are left."""
    world = World(node("n0", "A", "r0"), node("n1", "A", "r1"), a_pod("low").gpus(8).cpu(1).on("n1"), gang("g", 1))
    world.add(pod("g-0", "g", priority=5), pod("g-1", "g", priority=5)).run().wait(430)
    assert "low" in world.placed
    world.restart().run().wait(5)
    assert "low" in world.placed


@pytest.mark.parametrize(
    ("topology", "placed"), [(asks(spread=RACK), 3), (asks(segment_size=2, segment_required=RACK), 2)]
)
def test_surplus_that_is_divided_is_placed_as_far_as_it_can_be_divided(
    topology: TopologyConstraint, placed: int
) -> None:
    """Two racks of two places and one, a gang of four that needs one, or two: even shares, or whole segments."""
    world = World(node("a0", "A", "r0"), node("a1", "A", "r0"), node("b0", "A", "r1"))
    minimum = topology.segment_size or 1
    world.add(gang("g", minimum, topology=topology), *(pod(f"g-{k}", "g") for k in range(4))).run()
    assert len(world.placed) == placed
    world.restart().run().wait(5)
    assert len(world.placed) == placed


def test_segments_of_mixed_shapes_are_not_said_never_to_fit() -> None:
    """A pod with GPUs and one without to a rack."""
    topology = asks(segment_size=2, segment_required=RACK, required=BLOCK)
    world = World(*(node(f"n{k}", "A", f"r{k}") for k in range(4)), gang("g", 8, topology=topology))
    members = [
        pod(f"g-{k}", "g", gpus=8 if k % 2 == 0 else 0).label("scheduling.ai-scheduler.io/rank", str(k))
        for k in range(8)
    ]
    world.add(*members).run()
    assert len(world.placed) == 8


def test_each_segment_gets_its_replacement_back() -> None:
    """Two racks with one free place each repair two segments that lost one member each."""
    topology = asks(segment_size=2, segment_required=RACK, required=BLOCK)
    world = World(*(node(f"n{k}", "A", f"r{k // 2}") for k in range(4)), gang("g", 4, topology=topology))
    world.add(*(pod(f"g-{k}", "g").label("scheduling.ai-scheduler.io/rank", str(k)) for k in range(4))).run()
    where = dict(world.placed)
    world.remove("g-1", "g-3").add(
        *(pod(f"again-{k}", "g").label("scheduling.ai-scheduler.io/rank", str(k)) for k in (1, 3))
    ).run().wait(3)
    assert len(world.placed) == 4
    assert {world.placed[f"again-{k}"] for k in (1, 3)} == {where["g-1"], where["g-3"]}


def test_the_tenth_domain_is_tried_too() -> None:
    """Nine racks look as if they would do, and do not."""
    world = World(*(node(f"n{k}", "A", f"r{k}") for k in range(9)), node("x0", "A", "rx"), node("x1", "A", "rx"))
    world.add(gang("g", 2, topology=asks(required=RACK)), pod("g-0", "g", cpu=1), pod("g-1", "g", gpus=0, cpu=64)).run()
    assert set(world.placed.values()) == {"x0", "x1"}


def test_the_role_that_has_no_choice_is_placed_first() -> None:
    """One role may stand on one node only, the others on either."""
    own = asks(required=RACK)
    subgroups = tuple(Subgroup(name=name, min_member=1, topology=own) for name in "pqs")
    world = World(node("a0", "A", "r0", gpus=4), node("b0", "A", "r1"), gang("g", 0, subgroups=subgroups))
    members = [pod(f"g-{name}", "g", gpus=4, role=name) for name in "pqs"]
    world.add(members[0], members[1].select("kubernetes.io/hostname", "a0"), members[2]).run()
    assert len(world.placed) == 3


def test_exclusive_levels_are_the_same_by_whatever_name() -> None:
    """One gang names the level, the other its label."""
    world = World(node("a0", "A", "r0"))
    world.add(gang("e", 1, topology=asks(exclusive=RACK)), pod("e-0", "e", gpus=0)).run()
    world.add(gang("g", 1, topology=asks(exclusive="tier-0")), pod("g-0", "g", gpus=0)).run()
    assert set(world.placed) == {"e-0"}
