"""NodeResourceTopology objects: zones, costs, the kubelet's policy, fingerprints, and what is told of those that make no sense."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model.node_resource_topology import (
    ApiNodeResourceTopology,
    NodeResourceTopology,
    NumaZone,
    node_resource_topology_from_api,
)


def read(*zones: dict[str, Any], **fields: Any) -> NodeResourceTopology:
    """Return the view of an object named `n`."""
    manifest = {"metadata": {"name": "n"}, "zones": list(zones)} | fields
    return node_resource_topology_from_api(msgspec.convert(manifest, ApiNodeResourceTopology))


def attributes(**values: str) -> list[dict[str, str]]:
    """Return attributes as the API has them."""
    return [{"name": name, "value": value} for name, value in values.items()]


def test_zones_are_read_by_number() -> None:
    """Amounts are integers; zones of other types are left alone."""
    cpu = {"name": "cpu", "capacity": "32", "allocatable": "30", "available": "4500m"}
    found = read(
        {"name": "node-1", "type": "Node", "resources": [cpu], "costs": [{"name": "node-0", "value": 21}]},
        {"name": "socket-0", "type": "Socket", "resources": [cpu]},
        {"name": "node-0", "type": "Node", "resources": [{"name": "memory", "allocatable": "1Gi", "available": 5}]},
    )
    assert found.zones == (
        NumaZone(id=0, available={"memory": 5}, allocatable={"memory": 2**30}),
        NumaZone(id=1, available={"cpu": 4500}, allocatable={"cpu": 30_000}, costs={0: 21}),
    )
    assert (found.key, found.problems) == (("", "n"), ())


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ("none", "container")),
        ({"topologyPolicies": ["SingleNUMANodePodLevel"]}, ("single-numa-node", "pod")),
        ({"topologyPolicies": ["SingleNUMANodeContainerLevel", "None"]}, ("single-numa-node", "container")),
        ({"topologyPolicies": ["BestEffortPodLevel"]}, ("best-effort", "pod")),
        ({"topologyPolicies": ["RestrictedContainerLevel"]}, ("restricted", "container")),
        ({"topologyPolicies": ["Unheard"]}, ("none", "container")),
        ({"attributes": attributes(topologyManagerPolicy="restricted")}, ("restricted", "container")),
        (
            {
                "topologyPolicies": ["SingleNUMANodePodLevel"],
                "attributes": attributes(topologyManagerPolicy="none", topologyManagerScope="container"),
            },
            ("none", "container"),
        ),
        (
            {"topologyPolicies": ["SingleNUMANodePodLevel"], "attributes": attributes(topologyManagerPolicy="strict")},
            ("single-numa-node", "pod"),
        ),
    ],
)
def test_attributes_come_before_the_deprecated_policies(fields: Any, expected: tuple[str, str]) -> None:
    """Cases of scheduler-plugins, pkg/noderesourcetopology/nodeconfig/topologymanager_test.go."""
    found = read(**fields)
    assert (found.policy, found.scope) == expected


def test_fingerprint_is_an_attribute_or_an_annotation() -> None:
    """The method goes with the attribute only."""
    meta = {"name": "n", "annotations": {"topology.node.k8s.io/fingerprint": "old"}}
    method = "with-exclusive-resources"
    new = attributes(nodeTopologyPodsFingerprint="new", nodeTopologyPodsFingerprintMethod=method)
    found = read(metadata=meta, attributes=new)
    assert (found.fingerprint, found.fingerprint_method) == ("new", method)
    found = read(metadata=meta, attributes=new[1:])
    assert (found.fingerprint, found.fingerprint_method) == ("old", "")


def test_object_tells_when_it_was_written_last() -> None:
    """The latest of all writers."""
    writes = [{"time": "2026-01-01T00:00:10Z"}, {"manager": "x"}, {"time": "2026-01-01T00:00:05Z"}]
    assert read(metadata={"name": "n", "managedFields": writes}).written == 1_767_225_610.0


def test_what_makes_no_sense_is_left_out_and_told() -> None:
    """Names, amounts and attributes, each with what is allowed."""
    bad = [{"name": "cpu", "available": "lots", "allocatable": "-1"}]
    found = read(
        {"name": "node-75", "type": "Node"},
        {"name": "numa0", "type": "Node"},
        {"name": "node-0", "type": "Node", "resources": bad},
        {"name": "node-0", "type": "Node"},
        attributes=attributes(topologyManagerScope="machine"),
    )
    assert found.zones == (NumaZone(id=0, available={"cpu": 0}, allocatable={"cpu": 0}),)
    assert [problem.split(";")[0] for problem in found.problems] == [
        "attributes[topologyManagerScope]: 'machine' is unknown",
        "zones[0].name: 'node-75' is no NUMA node",
        "zones[1].name: 'numa0' is no NUMA node",
        "zones[2].resources[cpu].available: 'lots' is not a quantity: a number with an optional suffix n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent such as e3",
        "zones[3].name: 'node-0' is there twice",
    ]
