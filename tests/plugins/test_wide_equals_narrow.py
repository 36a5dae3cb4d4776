"""Every wide Filter against a plain re-statement of its rule for one pod and one node, over random small clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import Code
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_name import NodeName
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.taint_toleration import TaintToleration
from tests.builders import a_node, a_pod, snapshot_of

if TYPE_CHECKING:
    from scheduler.model import Pod
    from scheduler.state.rows import NodeView
    from scheduler.state.snapshot import Snapshot

KEYS = ("zone", "disk", "gen")
VALUES = ("a", "b", "7", "12", "-3", "")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
RESOURCES = ("cpu", "memory", "nvidia.com/gpu", "example.com/fpga")


@st.composite
def nodes(draw: Any, index: int) -> Any:
    """Draw a small node."""
    node = a_node(f"n{index}")
    for resource in RESOURCES:
        if draw(st.booleans()):
            node.offer(resource, draw(st.integers(0, 4)))
    node.pods(draw(st.integers(0, 3)))
    for key in draw(st.sets(st.sampled_from(KEYS))):
        node.label(key, draw(st.sampled_from(VALUES)))
    for _ in range(draw(st.integers(0, 2))):
        node.taint(draw(st.sampled_from(KEYS)), draw(st.sampled_from(VALUES[:2])), draw(st.sampled_from(EFFECTS)))
    return node.cordoned() if draw(st.booleans()) else node


@st.composite
def pods(draw: Any, name: str) -> Any:
    """Draw a pod with a bit of everything."""
    pod = a_pod(name)
    for resource in draw(st.sets(st.sampled_from(RESOURCES))):
        pod.request(resource, draw(st.integers(0, 3)))
    for _ in range(draw(st.integers(0, 2))):
        ip = draw(st.sampled_from(("", "0.0.0.0", "10.0.0.1", "::")))
        pod.port(draw(st.integers(80, 81)), protocol=draw(st.sampled_from(("TCP", "UDP"))), ip=ip)
    for _ in range(draw(st.integers(0, 2))):
        key = draw(st.sampled_from((*KEYS, "", "node.kubernetes.io/unschedulable")))
        operator = draw(st.sampled_from(("Exists", "Equal", "Lt")))
        pod.tolerate(key, operator, draw(st.sampled_from(VALUES[:2])), draw(st.sampled_from((*EFFECTS, ""))))
    if draw(st.booleans()):
        pod.select(draw(st.sampled_from(KEYS)), draw(st.sampled_from(VALUES)))
    if draw(st.booleans()):
        pod.require(*draw(st.lists(terms(), min_size=1, max_size=2)))
    return pod


@st.composite
def terms(draw: Any) -> Any:
    """Draw a node selector term, perhaps an empty one."""
    term: dict[str, Any] = {"matchExpressions": [], "matchFields": []}
    for _ in range(draw(st.integers(0, 2))):
        values = draw(st.lists(st.sampled_from(VALUES), max_size=10))
        expression = {
            "key": draw(st.sampled_from(KEYS)),
            "operator": draw(st.sampled_from(OPERATORS)),
            "values": values,
        }
        term["matchExpressions"].append(expression)
    if draw(st.booleans()):
        values = [draw(st.sampled_from(("n0", "n1", "gone")))]
        operator = draw(st.sampled_from(("In", "NotIn")))
        term["matchFields"].append({"key": "metadata.name", "operator": operator, "values": values})
    return term


@st.composite
def worlds(draw: Any) -> tuple[Snapshot, Pod, np.ndarray[Any, Any]]:
    """Draw a cluster, a pending pod, and some of the rows."""
    cluster = [draw(nodes(index)) for index in range(draw(st.integers(1, 4)))]
    bound = [
        draw(pods(f"p{i}")).on(f"n{draw(st.integers(0, len(cluster) - 1))}") for i in range(draw(st.integers(0, 4)))
    ]
    pending = draw(pods("pending"))
    if draw(st.booleans()):
        pending.patch_spec(nodeName=draw(st.sampled_from(("n0", "gone"))))
    rows = draw(st.lists(st.integers(0, len(cluster) - 1), unique=True))
    return snapshot_of(cluster, bound), pending.build(), np.array(rows, dtype=np.int64)


def tolerated(pod: Pod, key: str, value: str, effect: str) -> bool:
    """State which taints a pod endures."""
    for t in pod.tolerations:
        same_value = t.operator == "Exists" or (t.operator in ("Equal", "") and t.value == value)
        if t.key in ("", key) and t.effect in ("", effect) and same_value:
            return True
    return False


def node_name(pod: Pod, node: NodeView) -> Code:
    """State the rule of NodeName."""
    return Code.UNSCHEDULABLE_AND_UNRESOLVABLE if pod.node_name not in ("", node.name) else Code.SUCCESS


def node_unschedulable(pod: Pod, node: NodeView) -> Code:
    """State the rule of NodeUnschedulable."""
    may = tolerated(pod, "node.kubernetes.io/unschedulable", "", "NoSchedule")
    return Code.UNSCHEDULABLE_AND_UNRESOLVABLE if node.node.is_unschedulable and not may else Code.SUCCESS


def taint_toleration(pod: Pod, node: NodeView) -> Code:
    """State the rule of TaintToleration."""
    for taint in node.node.taints:
        if taint.effect != "PreferNoSchedule" and not tolerated(pod, taint.key, taint.value, taint.effect):
            return Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return Code.SUCCESS


def holds(labels: dict[str, str], key: str, operator: str, values: list[str]) -> bool:
    """State what the operators of a selector mean."""
    if operator in ("Exists", "DoesNotExist"):
        return (key in labels) == (operator == "Exists")
    if operator in ("In", "NotIn"):
        return (key in labels and labels[key] in values) == (operator == "In")
    if (
        key not in labels
        or len(values) != 1
        or labels[key] not in ("7", "12", "-3")
        or values[0] not in ("7", "12", "-3")
    ):
        return False
    return int(labels[key]) > int(values[0]) if operator == "Gt" else int(labels[key]) < int(values[0])


def parses(operator: str, values: list[str]) -> bool:
    """State which requirements the API's parser takes; a value of a label does not begin with a dash."""
    if "-3" in values:
        return False
    if operator in ("Gt", "Lt"):
        return len(values) == 1 and values[0].isdigit()
    return bool(values) is (operator in ("In", "NotIn"))


