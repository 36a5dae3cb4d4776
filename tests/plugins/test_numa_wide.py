"""NodeResourceTopologyMatch over arrays against its rules for one node, over random machines and pods; and undo.

The narrow forms re-state kubernetes-sigs/scheduler-plugins (pkg/noderesourcetopology: filter.go, numaresources.go, score.go,
least_numa.go), with the differences that the plugin's docstring names.
"""

from __future__ import annotations

from itertools import combinations
from statistics import variance
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.node_resource_topology import NodeResourceTopology, NumaZone
from tests.builders import a_node, a_pod
from tests.plugins.numa import Desk

RESOURCES = ("cpu", "memory", "hugepages-2Mi", "example.com/nic", "ephemeral-storage")
AFFINE = RESOURCES[:3]
Left = dict[int, dict[str, int]]


@st.composite
def reports(draw: Any, name: str) -> NodeResourceTopology:
    """Draw a machine of up to four NUMA nodes, which need not tell of the same resources."""
    zones = []
    for number in sorted(draw(st.sets(st.integers(0, 6), max_size=4))):
        told = draw(st.sets(st.sampled_from(RESOURCES)))
        left = {name: draw(st.integers(0, 4)) * (1000 if name == "cpu" else 1) for name in sorted(told)}
        costs = {other: draw(st.sampled_from((10, 12, 20))) for other in range(7) if draw(st.booleans())}
        zones.append(NumaZone(id=number, available=left, allocatable=left, costs=costs))
    policy = draw(st.sampled_from(("single-numa-node", "single-numa-node", "restricted", "none")))
    return NodeResourceTopology(
        name=name, policy=policy, scope=draw(st.sampled_from(("pod", "container"))), zones=tuple(zones)
    )


@st.composite
def containers(draw: Any, **more: Any) -> dict[str, Any]:
    """Draw a container, most of them with equal limits."""
    asked = {name: draw(st.integers(0, 3)) for name in draw(st.sets(st.sampled_from(RESOURCES)))}
    if draw(st.booleans()):
        asked |= {"cpu": draw(st.sampled_from((1, 2, "1500m"))), "memory": draw(st.integers(1, 3))}
    texts = {name: str(amount) for name, amount in asked.items()}
    limits = texts if draw(st.booleans()) or "cpu" in asked else {}
    return {"name": "c", "image": "x", "resources": {"requests": texts, "limits": limits}} | more


@st.composite
def worlds(draw: Any) -> tuple[list[NodeResourceTopology], list[Any], Any]:
    """Draw machines, the nodes they are, and a pod."""
    found = [draw(reports(f"n{i}")) for i in range(draw(st.integers(1, 4)))]
    nodes = []
    for view in found:
        node = a_node(view.name)
        for resource in RESOURCES[2:]:
            if draw(st.booleans()):
                node.offer(resource, 8)
        nodes.append(node.build())
    inits = [
        draw(containers(restartPolicy=draw(st.sampled_from((None, "Always"))))) for _ in range(draw(st.integers(0, 2)))
    ]
    apps = [draw(containers(name=f"a{i}")) for i in range(draw(st.integers(1, 3)))]
    return found, nodes, a_pod("wanted").patch_spec(initContainers=inits, containers=apps)


def parts(pod: Any) -> list[tuple[str, dict[str, int]]]:
    """Return the turn of each container and what it asks."""
    return [(need.turn.value, need.requests) for need in pod.containers]


def effective(pod: Any) -> dict[str, int]:
    """Return what all containers ask together at their peak."""
    total: dict[str, int] = {}
    for resource in RESOURCES:
        running, peak, is_named = 0, 0, False
        for turn, asked in parts(pod):
            is_named = is_named or resource in asked
            if turn == "init":
                peak = max(peak, running + asked.get(resource, 0))
            else:
                running += asked.get(resource, 0)
        if is_named:
            total[resource] = max(peak, running)
    return total


