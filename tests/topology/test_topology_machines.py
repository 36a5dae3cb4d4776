"""The table of known machines against published link counts, measured dumps and NVIDIA's own test topologies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.topology import NodeKind, PcieClass, TopologyError, known_machine, parse_topology
from scheduler.topology.machines import parse_count

UNIFORM = [
    # product label, GPUs, GB/s per direction of each pair, NVSwitches
    ("Tesla-V100-SXM3-32GB", 16, 6 * 25, True),
    ("NVIDIA-A100-SXM4-40GB", 8, 12 * 25, True),
    ("NVIDIA-A100-SXM4-80GB", 8, 12 * 25, True),
    ("A100-SXM4-40GB", 8, 12 * 25, True),
    ("NVIDIA-A100-SXM4-80GB", 16, 12 * 25, True),
    ("NVIDIA-A100-SXM4-80GB", 4, 4 * 25, False),
    ("NVIDIA-H100-80GB-HBM3", 8, 18 * 25, True),
    ("NVIDIA-H100-80GB-HBM3", 4, 6 * 25, False),
    ("NVIDIA-H200", 8, 18 * 25, True),
    ("NVIDIA-H200", 4, 6 * 25, False),
    ("NVIDIA-H800", 8, 8 * 25, True),
    ("NVIDIA-H20", 8, 18 * 25, True),
    ("NVIDIA-B200", 8, 18 * 50, True),
    ("NVIDIA-B200", 4, 18 * 50, True),
    ("NVIDIA-B300-SXM6-AC", 8, 18 * 50, True),
    ("NVIDIA-GB200", 4, 18 * 50, True),
    ("NVIDIA-GB300", 4, 18 * 50, True),
    ("NVIDIA-GH200-480GB", 1, 0, False),
    ("NVIDIA-H100-80GB-HBM3-SHARED", 8, 18 * 25, True),
    ("NVIDIA-H100-PCIe", 8, 0, False),
    ("NVIDIA-H100-NVL", 8, 0, False),
    ("NVIDIA-H200-NVL", 4, 0, False),
    ("NVIDIA-A100-PCIE-40GB", 4, 0, False),
    ("NVIDIA-A100-80GB-PCIe", 4, 0, False),
    ("NVIDIA-L40S", 8, 0, False),
    ("NVIDIA-L4", 1, 0, False),
    ("Tesla-T4", 4, 0, False),
    ("NVIDIA-A10", 2, 0, False),
    ("NVIDIA-A10G", 4, 0, False),
    ("NVIDIA-RTX-A6000", 4, 0, False),
    ("Quadro-RTX-8000", 4, 0, False),
    ("NVIDIA-GeForce-RTX-4090", 8, 0, False),
    ("NVIDIA-RTX-6000-Ada-Generation", 4, 0, False),
    ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 8, 0, False),
    ("Tesla-V100-PCIE-16GB", 4, 0, False),
]


@pytest.mark.parametrize(("product", "count", "gbps", "has_switch"), UNIFORM)
def test_product_and_count_have_the_published_links(product, count, gbps, has_switch):
    """Links per pair times GB/s per link, from the data sheets."""
    machine = known_machine(product, count)
    assert machine.is_known
    assert (machine.nvlink_gbps == gbps * (1 - np.eye(count, dtype=np.int64))).all()
    assert any(data["kind"] is NodeKind.NVSWITCH for _, data in machine.graph.nodes(data=True)) is has_switch


@pytest.mark.parametrize("product", ["Tesla-V100-SXM2-16GB", "Tesla-V100-SXM2-32GB"])
def test_dgx1_volta_equals_the_measured_one(dump, product):
    """The table has the links that `nvidia-smi` shows on a DGX-1V, and its sockets."""
    measured, known = parse_topology(dump("dgx1v_v100_sxm2_8gpu_1nic")), known_machine(product, 8)
    assert (known.nvlink_gbps == measured.nvlink_gbps).all()
    assert (known.direct_links == measured.direct_links).all()
    assert ((known.pcie == PcieClass.SYS) == (measured.pcie == PcieClass.SYS)).all()


@pytest.mark.parametrize(
    ("dump_name", "product", "gbps_per_link"),
    [
        ("a100_p4d_24xlarge_8gpu", "NVIDIA-A100-SXM4-40GB", 25.0),
        ("b200_8gpu_8nic_gke_a4", "NVIDIA-B200", 50.0),
        ("gb200_tray_4gpu", "NVIDIA-GB200", 50.0),
        ("h100_sxm_8gpu_malformed_nic_cols", "NVIDIA-H100-80GB-HBM3", 25.0),
    ],
)
def test_table_has_the_links_and_sockets_of_measured_machines(dump, dump_name, product, gbps_per_link):
    """What the label says agrees with what was measured."""
    measured = parse_topology(dump(dump_name), gbps_per_link=gbps_per_link)
    known = known_machine(product, measured.gpu_count)
    assert (known.nvlink_gbps == measured.nvlink_gbps).all()
    assert ((known.pcie == PcieClass.SYS) == (measured.pcie == PcieClass.SYS)).all()


@pytest.mark.parametrize(
    ("product", "node"), [("Tesla-P100-SXM2-16GB", "DGX1Pascal"), ("Tesla-V100-SXM2-16GB", "DGX1Volta")]
)
def test_dgx1_equals_nvidias_test_topology(vectors, product, node):
    """Links and PCIe classes are those of the topologies that go-gpuallocator is tested on."""
    topology, machine = vectors["topologies"][node], known_machine(product, 8)
    assert machine.direct_links.tolist() == topology["nvlinks"]
    expected = [[0 if cell == "X" else PcieClass[cell] for cell in row] for row in topology["pcie"]]
    assert machine.pcie.tolist() == expected


def test_dgx1_pascal_links_have_20_gbps():
    """NVLink 1 carries 20 GB/s per link and direction: 4 links a GPU make 80."""
    assert known_machine("Tesla-P100-SXM2-16GB", 8).nvlink_gbps.sum(axis=0).tolist() == [80] * 8


@pytest.mark.parametrize(("product", "count"), [("AMD-Instinct-MI300X", 8), ("", 4), ("Tesla-V100-SXM2-16GB", 6)])
def test_unknown_product_or_count_is_pcie_only_and_says_so(product, count):
    """Nothing is invented for a machine outside the table."""
    machine = known_machine(product, count)
    assert (machine.gpu_count, machine.is_known) == (count, False)
    assert not machine.nvlink_gbps.any()


@pytest.mark.parametrize(
    ("product", "is_whole"),
    [
        ("NVIDIA-A100-SXM4-80GB", True),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", False),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED", False),
        ("NVIDIA-L40S-SHARED", False),
    ],
)
def test_mig_and_shared_products_are_no_whole_gpus(product, is_whole):
    """A suffix of GFD tells that the resource counts shares of GPUs."""
    assert known_machine(product, 8).is_whole is is_whole


def test_mig_slices_have_no_nvlink():
    """NVLink peer access does not exist between MIG slices."""
    assert not known_machine("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", 56).nvlink_gbps.any()


def test_equal_types_with_other_names_are_equal_machines():
    """40 and 80 GB boards have one topology, and so share one table."""
    assert known_machine("NVIDIA-A100-SXM4-40GB", 8) == known_machine("NVIDIA-A100-SXM4-80GB", 8)
    assert known_machine("NVIDIA-A100-SXM4-40GB", 8) != known_machine("NVIDIA-A100-SXM4-40GB", 4)


@pytest.mark.parametrize("text", ["abc", "", "-1", "0", "65", "10_000", "10000", " 8", "8.0", "٨", "8\n"])
def test_malformed_count_names_the_label_and_the_allowed_values(text):
    """Only a plain number from 1 to 64 is a count."""
    with pytest.raises(TopologyError, match=r"nvidia.com/gpu.count.*1 to 64"):
        parse_count(text)


@given(st.integers(1, 64))
def test_every_allowed_count_is_read(count):
    """A count is read back as written."""
    assert parse_count(str(count)) == count
