"""How NodeResourceTopologyMatch rates nodes.

The tables are those of kubernetes-sigs/scheduler-plugins (Apache-2.0), pkg/noderesourcetopology: score_test.go
(TestNodeResourceScorePlugin, ...LeastNUMA, TestNodeResourcePartialDataScorePlugin) and least_numa_test.go (TestNUMANodesRequired,
TestNormalizeScore).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.builders import a_node, a_pod
from tests.plugins.numa import Desk, guaranteed, report

if TYPE_CHECKING:
    from scheduler.model.node_resource_topology import NodeResourceTopology

LEAST = {"scoringStrategy": {"type": "LeastNUMANodes"}}
ZONES = {
    "Node1": {"cpu": 4, "memory": "500Mi"},
    "Node2": {"cpu": 2, "memory": "50Mi"},
    "Node3": {"cpu": 6, "memory": "60Mi"},
}
POD = guaranteed({"cpu": 2, "memory": "20Mi"})


def three_nodes(**fields: Any) -> list[NodeResourceTopology]:
    """Return nodes of two equal NUMA nodes."""
    return [report(name, zone, zone, **fields) for name, zone in ZONES.items()]


@pytest.mark.parametrize(
    ("strategy", "best", "score"),
    [
        ("MostAllocated", "Node2", 70),  # (2/2 + 20/50) / 2
        ("BalancedAllocation", "Node3", 100),  # 2/6 and 20/60 are equal
        ("LeastAllocated", "Node1", 73),  # (2/4 + 480/500) / 2
    ],
)
def test_best_node_by_fullness(strategy: str, best: str, score: int) -> None:
    """TestNodeResourceScorePlugin."""
    scores = Desk(*three_nodes(), args={"scoringStrategy": {"type": strategy}}).scores(POD)
    assert max(scores, key=lambda name: scores[name]) == best
    assert scores[best] == score


@pytest.mark.parametrize(
    ("strategy", "score"), [("MostAllocated", 27), ("LeastAllocated", 73), ("BalancedAllocation", 89)]
)
def test_nodes_without_report_have_nothing(strategy: str, score: int) -> None:
    """TestNodeResourcePartialDataScorePlugin."""
    bare = [a_node(name).build() for name in ("Node2", "Node3")]
    desk = Desk(*three_nodes()[:1], nodes=bare, args={"scoringStrategy": {"type": strategy}})
    assert desk.scores(POD) == {"Node1": score, "Node2": 0, "Node3": 0}


def test_weights_count() -> None:
    """Of cpu 50 three times, memory 96 once: 246 / 4 = 61."""
    resources = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]
    desk = Desk(*three_nodes(), args={"scoringStrategy": {"type": "LeastAllocated", "resources": resources}})
    assert desk.scores(POD)["Node1"] == 61


def test_containers_count_with_their_mean_and_pods_as_one() -> None:
    """Of cpu and memory: (50 + 96) / 2 = 73 and (25 + 92) / 2 = 58, mean 65; together 6 of 4 cores fit nowhere."""
    pod = guaranteed({"cpu": 2, "memory": "20Mi"}, {"cpu": 3, "memory": "40Mi"})
    assert Desk(*three_nodes()).scores(pod)["Node1"] == 65
    # Of cpu, which does not fit, 0; of memory 440/500: (0 + 88) / 2.
    assert Desk(*three_nodes(scope="pod")).scores(pod)["Node1"] == 44


def test_pods_that_are_not_guaranteed_find_all_nodes_equal() -> None:
    """As upstream, which gives 100 to all."""
    pod = a_pod().patch_spec(containers=[{"name": "c", "resources": {"requests": {"cpu": "1"}}}])
    desk = Desk(*three_nodes())
    assert desk.scores(pod) == dict.fromkeys(ZONES, 100)
    assert desk.plugin.pre_score(None, pod.build(), None) is not None  # type: ignore[arg-type]


def need(cpu: int, memory: str = "50Mi", **more: int) -> dict[str, Any]:
    """Return what a container asks."""
    return {"cpu": cpu, "memory": memory, **more}


@pytest.mark.parametrize(
    ("scope", "containers", "expected"),
    [
        ("container", [need(2)], (94, 94, 94)),
        ("container", [need(4)], (94, 82, 94)),
        ("container", [need(6)], (82, 0, 94)),
        ("container", [need(2), need(2)], (94, 94, 94)),
        ("container", [need(1), need(3)], (94, 82, 94)),
        ("container", [need(5), need(3)], (82, 0, 94)),
        ("pod", [need(2), need(2)], (94, 82, 82)),
        ("pod", [need(1), need(3)], (94, 82, 82)),
        ("pod", [need(5), need(3)], (82, 0, 82)),
    ],
)
def test_least_numa_nodes(scope: str, containers: Any, expected: tuple[int, int, int]) -> None:
    """TestNodeResourceScorePluginLeastNUMA; the policy is best-effort."""
    desk = Desk(*three_nodes(policy="best-effort", scope=scope), args=LEAST)
    assert desk.scores(guaranteed(*containers)) == dict(zip(ZONES, expected, strict=True))


FOUR = [
    {0: 10, 1: 12, 2: 20, 3: 20},
    {0: 12, 1: 10, 2: 20, 3: 20},
    {0: 20, 1: 20, 2: 10, 3: 12},
    {0: 20, 1: 20, 2: 12, 3: 10},
]


def four_zones(name: str, *gpus: int) -> NodeResourceTopology:
    """Return a node of four NUMA nodes in two sockets."""
    return report(name, *[need(2, gpu=count) for count in gpus], costs=FOUR, policy="best-effort")


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([need(2, gpu=1)], (94, 94)),
        ([need(2, gpu=2)], (82, 76)),
        ([need(2, gpu=2), need(2)], (82, 76)),
    ],
)
def test_distance_counts(containers: Any, expected: tuple[int, int]) -> None:
    """GPUs in the NUMA nodes 0 and 1, which are near; or in 0 and 2, which are not."""
    desk = Desk(four_zones("Node1", 1, 1, 0, 0), four_zones("Node2", 1, 0, 1, 0), args=LEAST)
    assert desk.scores(guaranteed(*containers)) == dict(zip(("Node1", "Node2"), expected, strict=True))


EIGHT = {
    0: (10, 20, 40, 30, 20, 30, 50, 40),
    1: (20, 10, 30, 40, 50, 20, 40, 50),
    2: (40, 30, 10, 20, 40, 50, 20, 30),
    3: (30, 40, 20, 10, 30, 20, 40, 50),
    4: (20, 50, 40, 30, 10, 50, 30, 20),
    5: (30, 20, 50, 20, 50, 10, 50, 40),
    6: (50, 40, 20, 40, 30, 50, 10, 30),
    7: (40, 50, 30, 50, 20, 40, 30, 10),
}


@pytest.mark.parametrize(
    ("without_memory", "expected"),
    [
        ((), 100 - 3 * 12 + 6),  # NUMA nodes 0, 1 and 5 are as near as three can be
        ((1, 3, 5, 7), 100 - 3 * 12),  # 2, 4 and 6 are not, but the others have no memory
    ],
)
def test_eight_numa_nodes(without_memory: tuple[int, ...], expected: int) -> None:
    """TestNUMANodesRequired, "8 NUMA node ...": each has one GPU and the pod wants three."""
    full = {"gpu": 1, "cpu": 4, "memory": "5Gi"}
    zones = [{k: v for k, v in full.items() if k != "memory" or n not in without_memory} for n in EIGHT]
    costs = [dict(enumerate(row)) for row in EIGHT.values()]
    desk = Desk(report("n", *zones, costs=costs, policy="restricted"), args=LEAST)
    assert desk.scores(guaranteed({"gpu": 3, "cpu": 3, "memory": "2Gi"})) == {"n": expected}


@pytest.mark.parametrize(("gpus", "expected"), [((1, 1, 0, 0), 100 - 2 * 12 + 6), ((1, 0, 0, 1), 100 - 2 * 12)])
def test_numbers_need_not_follow_each_other(gpus: tuple[int, ...], expected: int) -> None:
    """TestNUMANodesRequired, "4 NUMA node ..., non sequential ids"."""
    costs = [{2 * other: value for other, value in row.items()} for row in FOUR]
    zones = [{"gpu": count, "cpu": 4, "memory": "5Gi"} for count in gpus]
    desk = Desk(report("n", *zones, costs=costs, numbers=(0, 2, 4, 6), policy="restricted"), args=LEAST)
    assert desk.scores(guaranteed({"gpu": 2, "cpu": 2, "memory": "2Gi"})) == {"n": expected}


def test_all_eight_numa_nodes() -> None:
    """TestNormalizeScore: 100 - 8 × 12, and half a share where nothing could be nearer."""
    zones = [{"cpu": 1, "memory": "1Gi"}] * 8
    desk = Desk(report("n", *zones, policy="restricted"), args=LEAST)
    assert desk.scores(guaranteed({"cpu": 8, "memory": "1Gi"})) == {"n": 10}


def test_what_no_numa_node_tells_of_does_not_count() -> None:
    """Upstream gives 100 if it is all that is asked; if it comes with cpu, we rate cpu where upstream gives 0."""
    machine = a_node("Node1").offer("example.com/nic", 4).build()
    desk = Desk(three_nodes(policy="best-effort")[0], nodes=[machine], args=LEAST)
    assert desk.scores(guaranteed(need(2) | {"example.com/nic": 1})) == {"Node1": 94}
