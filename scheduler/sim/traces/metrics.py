"""What is counted of the jobs of a trace: completion times, makespan, utilisation, and what incomplete jobs held in vain.

For the replay and for policies.  Pure arithmetic: it knows when each pod held its GPUs, and nothing of how it came to that.

| figure | means |
|---|---|
| JCT | job completion time: from the submission to the end, of the jobs that finished |
| makespan | from the first submission to the last end |
| utilisation | share of the GPU time between the first submission and the end in which all pods of the job ran |
| running, incomplete, waiting | at the end: all pods of the job are placed, some of them, none |
| held idle | GPU time that jobs held for some of their pods while others had no place |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_HOUR = 3600.0
_P99 = 0.99


@dataclass(frozen=True, slots=True)
class PodLife:
    """How long a pod held its GPUs, in seconds after the start."""

    gpus: int
    bound: float
    #: When its containers began to run; None: they did not.
    started: float | None
    #: None: it holds them still.
    ended: float | None


@dataclass(frozen=True, slots=True)
class JobLife:
    """What became of a job; a pod that was evicted and made again has several lives."""

    name: str
    gpus: int
    #: How many pods must run at once.
    size: int
    submitted: float
    #: None: it has not finished.
    finished: float | None
    lives: tuple[PodLife, ...]

    @property
    def placed(self) -> tuple[PodLife, ...]:
        """The pods that hold GPUs at the end."""
        return tuple(life for life in self.lives if life.ended is None)

    @property
    def is_incomplete(self) -> bool:
        """At the end it holds GPUs, but not for all its pods: it cannot advance."""
        return self.finished is None and 0 < len(self.placed) < self.size

    @property
    def jct_seconds(self) -> float | None:
        """Its completion time."""
        return None if self.finished is None else self.finished - self.submitted

    def started(self, end: float) -> float | None:
        """Return when all its pods ran for the first time."""
        return next((since for since, _, _ in _running(self, end)), None)


@dataclass(frozen=True, slots=True)
class Metrics:
    """The figures; those of no job at all are None."""

    jobs: int
    finished: int
    running: int
    incomplete: int
    waiting: int
    mean_jct_seconds: float | None
    p99_jct_seconds: float | None
    #: From the submission until all pods ran for the first time, of the jobs that came so far.
    mean_wait_seconds: float | None
    makespan_seconds: float | None
    gpu_utilisation: float
    gpu_hours_held_idle: float


def metrics_of(jobs: Sequence[JobLife], gpus: int, end: float) -> Metrics:
    """Return the figures of jobs on a cluster of so many GPUs, up to the end (seconds)."""
    first = min((job.submitted for job in jobs), default=0.0)
    ends = [job.finished for job in jobs if job.finished is not None]
    completion = [job.jct_seconds for job in jobs if job.jct_seconds is not None]
    waits = [started - job.submitted for job in jobs if (started := job.started(end)) is not None]
    open_jobs = [(job, len(job.placed)) for job in jobs if job.finished is None]
    worked = sum(job.gpus * (until - since) for job in jobs for since, until, _ in _running(job, end))
    idle = sum(count * (until - since) for job in jobs for since, until, count in _incomplete(job, end))
    return Metrics(
        jobs=len(jobs),
        finished=len(ends),
        running=sum(count >= job.size for job, count in open_jobs),
        incomplete=sum(job.is_incomplete for job in jobs),
        waiting=sum(count == 0 for _, count in open_jobs),
        mean_jct_seconds=_mean(completion),
        p99_jct_seconds=percentile(completion, _P99),
        mean_wait_seconds=_mean(waits),
        makespan_seconds=max(ends) - first if ends else None,
        gpu_utilisation=worked / (gpus * (end - first)) if gpus * (end - first) > 0 else 0.0,
        gpu_hours_held_idle=idle / _HOUR,
    )


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the lowest value that so great a share of them does not exceed (nearest rank); None of no values."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _running(job: JobLife, end: float) -> Iterator[tuple[float, float, int]]:
    """Yield each span in which all pods of a job run."""
    for since, until, pods, count in _spans(job, end, lambda life: life.started):
        if pods >= job.size:
            yield since, until, count


def _incomplete(job: JobLife, end: float) -> Iterator[tuple[float, float, int]]:
    """Yield each span in which a job holds GPUs for some of its pods only, and how many."""
    for since, until, pods, count in _spans(job, end, lambda life: life.bound):
        if 0 < pods < job.size:
            yield since, until, count


def _spans(
    job: JobLife, end: float, begin: Callable[[PodLife], float | None]
) -> Iterator[tuple[float, float, int, int]]:
    """Yield each span between two changes: when it begins and ends, and how many pods are there, with how many GPUs."""
    changes: list[tuple[float, int, int]] = []
    for life in job.lives:
        since = begin(life)
        if since is not None:
            changes += [(since, 1, life.gpus), (end if life.ended is None else life.ended, -1, -life.gpus)]
    pods = gpus = 0
    since = -math.inf
    for moment, change, count in sorted(changes):
        if moment > since and pods:
            yield since, moment, pods, gpus
        since, pods, gpus = moment, pods + change, gpus + count
