"""Topologies and HyperNodes in a simulation: read, checked, and known to the engine."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.hypernode import HyperNode
from scheduler.model.node_topology import NodeTopology
from scheduler.model.topology import Level, Topology

from .test_loading import problems_of
from .worlds import PREFIX, a_world, nodes, start

RACK = "example.com/rack"


def a_topology(*levels: dict[str, Any], api_version: str = f"{PREFIX}/v1alpha1") -> dict[str, Any]:
    """Return a Topology."""
    return {
        "apiVersion": api_version, "kind": "Topology", "metadata": {"name": "t"}, "spec": {"levels": list(levels)},
    }  # fmt: skip


def a_hypernode(**spec: Any) -> dict[str, Any]:
    """Return a HyperNode."""
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "h"}, "spec": spec,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("api_version", "level", "dialect", "name"),
    [
        (f"{PREFIX}/v1alpha1", {"name": "rack", "nodeLabel": RACK}, "ai-scheduler", "rack"),
        ("kueue.x-k8s.io/v1beta2", {"nodeLabel": RACK}, "kueue", "rack"),
        ("kueue.x-k8s.io/v1beta1", {"nodeLabel": RACK}, "kueue", "rack"),
        ("kueue.x-k8s.io/v1alpha1", {"nodeLabel": RACK}, "kueue", "rack"),
        ("kai.scheduler/v1alpha1", {"nodeLabel": RACK, "alias": "r"}, "kai", "r"),
    ],
)
def test_topologies_of_all_projects_are_read(api_version: str, level: Any, dialect: str, name: str) -> None:
    """In each version that says the same."""
    simulation = start(a_world(a_topology(level, api_version=api_version), *nodes(1)))
    simulation.advance()
    found = simulation.engine.state.objects.get(Topology, dialect, "t")  # type: ignore[attr-defined]
    assert found is not None
    assert found.levels == (Level(name, RACK),)


def test_hypernodes_are_read() -> None:
    """With tier and members."""
    member = {"type": "Node", "selector": {"exactMatch": {"name": "node-0"}}}
    simulation = start(a_world(a_hypernode(tier=1, members=[member]), *nodes(1)))
    simulation.advance()
    found = simulation.engine.state.objects.get(HyperNode, "", "h")  # type: ignore[attr-defined]
    assert found is not None
    assert (found.tier, [member.name for member in found.members]) == (1, ["node-0"])


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (a_topology(), "spec.levels: it is empty; allowed are levels of node labels, the widest first"),
        (a_topology({"nodeLabel": RACK}), "spec.levels[0].name: is missing; allowed: a word such as rack"),
        (a_topology({"name": "Rack!", "nodeLabel": RACK}), "spec.levels[0].name: 'Rack!': String should match pattern"),
        (
            a_topology({"name": "r", "nodeLabel": "no label"}),
            "spec.levels[0].nodeLabel: 'no label': String should match",
        ),
        (
            a_topology({"name": "r", "nodeLabel": RACK}, {"name": "s", "nodeLabel": RACK}),
            f"spec.levels[1].nodeLabel: {RACK} stands twice",
        ),
        (
            a_topology({"nodeLabel": RACK, "alias": "r"}, api_version="kueue.x-k8s.io/v1beta2"),
            "spec.levels[0].alias: is unknown; allowed: nodeLabel",
        ),
        (
            a_topology(*({"nodeLabel": f"l{k}"} for k in range(17)), api_version="kueue.x-k8s.io/v1beta2"),
            "spec.levels: has 17 levels; allowed: up to 16",
        ),
        (
            a_topology({"nodeLabel": RACK}, api_version="kueue.x-k8s.io/v2"),
            "apiVersion: kueue.x-k8s.io/v2 is not read; allowed: kueue.x-k8s.io/v1beta2, kueue.x-k8s.io/v1beta1, ",
        ),
        (a_hypernode(tier="near"), "spec.tier: 'near' is no tier"),
        (a_hypernode(tier=1, members=[{"type": "Pod"}]), "spec.members[0].type: 'Pod' is unknown"),
    ],
)
def test_what_an_api_server_would_refuse_is_told(manifest: dict[str, Any], expected: str) -> None:
    """With the field and what is allowed."""
    problems = problems_of(manifest)
    assert any(expected in problem for problem in problems), problems


def a_node_topology(gpus: int = 8) -> dict[str, Any]:
    """Return what tells of a node that GPUs 2 and 5 are bridged."""
    told: list[dict[str, Any]] = [{"index": gpu, "numaNode": 0} for gpu in range(gpus)]
    told[2]["nvlinkPeers"] = [{"gpu": 5, "links": 4, "gigabytesPerSecond": 100}]
    return {
        "apiVersion": f"{PREFIX}/v1alpha1", "kind": "NodeTopology", "metadata": {"name": "n0"}, "spec": {"gpus": told},
    }  # fmt: skip


def test_node_topologies_are_read() -> None:
    """And known to the engine by the name of their node."""
    simulation = start(a_world(a_node_topology(), *nodes(1)))
    simulation.advance()
    found = simulation.engine.state.objects.get(NodeTopology, "", "n0")  # type: ignore[attr-defined]
    assert found is not None
    assert len(found.machine.gpus) == 8


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ({"index": 9}, "spec.gpus", "indices"),
        ({"index": -1}, "spec.gpus.0.index", "greater than or equal to 0"),
        ({"pciAddress": "x"}, "spec.gpus.0.pciAddress", "match pattern"),
    ],
)
def test_node_topologies_that_make_no_machine_are_named(change: dict[str, Any], path: str, words: str) -> None:
    """As the definition does, and what it cannot compare."""
    body = a_node_topology()
    body["spec"]["gpus"][0].update(change)
    (problem,) = problems_of(body)
    assert path in str(problem)
    assert words in str(problem)
