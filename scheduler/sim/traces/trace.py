"""Trace: the jobs that somebody submitted to a GPU cluster, whatever the file they come from; and how they become pods.

For the readers of the formats, which make it, and for whoever runs it: the replay with the real engine, or a policy.  Pure:
nothing here knows a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.sim.clock import DEFAULT_START
from scheduler.sim.manifests import ManifestError

if TYPE_CHECKING:
    from collections.abc import Sequence


class TraceError(ManifestError):
    """A trace that cannot be used; `problems` lists what is wrong with it."""


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """Equal nodes with GPUs; by default those of the Muri simulations."""

    nodes: int = 8
    gpus_per_node: int = 8

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return self.nodes * self.gpus_per_node

    def pods_of(self, gpus: int) -> tuple[int, ...]:
        """Return the GPUs of each pod of a job: one pod if a node can hold it, else whole nodes and a smaller rest."""
        whole, rest = divmod(gpus, self.gpus_per_node)
        return (self.gpus_per_node,) * whole + ((rest,) if rest else ())

    def __str__(self) -> str:
        """Return the numbers, as messages show them."""
        return f"{self.nodes} nodes × {self.gpus_per_node} GPUs"


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job of a trace."""

    #: Unique in the trace, and fit for the name of an object.
    name: str
    gpus: int
    #: Seconds after the trace's start.
    submit_seconds: float
    #: How long it runs on all its GPUs, without a start overhead.
    run_seconds: float
    #: What it trains, where the trace says so: some models start more slowly (`overhead`).
    model: str = ""
    #: Its work in iterations, and how long each takes; 0 where the trace does not say.
    iterations: int = 0
    iteration_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs in the order of their submission; of one moment, in the order of the file."""

    jobs: tuple[TraceJob, ...]
    #: Seconds since the epoch.
    start: float = DEFAULT_START

    def first(self, count: int | None) -> Trace:
        """Return the trace of the first so many jobs; None for all."""
        return self if count is None else Trace(self.jobs[:count], self.start)


def in_order(jobs: Sequence[TraceJob]) -> tuple[TraceJob, ...]:
    """Return jobs by their submission; those of one moment stay as they stand."""
    return tuple(sorted(jobs, key=lambda job: job.submit_seconds))
