"""The tally: what an entry of the differences explains is counted, and only that; coverage is the oracle's."""

from typing import Any

from e2e.oracle.tally import Tally

POD: dict[str, Any] = {"kind": "Pod", "spec": {}}
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
}
OURS: dict[str, Any] = {
    "id": "x",
    "skipped": ["NodePorts"],
    "filters": THEIRS["filters"],
    "feasible": ["n0"],
    "scores": {"ImageLocality": {"n0": {"raw": 0, "normalized": 0}}},
    "total": {"n0": 300},
}


def case(**pod_spec: Any) -> dict[str, Any]:
    """Returns a case with nothing but its pod."""
    return {"id": "x", "objects": [], "pod": {**POD, "spec": pod_spec}}


def test_missing_plugin_is_explained() -> None:
    """What DynamicResources says of itself, and twice its score in the total, is explained."""
    tally = Tally()
    assert tally.add(case(), OURS, THEIRS) == []
    assert tally.explained_fields["dynamic-resources"] == 4
    assert tally.mismatch_count == 0


def test_other_total_is_not_explained() -> None:
    """A total that is off by anything but the plugin's share stays a mismatch."""
    tally = Tally()
    rest = tally.add(case(), {**OURS, "total": {"n0": 301}}, THEIRS)
    assert [(one.path, one.ours, one.theirs) for one in rest] == [(("total", "n0"), 301, 400)]
    assert tally.mismatched_cases == 1


def test_other_plugin_is_not_explained() -> None:
    """The entry forgives nothing of other plugins."""
    rest = Tally().add(case(), {**OURS, "skipped": []}, THEIRS)
    assert [one.path for one in rest] == [("skipped", "NodePorts")]


def test_pods_with_claims_are_left_out() -> None:
    """A case whose pending pod has resource claims is neither compared nor counted as coverage."""
    tally = Tally()
    claims = [{"name": "c", "resourceClaimName": "mine"}]
    assert tally.add(case(resourceClaims=claims), {"id": "x", "error": "no"}, THEIRS) == []
    assert tally.left_out["dynamic-resources"] == 1
    assert tally.cases == 0


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