def available_in_any(left: Left, asked: dict[str, int], qos: str, node: Any) -> int | None:
    """Re-state resourcesAvailableInAnyNUMANodes: the number of the NUMA node, -1 for any, None for none."""
    mask = set(range(64))
    for resource, quantity in asked.items():
        if not quantity:
            continue
        if resource not in node.allocatable:
            return None
        telling = {number for number, amounts in left.items() if resource in amounts}
        if not telling and resource not in AFFINE:
            continue
        is_counted = qos == "Guaranteed" or resource not in AFFINE
        mask &= {number for number in telling if not is_counted or left[number][resource] >= quantity}
        if not mask:
            return None
    return min(mask) if mask != set(range(64)) else -1


def narrow_filter(view: NodeResourceTopology, node: Any, pod: Any) -> str:
    """Re-state Filter for one node; empty if it passes."""
    is_best_effort = pod.qos == "BestEffort" and not any("example.com/nic" in asked for _, asked in parts(pod))
    if view.policy != "single-numa-node" or is_best_effort:
        return ""
    left: Left = {zone.id: dict(zone.available) for zone in view.zones}
    if view.scope == "pod":
        return "cannot align pod" if available_in_any(left, effective(pod), pod.qos, node) is None else ""
    for turn, asked in parts(pod):
        number = available_in_any(left, asked, pod.qos, node)
        if number is None:
            return "cannot align container" if turn == "app" else "cannot align init container"
        for resource, quantity in asked.items():
            is_counted = pod.qos == "Guaranteed" or resource not in AFFINE
            if turn != "init" and is_counted and resource in left.get(number, {}):
                left[number][resource] -= quantity
    return ""


