"""NICs beside GPUs: which are near, which are chosen, and sets that are chosen for them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.node_topology import Links, ToldGpu, ToldMachine, ToldNic
from scheduler.topology import (
    GpuSetTable,
    NicAsk,
    NicScope,
    NvLink,
    PcieClass,
    PcieLayout,
    TopologyError,
    build_machine,
    choose_nics,
    gpus_of_mask,
    machine_of_told,
    parse_nics,
    parse_scope,
    parse_topology,
)

CLASSES = [PcieClass.SYS, PcieClass.NODE, PcieClass.PIX]


def a_machine(gpus, nics, classes, gbps=()):
    """Return a machine whose NICs are so near to each GPU; GPUs are far from each other, and NICs too, so that all stays a tree."""
    closeness = np.full((gpus + nics, gpus + nics), int(PcieClass.SYS), dtype=np.int64)
    for nic, (gpu, pcie_class) in enumerate(classes):
        closeness[gpu, gpus + nic] = closeness[gpus + nic, gpu] = int(pcie_class)
    np.fill_diagonal(closeness, 0)
    layout = PcieLayout(closeness, (None,) * (gpus + nics), tuple(f"mlx5_{nic}" for nic in range(nics)))
    pairs = zip(combinations(range(gpus), 2), gbps, strict=False)
    return build_machine("m", gpus, layout=layout, direct={pair: NvLink(1, speed) for pair, speed in pairs if speed})


@st.composite
def machines(draw):
    """Draw a machine of up to six GPUs and four NICs, each NIC near one GPU."""
    gpus, nics = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    near = st.tuples(st.integers(0, gpus - 1), st.sampled_from(CLASSES))
    classes = draw(st.lists(near, min_size=nics, max_size=nics))
    pairs = gpus * (gpus - 1) // 2
    return a_machine(gpus, nics, classes, draw(st.lists(st.sampled_from([0, 25]), min_size=pairs, max_size=pairs)))


@settings(deadline=None, max_examples=150)
@given(machines(), st.data())
def test_set_is_the_best_that_has_its_nics_as_near_as_required(machine, data):
    """Of all sets that pass, none has more bandwidth, and none of equal bandwidth has nearer NICs."""
    free = data.draw(st.integers(1, machine.all_gpus))
    k = data.draw(st.integers(1, free.bit_count()))
    required = data.draw(st.sampled_from([None, *NicScope]))
    free_nics = data.draw(st.integers(0, (1 << len(machine.nics)) - 1))
    ask = NicAsk(data.draw(st.integers(1, 4)), free_nics, required)
    table, found = GpuSetTable(machine), {}
    for gpus in combinations(gpus_of_mask(free), k):
        mask = sum(1 << gpu for gpu in gpus)
        choice = choose_nics(machine, mask, ask)
        if required is None or (choice.scope is not None and choice.scope >= required):
            found[mask] = (int(machine.nvlink_gbps[np.ix_(gpus, gpus)].sum()) // 2, choice.quality)
    best = table.best_near(free, k, ask)
    assert (best is None) == (not found)
    if best is not None:
        assert found[best.mask] == max(found.values())


def test_nics_are_divided_among_the_gpus(dump):
    """On the B200 machine NICs 0 and 1 are on the switch of GPUs 0 and 1, 2 and 3 on that of 2 and 3: each GPU gets one."""
    machine = parse_topology(dump("b200_8gpu_8nic_gke_a4"))
    assert choose_nics(machine, 0b101, NicAsk(2, 0xFF)) == ((0, 2), NicScope.SWITCH, 100)
    assert choose_nics(machine, 0b001, NicAsk(3, 0xFF)) == ((0, 1, 2), NicScope.NUMA, (100 + 100 + 50) // 3)
    assert choose_nics(machine, 0b001, NicAsk(1, 0xF0)) == ((4,), NicScope.NODE, 0)
    assert choose_nics(machine, 0b001, NicAsk(2, 0b1)) == ((0,), None, 50)


def test_gpus_of_another_switch_are_taken_where_their_nics_are_free(dump):
    """Without the NICs of the first switch, the second one serves."""
    table = GpuSetTable(parse_topology(dump("b200_8gpu_8nic_gke_a4")))
    assert table.best_near(0xFF, 2, NicAsk(2, 0b11111100)).gpus == (2, 3)
    assert table.best_near(0xFF, 2, NicAsk(2, 0b00000101, NicScope.SWITCH)).gpus == (0, 2)
    assert table.best_near(0b11, 2, NicAsk(2, 0b00000101, NicScope.SWITCH)) is None


def test_of_equal_sets_the_lowest_rails_are_taken():
    """Four GPUs behind NVSwitches whose NICs are wired in another order: rails 2, 3, 0, 1."""
    paths = [("root", f"port{gpu}", f"up{gpu}") for gpu in range(4)]
    gpus = tuple(ToldGpu(gpu, 0, (), Links(18, 450), (*paths[gpu], "g")) for gpu in range(4))
    nics = tuple(ToldNic(f"mlx5_{n}", 0, (n + 2) % 4, (*paths[n], "n")) for n in range(4))
    table = GpuSetTable(machine_of_told(ToldMachine(gpus, nics, None)))
    assert [table.best(0xF, k).gpus for k in (1, 2, 3)] == [(2,), (2, 3), (0, 2, 3)]
    uneven = GpuSetTable(machine_of_told(ToldMachine((*gpus, ToldGpu(4, 1, (), None, ())), nics, None)))
    assert uneven.best(0xF, 2).gpus == (2, 3)


def test_annotations_are_read_with_what_is_allowed(dump):
    """Names of other machines count as none."""
    machine = parse_topology(dump("b200_8gpu_8nic_gke_a4"))
    assert parse_nics("mlx5_0,mlx5_2;basis=assumed", machine) == 0b101
    assert parse_nics("mlx5_0,eth0", machine) is None
    assert parse_nics("", machine) == 0
    assert parse_scope("switch") is NicScope.SWITCH
    with pytest.raises(TopologyError, match="nic-scope: 'near' is unknown; allowed: node, numa, switch"):
        parse_scope("near")
