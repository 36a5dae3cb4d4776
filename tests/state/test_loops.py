"""The compiled loops: what they return, beside the same in whole numbers and beside numpy."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.cycle_state import CycleState
from scheduler.state import loops
from scheduler.state.loops import MOST_PARTS, Near, Part, balance_gain, fewest_best, mean_share, sum_by, sum_near
from tests.builders import a_node, a_pod
from tests.plugins.asking import Cluster

GPU = "nvidia.com/gpu"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"

needs_compiled = pytest.mark.skipif(
    loops.compiled is None and os.environ.get("CI") != "true",
    reason="built without a C compiler; with CI=true that is a failure",
)


def floats(values: list[int]) -> Any:
    """Return a column."""
    return np.array(values, dtype=np.float64)


@st.composite
def resources(draw: Any, size: int) -> tuple[Part, list[int], list[int]]:
    """Draw what a resource adds, what is in use of it and what is offered."""
    most = draw(st.sampled_from((8, 64_000, 2**46)))
    offered = draw(st.lists(st.integers(0, most), min_size=size, max_size=size))
    used = draw(st.lists(st.integers(0, most), min_size=size, max_size=size))
    kept = floats([max(o - u, 0) * 100 for o, u in zip(offered, used, strict=True)])
    has = np.array([o > 0 for o in offered])
    part = Part(
        kept,
        floats([max(o, 1) for o in offered]),
        None if has.all() else has,
        float(draw(st.integers(0, most)) * 100),
        draw(st.booleans()),
        draw(st.integers(1, 100)),
    )
    return part, used, offered


@needs_compiled
@given(st.data(), st.integers(1, 40), st.integers(1, MOST_PARTS))
def test_means_are_those_of_whole_numbers(data, size, count):
    """Each share is rounded down, and so is the mean over the resources that a node offers."""
    drawn = [data.draw(resources(size)) for _ in range(count)]
    found = mean_share(tuple(part for part, _, _ in drawn))
    assert found is not None
    for node in range(size):
        total = weights = 0
        for part, used, offered in drawn:
            if offered[node]:
                left = max(max(offered[node] - used[node], 0) - int(part.taken) // 100, 0)
                counted = offered[node] - left if part.is_most else left
                total += part.weight * (100 * counted // offered[node])
                weights += part.weight
        assert found[node] == (total // weights if weights else 0)


@needs_compiled
@given(st.data(), st.integers(1, 40))
def test_gains_are_those_of_floats_one_by_one(data, size):
    """The operations are kube-scheduler's, in its order: |a - b| / 2 away from 1, then cut off."""
    amounts = st.lists(st.integers(1, 2**53), min_size=size, max_size=size)
    used, offered = [data.draw(amounts) for _ in (0, 1)], [data.draw(amounts) for _ in (0, 1)]
    more = [float(data.draw(st.integers(0, 2**46))) for _ in (0, 1)]
    base = np.array(data.draw(st.lists(st.integers(50, 150), min_size=size, max_size=size)), dtype=np.int16)
    pairs = [(floats(used[k]), floats(offered[k]), more[k]) for k in (0, 1)]
    found = balance_gain(pairs[0], pairs[1], base)
    assert found is not None
    for node in range(size):
        shares = [min((used[k][node] + more[k]) / offered[k][node], 1.0) for k in (0, 1)]
        assert found[node] == (int(base[node]) + int((1 - abs(shares[0] - shares[1]) / 2) * 100)) >> 1


@needs_compiled
@pytest.mark.parametrize("size", [511, 512, 513, 1300])
def test_every_node_is_reached(size):
    """Nodes are worked through in blocks; none is left out at their borders."""
    offered = floats([100] * size)
    kept = floats([k % 101 * 100 for k in range(size)])
    found = mean_share((Part(kept, offered, None, 0.0, is_most=False, weight=1),))
    assert found is not None
    assert found.tolist() == [k % 101 for k in range(size)]


@needs_compiled
@pytest.mark.parametrize(
    "parts",
    [
        (),
        ((1, 2),),
        (1,),
        ((floats([1]), floats([1, 2]), None, 0.0, False, 1),),
        ((floats([1]), "x", None, 0.0, False, 1),),
    ],
)
def test_arrays_that_do_not_match_are_errors(parts):
    """Nobody reads beyond an array."""
    assert loops.compiled is not None
    with pytest.raises((ValueError, TypeError)):
        loops.compiled.mean_share(parts, np.empty(1, dtype=np.int64))
    with pytest.raises((ValueError, TypeError)):
        loops.compiled.balance_gain((floats([1]), floats([1]), 0.0), (floats([1]), floats([1]), 0.0), 1, parts)


