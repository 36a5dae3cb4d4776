"""What wakes a pod that a plugin about nodes refused: a node that would take it now."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.change import Change
from scheduler.framework.status import ClusterEvent, Reason
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod
from tests.plugins.asking import Cluster

ANY = Reason("Any", "anything")
FEATURE = "RestartAllContainersOnContainerExits"


def is_hope(plugin: str, pod: PodBuilder, node: NodeBuilder, event: ClusterEvent = ClusterEvent.NODE_ADDED) -> bool:
    """Ask a hint about a node that is there now."""
    asked: Any = Cluster([node]).plugin(plugin)
    return asked.queueing_hint(event, Change(event, "n"), pod.build(), ANY)


def exits() -> PodBuilder:
    """Return a pod that needs a feature of the kubelet."""
    rules = [{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]
    return a_pod("p").patch_spec(containers=rules)


def declaring(*features: str) -> NodeBuilder:
    """Return a node that declares features."""
    node = a_node("n")
    node._status["declaredFeatures"] = list(features)
    return node


@pytest.mark.parametrize(
    ("plugin", "pod", "node", "hope"),
    [
        ("TaintToleration", a_pod("p"), a_node("n"), True),
        ("TaintToleration", a_pod("p"), a_node("n").taint("a"), False),
        ("TaintToleration", a_pod("p").tolerate("a"), a_node("n").taint("a"), True),
        ("NodeUnschedulable", a_pod("p"), a_node("n"), True),
        ("NodeUnschedulable", a_pod("p"), a_node("n").cordoned(), False),
        ("NodeUnschedulable", a_pod("p").tolerate(), a_node("n").cordoned(), True),
        ("NodeAffinity", a_pod("p").select("disk", "ssd"), a_node("n").label("disk", "ssd"), True),
        ("NodeAffinity", a_pod("p").select("disk", "ssd"), a_node("n").label("disk", "hdd"), False),
        ("NodeDeclaredFeatures", exits(), declaring(FEATURE), True),
        ("NodeDeclaredFeatures", exits(), declaring("Other"), False),
    ],
)
def test_node_that_would_take_the_pod_is_hope(plugin: str, pod: PodBuilder, node: NodeBuilder, hope: bool) -> None:
    """And one that would not is none."""
    assert is_hope(plugin, pod, node) is hope


def test_node_that_is_not_known_is_hope() -> None:
    """Better one attempt too many."""
    change = Change(ClusterEvent.NODE_LABELS, "gone")
    for name in ("TaintToleration", "NodeUnschedulable", "NodeAffinity", "NodeDeclaredFeatures"):
        asked: Any = Cluster([a_node("n")]).plugin(name)
        assert asked.queueing_hint(change.event, change, a_pod("p").select("a", "b").build(), ANY)


@pytest.mark.parametrize(("port", "hope"), [(80, True), (81, False)])
def test_port_comes_free_with_the_pod_that_had_it(port: int, hope: bool) -> None:
    """Another port does not help."""
    gone = a_pod("gone").port(port).on("n").build()
    change = Change(ClusterEvent.POD_REMOVED, "n", gone.uid, former_pod=gone)
    asked: Any = Cluster([a_node("n")]).plugin("NodePorts")
    assert asked.queueing_hint(change.event, change, a_pod("p").port(80).build(), ANY) is hope
