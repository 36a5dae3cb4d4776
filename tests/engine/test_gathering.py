"""Gangs in the fabric: required, preferred, segments, spread, exclusive domains, roles, ranks, late members, and small exact cases."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import Gang, Subgroup, TopologyConstraint
from tests.builders import a_gang, a_node, a_pod
from tests.engine.world import World

if TYPE_CHECKING:
    from tests.builders import NodeBuilder, PodBuilder

BLOCK, RACK = "network.topology.nvidia.com/spine", "network.topology.nvidia.com/leaf"
ROLE, RANK = "scheduling.ai-scheduler.io/role", "scheduling.ai-scheduler.io/rank"


def racks(blocks: int = 2, per_block: int = 2, nodes: int = 2, gpus: int = 8) -> list[NodeBuilder]:
    """Return nodes named b0r0n0 and so on, with the labels of spines and leaves."""
    return [
        a_node(f"b{b}r{r}n{n}").gpus(gpus).cpu(64).label(BLOCK, f"b{b}").label(RACK, f"b{b}r{r}")
        for b, r, n in itertools.product(range(blocks), range(per_block), range(nodes))
    ]


def gang(minimum: int, name: str = "job", **fields: Any) -> Gang:
    """Return a group with a constraint or subgroups."""
    return msgspec.structs.replace(a_gang(name, 1).build(), min_member=minimum, **fields)


def workers(count: int, name: str = "job", gpus: int = 8, first: int = 0) -> list[PodBuilder]:
    """Return members with ranks."""
    return [a_pod(f"{name}-{k}").gpus(gpus).gang(name).label(RANK, str(k)) for k in range(first, first + count)]


def racks_of(world: World, name: str = "job") -> set[str]:
    """Return the racks of a gang's members."""
    return {node[:4] for pod, node in world.placed.items() if pod.startswith(f"{name}-")}


def full(*names: str) -> list[PodBuilder]:
    """Return pods that fill nodes."""
    return [a_pod(f"full-{name}").gpus(8).on(name) for name in names]


def test_a_gang_that_fits_into_one_rack_is_in_one_rack() -> None:
    """Without asking for it."""
    world = World(racks(), gang(2), workers(2)).run()
    assert len(racks_of(world)) == 1


def test_the_rack_with_the_least_room_that_holds_it_is_taken() -> None:
    """A rack with room for more is not nibbled."""
    world = World(racks(nodes=3), full("b0r1n0"), gang(2), workers(2)).run()
    assert racks_of(world) == {"b0r1"}


def test_the_block_that_needs_fewer_racks_is_taken() -> None:
    """Three half racks of one block hold three pods, but two racks of the other do as well."""
    busy = full("b0r0n0", "b0r1n0", "b0r2n0", "b1r2n0")
    world = World(racks(per_block=3), busy, gang(3), workers(3)).run()
    assert len(racks_of(world)) == 2
    assert {rack[:2] for rack in racks_of(world)} == {"b1"}


def test_a_required_level_is_kept() -> None:
    """Three pods do not fit into any rack of two nodes, although there is room for eight; the largest part is told."""
    world = World(racks(), gang(3, topology=TopologyConstraint(required=RACK)), workers(3)).run()
    assert not world.placed
    [(reason, message), *_] = world.conditions("job-0")
    assert reason == "Unschedulable"
    assert re.search(
        r"needs 3 pods at once \(.*\), in one \S+\. No \S+ could ever take more than 2 of the 3 pods\.", message
    )


def test_a_required_level_that_is_full_now_waits_for_room_in_one_domain() -> None:
    """Room in two racks is not room in one; what comes free in the right place lets the gang go."""
    topology = TopologyConstraint(required=RACK)
    world = World(racks(), full("b0r0n0", "b0r1n0", "b1r0n0", "b1r1n1"), gang(2, topology=topology), workers(2)).run()
    assert not any(name.startswith("job") for name in world.placed)
    [(_, message), *_] = world.conditions("job-0")
    assert re.search(r"\), in one \S+\. The nearest \S+, \S+, fits 1 of 2; short 1\.", message)
    world.remove("full-b1r0n0").wait(1)
    assert racks_of(world) == {"b1r0"}


def test_preferred_levels_are_tried_in_order() -> None:
    """Not in one rack, but in one block."""
    world = World(racks(), gang(4, topology=TopologyConstraint(preferred=(RACK, BLOCK))), workers(4)).run()
    assert {rack[:2] for rack in racks_of(world)} in ({"b0"}, {"b1"})