def node_affinity(pod: Pod, node: NodeView) -> Code:
    """State the rule of NodeAffinity."""
    fits = all(node.labels.get(key) == value for key, value in pod.node_selector.items())
    required = pod.node_affinity and pod.node_affinity.required_during_scheduling_ignored_during_execution
    if required:
        any_term = False
        for term in required.node_selector_terms:
            if not all(parses(e.operator, e.values or []) for e in term.match_expressions or ()):
                continue
            lines = [(node.labels, e) for e in term.match_expressions or ()]
            lines += [({"metadata.name": node.name}, e) for e in term.match_fields or ()]
            all_lines = [holds(labels, e.key, e.operator, e.values or []) for labels, e in lines]
            any_term = any_term or (bool(all_lines) and all(all_lines))
        fits = fits and any_term
    return Code.SUCCESS if fits else Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def node_ports(pod: Pod, node: NodeView) -> Code:
    """State the rule of NodePorts."""
    for other in node.pods:
        for theirs in other.ports:
            for ours in pod.ports:
                same = (theirs.protocol, theirs.port) == (ours.protocol, ours.port)
                if same and (theirs.ip == ours.ip or "0.0.0.0" in (theirs.ip, ours.ip)):
                    return Code.UNSCHEDULABLE
    return Code.SUCCESS


def node_resources_fit(pod: Pod, node: NodeView) -> Code:
    """State the rule of NodeResourcesFit."""
    code = Code.UNSCHEDULABLE if len(node.pods) + 1 > node.allocatable("pods") else Code.SUCCESS
    for resource, count in pod.requests.items():
        if count and count > node.allocatable(resource):
            return Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        if count and count + sum(p.requests.get(resource, 0) for p in node.pods) > node.allocatable(resource):
            code = Code.UNSCHEDULABLE
    return code


RULES = [
    (NodeName, node_name),
    (NodeUnschedulable, node_unschedulable),
    (TaintToleration, taint_toleration),
    (NodeAffinity, node_affinity),
    (NodePorts, node_ports),
    (NodeResourcesFit, node_resources_fit),
]


@pytest.mark.parametrize(("cls", "rule"), RULES, ids=lambda value: getattr(value, "NAME", ""))
@given(world=worlds())
def test_wide_filter_equals_the_rule(cls: Any, rule: Any, world: Any) -> None:
    """Codes are the rule's on all nodes, and on any selection of them."""
    snapshot, pod, rows = world
    plugin = cls(None, None)
    codes = [rule(pod, node) for node in snapshot.nodes]
    assert plugin.filter_all(CycleState(), pod, snapshot.nodes).codes().tolist() == codes
    some = plugin.filter_all(CycleState(), pod, snapshot.nodes.select(rows)).codes().tolist()
    assert some == [codes[row] for row in rows]


@pytest.mark.parametrize(("cls", "rule"), RULES, ids=lambda value: getattr(value, "NAME", ""))
@given(world=worlds())
def test_columns_stay_as_they_are(cls: Any, rule: Any, world: Any) -> None:
    """A second call says the same, also after a pod came and went."""
    snapshot, pod, _ = world
    plugin = cls(None, None)
    first = plugin.filter_all(CycleState(), pod, snapshot.nodes).codes().tolist()
    undo = snapshot.place(a_pod("guest").cpu(1).gpus(1).port(80).build(), 0)
    with_guest = plugin.filter_all(CycleState(), pod, snapshot.nodes).codes().tolist()
    assert with_guest == [rule(pod, node) for node in snapshot.nodes]
    undo()
    assert plugin.filter_all(CycleState(), pod, snapshot.nodes).codes().tolist() == first
