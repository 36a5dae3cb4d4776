"""The best set of free GPUs: against exhaustive search over the graph, published optima, and plain cases."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.topology import (
    GpuSetTable,
    NvLink,
    PcieClass,
    PcieLayout,
    TopologyError,
    build_machine,
    gpus_of_mask,
    known_machine,
    mask_of_gpus,
    table_of,
)
from scheduler.topology.setsearch import GrownSearch, TabledSearch, UniformSearch


@st.composite
def machines(draw, largest=7):
    """Draw a machine of random direct links and sockets."""
    count = draw(st.integers(1, largest))
    numa = draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    pairs = list(combinations(range(count), 2))
    gbps = draw(st.lists(st.sampled_from([0, 0, 25, 50]), min_size=len(pairs), max_size=len(pairs)))
    direct = {pair: NvLink(g // 25, g) for pair, g in zip(pairs, gbps, strict=True) if g}
    return build_machine("drawn", count, layout=PcieLayout.of_numa(numa), direct=direct)


def bandwidth(machine, gpus):
    """Sum the NVLink bandwidth inside a set over the edges of the graph."""
    inside = machine.graph.subgraph(f"gpu{gpu}" for gpu in gpus)
    return sum(gbps for _, _, gbps in inside.edges(data="gbps"))


def best_bandwidth(machine, free, k):
    """Return the highest bandwidth of k free GPUs by trying all sets."""
    return max((bandwidth(machine, gpus) for gpus in combinations(gpus_of_mask(free), k)), default=0)


def left_behind(machine, free, gpus):
    """Return what later pods of 2, 4 GPUs, or as many again, could get without these GPUs."""
    rest = free & ~mask_of_gpus(gpus)
    return sum(best_bandwidth(machine, rest, size) for size in sorted({2, 4, len(gpus)}) if size <= rest.bit_count())


@settings(deadline=None, max_examples=150)
@given(machines(), st.data())
def test_best_set_is_free_right_sized_and_optimal(machine, data):
    """No set of k free GPUs has more bandwidth, and none of equal bandwidth leaves more behind."""
    free = data.draw(st.integers(0, machine.all_gpus))
    k = data.draw(st.integers(0, free.bit_count()))
    best = GpuSetTable(machine).best(free, k)
    assert (best.mask & ~free, len(best.gpus), mask_of_gpus(best.gpus)) == (0, k, best.mask)
    assert best.bandwidth_gbps == bandwidth(machine, best.gpus) == best_bandwidth(machine, free, k)
    equal = [s for s in combinations(gpus_of_mask(free), k) if bandwidth(machine, s) == best.bandwidth_gbps]
    assert left_behind(machine, free, best.gpus) == max(left_behind(machine, free, gpus) for gpus in equal)


@settings(deadline=None)
@given(st.integers(2, 9), st.integers(0, 900), st.integers(0, 6), st.data())
def test_closed_form_of_uniform_machines_equals_exhaustive_search(count, gbps, closeness, data):
    """Where all pairs are alike, the lowest free GPUs are the exhaustive answer too."""
    weight = (gbps << 14) + closeness
    tabled = TabledSearch(weight * (1 - np.eye(count, dtype=np.int64)))
    uniform = UniformSearch(weight)
    free = data.draw(st.integers(1, (1 << count) - 1))
    k = data.draw(st.integers(1, free.bit_count()))
    assert uniform.choose(free, k, (2, 4, 8)) == tabled.choose(free, k, (2, 4, 8))
    assert uniform.heaviest(free, k) == tabled.heaviest(free, k)


@settings(deadline=None)
@given(machines(), st.integers(1, 5))
def test_all_masks_at_once_are_answered_as_one_by_one(machine, k):
    """The filled table holds what each question would have been answered."""
    search, sizes = TabledSearch(machine.pair_weights), sorted({2, 4, 8, k})
    for free, mask in enumerate(search.choose_all(k, sizes).tolist()):
        assert mask == (search.choose(free, k, sizes) if free.bit_count() >= k else -1)


@pytest.mark.parametrize("k", range(2, 7))
def test_dgx1_gives_the_most_links_whatever_is_free(k):
    """For every occupancy of a DGX-1V, the chosen set has as many links as the best of all free ones."""
    machine = known_machine("Tesla-V100-SXM2-16GB", 8)
    for free in range(256):
        if free.bit_count() >= k:
            assert table_of(machine).best(free, k).bandwidth_gbps == best_bandwidth(machine, free, k)


@pytest.mark.parametrize("node", ["4xRTX8000", "DGX1Pascal", "DGX1Volta"])
def test_best_set_has_the_most_links_of_nvidias_topologies(vectors, node):
    """For every size the published optimum of links is reached, by one of the published sets where all are listed."""
    topology = vectors["topologies"][node]
    links = np.array(topology["nvlinks"])
    direct = {
        (i, j): NvLink(links[i, j], 25 * links[i, j]) for i, j in combinations(range(len(links)), 2) if links[i, j]
    }
    table = GpuSetTable(build_machine(node, len(links), layout=PcieLayout.of_numa([None] * len(links)), direct=direct))
    for size, optimum in topology["optimum_by_size"].items():
        best = table.best(table.machine.all_gpus, int(size))
        assert best.bandwidth_gbps == 25 * optimum["max_links"]
        if len(optimum["sets_max_links"]) == optimum["n_sets_max_links"]:
            assert list(best.gpus) in optimum["sets_max_links"]


def test_dgx1_gives_four_pairs_of_two_links_one_after_the_other():
    """Four pods of two GPUs get 50 GB/s each: no pick spoils a later one."""
    table, free, got = table_of(known_machine("Tesla-V100-SXM2-16GB", 8)), 0xFF, []
    while free:
        best = table.best(free, 2)
        got.append(best.bandwidth_gbps)
        free &= ~best.mask
    assert got == [50, 50, 50, 50]


def test_pair_that_leaves_another_pair_comes_first():
    """Of one DGX-1V socket, (2,3) is PIX but leaves one link; (0,3) leaves (1,2) with two."""
    table = table_of(known_machine("Tesla-V100-SXM2-16GB", 8))
    assert table.best(0b1111, 2).gpus == (0, 3)


def test_one_gpu_is_taken_where_the_rest_loses_least():
    """Beside a free quartet of the DGX-1V the odd GPU 4 is taken; of 0, 1 and 3 the pair (0,3) is spared."""
    table = table_of(known_machine("Tesla-V100-SXM2-16GB", 8))
    assert table.best(0b11111, 1).gpus == (4,)
    assert table.best(0b01011, 1).gpus == (1,)


@pytest.mark.parametrize("product", ["NVIDIA-H100-80GB-HBM3", "NVIDIA-L40S"])
def test_equal_sets_go_to_one_socket_and_low_indices(product):
    """Of GPUs 2 to 7 the four of one socket are taken where sockets are known, else the lowest."""
    expected = {"NVIDIA-H100-80GB-HBM3": (4, 5, 6, 7), "NVIDIA-L40S": (2, 3, 4, 5)}[product]
    assert table_of(known_machine(product, 8)).best(0b11111100, 4).gpus == expected


def test_same_switch_comes_before_same_numa_node_before_other_socket():
    """Without NVLink, closeness decides: PIX, then NODE, then SYS."""
    layout = PcieLayout.of_numa([0, 0, 0, 1]).with_groups([[1, 2]], PcieClass.PIX)
    table = GpuSetTable(build_machine("m", 4, layout=layout))
    assert table.best(0b1111, 2).gpus == (1, 2)
    assert table.best(0b1011, 2).gpus == (0, 1)
    assert table.best(0b1001, 2).gpus == (0, 3)


def test_without_nvlink_one_gpu_is_taken_from_the_smaller_socket():
    """Four GPUs on one socket and three on the other: the four stay whole."""
    table = GpuSetTable(build_machine("m", 7, layout=PcieLayout.of_numa([0, 0, 0, 0, 1, 1, 1])))
    assert table.best(0b1111111, 1).gpus == (4,)


def test_bridged_board_pairs_stay_together():
    """Two GPUs come from one bridge, and one GPU from a bridge that is broken already."""
    machine = build_machine(
        "bridged",
        8,
        layout=PcieLayout.of_numa([0, 0, 0, 0, 1, 1, 1, 1]),
        direct={(i, i + 1): NvLink(12, 300) for i in (0, 2, 4, 6)},
    )
    table = GpuSetTable(machine)
    assert table.best(0b11011110, 2).gpus == (2, 3)
    assert table.best(0b11011110, 1).gpus == (1,)
    assert not table.best(0b11111111, 4).is_connected


@pytest.mark.parametrize(
    ("product", "mask", "is_connected"),
    [
        ("Tesla-V100-SXM2-16GB", 0b00100001, False),
        ("Tesla-V100-SXM2-16GB", 0b00100011, True),
        ("NVIDIA-H100-80GB-HBM3", 0b10000001, True),
        ("NVIDIA-L40S", 0b11, False),
        ("NVIDIA-L40S", 0b1, True),
    ],
)
def test_connected_means_nvlink_inside_the_set(product, mask, is_connected):
    """DGX-1V GPUs 0 and 5 have no link, but with GPU 1 between them they have; NVSwitch joins all; PCIe joins none."""
    table = table_of(known_machine(product, 8))
    assert table.best(mask, mask.bit_count()).is_connected is is_connected


def test_sixteen_gpus_behind_switches_keep_to_one_socket():
    """A DGX-2 with GPU 0 taken gives eight GPUs of the second half, 28 pairs of 150 GB/s."""
    table = table_of(known_machine("Tesla-V100-SXM3-32GB", 16))
    best = table.best(0xFFFE, 8)
    assert (best.gpus, best.bandwidth_gbps) == (tuple(range(8, 16)), 28 * 150)


def test_sixty_four_uniform_gpus_have_a_closed_form():
    """A size that no table could hold is answered exactly."""
    layout = PcieLayout.of_numa([0] * 64)
    machine = build_machine("m", 64, layout=layout, switched=dict.fromkeys(range(64), NvLink(18, 900)))
    assert GpuSetTable(machine).best(machine.all_gpus & ~1, 32).bandwidth_gbps == 496 * 900


def test_large_uneven_machine_is_answered_by_growing_sets():
    """Of 20 GPUs in five meshes of four, a free mesh is found."""
    direct = {(i, j): NvLink(4, 100) for s in range(0, 20, 4) for i, j in combinations(range(s, s + 4), 2)}
    machine = build_machine("m", 20, layout=PcieLayout.of_numa([0] * 20), direct=direct)
    table = GpuSetTable(machine)
    assert table.best(machine.all_gpus & ~0b10001, 4).gpus == (8, 9, 10, 11)


@settings(deadline=None)
@given(machines(9), st.data())
def test_grown_set_is_free_and_never_heavier_than_the_optimum(machine, data):
    """The search for large machines may miss the best set, but what it says of its set is true."""
    free = data.draw(st.integers(1, machine.all_gpus))
    k = data.draw(st.integers(1, free.bit_count()))
    grown, tabled = GrownSearch(machine.pair_weights), TabledSearch(machine.pair_weights)
    chosen = gpus_of_mask(grown.choose(free, k, ()))
    assert len(chosen) == k
    assert not mask_of_gpus(chosen) & ~free
    assert (
        grown.heaviest(free, k)
        == np.triu(machine.pair_weights[np.ix_(chosen, chosen)]).sum()
        <= tabled.heaviest(free, k)
    )


@pytest.mark.parametrize(
    ("free", "k", "quality"),
    [
        (0xFF, 2, 100),
        (0b00001001, 2, 100),
        (0b00000011, 2, 50),
        (0b00100001, 2, 0),
        (0b00000001, 2, 0),
        # 0-1 NV1, 1-5 NV2, 0-4 NV2, 4-5 NV1: 6 links of the best 9
        (0b00110011, 4, 66),
        (0b00100000, 1, 100),
        (0b00000000, 1, 0),
    ],
)
def test_quality_is_the_share_of_the_best_set_of_an_empty_machine(free, k, quality):
    """On a DGX-1V the best two have 2 links, the best four 9."""
    assert table_of(known_machine("Tesla-V100-SXM2-16GB", 8)).quality(free, k) == quality


def test_quality_is_100_without_nvlink():
    """Where no set has links, none is worse than another."""
    assert table_of(known_machine("NVIDIA-L40S", 8)).quality(0b10000001, 2) == 100


def test_harm_tells_a_broken_quartet_from_an_odd_gpu():
    """Taking one GPU of two that are not linked costs nothing in links; out of a full machine it costs the set of eight."""
    table = table_of(known_machine("Tesla-V100-SXM2-16GB", 8))
    # 25 GB/s x links: before 2 + 9 + 24, after 2 + 9
    assert table.harm(0xFF, 1) == 100 * 24 // 35
    # 4 is odd beside the quartet 0 to 3: sets of two and of four stay
    assert table.harm(0b11111, 1) == 0
    assert table.harm(0b1, 1) == 0
    assert table.harm(0b1, 2) == 0


def test_fewer_free_than_asked_is_none():
    """A no is a value."""
    assert table_of(known_machine("NVIDIA-L40S", 8)).best(0b11, 3) is None


def test_no_gpus_asked_is_the_empty_set():
    """Zero GPUs are always there."""
    best = table_of(known_machine("NVIDIA-L40S", 8)).best(0, 0)
    assert (best.mask, best.gpus, best.bandwidth_gbps, best.is_connected) == (0, (), 0, True)


@pytest.mark.parametrize(("free", "k"), [(1 << 8, 1), (-1, 1), (1, -1)])
@pytest.mark.parametrize("ask", ["best", "best_effort"])
def test_mask_outside_the_machine_is_an_error(ask, free, k):
    """A mask of another machine is a fault of the caller."""
    with pytest.raises(TopologyError, match="0xff"):
        getattr(table_of(known_machine("NVIDIA-L40S", 8)), ask)(free, k)


def test_equal_machines_share_a_table():
    """The table is built once for a machine type."""
    assert table_of(known_machine("NVIDIA-A100-SXM4-40GB", 8)) is table_of(known_machine("NVIDIA-A100-SXM4-80GB", 8))
