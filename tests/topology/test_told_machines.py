"""Machines of NodeTopology objects: links, PCIe paths, which source counts, and what is wrong with one."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.node_topology import ApiNodeTopology, NodeTopology, node_topology_from_api
from scheduler.model.node_topology_crd import NodeTopology as Written
from scheduler.topology import (
    NODE_TOPOLOGY_ANNOTATION,
    NodeKind,
    PcieClass,
    Source,
    TopologyError,
    known_machine,
    machine_of_told,
    read_machine,
)
from scheduler.topology.told import path_class

V100 = {"nvidia.com/gpu.product": "Tesla-V100-SXM2-16GB", "nvidia.com/gpu.count": "8"}
MESH = {(0, 1): 1, (0, 2): 1, (0, 3): 2, (1, 2): 2, (1, 3): 1, (2, 3): 2}


def told(gpus: list[dict[str, Any]], status: dict[str, Any] | None = None, **spec: Any) -> NodeTopology:
    """Return the view of an object that the models of its definition accept."""
    body = {"metadata": {"name": "n", "uid": "u"}, "spec": {"gpus": gpus, **spec}} | (
        {"status": status} if status else {}
    )
    Written.model_validate({key: body[key] for key in ("spec", "status") if key in body})
    return node_topology_from_api(msgspec.convert(body, ApiNodeTopology))


def half_a_dgx1(**spec: Any) -> NodeTopology:
    """Return four V100 of one socket, each pair told by its lower GPU."""
    gpus = [
        {
            "index": gpu,
            "uuid": f"GPU-{gpu}",
            "pciAddress": f"0000:0{gpu}:00.0",
            "numaNode": 0,
            "nvlinkPeers": [
                {"gpu": peer, "links": links, "gigabytesPerSecond": 25 * links}
                for (one, peer), links in MESH.items()
                if one == gpu
            ],
        }
        for gpu in range(4)
    ]
    return told(gpus, **spec)


def test_links_are_those_of_the_table():
    """What an agent writes of half a DGX-1V has the links that the label leads to."""
    machine = machine_of_told(half_a_dgx1().machine)
    known = known_machine("Tesla-V100-SXM2-16GB", 4)
    assert (machine.nvlink_gbps == known.nvlink_gbps).all()
    assert (machine.direct_links == known.direct_links).all()


def test_uuids_and_addresses_make_no_other_machine():
    """A table serves all nodes of a type."""
    gpus = [{"index": 0, "uuid": "GPU-a", "pciAddress": "0000:01:00.0"}]
    others = [{"index": 0, "uuid": "GPU-b", "pciAddress": "0000:02:00.0"}]
    assert told(gpus).machine == told(others).machine


def test_switched_gpus_reach_each_other():
    """Eighteen links of 25 GB/s each; without their number, the speed of a link tells it."""
    gpus = [{"index": gpu, "nvswitch": {"gigabytesPerSecond": 450}} for gpu in range(8)]
    machine = machine_of_told(told(gpus).machine)
    assert machine.nvlink_gbps[0, 7] == 450
    assert machine.graph["gpu3"]["nvswitch0"]["links"] == 18


ROOT, PORT = "pci0000:10", "0000:10:01.0"


@pytest.mark.parametrize(
    ("one", "other", "is_same_numa", "found"),
    [
        ([ROOT, PORT, "up", "down-0"], [ROOT, PORT, "up", "down-1"], True, PcieClass.PIX),
        ([ROOT, PORT, "up", "d0", "up0", "d00"], [ROOT, PORT, "up", "d1", "up1", "d10"], True, PcieClass.PXB),
        ([ROOT, PORT, "up", "down-0"], [ROOT, PORT, "up", "d1", "up1", "d10"], True, PcieClass.PXB),
        ([ROOT, PORT, "up", "down-0"], [ROOT, "0000:10:02.0"], True, PcieClass.PHB),
        ([ROOT, PORT], ["pci0000:20", "0000:20:01.0"], True, PcieClass.NODE),
        ([ROOT, PORT], ["pci0000:20", "0000:20:01.0"], False, PcieClass.SYS),
        ([], [], True, PcieClass.NODE),
        ([], [], False, PcieClass.SYS),
    ],
)
def test_closeness_follows_from_what_two_paths_share(one, other, is_same_numa, found):
    """In the words of `nvidia-smi topo -m`: one switch, several, the host bridge, the NUMA node, or nothing."""
    assert path_class(one, other, is_same_numa=is_same_numa) is found
    assert path_class(other, one, is_same_numa=is_same_numa) is found


def test_nics_have_rails_and_hang_where_their_paths_say():
    """Each NIC shares a switch with one GPU; the graph has root ports between switches and the host bridge."""
    devices = [
        {"pciePath": [f"pci0000:{n}0", f"0000:{n}0:01.0", f"up{n}", f"down{n}-{d}"]} for n in (1, 2) for d in (0, 1)
    ]
    gpus = [{"index": gpu, "numaNode": 0, **devices[2 * gpu]} for gpu in (0, 1)]
    nics = [{"name": f"mlx5_{nic}", "rail": 1 - nic, "numaNode": 0, **devices[2 * nic + 1]} for nic in (0, 1)]
    machine = machine_of_told(told(gpus, nics=nics).machine)
    assert machine.nic_pcie.tolist() == [[PcieClass.PIX, PcieClass.NODE], [PcieClass.NODE, PcieClass.PIX]]
    assert [(nic.name, nic.rail) for nic in machine.nics] == [("mlx5_0", 1), ("mlx5_1", 0)]
    kinds = [data["kind"] for _, data in machine.graph.nodes(data=True)]
    assert (kinds.count(NodeKind.ROOT_PORT), kinds.count(NodeKind.PCIE_SWITCH)) == (2, 2)


@pytest.mark.parametrize(
    ("gpus", "says"),
    [
        ([{"index": 1}], "indices 1; allowed are 0, 1"),
        ([{"index": 0}, {"index": 0}], "indices 0, 0; allowed"),
        ([{"index": 0, "nvlinkPeers": [{"gpu": 1, "gigabytesPerSecond": 25}]}], "gpu 1 is not allowed"),
        (
            [
                {"index": 0, "nvlinkPeers": [{"gpu": 1, "gigabytesPerSecond": 25}]},
                {"index": 1, "nvlinkPeers": [{"gpu": 0, "gigabytesPerSecond": 50}]},
            ],
            "differs from what that says",
        ),
    ],
)
def test_parts_that_do_not_fit_each_other_are_named(gpus, says):
    """The definition refuses most of it; what it cannot compare is told here."""
    with pytest.raises(TopologyError, match=says):
        machine_of_told(told(gpus).machine)


def test_sources_are_trusted_in_order():
    """Slices, then the object, the annotation, the labels."""
    annotations = {NODE_TOPOLOGY_ANNOTATION: '{"gpus": 4, "links": [[0, 1, 300]]}'}
    labels = V100 | {"nvidia.com/gpu.count": "4"}
    slices, topology = known_machine("NVIDIA-L40S", 4), half_a_dgx1()
    told = read_machine(labels, annotations, topology, of_slices=slices)
    assert told.machine is not None
    assert (told.machine.name, told.source, told.machine.nvlink_gbps.any()) == (slices.name, Source.SLICES, False)
    assert read_machine(labels, annotations, topology).source is Source.OBJECT
    assert read_machine(labels, annotations).machine.nvlink_gbps[0, 1] == 300
    assert read_machine(labels, {}).machine == known_machine("Tesla-V100-SXM2-16GB", 4)
    assert read_machine({}, {}) == (None, None, ())


def test_object_with_other_gpus_than_the_node_gives_way():
    """Four GPUs are told of a node that has eight: the labels count, and it is said."""
    reading = read_machine(V100, {}, half_a_dgx1())
    assert reading.source is Source.LABEL
    assert reading.machine == known_machine("Tesla-V100-SXM2-16GB", 8)
    assert reading.problems[0].text == "spec.gpus: 4 GPUs where the node has 8; allowed are those of the node"
    assert read_machine({}, {}, half_a_dgx1(), gpu_count=2).machine is None
    assert read_machine({}, {}, half_a_dgx1(), gpu_count=4).source is Source.OBJECT


def test_product_that_nobody_knows_is_a_machine_without_links():
    """It is said of the product and not of the node."""
    reading = read_machine({"nvidia.com/gpu.product": "NVIDIA-Z900", "nvidia.com/gpu.count": "8"}, {})
    assert not reading.machine.nvlink_gbps.any()
    assert [problem.source for problem in reading.problems] == [Source.LABEL]
    assert "'NVIDIA-Z900' with 8 GPUs" in reading.problems[0].text


def test_shared_gpus_of_an_object_are_no_whole_ones():
    """The label tells it; how many shares the node offers is not compared."""
    labels = {"nvidia.com/gpu.product": "Tesla-V100-SXM2-16GB-SHARED"}
    reading = read_machine(labels, {}, half_a_dgx1(), gpu_count=40)
    assert (reading.source, reading.machine.is_whole) == (Source.OBJECT, False)


SMALL = st.integers(-1, 4)
PEER = st.fixed_dictionaries({"gpu": SMALL, "gigabytesPerSecond": st.integers(-1, 100)})
GPUS = st.lists(
    st.fixed_dictionaries(
        {"index": SMALL},
        optional={
            "numaNode": SMALL,
            "nvlinkPeers": st.lists(PEER, max_size=3),
            "nvswitch": PEER,
            "pciePath": st.lists(st.sampled_from("abcd"), max_size=5),
        },
    ),
    max_size=5,
)


@given(GPUS, st.lists(st.fixed_dictionaries({"name": st.sampled_from("xy")}, optional={"rail": SMALL}), max_size=3))
def test_any_object_gives_a_machine_or_a_problem(gpus, nics):
    """Nothing that stands in an object raises, whatever the definition would have refused."""
    body = {"metadata": {"name": "n"}, "spec": {"gpus": gpus, "nics": nics}}
    reading = read_machine(V100, {}, node_topology_from_api(msgspec.convert(body, ApiNodeTopology)), gpu_count=8)
    assert reading.machine is not None
    assert (reading.source is Source.OBJECT) == (not reading.problems)
    assert (reading.machine.nvlink_gbps == np.transpose(reading.machine.nvlink_gbps)).all()


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"gpus": [{"index": 0, "nvswitch": {"links": 65, "gigabytesPerSecond": 25}}]}, "links: 65 is not allowed; allowed are whole numbers from 1 to 64"),
        ({"gpus": [{"index": 0, "nvswitch": {"gigabytesPerSecond": 10**30}}]}, f"gigabytesPerSecond: {10**30} is not allowed; allowed are whole numbers from 1 to 100000"),
        ({"gpus": [{"index": 0}], "pcieGigabytesPerSecond": 2**63}, f"spec.pcieGigabytesPerSecond: {2**63} is not allowed; allowed are whole numbers from 1 to 1024"),
    ],
)  # fmt: skip
def test_numbers_that_the_definition_would_refuse_are_refused_here_too(spec, allowed):
    """Objects from files, and those of an older definition, have not been held against it; no number is too large for a sentence."""
    body = {"metadata": {"name": "n"}, "spec": spec}
    reading = read_machine({}, {}, node_topology_from_api(msgspec.convert(body, ApiNodeTopology)), gpu_count=1)
    assert reading.machine is None
    assert [problem.text for problem in reading.problems] == [allowed]
