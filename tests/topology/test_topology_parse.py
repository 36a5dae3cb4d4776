"""`nvidia-smi topo -m` as real machines print it, and as it gets mangled on the way."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.topology import LinkKind, NodeKind, PcieClass, TopologyError, parse_topology

SYS, NODE, PHB, PXB, PIX = PcieClass.SYS, PcieClass.NODE, PcieClass.PHB, PcieClass.PXB, PcieClass.PIX


def all_pairs(count, value):
    """Return the matrix with one value off its diagonal."""
    return value * (1 - np.eye(count, dtype=np.int64))


def halves(count, inside, across):
    """Return the matrix of two equal blocks."""
    half = np.arange(count) // (count // 2)
    matrix = np.where(half[:, None] == half[None, :], inside, across)
    np.fill_diagonal(matrix, 0)
    return matrix


UNIFORM_DUMPS = [
    # NVLinks of a pair x GB/s per direction of one link, as NVIDIA publishes them
    ("a100_p4d_24xlarge_8gpu", 25.0, 12 * 25, True),
    ("a100_sxm4_4gpu_2nic_nps4", 25.0, 4 * 25, False),
    ("b200_8gpu_8nic_gke_a4", 50.0, 18 * 50, True),
    ("gb200_tray_4gpu", 50.0, 18 * 50, True),
    ("h100_sxm_8gpu_malformed_nic_cols", 25.0, 18 * 25, True),
    ("l40s_4gpu_2nic", 25.0, 0, False),
    ("rtx5090_2gpu_phb", 25.0, 0, False),
    ("vm_4gpu_all_node", 25.0, 0, False),
]


@pytest.mark.parametrize(("name", "gbps_per_link", "gbps", "has_switch"), UNIFORM_DUMPS)
def test_dump_with_equal_links_has_the_published_bandwidth(dump, name, gbps_per_link, gbps, has_switch):
    """Each pair has its links times the published speed, and NVSwitches are seen where direct links cannot be."""
    machine = parse_topology(dump(name), gbps_per_link=gbps_per_link)
    assert machine.gpu_count == int(re.search(r"_(\d)gpu", name)[1])
    assert (machine.nvlink_gbps == all_pairs(machine.gpu_count, gbps)).all()
    kinds = {data["kind"] for _, data in machine.graph.nodes(data=True)}
    assert (NodeKind.NVSWITCH in kinds) is has_switch


def test_dgx1_dump_has_the_hybrid_cube_mesh(dump):
    """Eight pairs have two links of 25 GB/s, eight have one, twelve none."""
    machine = parse_topology(dump("dgx1v_v100_sxm2_8gpu_1nic"))
    expected = np.zeros((8, 8), dtype=np.int64)
    for one, other in [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)]:
        expected[one, other] = expected[other, one] = 50
    for one, other in [(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)]:
        expected[one, other] = expected[other, one] = 25
    assert (machine.nvlink_gbps == expected).all()
    assert (machine.direct_links * 25 == expected).all()


def test_dgx1_dump_without_numa_column_takes_sockets_from_cpu_affinity(dump):
    """Old drivers print no NUMA column: GPUs with equal CPU affinity share a node; GPUs PIX to one NIC share a switch."""
    machine = parse_topology(dump("dgx1v_v100_sxm2_8gpu_1nic"))
    expected = halves(8, NODE, SYS)
    expected[2, 3] = expected[3, 2] = PIX
    assert (machine.pcie == expected).all()
    assert {"numa0", "numa1"} <= set(machine.graph)


def test_bridged_pairs_have_nvlink_only_inside_the_pair(dump):
    """NV12 bridges join (0,1), (2,3), (4,5), (6,7) at 12 x 25 GB/s, and nothing else."""
    machine = parse_topology(dump("pcie_8gpu_nvlink_bridge_pairs_2nic"))
    for one, other in combinations(range(8), 2):
        assert machine.nvlink_gbps[one, other] == (300 if other == one + 1 and one % 2 == 0 else 0)
    assert (machine.pcie == halves(8, NODE, SYS)).all()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a100_p4d_24xlarge_8gpu", halves(8, NODE, SYS)),
        ("a100_sxm4_4gpu_2nic_nps4", halves(4, PXB, SYS)),
        ("gb200_tray_4gpu", halves(4, NODE, SYS)),
        ("h100_sxm_8gpu_malformed_nic_cols", halves(8, NODE, SYS)),
        ("l40s_4gpu_2nic", halves(4, NODE, SYS)),
        ("rtx5090_2gpu_phb", all_pairs(2, PHB)),
        ("vm_4gpu_all_node", all_pairs(4, NODE)),
    ],
)
def test_pcie_closeness_comes_from_cells_numa_nodes_and_shared_nics(dump, name, expected):
    """A class cell is taken as it is; a pair that shows NVLinks is as close as its NUMA nodes and shared NICs say."""
    assert (parse_topology(dump(name)).pcie == expected).all()


def test_gpus_that_are_pix_to_one_nic_share_its_switch(dump):
    """On the B200 machine GPUs 0 and 1 are PIX to NIC0, so they are PIX to each other, as are (2,3), (4,5), (6,7)."""
    expected = halves(8, NODE, SYS)
    for one in (0, 2, 4, 6):
        expected[one, one + 1] = expected[one + 1, one] = PIX
    assert (parse_topology(dump("b200_8gpu_8nic_gke_a4")).pcie == expected).all()


def test_numa_nodes_keep_their_numbers(dump):
    """With four NUMA nodes a socket the GPUs sit on nodes 2 and 6, and the graph says so."""
    machine = parse_topology(dump("a100_sxm4_4gpu_2nic_nps4"))
    numa = {name for name, data in machine.graph.nodes(data=True) if data["kind"] is NodeKind.NUMA}
    assert numa == {"numa2", "numa6"}
    assert machine.graph["numa2"]["numa6"]["kind"] is LinkKind.SMP


def test_nics_have_the_names_of_the_legend(dump):
    """`NIC0: mlx5_0` names the NIC."""
    graph = parse_topology(dump("l40s_4gpu_2nic")).graph
    assert [graph.nodes[nic]["device"] for nic in ("nic0", "nic1")] == ["mlx5_0", "mlx5_1"]


def test_run_together_header_and_cells_are_taken_apart(dump):
    """`NIC8NIC9` are two NICs and `NODENODE` two cells: all twelve NICs are there."""
    graph = parse_topology(dump("h100_sxm_8gpu_malformed_nic_cols")).graph
    assert sum(1 for _, data in graph.nodes(data=True) if data["kind"] is NodeKind.NIC) == 12


def test_colours_prompts_and_windows_lines_change_nothing(dump):
    """A paste from a terminal parses to the same machine."""
    text = dump("dgx1v_v100_sxm2_8gpu_1nic")
    pasted = "$ nvidia-smi topo -m\r\n" + text.replace("GPU0 ", "\x1b[4mGPU0\x1b[0m ").replace("\n", "\r\n") + "\r\n$ "
    assert parse_topology(pasted) == parse_topology(text)


def test_spaces_or_tabs_are_the_same(dump):
    """Only the cells count, not what parts them."""
    text = dump("rtx5090_2gpu_phb")
    assert parse_topology(text.replace("\t", "   ")) == parse_topology(text)


def test_gpu_with_failed_links_stays_behind_the_switches():
    """A GPU with 16 of 18 links has 16 to every peer; the others keep 18 among themselves."""
    rows = [["X" if i == j else "NV16" if 0 in (i, j) else "NV18" for j in range(8)] for i in range(8)]
    machine = parse_topology(matrix_text(rows))
    assert machine.nvlink_gbps[0, 1:].tolist() == [400] * 7
    assert machine.nvlink_gbps[1, 2:].tolist() == [450] * 6
    assert not machine.direct_links.any()


@pytest.mark.parametrize(("cell", "links"), [("NV6", 6), ("NV7", 0)])
def test_links_are_direct_as_long_as_a_gpu_can_have_them(cell, links):
    """Four H100 with 6 links to each of three peers use all 18 of theirs; 7 would need 21, so those are behind NVSwitches."""
    rows = [["X" if i == j else cell for j in range(4)] for i in range(4)]
    assert parse_topology(matrix_text(rows)).direct_links[0, 1] == links


def matrix_text(rows):
    """Return the text of a matrix of cells, without affinities."""
    header = "\t".join(["", *(f"GPU{i}" for i in range(len(rows)))])
    return "\n".join([header, *(f"GPU{i}\t" + "\t".join(row) for i, row in enumerate(rows))])


TWO = "\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV1\tPIX\nGPU1\tNV1\t X \tNODE\n"


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("", 1, 1),
        ("Fri Jan  1\nGPU1 X\n", 1, 1),
        # Tabs count as one column each.
        (TWO.replace("GPU1\tNIC0", "GPU2\tNIC0"), 1, 7),
        (TWO.replace("\tNIC0", "\tGPU0"), 1, 12),
        (TWO.replace("\tNIC0", "\tNIC0\tNIC0"), 1, 17),
        (TWO.replace("GPU1\tNV1", "GPU1\tNV2"), 3, 6),
        (TWO.replace("GPU1\tNV1\t X ", "GPU1\tNV1\tNV1"), 3, 10),
        (TWO.replace("\tNV1\tPIX", "\tWXY\tPIX"), 2, 10),
        (TWO.replace("\tPIX", "\tP1X"), 2, 14),
        (TWO.replace("\tPIX", "\tPIXY"), 2, 17),
        ("# pasted\n" + TWO.replace("GPU1\tNV1", "GPU1\tnv1"), 4, 6),
        (TWO + "GPU1\tNV1\t X \tNODE\n", 4, 1),
        (TWO[: TWO.index("GPU1\tNV1")], 2, 1),
        (TWO.replace("GPU0\t X \tNV1\tPIX", "GPU0\t X"), 2, 8),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line_and_column(text, line, column):
    """A wrong device, cell, or pair; where something is missing, the place where it should begin."""
    with pytest.raises(
        TopologyError, match=rf"^topology text, line {line}, column {column}: .*(allowed|as `nvidia-smi)"
    ):
        parse_topology(text)


def test_legend_numbers_that_are_not_there_change_nothing(dump):
    """`N/A` in the affinity columns is no cell."""
    text = dump("l40s_4gpu_2nic").replace("0-95,192-287", "N/A").replace("96-191,288-383", "N/A")
    assert (parse_topology(text).pcie == parse_topology(dump("l40s_4gpu_2nic")).pcie).all()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no header line"),
        ("GPU0 GPU1\nGPU0 X NV1", "row GPU1 has 0 cells"),
        ("GPU0 GPU1\nGPU0 X\nGPU1 NV1 X", "row GPU0 has 1 cells"),
        ("GPU0 GPU1\nGPU0 X NV1\nGPU1 NV2 X", "GPU0 to GPU1 is NV1 and back NV2"),
        ("GPU0 GPU1\nGPU0 NV1 NV1\nGPU1 NV1 X", "column GPU0 is NV1; allowed is X"),
        ("GPU0 GPU1\nGPU0 X X\nGPU1 X X", "X for a device itself only"),
        ("GPU0 GPU2\nGPU0 X NV1\nGPU2 NV1 X", "in order"),
        ("GPU0 GPU1\nGPU0 X NV1\nGPU0 X NV1\nGPU1 NV1 X", "row GPU0 appears twice"),
        ("x" * 70_000, "65536 bytes"),
        ("GPU0 " + " ".join(f"GPU{i}" for i in range(1, 65)), "up to 64"),
    ],
)
def test_unusable_text_is_refused_with_what_is_allowed(text, says):
    """The message names the row or the limit."""
    with pytest.raises(TopologyError, match=says):
        parse_topology(text)


LINES = st.lists(
    st.sampled_from(
        ["GPU0", "GPU1", "X", "NV1", "NV12", "SYS", "NIC0", "\n", "\t", " ", "0-3", "NUMA Affinity", "\x1b[4m", "٣"]
    ),
    max_size=60,
).map(" ".join)


@given(st.text(max_size=300) | LINES)
def test_any_text_is_a_machine_or_a_topology_error(text):
    """Nothing that stands in an annotation can raise anything else."""
    try:
        machine = parse_topology(text)
    except TopologyError as error:
        said = str(error)
    else:
        said = "topology text, line 0, column 0: "
        assert (machine.nvlink_gbps == machine.nvlink_gbps.T).all()
    assert re.match(r"topology text, line \d+, column \d+: ", said)
