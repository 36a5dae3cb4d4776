"""Scenarios of KAI-Scheduler's own tests end on our engine as its authors expect (data/scenarios/SOURCE.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.scenarios.playing import play
from benchmarks.scenarios.reading import read_scenarios

DATA = Path(__file__).parent.parent / "data/scenarios"
#: Files whose scenarios hold.
HELD = ("allocate", "consolidation", "preempt", "reclaim", "topology")
SCENARIOS = [scenario for name in HELD for scenario in read_scenarios(DATA / f"{name}.jsonl")]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_scenario_ends_as_expected(scenario):
    """Nothing differs: statuses, nodes, and how much was bound, evicted and nominated."""
    assert play(scenario).difference == ""
