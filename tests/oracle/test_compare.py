"""The comparison: equal results are equal however they are written, and a difference in any field is found."""

import copy
from typing import Any

import pytest

from e2e.oracle.compare import ABSENT, Mismatch, compare, report

SCHEDULED: dict[str, Any] = {
    "id": "x",
    "skipped": ["NodePorts", "VolumeZone"],
    "prefilterNodes": {"NodeAffinity": ["n0", "n1"]},
    "filters": {"NodeName": {"n0": "Success", "n1": "Success", "n2": "Success"}},
    "filter": {
        "n0": {"code": "Success"},
        "n1": {"code": "Success"},
        "n2": {"code": "UnschedulableAndUnresolvable", "reasons": ["b", "a"]},
    },
    "feasible": ["n0", "n1"],
    "scores": {"ImageLocality": {"n0": {"raw": 0, "normalized": 0}, "n1": {"raw": 7, "normalized": 7}}},
    "scoreSkipped": ["PodTopologySpread"],
    "total": {"n0": 500, "n1": 507},
    "best": ["n1"],
}
UNSCHEDULABLE: dict[str, Any] = {
    "id": "x",
    "prefilter": {"VolumeBinding": {"code": "Unschedulable", "reasons": ["r"]}},
    "filter": {"n0": {"plugin": "NodeResourcesFit", "code": "Unschedulable", "reasons": ["Insufficient cpu"]}},
    "feasible": [],
    "preemption": {
        "eligible": True,
        "potential": ["n0", "n1", "n2"],
        "candidates": {"n0": {"pods": ["a/x", "a/y"], "pdbViolations": 1}},
        "rejected": {"n1": {"code": "Unschedulable", "plugin": "NodePorts", "reasons": ["p"]}},
        "chosen": ["n0"],
        "postFilter": {"code": "Success", "reasons": ["found"]},
    },
    "fitError": "0/1 nodes are available",
}
REQUEST: dict[str, Any] = {
    "id": "x",
    "incoming": {"cpu": 100, "memory": 5},
    "scored": {"cpu": 100, "memory": 5},
    "bound": {"cpu": 100, "memory": 5, "ephemeral-storage": 0},
    "boundNonZero": {"cpu": 100, "memory": 5},
}

CHANGES: list[tuple[dict[str, Any], tuple[str, ...], Any, tuple[str, ...]]] = [
    (SCHEDULED, ("skipped",), ["NodePorts"], ("skipped", "VolumeZone")),
    (SCHEDULED, ("prefilterNodes", "NodeAffinity"), ["n1"], ("prefilterNodes", "NodeAffinity", "n0")),
    (SCHEDULED, ("filters", "NodeName", "n2"), "Unschedulable", ("filters", "NodeName", "n2")),
    (SCHEDULED, ("filter", "n2", "code"), "Unschedulable", ("filter", "n2", "code")),
    (SCHEDULED, ("filter", "n2", "reasons"), ["a"], ("filter", "n2", "reasons")),
    (SCHEDULED, ("filter", "n2", "plugin"), "NodeName", ("filter", "n2", "plugin")),
    (SCHEDULED, ("feasible",), ["n0"], ("feasible", "n1")),
    (SCHEDULED, ("scores", "ImageLocality", "n0", "raw"), 1, ("scores", "ImageLocality", "n0", "raw")),
    (SCHEDULED, ("scores", "ImageLocality", "n1", "normalized"), 8, ("scores", "ImageLocality", "n1", "normalized")),
    (
        SCHEDULED,
        ("scores", "ImageLocality"),
        {"n1": {"raw": 7, "normalized": 7}},
        ("scores", "ImageLocality", "n0", "raw"),
    ),
    (SCHEDULED, ("scoreSkipped",), [], ("scoreSkipped", "PodTopologySpread")),
    (SCHEDULED, ("total", "n1"), 508, ("total", "n1")),
    (SCHEDULED, ("best",), ["n0", "n1"], ("best", "n0")),
    (SCHEDULED, ("error",), "broken", ("error",)),
    (UNSCHEDULABLE, ("prefilter", "VolumeBinding", "code"), "Error", ("prefilter", "VolumeBinding", "code")),
    (UNSCHEDULABLE, ("preemption", "eligible"), False, ("preemption", "eligible")),
    (UNSCHEDULABLE, ("preemption", "reason"), "not eligible", ("preemption", "reason")),
    (UNSCHEDULABLE, ("preemption", "potential"), ["n0", "n1"], ("preemption", "potential", "n2")),
    (
        UNSCHEDULABLE,
        ("preemption", "candidates", "n0", "pods"),
        ["a/y", "a/x"],
        ("preemption", "candidates", "n0", "pods"),
    ),
    (
        UNSCHEDULABLE,
        ("preemption", "candidates", "n0", "pdbViolations"),
        0,
        ("preemption", "candidates", "n0", "pdbViolations"),
    ),
    (UNSCHEDULABLE, ("preemption", "rejected", "n1", "plugin"), "X", ("preemption", "rejected", "n1", "plugin")),
    (UNSCHEDULABLE, ("preemption", "chosen"), ["n2"], ("preemption", "chosen", "n2")),
    (UNSCHEDULABLE, ("preemption", "pdbOrderMatters"), True, ("preemption", "pdbOrderMatters")),
    (UNSCHEDULABLE, ("preemption", "postFilter", "reasons"), ["lost"], ("preemption", "postFilter", "reasons")),
    (UNSCHEDULABLE, ("fitError",), "0/1 nodes are available.", ("fitError",)),
    (REQUEST, ("incoming", "cpu"), 101, ("incoming", "cpu")),
    (REQUEST, ("bound", "ephemeral-storage"), 1, ("bound", "ephemeral-storage")),
    (REQUEST, ("boundNonZero",), {}, ("boundNonZero", "memory")),
]


