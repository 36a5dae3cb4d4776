"""Which source tells a node's machine, and which clique it is in."""

from __future__ import annotations

import pytest

from scheduler.topology import NODE_TOPOLOGY_ANNOTATION, TopologyError, clique_of, machine_of

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8"}
CLIQUE = "3f2b9c1e-7a40-4d8e-9b55-0a1c2d3e4f50.32766"


def test_node_without_nvidia_labels_has_no_machine():
    """A CPU node is no topology fault."""
    assert machine_of({"kubernetes.io/hostname": "a"}, {}) is None


def test_labels_lead_to_the_known_machine():
    """GFD's product and count are enough."""
    machine = machine_of(H100, {})
    assert (machine.gpu_count, machine.nvlink_gbps[0, 7], machine.is_known) == (8, 450, True)


def test_annotation_comes_before_labels():
    """What somebody measured or stated beats the table."""
    annotations = {NODE_TOPOLOGY_ANNOTATION: '{"gpus": 4, "links": [[0, 1, 300]]}'}
    assert machine_of(H100, annotations).gpu_count == 4
    assert machine_of({}, annotations).gpu_count == 4


def test_annotated_text_takes_its_link_speed_from_the_product(dump):
    """`topo -m` says NV18 on H100 and on B200; the label tells 25 from 50 GB/s a link."""
    annotations = {NODE_TOPOLOGY_ANNOTATION: dump("b200_8gpu_8nic_gke_a4")}
    assert machine_of({"nvidia.com/gpu.product": "NVIDIA-B200"}, annotations).nvlink_gbps[0, 1] == 900
    assert machine_of(H100, annotations).nvlink_gbps[0, 1] == 450


def test_bridges_of_a_pcie_board_come_from_the_annotation_only(dump):
    """No label tells that an A100 PCIe is bridged."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-80GB-PCIe", "nvidia.com/gpu.count": "8"}
    bridged = {NODE_TOPOLOGY_ANNOTATION: dump("pcie_8gpu_nvlink_bridge_pairs_2nic")}
    assert not machine_of(labels, {}).nvlink_gbps.any()
    assert machine_of(labels, bridged).nvlink_gbps[0, 1] == 300


def test_product_of_others_is_a_machine_that_is_not_known():
    """The count still counts."""
    machine = machine_of({"nvidia.com/gpu.count": "3"}, {})
    assert (machine.gpu_count, machine.is_known) == (3, False)


@pytest.mark.parametrize("count", ["abc", "-8", "10_000", "10000", "0"])
def test_malformed_count_is_an_error_that_names_the_label(count):
    """A typo is not taken for a machine."""
    with pytest.raises(
        TopologyError, match=r"label nvidia.com/gpu.count: '.*' is not allowed; allowed is a whole number, 1 to 64"
    ):
        machine_of(H100 | {"nvidia.com/gpu.count": count}, {})


def test_product_without_count_is_an_error_that_names_the_label():
    """GFD always writes both."""
    with pytest.raises(TopologyError, match=r"nvidia.com/gpu.count: missing"):
        machine_of({"nvidia.com/gpu.product": "NVIDIA-L4"}, {})


def test_malformed_annotation_is_an_error_that_names_it():
    """It does not silently fall back to the labels."""
    with pytest.raises(TopologyError, match="node-topology"):
        machine_of(H100, {NODE_TOPOLOGY_ANNOTATION: "{}"})


@pytest.mark.parametrize(
    ("labels", "clique"),
    [
        ({}, None),
        ({"nvidia.com/gpu.clique": CLIQUE}, CLIQUE),
        ({"nvidia.com/gpu.clique": ""}, None),
        ({"nvidia.com/gpu.clique": "no-uuid.1"}, None),
        ({"nvidia.com/gpu.clique": "00000000-0000-0000-0000-000000000000.0"}, None),
        ({"accelerator.topograph.run/domain": "nvl1"}, "nvl1"),
        ({"network.topology.nvidia.com/accelerator": "nvl1"}, "nvl1"),
        ({"topology.k8s.aws/ultraserver-id": "us-1"}, "us-1"),
        ({"accelerator.topograph.run/domain": "", "topology.k8s.aws/ultraserver-id": "us-1"}, "us-1"),
        ({"nvidia.com/gpu.clique": CLIQUE, "accelerator.topograph.run/domain": "nvl1"}, CLIQUE),
    ],
)
def test_clique_is_named_by_the_first_label_that_is_set(labels, clique):
    """A node without a usable label is in no clique, never in one that is named by the empty string."""
    assert clique_of(labels) == clique
