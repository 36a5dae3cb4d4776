"""The tally: what an entry of the differences explains is counted, and only that; coverage is the oracle's."""

from typing import Any

from e2e.oracle.tally import Tally

THEIRS: dict[str, Any] = {
    "id": "x",
    "skipped": ["DynamicResources", "NodePorts"],
    "filters": {"NodeName": {"n0": "Success", "n1": "UnschedulableAndUnresolvable"}},
    "feasible": ["n0"],
    "scores": {
        "DynamicResources": {"n0": {"raw": 8, "normalized": 50}},
        "ImageLocality": {"n0": {"raw": 0, "normalized": 0}},
    },
    "total": {"n0": 400},
    "preemption": {"postFilter": {"code": "Error", "reasons": ["not found"]}},
}
CASE: dict[str, Any] = {"id": "x", "objects": [], "pod": {"kind": "Pod", "spec": {}}}


def test_what_an_entry_explains_is_counted() -> None:
    """And is no mismatch."""
    tally = Tally()
    said = {"postFilter": {"code": "Unschedulable", "reasons": ["preemption: no."]}}
    assert tally.add(CASE, {**THEIRS, "preemption": said}, THEIRS) == []
    assert tally.explained_fields["early-refusal"] == 2
    assert (tally.mismatch_count, tally.cases) == (0, 1)


def test_a_plugin_that_is_not_there_is_a_mismatch() -> None:
    """Nothing of DynamicResources is forgiven: neither what it says of itself nor its share of a total."""
    ours = {**THEIRS, "skipped": ["NodePorts"], "total": {"n0": 300}}
    rest = Tally().add(CASE, ours, THEIRS)
    assert [one.path for one in rest] == [("skipped", "DynamicResources"), ("total", "n0")]


def test_other_totals_are_counted_by_case() -> None:
    """A mismatch is kept with both values."""
    tally = Tally()
    rest = tally.add(CASE, {**THEIRS, "total": {"n0": 301}}, THEIRS)
    assert [(one.path, one.ours, one.theirs) for one in rest] == [(("total", "n0"), 301, 400)]
    assert tally.mismatched_cases == 1


def test_coverage_counts_verdicts_and_vectors() -> None:
    """Verdicts count by node, score vectors by case, and constant ones are told apart."""
    tally = Tally()
    tally.cover(THEIRS)
    wide = {"ImageLocality": {"n0": {"raw": 1, "normalized": 1}, "n1": {"raw": 2, "normalized": 2}}}
    tally.cover({"id": "y", "scores": wide})
    assert tally.verdicts["NodeName"] == {"Success": 1, "UnschedulableAndUnresolvable": 1}
    assert tally.rejections("NodeName") == 1
    assert (tally.vectors["ImageLocality"], tally.varied["ImageLocality"]) == (2, 1)


def test_coverage_counts_preemptions_and_requests() -> None:
    """A dry run counts if a node was tried, and its candidates one by one."""
    tally = Tally()
    candidates = {"n0": {"pods": ["a/b", "a/c"], "pdbViolations": 1}}
    tally.cover({"id": "x", "preemption": {"eligible": True, "potential": ["n0", "n1"], "candidates": candidates}})
    tally.cover({"id": "y", "preemption": {"eligible": False, "reason": "r"}})
    tally.cover({"id": "z", "incoming": {"cpu": 1}})
    assert tally.preemptions["dry runs"] == 1
    assert tally.preemptions["not eligible"] == 1
    assert tally.preemptions["victims"] == 2
    assert tally.requests == 1