def whole(resource: str, amount: int) -> int:
    """Return a Quantity's Value(): cores are rounded up."""
    return -(-amount // 1000) if resource == "cpu" else amount


def zone_score(strategy: str, asked: dict[str, int], zone: dict[str, int]) -> int:
    """Re-state the strategies for one NUMA node."""
    if strategy == "BalancedAllocation":
        pairs = [(whole(r, n), whole(r, zone.get(r, 0))) for r, n in asked.items()]
        fractions = [n / capacity if capacity else 1.0 for n, capacity in pairs]
        if any(fraction > 1 for fraction in fractions):
            return 0
        return int((1 - (variance(fractions) if len(fractions) > 1 else 0)) * 100)
    scores = []
    for resource, quantity in asked.items():
        capacity = zone.get(resource, 0)
        if not capacity or quantity > capacity:
            scores.append(0)
            continue
        used, every = whole(resource, quantity), whole(resource, capacity)
        scores.append((every - used if strategy == "LeastAllocated" else used) * 100 // every)
    return sum(scores) // len(scores)


def narrow_fullness(strategy: str, view: NodeResourceTopology, pod: Any) -> int:
    """Re-state podScopeScore and containerScopeScore; containers that ask nothing do not count."""
    if view.policy != "single-numa-node":
        return 0
    every = [effective(pod)] if view.scope == "pod" else [asked for _, asked in parts(pod)]
    means = []
    for asked in every:
        if asked:
            scores = [zone_score(strategy, asked, zone.available) for zone in view.zones]
            means.append(min([score for score in scores if score], default=0))
    return sum(means) // len(means) if means else 0


def narrow_least_numa(view: NodeResourceTopology, pod: Any) -> int:
    """Re-state leastNUMAPodScopeScore and leastNUMAContainerScopeScore."""
    left: Left = {zone.id: dict(zone.available) for zone in view.zones}
    costs = {zone.id: zone.costs for zone in view.zones}
    most, all_near = 0, True
    for asked in [effective(pod)] if view.scope == "pod" else [asked for _, asked in parts(pod)]:
        told = {r for r in asked if any(r in amounts for amounts in left.values())}
        if not told:
            continue
        counted = {r: n for r, n in asked.items() if r in told or (r in AFFINE and n)}
        found, is_near = required(left, costs, counted, pod.qos)
        if found is None:
            return 0
        all_near, most = all_near and is_near, max(most, len(found))
        for resource, quantity in asked.items():
            rest = quantity
            for number in sorted(found):
                part = min(left[number].get(resource, 0), rest)
                rest -= part
                if resource in left[number]:
                    left[number][resource] -= part
    return 100 if not most else 100 - most * 12 + (6 if all_near else 0)


def required(left: Left, costs: dict[int, dict[int, int]], asked: dict[str, int], qos: str) -> Any:
    """Re-state numaNodesRequired: the nearest of the smallest sets, and whether no set of that size is nearer."""
    for size in range(1, len(left) + 1):
        sets = list(combinations(sorted(left), size))
        distances = {some: sum(costs[a].get(b, 255) for a in some for b in some) for some in sets}
        fitting = [some for some in sets if has_all(left, some, asked, qos)]
        if fitting:
            best = min(fitting, key=lambda some: distances[some])
            return best, distances[best] == min(distances.values())
    return None, False


def has_all(left: Left, some: tuple[int, ...], asked: dict[str, int], qos: str) -> bool:
    """Tell whether a set tells of all resources that are asked, and has them."""
    for resource, quantity in asked.items():
        if any(resource not in left[number] for number in some):
            if quantity or resource in AFFINE or any(resource in amounts for amounts in left.values()):
                return False
            continue
        is_counted = qos == "Guaranteed" or resource not in AFFINE
        if is_counted and sum(left[number][resource] for number in some) < quantity:
            return False
    return True


@given(world=worlds())
def test_filter_over_arrays_is_filter_on_each_node(world: Any) -> None:
    """The same nodes for the same reasons."""
    views, nodes, pod = world
    desk, view = Desk(*views, nodes=nodes), pod.build()
    said = {report.name: narrow_filter(report, node, view) for report, node in zip(views, nodes, strict=True)}
    assert desk.refusals(pod) == {name: why for name, why in said.items() if why}


@settings(max_examples=80)
@given(strategy=st.sampled_from(("LeastAllocated", "MostAllocated", "BalancedAllocation")), world=worlds())
def test_fullness_over_arrays_is_that_of_each_node(strategy: str, world: Any) -> None:
    """To the point."""
    views, nodes, pod = world
    view = pod.build()
    desk = Desk(*views, nodes=nodes, args={"scoringStrategy": {"type": strategy}})
    expected = {report.name: narrow_fullness(strategy, report, view) for report in views}
    assert desk.scores(pod) == (expected if view.qos == "Guaranteed" else dict.fromkeys(expected, 100))


@given(world=worlds())
def test_least_numa_over_arrays_is_that_of_each_node(world: Any) -> None:
    """To the point."""
    views, nodes, pod = world
    view = pod.build()
    desk = Desk(*views, nodes=nodes, args={"scoringStrategy": {"type": "LeastNUMANodes"}})
    expected = {report.name: narrow_least_numa(report, view) for report in views}
    assert desk.scores(pod) == (expected if view.qos == "Guaranteed" else dict.fromkeys(expected, 100))


@settings(max_examples=30)
@given(world=worlds(), guests=st.lists(st.tuples(worlds(), st.integers(0, 3)), max_size=3), data=st.data())
def test_undo_is_exact_and_what_is_kept_is_what_a_new_plugin_would_find(world: Any, guests: Any, data: Any) -> None:
    """Pods come and go in a what-if; afterwards all is said as before, and as by a plugin that saw nothing of it."""
    views, nodes, pod = world
    args = {"cacheResyncPeriodSeconds": 5}
    desk = Desk(*views, nodes=nodes, args=args)
    before = desk.refusals(pod)
    snapshot = desk.access.snapshot
    undo = []
    for index, ((_, _, guest), row) in enumerate(guests):
        undo.append(snapshot.place(guest.copy().uid(f"guest-{index}").build(), row % len(nodes)))
        desk.refusals_now(pod, snapshot)
    fresh = Desk(*views, nodes=nodes, args=args)
    for index, ((_, _, guest), row) in enumerate(guests):
        fresh.assume(guest.copy().uid(f"guest-{index}"), nodes[row % len(nodes)].name)
    assert desk.refusals_now(pod, snapshot) == fresh.refusals(pod)
    for step in data.draw(st.permutations(undo)):
        step()
    assert desk.refusals_now(pod, snapshot) == before
    columns, anew = desk.plugin._columns(snapshot.nodes), Desk(*views, nodes=nodes, args=args)
    anew.refusals(pod)
    other = anew.plugin._columns(anew.access.snapshot.nodes)
    for resource in RESOURCES:
        mine, theirs = columns.amounts(resource), other.amounts(resource)
        assert (mine is None) == (theirs is None)
        assert mine is None or all((a == b).all() for a, b in zip(mine, theirs, strict=True))