def test_what_no_preferred_level_holds_goes_anywhere() -> None:
    """Preferred is not required."""
    world = World(racks(), gang(6, topology=TopologyConstraint(preferred=(RACK,))), workers(6)).run()
    assert len(world.placed) == 6


def test_unknown_level_is_told_and_holds_the_gang() -> None:
    """With what may be named; the gang goes when the level is mended."""
    world = World(racks(), gang(2, topology=TopologyConstraint(required="shelf")), workers(2)).run()
    assert not world.placed
    [(_, message), *_] = world.conditions("job-0")
    assert "shelf" in message
    world.add(gang(2, topology=TopologyConstraint(required=RACK))).run()
    assert len(racks_of(world)) == 1


def test_what_a_gang_insists_on_is_part_of_its_refusal() -> None:
    """Each pod has a node, and four nodes are enough for three; but no rack of two holds a segment of three."""
    topology = TopologyConstraint(segment_size=3, segment_required=RACK)
    world = World(racks(per_block=1), gang(3, topology=topology), workers(3)).run()
    assert not world.placed
    [(_, message), *_] = world.conditions("job-0")
    assert f"), in segments of 3 that each are in one {RACK}. 4/4 nodes are available to a single pod." in message


def test_segments_stand_in_one_domain_each() -> None:
    """Two pods to a rack, neighbours in rank together."""
    topology = TopologyConstraint(segment_size=2, segment_required=RACK)
    world = World(racks(nodes=3), gang(8, topology=topology), workers(8)).run()
    assert len(world.placed) == 8
    for k in range(0, 8, 2):
        assert world.placed[f"job-{k}"][:4] == world.placed[f"job-{k + 1}"][:4]


def test_spread_divides_evenly() -> None:
    """Five pods over two blocks: three and two."""
    world = World(racks(), gang(5, topology=TopologyConstraint(spread=BLOCK)), workers(5)).run()
    counts = [sum(node.startswith(block) for node in world.placed.values()) for block in ("b0", "b1")]
    assert sorted(counts) == [2, 3]


def test_exclusive_domains_are_not_shared() -> None:
    """Two gangs of one pod each never share a rack; a third and fifth one waits for a rack of its own."""
    topology = TopologyConstraint(exclusive=RACK)
    world = World(racks())
    for name in "abcde":
        world.add(gang(1, name, topology=topology), workers(1, name)).run()
    assert len({node[:4] for node in world.placed.values()}) == 4
    assert len(world.placed) == 4


def test_neighbours_in_rank_are_neighbours_in_the_fabric() -> None:
    """Ranks follow the order of racks."""
    world = World(racks(blocks=1, per_block=4), gang(8), workers(8)[::-1]).run()
    assert [world.placed[f"job-{k}"][:4] for k in range(8)] == [f"b0r{k // 2}" for k in range(8)]


def test_late_members_and_replacements_join_the_gang_where_it_is() -> None:
    """Not where there is most room."""
    world = World(racks(nodes=4), gang(2), workers(2)).run()
    [home] = racks_of(world)
    world.add(workers(1, first=7)).run()
    assert racks_of(world) == {home}
    world.remove("job-0").add(workers(1, first=8)).run().wait(2)
    assert racks_of(world) == {home}


def test_a_required_domain_holds_late_members_even_if_it_is_full() -> None:
    """They wait rather than leave it."""
    topology = TopologyConstraint(required=RACK)
    world = World(racks(), gang(2, topology=topology), workers(2)).run()
    world.add(workers(1, first=7)).run().wait(3)
    assert "job-7" not in world.placed


def test_roles_with_their_own_minimum_are_placed_together() -> None:
    """A launcher without GPUs and two workers, or nobody."""
    subgroups = (Subgroup(name="launcher", min_member=1), Subgroup(name="worker", min_member=2))
    members = [
        a_pod("job-l").cpu(60).gang("job").label(ROLE, "launcher"),
        *(a_pod(f"job-{k}").gpus(8).gang("job").label(ROLE, "worker") for k in range(2)),
    ]
    world = World(racks(1, 1, 2), gang(0, subgroups=subgroups), members[1:]).run()
    assert not world.placed
    world.add(members[0]).run()
    assert len(world.placed) == 3


