"""Replays a trace: every job as pods in the embedded cluster, decided by the real engine and plugins, in virtual time.

For the command line, benchmarks and tests.  With gangs a job's pods belong to a PodGroup.  Without, they are pods like any
other, and their order in the queue is random (seeded): then jobs may hold GPUs for some of their pods and wait for each other
for ever, which is the dead-lock that gangs are there against.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.model import Node
from scheduler.sim.kubelets import KubeletTimes
from scheduler.sim.run import RunOptions, simulation_of
from scheduler.sim.world import Submitted, World

from .metrics import JobLife, metrics_of
from .runs import GPU, HIGHEST_PRIORITY, TraceRun, gang_of
from .trace import ClusterShape, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.config import SchedulerConfiguration
    from scheduler.sim.run import Simulation

    from .metrics import Metrics

#: What was refused is tried again even if nothing cures it, once a week: in a trace of months, the usual five minutes would
#: be most of the work.  A wake-up that the engine missed would still come, and show as a late start.
FLUSH_SECONDS = 604_800

_MOMENTS_BETWEEN_NEWS = 100
_MILLICORES, _MEMORY_BYTES, _FEWEST_PODS = 96_000, 1 << 40, 110


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How a trace is replayed."""

    shape: ClusterShape = field(default_factory=ClusterShape)
    #: Pods of a job belong to a PodGroup.
    has_gangs: bool = True
    #: Of the random order in which pods wait without gangs.
    seed: int = 0
    #: From the binding of a pod until its containers run.
    start_delay_seconds: float = 2.0
    #: The replay is cut after so many seconds; None: it ends by itself.
    until_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay came to."""

    options: ReplayOptions
    #: Those that were submitted before the end.
    jobs: tuple[JobLife, ...]
    metrics: Metrics
    #: The last moment at which something happened, in seconds after the start.
    end_seconds: float
    is_cut: bool

    @property
    def deadlocked(self) -> tuple[JobLife, ...]:
        """The jobs that hold GPUs and wait for more, while nothing is left that could happen."""
        return () if self.is_cut else tuple(job for job in self.jobs if job.is_incomplete)


def replay(
    trace: Trace,
    configuration: SchedulerConfiguration,
    options: ReplayOptions = ReplayOptions(),
    *,
    on_moment: Callable[[int, int], None] | None = None,
) -> Replayed:
    """Run a trace to its end; `on_moment` hears now and then how many jobs have finished, and of how many."""
    runs, simulation = begin(trace, configuration, options)
    moments = 0
    while simulation.advance():
        # The decisions of months are not kept.
        simulation.decisions.clear()
        moments += 1
        if on_moment is not None and moments % _MOMENTS_BETWEEN_NEWS == 0:
            on_moment(sum(run.finished is not None for run in runs), len(runs))
    # With nothing on the agenda but retries in vain, the end had come before the cut.
    is_cut = simulation.is_cut and simulation.cluster.agenda.next_moment() is not None
    lives = [run.life() for run in runs]
    end = simulation.elapsed if is_cut else _last_moment(lives)
    jobs = tuple(job for job in lives if job.submitted <= end)
    return Replayed(options, jobs, metrics_of(jobs, options.shape.gpus, end), end, is_cut)


def begin(
    trace: Trace, configuration: SchedulerConfiguration, options: ReplayOptions
) -> tuple[list[TraceRun], Simulation]:
    """Return the jobs and the simulation, with everything on its agenda."""
    shape = options.shape
    submitted = [Submitted(0.0, node) for node in _nodes(shape)]
    if options.has_gangs:
        submitted += [
            Submitted(job.submit_seconds, gang_of(job, len(shape.pods_of(job.gpus)), trace.start + job.submit_seconds))
            for job in trace.jobs
        ]
    simulation = simulation_of(
        World(tuple(submitted), trace.start),
        configuration.model_copy(update={"unschedulable_flush_seconds": FLUSH_SECONDS}),
        RunOptions(KubeletTimes(start_seconds=options.start_delay_seconds), options.until_seconds),
    )
    chance = random.Random(options.seed)  # noqa: S311 - an order, no secret
    runs = []
    for job in trace.jobs:
        sizes = shape.pods_of(job.gpus)
        order = None if options.has_gangs else [chance.randrange(HIGHEST_PRIORITY) for _ in sizes]
        run = TraceRun(job, sizes, simulation.cluster, configuration.profiles[0].scheduler_name, order)
        simulation.cluster.agenda.at(trace.start + job.submit_seconds, run.begin)
        runs.append(run)
    return runs, simulation


def _nodes(shape: ClusterShape) -> list[Node]:
    """Return the nodes; of everything but GPUs they have enough."""
    width = len(str(shape.nodes))
    pods = max(_FEWEST_PODS, shape.gpus_per_node)
    amounts = {"cpu": _MILLICORES, "memory": _MEMORY_BYTES, "pods": pods, GPU: shape.gpus_per_node}
    return [Node(name=f"node-{number + 1:0{width}}", allocatable=dict(amounts)) for number in range(shape.nodes)]


def _last_moment(jobs: Sequence[JobLife]) -> float:
    """Return when the last thing happened: a submission, a binding, a start or an end."""
    moments = [job.submitted for job in jobs]
    for life in (life for job in jobs for life in job.lives):
        moments += [moment for moment in (life.bound, life.started, life.ended) if moment is not None]
    return max(moments, default=0.0)
