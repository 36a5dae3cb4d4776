"""NodeResourcesFit: room by resource, and every scoring strategy, in integer arithmetic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from scheduler.framework.broken_line import ShapePoint, broken_line
from scheduler.framework.change import Change
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import ClusterEvent, Code, Kind
from scheduler.model.devices import DeviceClass
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.state.cluster import ClusterState
from tests.builders import GPU, a_node, a_pod, snapshot_of

from .calling import make, refusals, scores

NOW, NEVER = Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE


@pytest.mark.parametrize(
    ("pod", "code", "texts"),
    [
        (a_pod().cpu("1"), None, []),
        (a_pod().cpu("1001m"), NOW, ["Insufficient cpu"]),
        (a_pod().cpu("2"), NOW, ["Insufficient cpu"]),
        (a_pod().cpu("2001m"), NEVER, ["Insufficient cpu"]),
        (a_pod().memory("3Gi"), NOW, ["Insufficient memory"]),
        (a_pod().cpu("2").memory("3Gi"), NOW, ["Insufficient cpu", "Insufficient memory"]),
        (a_pod().cpu("2").memory("5Gi"), NEVER, ["Insufficient cpu", "Insufficient memory"]),
        (a_pod().gpus(1), NEVER, [f"Insufficient {GPU}"]),
        (a_pod().gpus(0), None, []),
        (a_pod().request("ephemeral-storage", "1"), NEVER, ["Insufficient ephemeral-storage"]),
        (a_pod(), None, []),
    ],
)
def test_a_request_must_fit_what_is_left(pod: Any, code: Code | None, texts: list[str]) -> None:
    """2 cores and 4Gi of which half is taken; one resource beyond what there is makes the whole answer final."""
    node = a_node("n").cpu(2).memory("4Gi")
    found = refusals(make(NodeResourcesFit), pod, [node], [a_pod("old").cpu(1).memory("2Gi").on("n")])
    assert found == ({} if code is None else {"n": (code, texts)})


@pytest.mark.parametrize("limit", [0, 1])
def test_too_many_pods_can_always_be_cured(limit: int) -> None:
    """A pod that requests nothing counts too; even a node for no pods at all is only full, as in kube-scheduler."""
    found = refusals(make(NodeResourcesFit), a_pod(), [a_node("n").pods(limit)], [a_pod("old").on("n")])
    assert found == {"n": (NOW, ["Too many pods"])}


def test_an_over_committed_node_takes_pods_that_need_nothing_of_it() -> None:
    """What is short counts only if the pod asks for it."""
    node, old = a_node("n").cpu(1), a_pod("old").cpu(4).on("n")
    assert refusals(make(NodeResourcesFit), a_pod().memory("1Gi"), [node], [old]) == {}
    assert refusals(make(NodeResourcesFit), a_pod().cpu("1m"), [node], [old]) == {"n": (NOW, ["Insufficient cpu"])}


@pytest.mark.parametrize(
    ("args", "is_refused"),
    [
        ({}, True),
        ({"ignoredResources": ["example.com/fpga"]}, False),
        ({"ignoredResources": ["example.com/other"]}, True),
        ({"ignoredResourceGroups": ["example.com"]}, False),
        ({"ignoredResourceGroups": ["example"]}, True),
    ],
)
def test_extended_resources_can_be_left_to_others(args: dict[str, Any], is_refused: bool) -> None:
    """By name or by group."""
    found = refusals(make(NodeResourcesFit, args), a_pod().request("example.com/fpga", 1), [a_node("n")])
    assert bool(found) is is_refused


def test_own_resources_cannot_be_left_to_others() -> None:
    """Cpu, memory, huge pages and kubernetes.io names always count."""
    args = {"ignoredResources": ["cpu", "hugepages-2Mi"]}
    pod = a_pod().cpu(65).request("hugepages-2Mi", "2Mi")
    assert refusals(make(NodeResourcesFit, args), pod, [a_node("n")])["n"][0] is NEVER


def test_reasons_say_what_would_help() -> None:
    """Evictions cure "not now" only; numbers name the request."""
    snapshot = snapshot_of([a_node("big").cpu(4), a_node("small").cpu(1)], [a_pod("old").cpu(4).on("big")])
    verdicts = make(NodeResourcesFit).filter_all(CycleState(), a_pod().cpu(2).build(), snapshot.nodes)
    full, small = (verdicts.status_at(row).reasons[0] for row in (0, 1))
    assert (full.kind, small.kind) == (Kind.NOT_NOW, Kind.NEVER)
    assert full.cures & ClusterEvent.POD_REMOVED
    assert not small.cures & ClusterEvent.POD_REMOVED
    for event in (ClusterEvent.NODE_ADDED, ClusterEvent.NODE_ALLOCATABLE, ClusterEvent.POD_UPDATED):
        assert full.cures & small.cures & event
    assert full.numbers == (("resource", "cpu"), ("requested", 2000))


def strategy(kind: str, resources: dict[str, int], **more: Any) -> dict[str, Any]:
    """Return arguments with a strategy."""
    listed = [{"name": name, "weight": weight} for name, weight in resources.items()]
    return {"scoringStrategy": {"type": kind, "resources": listed, **more}}


NODES = [
    a_node("empty").cpu(4).memory("8Gi").gpus(8),
    a_node("half").cpu(4).memory("8Gi").gpus(8),
    a_node("plain").cpu(4).memory("8Gi"),
]
BOUND = [a_pod("old").cpu(2).memory("2Gi").gpus(4).on("half")]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        # cpu (4-1)*100/4 = 75, (4-3)*100/4 = 25; memory (8-3)*100/8 = 62, (8-5)*100/8 = 37; means rounded down.
        (None, {"empty": 68, "half": 31, "plain": 68}),
        (strategy("LeastAllocated", {"cpu": 3, "memory": 1}), {"empty": 71, "half": 28, "plain": 71}),
        # cpu 25, 75; memory 37, 62.
        (strategy("MostAllocated", {"cpu": 1, "memory": 1}), {"empty": 31, "half": 68, "plain": 31}),
        # GPUs 2/8 = 25, 6/8 = 75; a node without GPUs is scored by the rest, or not at all.
        (strategy("MostAllocated", {GPU: 3, "cpu": 1}), {"empty": 25, "half": 75, "plain": 25}),
        (strategy("LeastAllocated", {GPU: 1}), {"empty": 75, "half": 25, "plain": 0}),
        # A resource that the pod does not request is left out of the weights, but for cpu, memory, ephemeral storage.
        (strategy("MostAllocated", {"example.com/fpga": 100, "cpu": 1}), {"empty": 25, "half": 75, "plain": 25}),
        (strategy("MostAllocated", {"ephemeral-storage": 100, "cpu": 1}), {"empty": 25, "half": 75, "plain": 25}),
    ],
)  # fmt: skip
def test_least_and_most_allocated(args: dict[str, Any] | None, expected: dict[str, int]) -> None:
    """Weighted means of shares in percent, everything rounded down."""
    pod = a_pod().cpu(1).memory("3Gi").gpus(2)
    assert scores(make(NodeResourcesFit, args), pod, NODES, BOUND) == expected


SHAPE = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}


@pytest.mark.parametrize(
    ("resources", "shape", "expected"),
    [
        # cpu 25 and memory 37 percent: (25+37)/2 = 31; half: (75+62)/2 = 68.5, rounded up.
        ({"cpu": 1, "memory": 1}, SHAPE["shape"], {"empty": 31, "half": 69, "plain": 31}),
        # 100 at or below 50 percent, falling to 0 at 100: 75 percent gives 100 - 100*25/50 = 50; 62 gives 100 - 24 = 76.
        ({"cpu": 1, "memory": 1}, [{"utilization": 50, "score": 10}, {"utilization": 100, "score": 0}],
         {"empty": 100, "half": 63, "plain": 100}),
        # A resource that scores 0 drops out of the weights: cpu alone counts, 25 or 75 percent.
        ({"cpu": 1, "ephemeral-storage": 9}, SHAPE["shape"], {"empty": 25, "half": 75, "plain": 25}),
        # Before the first point and after the last one the line is level.
        ({"cpu": 1}, [{"utilization": 30, "score": 2}, {"utilization": 70, "score": 5}], {"empty": 20, "half": 50, "plain": 20}),
    ],
)  # fmt: skip
def test_requested_to_capacity_ratio(resources: dict[str, int], shape: list[Any], expected: dict[str, int]) -> None:
    """The mean is rounded, and zero scores do not count."""
    args = strategy("RequestedToCapacityRatio", resources, requestedToCapacityRatio={"shape": shape})
    assert scores(make(NodeResourcesFit, args), a_pod().cpu(1).memory("3Gi"), NODES, BOUND) == expected


def test_requested_to_capacity_ratio_counts_what_scores() -> None:
    """A resource that scores 0 does not pull the mean down; one that is not offered does not pull it up."""
    rising = {"requestedToCapacityRatio": SHAPE}
    rising_args = strategy("RequestedToCapacityRatio", {"cpu": 1, "ephemeral-storage": 9}, **rising)
    node = a_node("n").cpu(4).offer("ephemeral-storage", "100Gi")
    assert scores(make(NodeResourcesFit, rising_args), a_pod().cpu(1), [node]) == {"n": 25}
    falling = {"shape": [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]}
    more = {"requestedToCapacityRatio": falling}
    falling_args = strategy("RequestedToCapacityRatio", {"cpu": 1, "ephemeral-storage": 1}, **more)
    nodes = [node, a_node("without").cpu(4)]
    # cpu 25 percent scores 75; an idle disk scores 100, where there is one: (75 + 100)/2 = 87.5.
    assert scores(make(NodeResourcesFit, falling_args), a_pod().cpu(1), nodes) == {"n": 88, "without": 75}


def test_a_falling_line_rounds_towards_zero() -> None:
    """From 10 at 0 to 0 at 3: the fall at 1 is 100/3 = 33, at 2 200/3 = 66."""
    assert broken_line([ShapePoint(utilization=0, score=10), ShapePoint(utilization=3, score=0)])[:5].tolist() == [
        100,
        67,
        34,
        0,
        0,
    ]


def test_beyond_capacity_scores_the_ends() -> None:
    """Foreign pods may over-commit a node: nothing is free, everything is used."""
    node, old, pod = a_node("n").cpu(1).memory("1Gi"), a_pod("old").cpu(2).memory("2Gi").on("n"), a_pod().cpu(1)
    shape = {"requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 7}]}}
    assert scores(make(NodeResourcesFit), pod, [node], [old]) == {"n": 0}
    assert scores(make(NodeResourcesFit, strategy("MostAllocated", {"cpu": 1})), pod, [node], [old]) == {"n": 100}
    ratio = make(NodeResourcesFit, strategy("RequestedToCapacityRatio", {"cpu": 1}, **shape))
    assert scores(ratio, pod, [node], [old]) == {"n": 70}


def test_silent_containers_count_in_the_score() -> None:
    """A pending pod without requests counts 100m and 200 MiB: (1000-100)*100/1000 = 90, (1000-200)*100/1000 = 80."""
    assert scores(make(NodeResourcesFit), a_pod(), [a_node("n").cpu(1).memory("1000Mi")]) == {"n": 85}


def test_each_resource_may_have_its_own_strategy() -> None:
    """GPUs pack while cores spread: of two half-full nodes the one with GPUs in use and cores free wins."""
    resources = [{"name": GPU, "weight": 3, "type": "MostAllocated"}, {"name": "cpu", "weight": 1}]
    plugin = make(NodeResourcesFit, {"scoringStrategy": {"resources": resources}})
    nodes = [a_node(name).cpu(10).gpus(8) for name in ("gpus-used", "cores-used")]
    old = [a_pod("a").cpu(0).gpus(4).on("gpus-used"), a_pod("b").cpu(5).on("cores-used")]
    # (3*(4+2)*100/8 + (10-1)*100/10) / 4 = (225+90)/4, (3*25 + (10-6)*10)/4 = (75+40)/4
    assert scores(plugin, a_pod().cpu(1).gpus(2), nodes, old) == {"gpus-used": 78, "cores-used": 28}


def test_scores_are_whole_numbers_on_any_selection() -> None:
    """Wide forms answer for the rows they get, none included."""
    snapshot = snapshot_of(NODES, BOUND)
    plugin, pod = make(NodeResourcesFit), a_pod().cpu(1).memory("3Gi").build()
    for rows in ([1], [2, 0], []):
        found = plugin.score_all(CycleState(), pod, snapshot.nodes.select(np.array(rows, dtype=np.int64)))
        assert found.dtype == np.int64
        assert found.tolist() == [[68, 31, 68][row] for row in rows]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (strategy("MostAllocated", {"cpu": 0}), "greater than or equal to 1"),
        (strategy("MostAllocated", {"cpu": 101}), "less than or equal to 100"),
        (strategy("RequestedToCapacityRatio", {"cpu": 1}), "shape is required"),
        (strategy("Fullest", {"cpu": 1}), "LeastAllocated"),
        (strategy("LeastAllocated", {"cpu": 1}, requestedToCapacityRatio={"shape": []}), "at least 1 item"),
        (
            strategy("LeastAllocated", {}, requestedToCapacityRatio={"shape": [SHAPE["shape"][1], SHAPE["shape"][0]]}),
            "must rise",
        ),
        ({"ignoredResourceGroups": ["a/b"]}, "must not contain"),
        ({"scoringstrategy": {}}, "scoringstrategy"),
    ],
)
def test_arguments_are_checked(args: dict[str, Any], message: str) -> None:
    """As kube-scheduler checks them."""
    with pytest.raises(ValidationError, match=message):
        make(NodeResourcesFit, args)


def test_huge_pages_of_the_pod_as_a_whole_are_not_weighed() -> None:
    """Score sums containers, also for huge pages; Filter counts what the pod asks as a whole."""
    args = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "hugepages-2Mi"}]}}
    plugin, node = make(NodeResourcesFit, args), a_node("n").offer("hugepages-2Mi", "64Mi")
    whole = a_pod("p").pod_level(cpu="1", **{"hugepages-2Mi": "64Mi"})
    assert scores(plugin, whole, [node]) == {"n": 0}
    assert scores(plugin, whole.copy().request("hugepages-2Mi", "32Mi"), [node]) == {"n": 50}
    assert refusals(plugin, whole, [a_node("n").offer("hugepages-2Mi", "32Mi")]) != {}


def with_class(resource: str) -> Any:
    """Return the plugin in a cluster with a DeviceClass that stands for a resource."""
    cluster = ClusterState()
    cluster.objects.put(DeviceClass(name="gpu", extended_resource=resource))
    return NodeResourcesFit(None, SimpleNamespace(cluster=cluster))  # type: ignore[arg-type]


def test_a_resource_that_a_class_stands_for_is_left_to_devices_where_nothing_else_offers_it() -> None:
    """A node with a device plugin counts as ever; as upstream's `shouldDelegateResourceToDRA`."""
    nodes = [a_node("devices").cpu(8), a_node("plugin").cpu(8).gpus(2), a_node("small").cpu(1).gpus(4)]
    others = [a_pod("old").gpus(1).on("plugin"), a_pod("served").gpus(7).on("devices")]
    plugin, pod = with_class(GPU), a_pod().cpu(2).gpus(2)
    text = f"Insufficient {GPU}"
    assert refusals(plugin, pod, nodes, others) == {"plugin": (NOW, [text]), "small": (NEVER, ["Insufficient cpu"])}
    snapshot = snapshot_of(nodes, others)
    narrow = {
        node.name: plugin.filter(CycleState(), pod.build(), node) for node in map(snapshot.nodes.__getitem__, range(3))
    }
    assert narrow["devices"] is None
    assert [r.text for r in narrow["plugin"].reasons] == [text]
    assert plugin.counted_requests(pod.build()) == {"cpu": 2000}
    assert plugin.sign(pod.build()) == (GPU,)
    assert plugin.sign(a_pod().cpu(2).build()) == ()


def test_a_pod_that_lacks_a_resource_hears_of_the_class_that_comes_to_stand_for_it() -> None:
    """And of no other one."""
    reason = (
        make(NodeResourcesFit)
        .filter(CycleState(), a_pod().gpus(2).build(), snapshot_of([a_node("n")]).nodes[0])
        .reasons[0]
    )
    assert reason.cures & ClusterEvent.DEVICE_CLASS_CHANGED
    change = Change(ClusterEvent.DEVICE_CLASS_CHANGED, key=("", "gpu"))
    pod = a_pod().gpus(2).build()
    assert with_class(GPU).queueing_hint(ClusterEvent.DEVICE_CLASS_CHANGED, change, pod, reason)
    assert not with_class("example.com/other").queueing_hint(ClusterEvent.DEVICE_CLASS_CHANGED, change, pod, reason)