def test_each_role_keeps_its_own_domain() -> None:
    """Prefill in one rack, decode in one rack, both in one block."""
    own = TopologyConstraint(required=RACK)
    subgroups = tuple(Subgroup(name=name, min_member=2, topology=own) for name in ("prefill", "decode"))
    members = [
        a_pod(f"job-{role}{k}").gpus(8).gang("job").label(ROLE, role)
        for role in ("prefill", "decode")
        for k in range(2)
    ]
    world = World(racks(), gang(0, subgroups=subgroups, topology=TopologyConstraint(required=BLOCK)), members).run()
    assert len(world.placed) == 4
    for role in ("prefill", "decode"):
        assert len({world.placed[f"job-{role}{k}"][:4] for k in range(2)}) == 1
    assert len({node[:2] for node in world.placed.values()}) == 1


def test_some_of_the_replicas_are_enough_where_the_gang_says_so() -> None:
    """Two of three replicas that need a rack each are placed when two racks are free."""
    own = TopologyConstraint(required=RACK)
    subgroups = tuple(Subgroup(name=f"r{k}", min_member=2, topology=own) for k in range(3))
    members = [a_pod(f"job-r{r}-{k}").gpus(8).gang("job").label(ROLE, f"r{r}") for r in range(3) for k in range(2)]
    one = gang(0, subgroups=subgroups, min_subgroups=2)
    world = World(racks(), full("b0r0n0", "b0r1n0"), one, members).run()
    assert sum(name.startswith("job") for name in world.placed) == 4


def test_room_is_made_in_one_domain_for_a_gang_that_has_to_be_in_one() -> None:
    """The two less important pods that stand in one rack go, not those that stand in two."""
    rows = ["b0r0n0", "b0r1n0", "b1r0n0", "b1r0n1"]
    others = [a_pod(f"low-{name}").gpus(8).on(name) for name in rows]
    strong = [a_pod(f"full-{n}").gpus(8).priority(9).on(n) for n in ("b0r0n1", "b0r1n1", "b1r1n0", "b1r1n1")]
    topology = TopologyConstraint(required=RACK)
    world = World(racks(), others, strong, gang(2, topology=topology), [pod.priority(5) for pod in workers(2)]).run()
    world.wait(2)
    assert racks_of(world) == {"b1r0"}
    assert {name for name in world.placed if name.startswith("low")} == {"low-b0r0n0", "low-b0r1n0"}


SHAPES = st.lists(st.integers(1, 8), min_size=1, max_size=8)


def can_be_packed(sizes: list[int], bins: list[int]) -> bool:
    """Tell by trying everything whether items fit into bins."""
    if not sizes:
        return True
    first, rest = sizes[0], sizes[1:]
    return any(
        room >= first and can_be_packed(rest, [*bins[:k], room - first, *bins[k + 1 :]])
        for k, room in enumerate(bins)
        if room not in bins[:k]
    )


@pytest.mark.parametrize("is_required", [False, True])
@given(SHAPES, st.lists(st.integers(1, 8), min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_a_placement_is_found_whenever_there_is_one(is_required: bool, sizes: list[int], bins: list[int]) -> None:
    """Gangs of up to eight pods of mixed shapes on up to eight nodes, against brute force."""
    nodes = [a_node(f"n{k}").gpus(room).cpu(64).label(RACK, "r").label(BLOCK, "b") for k, room in enumerate(bins)]
    pods = [a_pod(f"job-{k}").gpus(size).gang("job") for k, size in enumerate(sizes)]
    topology = TopologyConstraint(required=RACK) if is_required else None
    world = World(nodes, gang(len(sizes), topology=topology), pods).run()
    assert len(world.placed) == (len(sizes) if can_be_packed(sorted(sizes, reverse=True), bins) else 0)


def test_nvlink_domain_with_free_gpus_for_the_whole_gang_is_taken() -> None:
    """Three NVL72 racks of six trays: one has three free trays, one five, one all: four trays fit best into the second."""
    cluster = "0b0f1f2e-7a40-4d8e-9b55-0a1c2d3e4f5"
    world = World()
    for rack, taken in enumerate((3, 1, 0)):
        for tray in range(6):
            node = a_node(f"r{rack}-{tray}").gpus(4).label("nvidia.com/gpu.product", "NVIDIA-GB200")
            world.add(node.label("nvidia.com/gpu.count", "4").label("nvidia.com/gpu.clique", f"{cluster}{rack}.1"))
            if tray < taken:
                world.add(a_pod(f"old-{rack}-{tray}").gpus(4).on(f"r{rack}-{tray}"))
    world.add(a_gang("job", 4), a_pod("p").gpus(4).gang("job").times(4)).run()
    assert {node[:2] for name, node in world.placed.items() if name.startswith("p-")} == {"r1"}
