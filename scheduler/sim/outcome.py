"""Outcome: what a simulation came to, as plain data; reports, pages and JSON are made of it.

All times are seconds after the start; a time before it is negative.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

_DIGITS = 3


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """One life of one pod on a node."""

    name: str
    node: str
    bound: float
    #: None while it runs.
    ended: float | None
    #: Running, Succeeded, Failed, Evicted or Deleted.
    outcome: str
    gpus: int
    #: Which GPUs, where the scheduler said so.
    gpu_set: tuple[int, ...] | None
    #: NVLink bandwidth of the set and of the best set of that size, GB/s per direction; None where it is not known.
    bandwidth_gbps: int | None
    best_gbps: int | None


@dataclass(frozen=True, slots=True)
class WorkloadOutcome:
    """What became of a gang, of a Job or another controller without a gang, or of a single pod."""

    kind: str
    namespace: str
    name: str
    #: Pending, Running, Succeeded, Failed, Evicted or Suspended.
    phase: str
    priority: int
    submitted: float
    #: When as many pods as it needs had been placed for the first time.
    started: float | None
    finished: float | None
    wait_seconds: float | None
    #: How many pods it needs at least, and how many wait at the end.
    needed: int
    waiting: int
    #: Where it runs, or ran last.
    nodes: tuple[str, ...]
    #: The most GPUs that it held at once; what it asks for if it never held any.
    gpus: int
    #: The lowest of its pods' sets, and what it is of the best possible, as a percentage.
    bandwidth_gbps: int | None
    bandwidth_percent: int | None
    evicted: int
    #: Why it waits, failed or went, as a code and as a sentence.
    code: str
    reason: str
    pods: tuple[PodOutcome, ...]
    #: What the pods that wait at the end ask for, and since when the first of them waits.
    waiting_gpus: int = 0
    waiting_since: float | None = None
    #: The start that it was told first, and last before it started or the end; None if it was told none, or that none can be told.
    promised_start: float | None = None
    last_promised_start: float | None = None

    @property
    def running(self) -> int:
        """How many pods run at the end."""
        return sum(1 for pod in self.pods if pod.ended is None)

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def does_not_fit(self) -> bool:
        """Pods of it wait at the end, or were evicted and nobody made them again."""
        return self.waiting > 0 or self.phase in ("Pending", "Evicted")


@dataclass(frozen=True, slots=True)
class EvictionOutcome:
    """A pod that had to go, and for whom."""

    seconds: float
    namespace: str
    pod: str
    workload: str
    node: str
    gpus: int
    #: Namespace and name of the workload that it made room for.
    preempted_for: str
    reason: str
    #: How many pods the workload had until then, with this one.
    of_pods: int = 1


@dataclass(frozen=True, slots=True)
class Sample:
    """What was in use from a moment on."""

    seconds: float
    gpus: int
    gpus_total: int
    millicores: int
    millicores_total: int
    waiting_pods: int


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """A node, as pages draw it."""

    name: str
    gpus: int
    product: str
    #: Its place in the fabric or the cluster, such as a rack; empty if nothing says so.
    group: str
    #: GPUs that are linked directly: (one, other, GB/s per direction); empty behind an NVSwitch.
    links: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a simulation came to."""

    #: Seconds since the epoch.
    start: float
    #: The last moment at which something happened.
    end_seconds: float
    #: The horizon came first.
    is_cut: bool
    nodes: tuple[NodeOutcome, ...]
    workloads: tuple[WorkloadOutcome, ...]
    evictions: tuple[EvictionOutcome, ...]
    samples: tuple[Sample, ...]
    notes: tuple[str, ...]
    #: The lives of pods that other schedulers had placed.
    others: tuple[PodOutcome, ...] = ()

    @property
    def unfit(self) -> tuple[WorkloadOutcome, ...]:
        """The workloads that do not fit."""
        return tuple(workload for workload in self.workloads if workload.does_not_fit)

    def mean_share(self, used: str, total: str) -> float:
        """Return the share in use over the whole time, 0 to 1; of no resource at all it is 0."""
        ends = [sample.seconds for sample in self.samples[1:]] + [self.end_seconds]
        spans = [(end - sample.seconds, sample) for sample, end in zip(self.samples, ends, strict=False)]
        capacity = sum(span * getattr(sample, total) for span, sample in spans)
        return sum(span * getattr(sample, used) for span, sample in spans) / capacity if capacity else 0.0

    def peak_share(self, used: str, total: str) -> float:
        """Return the highest share in use, 0 to 1."""
        return max((getattr(s, used) / getattr(s, total) for s in self.samples if getattr(s, total)), default=0.0)


def to_json(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome as JSON; the keys are a promise to scripts."""
    return {
        "start": outcome.start,
        "end_seconds": _round(outcome.end_seconds),
        "is_cut": outcome.is_cut,
        "fits": not outcome.unfit,
        "workloads": [_workload(workload) for workload in outcome.workloads],
        "evictions": [_rounded(asdict(eviction)) for eviction in outcome.evictions],
        "utilisation": {
            "gpus": _shares(outcome, "gpus"),
            "cpu": _shares(outcome, "millicores"),
            "samples": [_rounded(asdict(sample)) for sample in outcome.samples],
        },
        "nodes": [asdict(node) for node in outcome.nodes],
        "notes": list(outcome.notes),
    }


def _workload(workload: WorkloadOutcome) -> dict[str, Any]:
    found = _rounded(asdict(workload))
    found["nodes"] = list(workload.nodes)
    found["pods"] = [_rounded(asdict(pod)) for pod in workload.pods]
    return found


def _shares(outcome: Outcome, used: str) -> dict[str, float | int]:
    total = f"{used}_total"
    return {
        "mean": _round(outcome.mean_share(used, total)),
        "peak": _round(outcome.peak_share(used, total)),
        "total": max((getattr(sample, total) for sample in outcome.samples), default=0),
    }


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {key: _round(value) if isinstance(value, float) else value for key, value in values.items()}


def _round(value: float) -> float:
    """Return a number without the noise of floating point."""
    return round(value, _DIGITS)
