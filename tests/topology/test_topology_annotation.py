"""The node-topology annotation in both its forms."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.topology import TopologyError, parse_node_topology, parse_topology


def test_json_form_tells_links_switches_and_sockets():
    """Bridged pairs of 300 GB/s on two sockets."""
    machine = parse_node_topology(
        '{"gpus": 4, "links": [[0, 1, 300], [3, 2, 300]], "nvswitch": null, "numa": [0, 0, 1, 1]}'
    )
    assert machine.nvlink_gbps.tolist() == [[0, 300, 0, 0], [300, 0, 0, 0], [0, 0, 0, 300], [0, 0, 300, 0]]
    assert machine.direct_links[0, 1] == 12
    assert machine.pcie[0].tolist() == [0, 2, 1, 1]


def test_json_form_needs_no_more_than_the_number_of_gpus():
    """What is left out is absent: no links, one NUMA node."""
    machine = parse_node_topology('{"gpus": 3}')
    assert (machine.gpu_count, machine.nvlink_gbps.any(), machine.pcie[0, 1]) == (3, False, 2)


def test_json_form_with_switches_gives_each_pair_the_bandwidth_of_a_gpu():
    """`nvswitch` is GB/s of each GPU."""
    assert parse_node_topology('{"gpus": 2, "nvswitch": 450}').nvlink_gbps[0, 1] == 450


def test_fractions_of_gbps_are_rounded():
    """Four links of an RTX A6000 are 56.25 GB/s."""
    machine = parse_node_topology('{"gpus": 2, "links": [[0, 1, 56.25]]}', gbps_per_link=14.0625)
    assert (machine.nvlink_gbps[0, 1], machine.direct_links[0, 1]) == (56, 4)


def test_text_form_is_that_of_nvidia_smi(dump):
    """The raw text is the same machine as parsed alone."""
    text = dump("gb200_tray_4gpu")
    assert parse_node_topology(text, 50.0) == parse_topology(text, gbps_per_link=50.0)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("{", "node-topology"),
        ("[]", "object"),
        ("{}", "gpus"),
        ('{"gpus": 0}', r"gpus.*1 to 64"),
        ('{"gpus": 65}', r"gpus.*1 to 64"),
        ('{"gpus": "8"}', r"\$\.gpus"),
        ('{"gpus": 2, "nvlink": 3}', "nvlink"),
        ('{"gpus": 2, "links": [[0, 2, 25]]}', r"links\[0\].*0 to 1"),
        ('{"gpus": 2, "links": [[0, 0, 25]]}', r"links\[0\]"),
        ('{"gpus": 2, "links": [[0, 1, 25], [1, 0, 25]]}', r"links\[1\].*once"),
        ('{"gpus": 2, "links": [[0, 1, 0]]}', r"\$\.links"),
        ('{"gpus": 2, "links": [[0, 1, 1e9]]}', r"\$\.links"),
        ('{"gpus": 2, "links": [[-1, 1, 25]]}', r"\$\.links"),
        ('{"gpus": 2, "nvswitch": -1}', r"\$\.nvswitch"),
        ('{"gpus": 2, "numa": [0]}', "numa.*2, one for each GPU"),
        ('{"gpus": 2, "links": ' + "[" * 60_000, "node-topology"),
        ('{"gpus": 2}' + " " * 70_000, "65536 bytes"),
        ("no topology at all", "node-topology.*GPU0"),
    ],
)
def test_malformed_value_names_annotation_field_and_what_is_allowed(value, says):
    """Who wrote the annotation can correct it from the message alone."""
    with pytest.raises(TopologyError, match=says) as refused:
        parse_node_topology(value)
    assert "scheduling.ai-scheduler.io/node-topology" in str(refused.value)
    assert "allowed" in str(refused.value) or "GPU0" in str(refused.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 70) | st.floats(), lambda c: st.lists(c, max_size=3), max_leaves=6
)


@given(
    st.dictionaries(st.sampled_from(["gpus", "links", "nvswitch", "numa", "other"]), JSON).map(json.dumps)
    | st.text('{["\ud800', max_size=9)
)
def test_any_value_is_a_machine_or_a_topology_error(value):
    """Nothing that a node carries can raise anything else."""
    try:
        machine = parse_node_topology(value)
    except TopologyError:
        return
    assert 1 <= machine.gpu_count <= 64
