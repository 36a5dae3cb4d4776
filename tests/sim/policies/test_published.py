"""Published policies reach the figures that their authors publish: so trace reader, clock, overheads and metrics are right."""

import csv
from pathlib import Path

import pytest

from scheduler.sim.policies.run import run_policy
from scheduler.sim.traces.muri import read_muri
from scheduler.sim.traces.trace import ClusterShape

TRACES = Path(__file__).parents[2] / "data" / "traces"
NAMES = {"srsf": "SRSF", "srtf": "SRTF", "tiresias": "Tiresias_L"}
#: Preemptions as an independent run of the published simulator counts them.
PREEMPTIONS = {
    ("srtf", "trace1"): 2548, ("srsf", "trace1"): 2643, ("tiresias", "trace1"): 4271,
    ("srtf", "trace3"): 1049, ("srsf", "trace3"): 813, ("tiresias", "trace3"): 1483,
}  # fmt: skip


def published(metric: str, policy: str, trace: str) -> float:
    """Return a published figure, in seconds."""
    with (TRACES / "muri_published_results.csv").open(newline="") as file:
        [row] = [r for r in csv.DictReader(file) if (r["metric_seconds"], r["policy"]) == (metric, NAMES[policy])]
    return float(row[trace])


@pytest.mark.parametrize("trace", ["trace1", "trace3"])
@pytest.mark.parametrize("policy", ["srsf", "srtf", "tiresias"])
def test_published_figures_are_reached(policy: str, trace: str) -> None:
    """Average, 99th percentile and makespan, to the second or better."""
    shape = ClusterShape()
    run = run_policy(policy, read_muri(str(TRACES / f"muri_{trace}.csv"), shape), shape)
    assert run.metrics.finished == run.metrics.jobs
    assert run.metrics.mean_jct_seconds == pytest.approx(published("avg_jct", policy, trace), abs=1)
    assert run.metrics.p99_jct_seconds == pytest.approx(published("p99_jct", policy, trace), abs=1)
    assert run.metrics.makespan_seconds == pytest.approx(published("makespan", policy, trace), abs=1)
    assert run.preemptions == PREEMPTIONS[policy, trace]


@pytest.mark.parametrize("trace", ["trace1", "trace3"])
def test_attained_service_beats_tiresias_with_fewer_preemptions(trace: str) -> None:
    """It knows no run times either, and moves no job for nothing."""
    shape = ClusterShape()
    jobs = read_muri(str(TRACES / f"muri_{trace}.csv"), shape)
    ours, theirs = run_policy("attained", jobs, shape), run_policy("tiresias", jobs, shape)
    assert ours.metrics.finished == len(jobs.jobs)
    assert ours.metrics.mean_jct_seconds is not None
    assert theirs.metrics.mean_jct_seconds is not None
    assert ours.metrics.mean_jct_seconds < theirs.metrics.mean_jct_seconds
    assert ours.preemptions < theirs.preemptions
