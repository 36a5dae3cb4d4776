"""NodeDeclaredFeatures: pods go where the kubelet can do what they need."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import Code
from scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from tests.builders import a_node, a_pod, snapshot_of

from .calling import make, refusals, skips

RULES = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]
FEATURE = "RestartAllContainersOnContainerExits"


def test_nodes_must_declare_what_a_pod_needs() -> None:
    """Other features do not matter."""
    pod = a_pod().patch_spec(containers=[{"name": "main", "restartPolicy": "Never", "restartPolicyRules": RULES}])
    declared = {"all": ("Other", FEATURE), "none": (), "other": ("Other",)}
    nodes: Any = [
        msgspec.structs.replace(a_node(name).build(), declared_features=frozenset(has))
        for name, has in declared.items()
    ]
    refused = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ["node(s) didn't match Pod's required features"])
    assert refusals(make(NodeDeclaredFeatures), pod, nodes) == {"none": refused, "other": refused}


def test_most_pods_need_nothing() -> None:
    """PreFilter leaves them alone."""
    assert skips(make(NodeDeclaredFeatures).pre_filter(CycleState(), a_pod().build(), snapshot_of([a_node()]).nodes))
    assert refusals(make(NodeDeclaredFeatures), a_pod(), [a_node()]) == {}
