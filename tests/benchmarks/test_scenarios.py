"""Scenarios of KAI-Scheduler's own tests end on our engine as its authors expect (data/scenarios/SOURCE.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.scenarios.playing import play
from benchmarks.scenarios.reading import read_scenarios

DATA = Path(__file__).parent.parent / "data/scenarios"
#: Files whose scenarios hold.
HELD = ("allocate", "consolidation", "preempt", "reclaim", "topology")
#: Where ours does better than expected: what differs then, and why (`benchmarks/scenarios/README.md`).
BETTER = {
    "integration_tests/reclaim/reclaim_test.go#3": "running_job0-0 is Pending, expected Running on node1",
}
SCENARIOS = [scenario for name in HELD for scenario in read_scenarios(DATA / f"{name}.jsonl")]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_scenario_ends_as_expected(scenario):
    """Nothing differs, but where ours is better: statuses, nodes, and how much was bound, evicted and nominated."""
    difference = play(scenario).difference
    if scenario.id in BETTER:
        assert BETTER[scenario.id] in difference
    else:
        assert difference == ""
