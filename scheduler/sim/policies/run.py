"""Runs a trace under a policy by its name, and counts.

For the command line and benchmarks.

| name | knows run times | semantics |
|---|---|---|
| fifo | no | jobs keep their GPUs; nobody passes one that came before |
| attained | no | jobs keep their GPUs; the least attained service first, preempted seldom (ours) |
| tiresias | no | all GPUs are dealt anew; Tiresias-L |
| srtf, srsf | yes | all GPUs are dealt anew; the shortest remaining time, or time × GPUs, first |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduler.sim.traces.metrics import metrics_of

from .dealing import deal_trace
from .holding import hold_trace
from .own import Attained, Fifo
from .published import TiresiasL, srsf, srtf
from .work import effective_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.sim.traces.metrics import JobLife, Metrics
    from scheduler.sim.traces.trace import ClusterShape, Trace

    from .work import Work

_RUNS: dict[str, Callable[[Trace, ClusterShape], list[Work]]] = {
    "fifo": lambda trace, shape: hold_trace(trace, shape, Fifo()),
    "attained": lambda trace, shape: hold_trace(trace, shape, Attained()),
    "tiresias": lambda trace, shape: deal_trace(trace, TiresiasL(shape)),
    "srtf": lambda trace, shape: deal_trace(trace, srtf(shape)),
    "srsf": lambda trace, shape: deal_trace(trace, srsf(shape)),
}
POLICIES = tuple(_RUNS)
#: Those that need to know how long jobs run.
CLAIRVOYANT = frozenset({"srtf", "srsf"})


@dataclass(frozen=True, slots=True)
class PolicyRun:
    """What a trace came to under a policy."""

    policy: str
    shape: ClusterShape
    jobs: tuple[JobLife, ...]
    metrics: Metrics
    #: How often GPUs were taken from a job that had not ended.
    preemptions: int
    #: GPU-seconds that jobs held without making progress, by the overheads of their starts after the first one.
    lost_gpu_seconds: float


def run_policy(name: str, trace: Trace, shape: ClusterShape) -> PolicyRun:
    """Run a trace to its end; KeyError for a policy that is not in POLICIES."""
    works = _RUNS[name](trace, shape)
    jobs = tuple(work.life() for work in works)
    end = max((job.finished for job in jobs if job.finished is not None), default=0.0)
    return PolicyRun(
        name, shape, jobs, metrics_of(jobs, shape.gpus, end), sum(work.preemptions for work in works), _lost(works)
    )


def _lost(works: Sequence[Work]) -> float:
    """Return the GPU-seconds that were held beyond what the jobs had to do, without the first start of each."""
    return math.fsum(
        max(work.held_seconds - effective_seconds(work.job) - work.overhead_seconds, 0.0) * work.job.gpus
        for work in works
        if work.finished is not None
    )


def policy_json(run: PolicyRun) -> dict[str, Any]:
    """Return the figures of a run by the names that scripts may rely on; times in seconds."""
    metrics, shape = run.metrics, run.shape
    return {
        "policy": run.policy,
        "knows_run_times": run.policy in CLAIRVOYANT,
        "cluster": {"nodes": shape.nodes, "gpus_per_node": shape.gpus_per_node, "gpus": shape.gpus},
        "metrics": {
            "jobs": metrics.jobs,
            "finished": metrics.finished,
            "mean_jct_seconds": _rounded(metrics.mean_jct_seconds),
            "p99_jct_seconds": _rounded(metrics.p99_jct_seconds),
            "mean_wait_seconds": _rounded(metrics.mean_wait_seconds),
            "makespan_seconds": _rounded(metrics.makespan_seconds),
            "gpu_utilisation": _rounded(metrics.gpu_utilisation),
            "preemptions": run.preemptions,
            "lost_gpu_seconds": _rounded(run.lost_gpu_seconds),
        },
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