def changed(result: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Returns a copy of a result with one field set."""
    copied = copy.deepcopy(result)
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copied


@pytest.mark.parametrize("result", [SCHEDULED, UNSCHEDULABLE, REQUEST])
def test_equal_results_do_not_differ(result: dict[str, Any]) -> None:
    """A result equals its copy."""
    assert compare("x", copy.deepcopy(result), result) == []


@pytest.mark.parametrize(("result", "path", "value", "found_at"), CHANGES)
def test_change_is_found(result: dict[str, Any], path: tuple[str, ...], value: Any, found_at: tuple[str, ...]) -> None:
    """A change of one field is found there, whichever side has it."""
    for ours, theirs in ((changed(result, path, value), result), (result, changed(result, path, value))):
        assert found_at in [one.path for one in compare("x", ours, theirs)]


@pytest.mark.parametrize("field", ["skipped", "feasible", "best", "scoreSkipped"])
def test_order_of_sets_does_not_count(field: str) -> None:
    """Lists that stand for sets may come in any order."""
    theirs = changed(SCHEDULED, (field,), ["n0", "n1", "n2"])
    assert compare("x", changed(SCHEDULED, (field,), ["n2", "n0", "n1"]), theirs) == []


def test_order_of_reasons_does_not_count() -> None:
    """Reasons are compared in sorted order."""
    assert compare("x", changed(SCHEDULED, ("filter", "n2", "reasons"), ["a", "b"]), SCHEDULED) == []


def test_absent_means_empty() -> None:
    """What is not said equals what is said to be empty."""
    ours = {
        "id": "x",
        "feasible": ["n0"],
        "skipped": [],
        "prefilter": {},
        "fitError": "",
        "preemption": {"eligible": False},
    }
    assert compare("x", ours, {"id": "x", "feasible": ["n0"]}) == []


def test_missing_score_is_not_zero() -> None:
    """A node without a score differs from one with a score of 0."""
    ours = changed(SCHEDULED, ("scores", "ImageLocality", "n0"), {})
    paths = [("scores", "ImageLocality", "n0", "normalized"), ("scores", "ImageLocality", "n0", "raw")]
    assert compare("x", ours, SCHEDULED) == [Mismatch("x", path, ABSENT, 0) for path in paths]


def test_only_presence_of_errors_counts() -> None:
    """Texts of errors differ between languages, and what else a failed cycle says is compared still."""
    assert compare("x", {"id": "x", "error": "one"}, {"id": "x", "error": "other"}) == []
    ours, theirs = changed(SCHEDULED, ("error",), "one"), changed(SCHEDULED, ("error",), "other")
    assert compare("x", ours, theirs) == []
    assert [one.path for one in compare("x", changed(ours, ("total", "n0"), 1), theirs)] == [("total", "n0")]


def test_text_drawn_by_chance_is_not_compared() -> None:
    """Where the oracle gives no text, or the final choice is open, our texts are not held against it."""
    theirs = {key: value for key, value in UNSCHEDULABLE.items() if key != "fitError"}
    assert compare("x", UNSCHEDULABLE, theirs) == []
    open_choice = changed(theirs, ("preemption", "chosen"), ["n0", "n1"])
    vague = changed(open_choice, ("preemption", "postFilter"), {"code": "Success"})
    assert compare("x", open_choice, vague) == []


def test_report_tells_how_to_see_it_again() -> None:
    """A report shows path, both sides and the commands."""
    found = compare("x-1-2", changed(SCHEDULED, ("total",), {"n0": 1, "n1": 2}), SCHEDULED)
    text = "\n".join(report(found, per_case=1))
    assert "x-1-2: total/n0\n    ours   1\n    theirs 500" in text
    assert "1 more in x-1-2" in text
    assert "python -m e2e.oracle.generate --case x-1-2" in text
