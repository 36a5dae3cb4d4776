"""The graph of a machine, and the matrices that follow from it."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from scheduler.topology import (
    LinkKind,
    NodeKind,
    NvLink,
    PcieClass,
    PcieLayout,
    TopologyError,
    build_machine,
    gpus_of_mask,
    known_machine,
    machine_of_graph,
    mask_of_gpus,
)


def test_matrices_are_symmetric_and_read_only():
    """Nobody can change a machine that others share."""
    machine = known_machine("Tesla-V100-SXM2-16GB", 8)
    for matrix in (machine.nvlink_gbps, machine.direct_links, machine.pcie):
        assert (matrix == matrix.T).all()
        with pytest.raises(ValueError, match="read-only"):
            matrix[0, 0] = 1
    with pytest.raises(nx.NetworkXError, match=r"(?i)frozen"):
        machine.graph.add_node("gpu9")


def test_pair_behind_a_switch_has_the_smaller_of_its_uplinks():
    """A GPU of 100 GB/s and one of 50 exchange 50."""
    layout = PcieLayout.of_numa([0, 0, 0])
    machine = build_machine("m", 3, layout=layout, switched={0: NvLink(4, 100), 1: NvLink(2, 50), 2: NvLink(4, 100)})
    assert machine.nvlink_gbps.tolist() == [[0, 50, 100], [50, 0, 50], [100, 50, 0]]


def test_several_switches_add_up():
    """With two switches drawn one by one, a pair has what both carry."""
    graph = nx.Graph()
    graph.add_nodes_from(["gpu0", "gpu1"], kind=NodeKind.GPU)
    graph.add_nodes_from(["a", "b"], kind=NodeKind.NVSWITCH)
    for switch in ("a", "b"):
        graph.add_edges_from([("gpu0", switch), ("gpu1", switch)], kind=LinkKind.NVLINK, gbps=75, links=3)
    assert machine_of_graph("m", graph).nvlink_gbps[0, 1] == 150


def test_pcie_classes_survive_the_way_through_the_graph():
    """A layout of all classes comes out of the tree as it went in."""
    layout = (
        PcieLayout.of_numa([0, 0, 0, 0, 0, 1])
        .with_groups([[0, 1, 2, 3]], PcieClass.PHB)
        .with_groups([[0, 1, 2]], PcieClass.PXB)
        .with_groups([[0, 1]], PcieClass.PIX)
    )
    machine = build_machine("m", 6, layout=layout)
    assert machine.pcie[0].tolist() == [0, PcieClass.PIX, PcieClass.PXB, PcieClass.PHB, PcieClass.NODE, PcieClass.SYS]
    assert (machine.pcie == layout.closeness).all()


def test_graph_has_the_published_bandwidths_on_its_edges():
    """An H100 has 450 GB/s to the NVSwitches and a PCIe 5.0 x16 slot of 63 GB/s, per direction."""
    graph = known_machine("NVIDIA-H100-80GB-HBM3", 8).graph
    assert graph["gpu0"]["nvswitch0"]["gbps"] == 450
    assert graph["gpu0"]["root-port0"]["gbps"] == 63
    assert graph["root-port0"]["numa0"]["gbps"] == 63


def test_closeness_never_outweighs_one_gbps():
    """Even the closest set of 64 GPUs weighs less than one GB/s more."""
    near = PcieLayout.of_numa([0] * 64).with_groups([range(64)], PcieClass.PSB)
    closest = build_machine("near", 64, layout=near).pair_weights
    one_gbps = build_machine("m", 2, layout=PcieLayout.of_numa([0, 1]), direct={(0, 1): NvLink(1, 1)}).pair_weights[
        0, 1
    ]
    assert np.triu(closest, 1).sum() < one_gbps


@pytest.mark.parametrize("count", [0, 65])
def test_machine_has_1_to_64_gpus(count):
    """The bound holds for every source."""
    with pytest.raises(TopologyError, match="1 to 64"):
        build_machine("m", count, layout=PcieLayout.of_numa([0] * count))


def test_graph_without_gpu0_is_refused():
    """GPU indices have no gap."""
    graph = nx.Graph()
    graph.add_node("gpu1", kind=NodeKind.GPU)
    with pytest.raises(TopologyError, match="without a gap"):
        machine_of_graph("m", graph)


def test_masks_and_indices_are_two_forms_of_one_set():
    """Bit i stands for GPU i."""
    assert mask_of_gpus([0, 3, 4]) == 0b11001
    assert gpus_of_mask(0b11001) == (0, 3, 4)
