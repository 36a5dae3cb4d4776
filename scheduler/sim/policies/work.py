"""Work: a job of a trace as a policy sees it: what is left of it, what it has had, and when it held its GPUs.

For the simulations of policies.  All times are seconds after the trace's start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.sim.traces.metrics import JobLife, PodLife
from scheduler.sim.traces.muri import ITERATION_FACTOR
from scheduler.sim.traces.overhead import start_overhead_seconds

if TYPE_CHECKING:
    from scheduler.sim.traces.trace import TraceJob


def effective_seconds(job: TraceJob) -> float:
    """Return how long a job runs on all its GPUs: by its iterations where the trace tells them, as the authors of Muri count."""
    if job.iterations and job.iteration_seconds:
        return job.iterations * job.iteration_seconds * ITERATION_FACTOR
    return job.run_seconds


@dataclass(slots=True, eq=False)
class Work:
    """A job that has come."""

    job: TraceJob
    #: Its place in the order of arrival: ends ties.
    number: int
    #: Seconds of progress that it needs yet.
    remaining: float
    is_running: bool = False
    #: Seconds for which it has held its GPUs.
    held_seconds: float = 0.0
    #: When it was given them the last time.
    since: float = 0.0
    #: Seconds for which it has held them since.
    held_since_start: float = 0.0
    #: How often it was given them, and how often they were taken from it.
    starts: int = 0
    preemptions: int = 0
    #: Seconds of its present start that have not passed yet.
    starting_seconds: float = 0.0
    finished: float | None = None
    #: From when to when it held its GPUs; open while it does.
    spans: list[tuple[float, float | None]] = field(default_factory=list)

    @property
    def attained(self) -> float:
        """GPU-seconds that it has held."""
        return self.held_seconds * self.job.gpus

    @property
    def overhead_seconds(self) -> float:
        """How long it takes to start."""
        return start_overhead_seconds(self.job.model, self.job.gpus)

    def start(self, now: float) -> None:
        """Give it its GPUs."""
        self.is_running = True
        self.since = now
        self.held_since_start = 0.0
        self.starts += 1
        self.starting_seconds = self.overhead_seconds
        self.spans.append((now, None))

    def stop(self, now: float) -> None:
        """Take its GPUs, as it ended or was preempted."""
        self.is_running = False
        self.spans[-1] = (self.spans[-1][0], now)

    def hold(self, seconds: float) -> None:
        """Let time pass in which it holds its GPUs."""
        self.held_seconds += seconds
        self.held_since_start += seconds

    def preempt(self, now: float) -> None:
        """Take its GPUs for another job."""
        self.preemptions += 1
        self.stop(now)

    def finish(self, now: float) -> None:
        """Note that it has ended."""
        self.remaining = 0.0
        self.finished = now
        if self.is_running:
            self.stop(now)

    def life(self) -> JobLife:
        """Return what became of it, as one pod that holds all its GPUs."""
        gpus = self.job.gpus
        lives = tuple(PodLife(gpus, since, since, until) for since, until in self.spans)
        return JobLife(self.job.name, gpus, 1, self.job.submit_seconds, self.finished, lives)


def work_of(job: TraceJob, number: int) -> Work:
    """Return a job that has just come."""
    return Work(job, number, effective_seconds(job))
