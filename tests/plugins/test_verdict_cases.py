"""The plugins against the real ones of Kubernetes 1.37.2, on 80 generated clusters (data/verdict/SOURCE.md)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import Code, PreFilterResult, Status
from scheduler.model import node_from_api, pod_from_api
from scheduler.model.api import ApiNode, ApiPod
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_name import NodeName
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.taint_toleration import TaintToleration
from tests.builders import snapshot_of

if TYPE_CHECKING:
    from scheduler.model import Pod
    from scheduler.state.snapshot import Snapshot

DATA = Path(__file__).parent.parent / "data" / "verdict"
FILTERS = (NodeName, NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit)
SCORES = (TaintToleration, NodeAffinity, NodeResourcesFit, NodeResourcesBalancedAllocation, ImageLocality)


@cache
def cases() -> dict[str, dict[str, Any]]:
    """Return the cases by id."""
    texts = [(DATA / f"{name}.jsonl").read_text() for name in ("schedule", "preempt")]
    lines = [json.loads(line) for text in texts for line in text.splitlines()]
    return {line["case"]["id"]: line for line in lines}


def world_of(case: dict[str, Any]) -> tuple[Snapshot, Pod]:
    """Return the snapshot of a case and its pending pod; pods that ended or whose node is gone do not count."""
    nodes = [node_from_api(msgspec.convert(o, ApiNode)) for o in case["objects"] if o["kind"] == "Node"]
    pods = [pod_from_api(msgspec.convert(o, ApiPod)) for o in case["objects"] if o["kind"] == "Pod"]
    names = {node.name for node in nodes}
    bound = [pod for pod in pods if pod.node_name in names and not pod.is_terminal]
    return snapshot_of(nodes, bound), pod_from_api(msgspec.convert(case["pod"], ApiPod))


def plugin_of(cls: Any, case: dict[str, Any]) -> Any:
    """Return a plugin with the arguments of a case."""
    args = {entry["name"]: entry["args"] for entry in case.get("pluginConfig", ())}
    return cls(cls.Args.model_validate(args[cls.NAME]) if cls.NAME in args else None, None)


def is_skip(answer: object) -> bool:
    """Tell whether an answer of PreFilter or PreScore leaves the plugin out."""
    return isinstance(answer, Status) and answer.code is Code.SKIP


@pytest.mark.parametrize("case_id", sorted(cases()))
@pytest.mark.parametrize("cls", FILTERS, ids=lambda cls: cls.NAME)
def test_filter_says_what_the_real_plugin_says(cls: Any, case_id: str) -> None:
    """PreFilter skips and narrows alike; codes are equal on every node, reasons where the plugin is the first to fail."""
    case, expect = cases()[case_id]["case"], cases()[case_id]["expect"]
    snapshot, pod = world_of(case)
    plugin, state, name = plugin_of(cls, case), CycleState(), cls.NAME
    answer = plugin.pre_filter(state, pod, snapshot.nodes) if hasattr(plugin, "pre_filter") else None
    assert is_skip(answer) == (name in expect.get("skipped", ()))
    narrowed = sorted(answer.node_names or ()) if isinstance(answer, PreFilterResult) else None
    assert narrowed == expect.get("prefilterNodes", {}).get(name)
    if is_skip(answer):
        return
    verdicts = plugin.filter_all(state, pod, snapshot.nodes)
    codes = [Code(int(code)).upstream_name for code in verdicts.codes()]
    assert dict(zip(snapshot.nodes.names, codes, strict=True)) == expect["filters"][name]
    for node, verdict in expect["filter"].items():
        if verdict.get("plugin") == name:
            assert sorted(r.text for r in verdicts.status_at(snapshot.row_of[node]).reasons) == verdict["reasons"]


@pytest.mark.parametrize("case_id", sorted(i for i, line in cases().items() if line["expect"].get("feasible")))
@pytest.mark.parametrize("cls", SCORES, ids=lambda cls: cls.NAME)
def test_score_is_that_of_the_real_plugin(cls: Any, case_id: str) -> None:
    """PreScore skips alike; raw and normalised scores are equal on every feasible node."""
    case, expect = cases()[case_id]["case"], cases()[case_id]["expect"]
    snapshot, pod = world_of(case)
    plugin, state = plugin_of(cls, case), CycleState()
    nodes = snapshot.nodes.select(np.array([snapshot.row_of[name] for name in expect["feasible"]], dtype=np.int64))
    answer = plugin.pre_score(state, pod, nodes) if hasattr(plugin, "pre_score") else None
    assert is_skip(answer) == (cls.NAME in expect.get("scoreSkipped", ()))
    if is_skip(answer):
        return
    raw = plugin.score_all(state, pod, nodes)
    normalized = plugin.normalize(state, pod, raw) if hasattr(plugin, "normalize") else raw
    scores = {
        name: {"raw": int(r), "normalized": int(n)}
        for name, r, n in zip(expect["feasible"], raw, normalized, strict=True)
    }
    assert scores == expect["scores"][cls.NAME]
