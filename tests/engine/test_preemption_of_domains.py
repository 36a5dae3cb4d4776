"""Gangs that ask for domains of their own, and evict less important gangs out of theirs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from scheduler.engine.inputs import GangRemoved
from scheduler.model import Gang, Subgroup, TopologyConstraint
from scheduler.state.cluster import RESTARTABLE
from tests.builders import a_gang, a_node, a_pod
from tests.engine.world import World

if TYPE_CHECKING:
    from tests.builders import NodeBuilder, PodBuilder

RACK, ROLE = "network.topology.nvidia.com/leaf", "scheduling.ai-scheduler.io/role"
OWN = TopologyConstraint(exclusive=RACK)


def racks(count: int, nodes: int = 2) -> list[NodeBuilder]:
    """Return nodes named r0n0 and so on."""
    pairs = itertools.product(range(count), range(nodes))
    return [a_node(f"r{r}n{n}").gpus(8).cpu(64).label(RACK, f"r{r}") for r, n in pairs]


def gang(name: str, minimum: int, **fields: Any) -> Gang:
    """Return a group that asks for a rack of its own, if nothing else is said."""
    return msgspec.structs.replace(a_gang(name, 1).build(), min_member=minimum, **({"topology": OWN} | fields))


def members(name: str, count: int, priority: int, gpus: int = 2) -> list[PodBuilder]:
    """Return pods of a gang."""
    return [a_pod(f"{name}-{k}").gpus(gpus).gang(name).priority(priority) for k in range(count)]


def racks_of(world: World, name: str) -> set[str]:
    """Return the racks that pods of a gang are in."""
    return {node[:2] for pod, node in world.placed.items() if pod.startswith(f"{name}-")}


def test_an_exclusive_gang_evicts_a_less_important_one_as_a_whole() -> None:
    """There is room beside it, but the rack is its own."""
    world = World(racks(1), gang("low", 2), members("low", 2, 0)).run()
    world.add(gang("high", 2), members("high", 2, 5)).run().wait(3)
    assert racks_of(world, "high") == {"r0"}
    assert sorted(world.evicted) == ["low-0", "low-1"]


@pytest.mark.parametrize("priority", [5, 9])
def test_an_exclusive_gang_evicts_nobody_for_a_rack_that_is_not_less_important(priority: int) -> None:
    """Nor for one that is shared by a less important pod of nobody."""
    world = World(racks(1), gang("low", 2), members("low", 2, priority), a_pod("weak").cpu(1).on("r0n0")).run()
    world.add(gang("high", 2), members("high", 2, 5)).run().wait(3)
    assert not world.evicted
    assert not racks_of(world, "high")


def test_nothing_is_evicted_if_the_domain_would_not_do_even_then() -> None:
    """A pod that is more important takes the room that the gang needs."""
    strong = [a_pod(f"strong{n}").gpus(6).priority(9).on(f"r0n{n}") for n in range(2)]
    world = World(racks(1), strong, gang("low", 2), members("low", 2, 0, gpus=1)).run()
    world.add(gang("high", 2), members("high", 2, 5, gpus=4)).run().wait(3)
    assert not world.evicted
    assert racks_of(world, "low") == {"r0"}


def test_the_least_important_gang_goes() -> None:
    """Of three exclusive gangs in three racks."""
    world = World(racks(3))
    for name, priority in (("a", 3), ("b", 1), ("c", 2)):
        world.add(gang(name, 1), members(name, 1, priority)).run()
    world.add(gang("high", 2), members("high", 2, 5)).run().wait(3)
    assert world.evicted == ["b-0"]


def test_who_stands_beside_the_exclusive_gang_stays_where_there_is_room() -> None:
    """Pods that ask for no rack of their own are in nobody's way."""
    world = World(racks(1), gang("low", 1), members("low", 1, 0), a_pod("beside").gpus(1).cpu(1).on("r0n1")).run()
    world.add(gang("high", 2), members("high", 2, 5)).run().wait(3)
    assert racks_of(world, "high") == {"r0"}
    assert world.evicted == ["low-0"]


