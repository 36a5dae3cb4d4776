"""NodeResourcesBalancedAllocation, ImageLocality and GPUIsolation: scores by the formulae of the specification."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler.framework.cycle_state import CycleState
from scheduler.plugins.gpu_isolation import GPUIsolation
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from tests.builders import GPU, a_node, a_pod, snapshot_of

from .calling import make, scores, skips

MI = 2**20


@pytest.mark.parametrize(
    ("old", "pod", "score"),
    [
        # Shares 0/0 before (deviation 0, 100), 0.5/0.1 after (0.2, 80): 50 + (50 - 20)/2.
        (None, a_pod().cpu(5).memory("10Gi"), 65),
        # 0.5/0.1 before (80), 0.5/0.5 after (100): 50 + (50 + 20)/2.
        (a_pod("old").cpu(5).memory("10Gi"), a_pod().memory("40Gi"), 85),
        # Equal shares before and after.
        (None, a_pod().cpu(1).memory("10Gi"), 75),
        # 0.1/0 after: deviation 0.05, 95: 50 + (50 - 5)/2 = 72.5, rounded down.
        (None, a_pod().cpu(1), 72),
        # A share above 1 counts as 1: 1.5 and 0 before (50), 1 and 1 after (100).
        (a_pod("old").cpu(15), a_pod().memory("100Gi"), 100),
    ],
)  # fmt: skip
def test_balance_of_two_resources(old: Any, pod: Any, score: int) -> None:
    """On a node of 10 cores and 100Gi: 50 + (50 + with - without)/2."""
    bound = [old.on("n")] if old else []
    assert scores(make(NodeResourcesBalancedAllocation), pod, [a_node("n").cpu(10).memory("100Gi")], bound) == {
        "n": score
    }


def test_balance_of_three_resources_is_a_standard_deviation() -> None:
    """Shares 0.6, 0, 0: deviation sqrt((0.4² + 0.2² + 0.2²)/3) = 0.2828; 100·0.7171 = 71; 50 + (50 - 29)/2 = 60."""
    args = {"resources": [{"name": name} for name in ("cpu", "memory", GPU)]}
    nodes = [a_node("gpu").cpu(10).memory("100Gi").gpus(10), a_node("plain").cpu(10).memory("100Gi")]
    plugin = make(NodeResourcesBalancedAllocation, args)
    # On the node without GPUs cpu and memory are all there is.
    assert scores(plugin, a_pod().gpus(6), nodes) == {"gpu": 60, "plain": 75}
    # A pod that asks for no GPU is balanced over cpu and memory alone: 0.6/0, 70: 50 + (50 - 30)/2.
    assert scores(plugin, a_pod().cpu(6), nodes) == {"gpu": 60, "plain": 60}


def test_two_resources_of_three_are_compared_without_a_root() -> None:
    """Where one of three is not offered, shares 1/25 and 18/25 deviate by 0.34: 66, and 50 + (50 - 34)/2 = 58.

    The root of the mean square would give 65.99, cut to 65.
    """
    args = {"resources": [{"name": name} for name in ("cpu", "memory", "ephemeral-storage")]}
    node, pod = a_node("n").cpu(25).memory("25Gi"), a_pod().cpu(1).memory("18Gi")
    assert scores(make(NodeResourcesBalancedAllocation, args), pod, [node]) == {"n": 58}


def test_balance_leaves_pods_alone_that_request_nothing() -> None:
    """They would all gather on the node that happens to be most balanced."""
    plugin, nodes = make(NodeResourcesBalancedAllocation), snapshot_of([a_node("n")]).nodes
    assert skips(plugin.pre_score(CycleState(), a_pod().build(), nodes))
    assert skips(plugin.pre_score(CycleState(), a_pod().gpus(1).cpu(0).build(), nodes))
    assert plugin.pre_score(CycleState(), a_pod().cpu(1).build(), nodes) is None
    assert (
        plugin.score_all(CycleState(), a_pod().cpu(1).build(), nodes.select(np.array([], dtype=np.int64))).tolist()
        == []
    )


@pytest.mark.parametrize(
    ("size_mi", "holders", "score"),
    [
        (1000, 4, 100),  # everywhere: the whole size, at the upper bound
        (23, 4, 0),
        (511.5, 4, 50),  # half way between 23 and 1000
        (1000, 1, 23),  # 1000/4 = 250: (250 - 23)*100/977 = 23.2
        (92, 1, 0),  # 92/4 = 23
        (5000, 4, 100),
        (0, 0, 0),
    ],
)
def test_an_image_counts_by_size_and_spread(size_mi: float, holders: int, score: int) -> None:
    """Size times the share of nodes that have it, between 23 and 1000 MiB."""
    nodes = [a_node(f"n{i}") for i in range(4)]
    for node in nodes[:holders]:
        node.image("example.test/big:v1", int(size_mi * MI))
    expected = {f"n{i}": score if i < holders else 0 for i in range(4)}
    assert scores(make(ImageLocality), a_pod().image("example.test/big:v1"), nodes) == expected


def test_every_image_raises_the_upper_bound() -> None:
    """Of two images one is there with 1000: (1000 - 23)*100/(2000 - 23) = 49.4; init containers count like the others."""
    node = a_node("n").image("a:1", 1000 * MI)
    assert scores(make(ImageLocality), a_pod().image("a:1").container("b", image="b:1"), [node]) == {"n": 49}
    assert scores(make(ImageLocality), a_pod().image("b:1").init("i", image="a:1"), [node]) == {"n": 49}


@pytest.mark.parametrize(
    ("image", "is_there"),
    [("r:5000/a", True), ("r:5000/a:latest", True), ("r:5000/a:v1", False), ("r:5000/a@sha256:0", False)],
)
def test_an_image_without_a_tag_is_the_latest(image: str, is_there: bool) -> None:
    """A port in the registry's name is no tag."""
    node = a_node("n").image("r:5000/a:latest", 1000 * MI)
    assert scores(make(ImageLocality), a_pod().image(image), [node]) == {"n": 100 if is_there else 0}