class Fleeting:
    """A sequence whose elements nobody holds."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        if index > 2:
            raise IndexError
        return np.ones(600) if index < 2 else 0.5


INTS = np.zeros(4, dtype=np.int64)
UNALIGNED = np.frombuffer(bytearray(33), dtype=np.uint8)[1:]


@needs_compiled
@pytest.mark.parametrize(
    "column",
    [
        INTS.astype(np.float64),
        INTS.astype(np.uint64),
        INTS.astype(">i8"),
        np.zeros(8, dtype=np.int32),
        np.zeros((4, 2), dtype=np.int32),
        np.zeros((4, 2), dtype=np.int64),
        np.zeros(8, dtype=np.int64)[::2],
        UNALIGNED.view(np.int64),
        bytearray(32),
        [0, 0, 0, 0],
        None,
    ],
    ids=lambda column: f"{type(column).__name__} {getattr(column, 'dtype', '')}{getattr(column, 'shape', '')}",
)
def test_arrays_of_another_kind_are_errors(column):
    """Nothing is read as what it is not: another type, order of bytes or shape, gaps, or off the borders of words."""
    assert loops.compiled is not None
    wrong = (ValueError, TypeError, BufferError)
    out = np.empty(4, dtype=np.int64)
    for columns in ((column, INTS, out), (INTS, column, out), (INTS, INTS, column)):
        with pytest.raises(wrong):
            loops.compiled.sum_by(*columns)
    for parts in (((column, INTS, 1.0, 0.0),), ((INTS, column, 1.0, 0.0),)):
        if parts[0][1] is not None:
            with pytest.raises(wrong):
                loops.compiled.sum_near(parts, 0.0, out)
    for columns in ((column, out), (INTS, column)):
        with pytest.raises(wrong):
            loops.compiled.fewest_best(*columns)


@needs_compiled
def test_whole_numbers_are_no_floats():
    """Both have eight bytes."""
    assert loops.compiled is not None
    column, out = floats([1, 1, 1, 1]), np.empty(4, dtype=np.int64)
    for kept, offered, has in ((INTS, column, None), (column, INTS, None), (column, column, column)):
        with pytest.raises((TypeError, ValueError)):
            loops.compiled.mean_share(((kept, offered, has, 0.0, False, 1),), out)
    with pytest.raises(TypeError, match="float64 is needed"):
        loops.compiled.balance_gain((INTS, column, 0.0), (column, column, 0.0), np.zeros(4, dtype=np.int16), out)
    with pytest.raises(TypeError, match="int16 is needed"):
        loops.compiled.balance_gain((column, column, 0.0), (column, column, 0.0), INTS, out)


@needs_compiled
def test_what_is_read_only_is_read_and_not_written():
    """As numpy has it."""
    assert loops.compiled is not None
    column = np.arange(4, dtype=np.int64)
    column.flags.writeable = False
    out = np.empty(4, dtype=np.int64)
    assert loops.compiled.fewest_best(column, out)
    assert out.tolist() == [100, 66, 33, 0]
    with pytest.raises((ValueError, BufferError)):
        loops.compiled.fewest_best(out, column)


@needs_compiled
def test_arguments_are_tuples_that_hold_their_arrays():
    """The elements of other sequences may be gone while they are looked at."""
    assert loops.compiled is not None
    out = np.empty(600, dtype=np.int64)
    fleeting: Any = Fleeting()
    with pytest.raises(TypeError, match="tuple"):
        loops.compiled.balance_gain(fleeting, fleeting, np.zeros(600, dtype=np.int16), out)
    with pytest.raises(TypeError, match="tuple"):
        loops.compiled.mean_share((fleeting,), out)


@needs_compiled
def test_no_nodes_are_no_error():
    """Empty columns give empty scores."""
    none = np.empty(0, dtype=np.int64)
    assert mean_share((Part(floats([]), floats([]), None, 0.0, is_most=False, weight=1),)) is not None
    assert sum_by(none, none, 2) is not None
    assert fewest_best(none) is not None


@needs_compiled
@given(st.data(), st.integers(0, 1200), st.integers(1, 700))
def test_sums_are_those_of_whole_numbers(data, size, domains):
    """Each count goes to its number, whatever that is."""
    numbers = data.draw(st.lists(st.integers(0, domains - 1), min_size=size, max_size=size))
    counts = data.draw(st.lists(st.integers(-3, 2**40), min_size=size, max_size=size))
    expected = [0] * domains
    for number, count in zip(numbers, counts, strict=True):
        expected[number] += count
    found = sum_by(np.array(numbers, dtype=np.int64), np.array(counts, dtype=np.int64), domains)
    assert found is not None
    assert found.tolist() == expected


@needs_compiled
@given(st.data(), st.integers(1, 40), st.sampled_from((3, 600)))
def test_pods_near_are_weighed_as_floats_one_by_one(data, size, domains):
    """By domain, few or many, or by node; a product, a sum, the next constraint, the shift, and cut off."""
    parts, expected = [], [0.0] * size
    for _ in range(data.draw(st.integers(1, MOST_PARTS))):
        weight, more = data.draw(st.floats(0.5, 12)), float(data.draw(st.integers(0, 2**27)))
        is_host = data.draw(st.booleans())
        length = size if is_host else domains
        counts = data.draw(st.lists(st.integers(0, 50_000), min_size=length, max_size=length))
        numbers = (
            range(size) if is_host else data.draw(st.lists(st.integers(0, domains - 1), min_size=size, max_size=size))
        )
        expected = [total + (counts[number] * weight + more) for total, number in zip(expected, numbers, strict=True)]
        column = None if is_host else np.array(numbers, dtype=np.int64)
        parts.append(Near(np.array(counts, dtype=np.int64), column, weight, more))
    found = sum_near(tuple(parts), 0.25, size)
    assert found is not None
    assert found.tolist() == [int(total + 0.25) for total in expected]


@needs_compiled
@given(st.lists(st.integers(0, 2**24 - 1), min_size=1, max_size=40) | st.lists(st.just(0), min_size=1, max_size=3))
def test_the_fewest_are_the_best(scores):
    """kube-scheduler's formula in whole numbers."""
    found, lowest, highest = fewest_best(np.array(scores, dtype=np.int64)), min(scores), max(scores)
    assert found is not None
    assert found.tolist() == [100 * (highest + lowest - s) // highest if highest else 100 for s in scores]


@needs_compiled
def test_what_the_loops_do_not_do_is_left_to_numpy():
    """Numbers that would not be exact, and domains that do not exist."""
    column = np.array([0, 2**24], dtype=np.int64)
    assert fewest_best(column) is None
    assert fewest_best(np.array([-1, 5], dtype=np.int64)) is None
    assert sum_near((Near(column, None, 1.0, 2.0**31),), 0.0, 2) is None
    assert sum_near((Near(column, None, 1.0, 0.0),) * (MOST_PARTS + 1), 0.0, 2) is None
    for numbers in ([0, 3], [-1, 0]):
        with pytest.raises(ValueError, match="domain"):
            sum_by(np.array(numbers, dtype=np.int64), column, 3)
        with pytest.raises(ValueError, match="domain"):
            sum_near((Near(column, np.array(numbers, dtype=np.int64), 1.0, 0.0),), 0.0, 2)


STRATEGIES = ("LeastAllocated", "MostAllocated")


@needs_compiled
@given(st.data())
def test_plugins_score_the_same_without_them(data):
    """NodeResourcesFit and NodeResourcesBalancedAllocation, with nodes that are overfull or lack a resource."""
    few = st.integers(0, 6)
    nodes = []
    for k in range(data.draw(st.integers(1, 6))):
        node = a_node(f"n{k}").cpu(data.draw(st.integers(1, 6))).memory(f"{data.draw(st.integers(1, 9))}Gi").pods(9)
        nodes.append(node.gpus(data.draw(few)) if data.draw(st.booleans()) else node)
    pods = [
        a_pod(f"p{k}").cpu(data.draw(few)).memory(f"{data.draw(few)}Gi").gpus(data.draw(few)).on(f"n{k % len(nodes)}")
        for k in range(data.draw(few))
    ]
    names = data.draw(st.lists(st.sampled_from(("cpu", "memory", GPU)), min_size=1, unique=True))
    scored = [{"name": name, "weight": data.draw(st.integers(1, 5))} for name in names]
    strategy = {"type": data.draw(st.sampled_from(STRATEGIES)), "resources": scored}
    cluster = Cluster(nodes, pods, args={"NodeResourcesFit": {"scoringStrategy": strategy}})
    asked = a_pod("asked").cpu(data.draw(few)).memory(f"{data.draw(few)}Gi").gpus(data.draw(few)).build()
    for name in ("NodeResourcesFit", "NodeResourcesBalancedAllocation"):
        plugin: Any = cluster.plugin(name)
        wide = plugin.score_all(CycleState(), asked, cluster.snapshot.nodes)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loops, "compiled", None)
            assert wide.tolist() == plugin.score_all(CycleState(), asked, cluster.snapshot.nodes).tolist()


