"""`explain --cases` against the real plugins of Kubernetes 1.37.2: whole results, on 100 cases (data/verdict/SOURCE.md)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from scheduler.explain.cases import answer, run
from scheduler.plugins import BASES

DATA = Path(__file__).parent.parent / "data" / "verdict"
#: Plugins of kube-scheduler that there are not; what they alone say is left out of the comparison.
UPSTREAM_WEIGHTS = {"DynamicResources": 2}
MISSING = frozenset(UPSTREAM_WEIGHTS) - BASES["kube-default"].keys()


@cache
def lines() -> dict[str, dict[str, Any]]:
    """Return the lines by the id of their case."""
    texts = [(DATA / f"{name}.jsonl").read_text() for name in ("schedule", "preempt", "requests")]
    found = [json.loads(line) for text in texts for line in text.splitlines()]
    return {line["case"]["id"]: line for line in found}


def is_decided_elsewhere(expect: dict[str, Any]) -> bool:
    """Tell whether a plugin that there is not refuses some node."""
    return any(verdict.get("plugin") in MISSING for verdict in expect.get("filter", {}).values())


def without_missing(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without what plugins say that there are not, their shares of the totals included."""
    kept = dict(result)
    for field in ("prefilter", "prefilterNodes", "filters", "scores"):
        if field in kept:
            kept[field] = {plugin: said for plugin, said in kept[field].items() if plugin not in MISSING}
    for field in ("skipped", "scoreSkipped"):
        if field in kept:
            kept[field] = [plugin for plugin in kept[field] if plugin not in MISSING]
    if "total" in kept:
        shares = {plugin: result["scores"].get(plugin, {}) for plugin in MISSING}
        kept["total"] = {
            node: total - sum(UPSTREAM_WEIGHTS[p] * of[node]["normalized"] for p, of in shares.items() if of)
            for node, total in result["total"].items()
        }
        top = max(kept["total"].values())
        kept["best"] = [node for node, total in sorted(kept["total"].items()) if total == top]
    return {field: value for field, value in kept.items() if value or field == "feasible"}


def comparable(case_id: str) -> bool:
    """Tell whether a case can be held against the real plugins as a whole."""
    return not is_decided_elsewhere(lines()[case_id]["expect"])


@pytest.mark.parametrize("case_id", sorted(filter(comparable, lines())))
def test_result_is_that_of_kube_scheduler(case_id: str) -> None:
    """Every field: verdicts, scores, totals, preemption, and the text of the event."""
    line = lines()[case_id]
    found = answer(json.dumps(line["case"]).encode())
    assert found.pop("id") == case_id
    assert without_missing(json.loads(json.dumps(found))) == without_missing(line["expect"])


def test_nearly_all_cases_can_be_compared() -> None:
    """What is left out stays a handful: pods that a missing plugin refuses."""
    assert sum(map(comparable, lines())) >= 90


def test_a_wrapped_case_is_read_like_a_plain_one() -> None:
    """A line of the data can be fed as it is."""
    line = lines()["preempt-0003"]
    assert answer(json.dumps(line).encode()) == answer(json.dumps(line["case"]).encode())


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n0"},
    "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
}


def a_pod(name: str = "p", cpu: str = "1", **spec: Any) -> dict[str, Any]:
    """Return a pod."""
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": containers} | spec,
    }


def case(pod: Any, *objects: Any, **more: Any) -> bytes:
    """Return the line of a case."""
    return json.dumps({"id": "a", "objects": objects, "pod": pod, **more}).encode()


@pytest.mark.parametrize(
    ("line", "name", "said"),
    [
        (b"not json", "", "malformed"),
        (b"[]", "", "object"),
        (b"{}", "", "pod: is missing"),
        (b'{"id": "a", "pod": {"apiVersion": "v1", "kind": "Node"}}', "a", "another kind"),
        (b'{"id": "a", "pod": 7}', "a", "object"),
        (case(a_pod(cpu="many")), "a", "many"),
        (case(a_pod(), {"apiVersion": "v1", "kind": "ConfigMap"}), "a", "objects[0]: ConfigMap (v1) is not read"),
        (case(a_pod(), NODE, {"kind": "Node", "apiVersion": "v1", "spec": 3}), "a", "objects[1]: Node"),
        (case(a_pod(), pluginConfig=[{"name": "Nobody", "args": {}}]), "a", "'Nobody' is unknown"),
        (case(a_pod(), pluginConfig=[{"name": "NodeAffinity", "args": {"more": 1}}]), "a", "more"),
    ],
)
def test_a_line_that_is_no_case_gives_id_and_error(line: bytes, name: str, said: str) -> None:
    """And nothing else; the run goes on."""
    first, second = [json.loads(result) for result in run([line, b"\n", case(a_pod(), NODE)])]
    assert first.keys() == {"id", "error"}
    assert first["id"] == name
    assert said in first["error"]
    assert second["feasible"] == ["n0"]


def test_a_cluster_without_nodes_has_its_own_sentence() -> None:
    """No preemption is tried."""
    found = answer(case(a_pod()))
    assert found["fitError"] == "no nodes available to schedule pods"
    assert found["feasible"] == []
    assert "preemption" not in found


def test_a_pod_that_names_its_node_is_not_counted_there_yet() -> None:
    """NodeName narrows the search to one node, on which the pod still has to fit."""
    found = answer(case(a_pod(cpu="2", nodeName="n0"), NODE, {**NODE, "metadata": {"name": "n1"}}))
    assert found["prefilterNodes"] == {"NodeName": ["n0"]}
    assert found["feasible"] == ["n0"]
    assert found["filter"]["n1"] == {
        "code": "UnschedulableAndUnresolvable",
        "reasons": ["node(s) didn't satisfy plugin(s) [NodeName]"],
    }


def test_pods_that_ended_or_wait_elsewhere_do_not_count() -> None:
    """Only bound and nominated pods take room."""
    ended = {**a_pod("ended", nodeName="n0", cpu="2"), "status": {"phase": "Succeeded"}}
    waits = a_pod("waits", cpu="2")
    assert answer(case(a_pod(cpu="2"), NODE, ended, waits))["feasible"] == ["n0"]
    nominated = {**waits, "status": {"nominatedNodeName": "n0"}}
    found = answer(case(a_pod(cpu="2"), NODE, nominated))
    assert found["filters"]["NodeResourcesFit"] == {"n0": "Success"}
    assert found["filter"]["n0"]["reasons"] == ["Insufficient cpu"]
    assert found["feasible"] == []
