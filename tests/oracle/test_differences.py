"""Every deliberate difference explains what it names, and no more."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from e2e.oracle.compare import compare
from e2e.oracle.differences import DIFFERENCES, explain

CASE: dict[str, Any] = {"id": "c", "objects": [], "pod": {"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}}
NOT_FOUND = {"postFilter": {"code": "Error", "reasons": ["not found"]}}
NOT_HELPFUL = {"postFilter": {"code": "Unschedulable", "reasons": ["preemption: it is not helpful."]}}


def rest(
    ours: dict[str, Any], theirs: dict[str, Any], case: dict[str, Any] = CASE
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return which differences were explained, and the paths of those that were not."""
    ours, theirs = {"id": "c"} | ours, {"id": "c"} | theirs
    explained = explain(case, ours, theirs, compare("c", ours, theirs))
    return sorted(explained.by_name), [one.path for one in explained.rest]


def test_early_refusal_explains_the_end_of_the_text() -> None:
    """What comes before "not found" has to be equal."""
    theirs = {"preemption": NOT_FOUND, "fitError": "0/1 nodes are available: no claim. not found"}
    ours = {"preemption": NOT_HELPFUL, "fitError": "0/1 nodes are available: no claim. preemption: it is not helpful."}
    assert rest(ours, theirs) == (["early-refusal"], [])
    assert rest(ours | {"fitError": "0/1 nodes are available: no node."}, theirs)[1] == [("fitError",)]


def test_early_refusal_explains_no_other_end() -> None:
    """Another error of PostFilter is a mismatch."""
    theirs = {"preemption": {"postFilter": {"code": "Error", "reasons": ["broken"]}}}
    assert rest({"preemption": NOT_HELPFUL}, theirs)[1] != []


def test_error_order_explains_the_order_of_the_same_errors() -> None:
    """Another error, or one that is missing, is a mismatch."""
    first, second = 'running "A" filter plugin: x, y', 'running "A" filter plugin: z'

    def ended(*errors: str) -> dict[str, Any]:
        text = f"preemption: [{', '.join(errors)}]"
        return {"preemption": {"postFilter": {"code": "Error", "reasons": [text]}}, "fitError": f"0/2 nodes. {text}"}

    assert rest(ended(first, second), ended(second, first)) == (["error-order"], [])
    assert len(rest(ended(first, second), ended(second, second))[1]) == 2
    assert len(rest(ended(first), ended(second))[1]) == 2


def test_search_limit_explains_what_was_given_up_here_alone() -> None:
    """Another error, or one of upstream's, is a mismatch."""
    text = "plugin DynamicResources failed at Filter: node n6: timed out trying to allocate devices (gave up after 50000 steps)"
    assert rest({"error": text}, {"feasible": []}) == (["search-limit"], [])
    assert (
        rest({"error": "plugin DynamicResources failed at Filter: node n6: no such claim"}, {"feasible": []})[1] != []
    )
    assert rest({"feasible": []}, {"error": text})[1] != []


def user_of(claim: str, namespace: str, name: str) -> dict[str, Any]:
    """Return a pod that uses a claim."""
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    return {"kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": {"volumes": volumes}}


@pytest.mark.parametrize(
    ("mode", "namespace", "is_explained"),
    [("ReadWriteOncePod", "b", True), ("ReadWriteOncePod", "a", False), ("ReadWriteOnce", "b", False)],
)
def test_claim_names_explain_victims_of_other_namespaces_alone(
    mode: str, namespace: str, *, is_explained: bool
) -> None:
    """Those whose claim has the name of one that the pod has to have for itself."""
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "a"},
        "spec": {"accessModes": [mode]},
    }
    case = CASE | {"objects": [claim, user_of("c", namespace, "user")], "pod": user_of("c", "a", "p")}
    found = {
        "candidates": {"n0": {"pods": [f"{namespace}/user"], "pdbViolations": 0}},
        "rejected": {},
        "chosen": ["n0"],
    }
    theirs = {"preemption": found, "fitError": "preempting 1 victims"}
    refused = {"n0": {"code": "Unschedulable", "plugin": "VolumeRestrictions", "reasons": ["in use"]}}
    ours = {"preemption": {"candidates": {}, "rejected": refused, "chosen": []}, "fitError": "no victims"}
    names, left = rest(ours, theirs, case)
    assert (names, bool(left)) == ((["claim-names"], False) if is_explained else ([], True))


def test_score_panic_explains_scores_that_were_never_made() -> None:
    """They are known by a node without a name; verdicts have to be equal all the same."""
    ours = {
        "total": {"n0": 1},
        "best": ["n0"],
        "scores": {"A": {"n0": {"raw": 1, "normalized": 1}}},
        "feasible": ["n0"],
    }
    theirs = {"total": {"": 300}, "best": [""], "feasible": ["n0"]}
    assert rest(ours, theirs) == (["score-panic"], [])
    assert rest(ours | {"feasible": []}, theirs)[1] == [("feasible", "n0")]
    assert rest(ours, theirs | {"total": {"n0": 300}})[1] != []


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.name)
def test_page_names_every_difference(difference: Any) -> None:
    """Those who read about parity hear of it."""
    page = (Path(__file__).parents[2] / "docs" / "parity.md").read_text()
    assert re.search(rf"^\| `{difference.name}` \|", page, re.MULTILINE)
    assert len(difference.reason) > 20