def test_an_image_has_one_size() -> None:
    """That of the node that told of it first: 2 of 2 nodes have it, (500 - 23)*100/(1000 - 23) = 48.8."""
    nodes = [a_node("b").image("a:1", 500 * MI), a_node("a").image("a:1", 900 * MI)]
    assert scores(make(ImageLocality), a_pod().image("a:1"), nodes) == {"a": 48, "b": 48}


def test_a_node_without_size_still_has_the_image() -> None:
    """A size of 0 counts as a size, and the node as one that has it: (1000*1/2 - 23)*100/977 would be too little."""
    nodes = [a_node("a").image("a:1", 1000 * MI), a_node("b").image("a:1", 0)]
    assert scores(make(ImageLocality), a_pod().image("a:1"), nodes) == {"a": 100, "b": 100}


def test_the_share_of_an_image_is_of_all_nodes() -> None:
    """Not of the feasible ones that are scored."""
    snapshot = snapshot_of([a_node("a").image("a:1", 1000 * MI), a_node("b"), a_node("c"), a_node("d")])
    only = snapshot.nodes.select(np.array([0]))
    assert make(ImageLocality).score_all(CycleState(), a_pod().image("a:1").build(), only).tolist() == [23]


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (a_pod().cpu(1), {"gpu": 0, "none-left": 100, "plain": 100, "tpu": 0}),
        (a_pod().gpus(1), {"gpu": 100, "none-left": 100, "plain": 100, "tpu": 100}),
        (a_pod().gpus(0), {"gpu": 0, "none-left": 100, "plain": 100, "tpu": 0}),
        (a_pod().request("nvidia.com/mig-1g.5gb", 1), {"gpu": 100, "none-left": 100, "plain": 100, "tpu": 100}),
        (a_pod().request("example.com/gpu-shared", 1), {"gpu": 100, "none-left": 100, "plain": 100, "tpu": 100}),
        (a_pod().request("example.com/fpga", 1), {"gpu": 0, "none-left": 100, "plain": 100, "tpu": 0}),
    ],
)
def test_pods_without_gpus_keep_off_gpu_nodes(pod: Any, expected: dict[str, int]) -> None:
    """A node offers an accelerator if it has at least one; pods that ask for any do not mind."""
    nodes = [
        a_node("gpu").gpus(8),
        a_node("none-left").gpus(0),
        a_node("plain"),
        a_node("tpu").offer("google.com/tpu", 4),
    ]
    assert scores(make(GPUIsolation), pod, nodes) == expected


def test_what_is_an_accelerator_can_be_set() -> None:
    """The list replaces the default."""
    plugin = make(GPUIsolation, {"resources": ["example.com/fpga"]})
    nodes = [a_node("fpga").offer("example.com/fpga", 1), a_node("gpu").gpus(8)]
    assert scores(plugin, a_pod().cpu(1), nodes) == {"fpga": 0, "gpu": 100}


def test_two_plugins_with_other_arguments_share_a_snapshot() -> None:
    """Columns are cached by the arguments, and what a plugin returns may be changed by its caller."""
    snapshot = snapshot_of([a_node("fpga").offer("example.com/fpga", 1), a_node("gpu").gpus(8)])
    pod, state = a_pod().cpu(1).build(), CycleState()
    first = make(GPUIsolation).score_all(state, pod, snapshot.nodes)
    first *= 7
    assert make(GPUIsolation).score_all(state, pod, snapshot.nodes).tolist() == [100, 0]
    other = make(GPUIsolation, {"resources": ["example.com/fpga"]})
    assert other.score_all(state, pod, snapshot.nodes).tolist() == [0, 100]