@needs_compiled
@given(st.data())
def test_pods_are_spread_the_same_without_them(data):
    """PodTopologySpread and InterPodAffinity, with nodes that lack a label, and the largest skew that the API takes."""
    few = st.integers(0, 3)
    nodes = []
    for k in range(data.draw(st.integers(1, 6))):
        node = a_node(f"n{k}").cpu(9).pods(20).label(HOST, f"n{k}")
        nodes.append(node.label(ZONE, f"z{data.draw(few)}") if data.draw(st.integers(0, 5)) else node)
    pods = [
        a_pod(f"p{k}").labels(app=data.draw(st.sampled_from("ab"))).on(f"n{data.draw(few) % len(nodes)}")
        for k in range(data.draw(st.integers(0, 8)))
    ]
    cluster = Cluster(nodes, pods)
    asked = a_pod("asked").labels(app="a").affinity(data.draw(st.sampled_from((ZONE, HOST))), app="a")
    for key in data.draw(st.lists(st.sampled_from((ZONE, HOST)), unique=True)):
        asked.spread(key, data.draw(st.sampled_from((1, 2, 2**31 - 1))), soft=data.draw(st.booleans()), app="a")
    for name in ("PodTopologySpread", "InterPodAffinity"):
        found = [cluster.filter(name, asked), cluster.score(name, asked)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loops, "compiled", None)
            assert found == [cluster.filter(name, asked), cluster.score(name, asked)]
