"""Which kinds an explanation reads of the network, and what the cluster knows of them then."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.explain.objects import KINDS
from scheduler.model.hypernode import HyperNode
from scheduler.model.topology import Topology
from scheduler.state.cluster import ClusterState

LEVELS = {"levels": [{"nodeLabel": "example.com/rack"}]}


@pytest.mark.parametrize(
    ("group", "kind", "spec", "view", "key"),
    [
        ("scheduling.ai-scheduler.io", "Topology", LEVELS, Topology, ("ai-scheduler", "x")),
        ("kueue.x-k8s.io", "Topology", LEVELS, Topology, ("kueue", "x")),
        ("kai.scheduler", "Topology", LEVELS, Topology, ("kai", "x")),
        ("topology.volcano.sh", "HyperNode", {"tier": 1}, HyperNode, ("", "x")),
    ],
)
def test_topologies_are_kept_under_their_dialect(
    group: str, kind: str, spec: dict[str, Any], view: type[Topology | HyperNode], key: tuple[str, str]
) -> None:
    """So that objects of one name do not hide each other."""
    read, cluster = KINDS[group, kind], ClusterState()
    read.put(cluster, msgspec.convert({"metadata": {"name": "x"}, "spec": spec}, read.wire_type))
    assert list(cluster.objects.all(view)) == [key]