def test_a_role_with_a_domain_of_its_own_evicts_no_more_gangs_than_it_needs() -> None:
    """Two racks are held by less important gangs; one role needs one rack, the other any."""
    world = World(racks(2))
    for name, priority in (("a", 1), ("b", 2)):
        world.add(gang(name, 1), members(name, 1, priority)).run()
    roles = (Subgroup(name="own", min_member=2, topology=OWN), Subgroup(name="any", min_member=1))
    pods = [pod.label(ROLE, "own" if k < 2 else "any") for k, pod in enumerate(members("high", 3, 5))]
    world.add(gang("high", 0, topology=None, subgroups=roles), pods).run().wait(3)
    assert len(racks_of(world, "high")) == 2
    assert world.evicted == ["a-0"]


def test_a_less_important_gang_that_room_is_made_for_holds_no_domain_against_a_more_important_one() -> None:
    """Its victims are still going when the other one comes."""
    low = [a_pod(f"weak{n}").gpus(8).cpu(1).priority(-1).on(f"r0n{n}") for n in range(2)]
    world = World(racks(1), low)
    world.grace = 20
    world.add(gang("low", 2), members("low", 2, 0, gpus=8)).run()
    world.add(gang("high", 2), members("high", 2, 5, gpus=8)).run().wait(60)
    assert racks_of(world, "high") == {"r0"}
    assert not racks_of(world, "low")


def test_a_domain_is_open_as_soon_as_the_group_that_had_it_is_deleted() -> None:
    """Its pod runs on, and asks for nothing any more; who waits for the rack need not wait for the next flush."""
    world = World(racks(1), gang("a", 1), members("a", 1, 0), gang("b", 1)).run().add(members("b", 1, 0)).wait(5)
    assert not racks_of(world, "b")
    key = gang("a", 1).key
    del world.gangs[key]
    world.engine.handle(GangRemoved(key))
    world.run()
    assert racks_of(world, "a") == racks_of(world, "b") == {"r0"}


def test_a_domain_is_open_as_soon_as_the_pod_that_held_it_is_no_member_any_more() -> None:
    """Somebody took the label off a running pod."""
    world = World(racks(1), gang("a", 1), members("a", 1, 0), gang("b", 1)).run().add(members("b", 1, 0)).wait(5)
    assert not racks_of(world, "b")
    world.add(a_pod("a-0").gpus(2).on(world.node_of("a-0"))).run()
    assert racks_of(world, "b") == {"r0"}


def test_nobody_is_moved_into_the_domain_that_the_preemptor_is_given() -> None:
    """The only other place of a restartable gang is in the rack that it leaves: both ask for a rack of their own, so it stays."""
    blockers = [a_pod(f"top{n}").gpus(8).priority(9).on(f"r1n{n}") for n in range(2)]
    movable = gang("small", 1, annotations={RESTARTABLE: "true"})
    world = World(racks(2), blockers, movable, members("small", 1, 5)).run()
    assert racks_of(world, "small") == {"r0"}
    world.add(gang("new", 1), members("new", 1, 5, gpus=8)).run().wait(60)
    assert world.evicted == []
    assert not racks_of(world, "new")


def test_a_gang_with_a_domain_of_its_own_is_moved_to_another_one() -> None:
    """There is a free rack that is too small for the preemptor, and large enough for the gang in its way."""
    small_rack = [a_node("r1n0").gpus(2).cpu(64).label(RACK, "r1")]
    movable = gang("small", 1, annotations={RESTARTABLE: "true"})
    world = World(racks(1), movable, members("small", 1, 5)).run().add(small_rack)
    world.add(gang("new", 1), members("new", 1, 5, gpus=8)).run().wait(60)
    assert world.evicted == ["small-0"]
    assert racks_of(world, "new") == {"r0"}
