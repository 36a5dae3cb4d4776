"""Metrics: what Prometheus sees; kube-scheduler's names where the meaning is the same, so that its dashboards read well.

For the process, which feeds it Decisions, outcomes of writes and the state of watches; METRICS is also what the
documentation is generated from.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import prometheus_client as prometheus

from scheduler.framework.effects import BindPod, Effect, EvictPod

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.engine.decision import Decision
    from scheduler.engine.pending import PendingWorkload
    from scheduler.engine.room import LevelRoom

ATTEMPT_BUCKETS = tuple(0.001 * 2**i for i in range(15))
SLI_BUCKETS = tuple(0.01 * 2**i for i in range(20))
VICTIM_BUCKETS = tuple(float(2**i) for i in range(11))
STEP_BUCKETS = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
PROMISE_BUCKETS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 24 * 3600.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: what the documentation says of it and how it is made."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()


METRICS = (
    Metric("scheduler_schedule_attempts_total", "counter", ("result", "profile"),
           "Attempts to schedule pods by result: scheduled, unschedulable, error, waiting (at Permit) or nominated."),
    Metric("scheduler_scheduling_attempt_duration_seconds", "histogram", ("result", "profile"),
           "Time of one attempt in the engine, of a pod or of a gang as a whole.", ATTEMPT_BUCKETS),
    Metric("scheduler_pod_scheduling_sli_duration_seconds", "histogram", ("attempts",),
           "Time from first seeing a pod without gates until its binding succeeded.", SLI_BUCKETS),
    Metric("scheduler_pending_pods", "gauge", ("queue",),
           "Pending pods: active, backoff, unschedulable, gated."),
    Metric("scheduler_preemption_victims", "histogram", (), "Victims of one preemption.", VICTIM_BUCKETS),
    Metric("scheduler_preemption_attempts_total", "counter", (), "Attempts that chose victims."),
    Metric("ai_scheduler_pending_workloads", "gauge", ("kind", "phase"), "Workloads not yet placed, by kind (pod, gang)."),
    Metric("ai_scheduler_gang_attempts_total", "counter", ("result", "profile"), "Attempts to schedule whole gangs."),
    Metric("ai_scheduler_node_evaluations_total", "counter", ("profile",), "Nodes that filters or scores looked at."),
    Metric("ai_scheduler_refusals_total", "counter", ("reason", "finality"), "Refused attempts by reason code."),
    Metric("ai_scheduler_writes_total", "counter", ("effect", "outcome"),
           "Effects carried out: done, skipped (said that already), gone or failed."),
    Metric("ai_scheduler_write_duration_seconds", "histogram", ("effect",),
           "Time of one effect with its repetitions.", ATTEMPT_BUCKETS),
    Metric("ai_scheduler_writes_in_flight", "gauge", (), "Objects with something to be written."),
    Metric("ai_scheduler_events_dropped_total", "counter", (), "Events not written: too many, or refused."),
    Metric("ai_scheduler_objects_refused_total", "counter", ("resource",), "Objects that could not be decoded or used."),
    Metric("ai_scheduler_reflected_objects", "gauge", ("resource",), "Objects known by a watch."),
    Metric("ai_scheduler_reflector_lists", "gauge", ("resource",), "Lists: one at the start, one for each lost watch."),
    Metric("ai_scheduler_step_duration_seconds", "histogram", (), "Time between two pauses of the engine.", STEP_BUCKETS),
    Metric("ai_scheduler_collector_pause_seconds", "histogram", ("generation",),
           "Time for which the garbage collector held up the process.", STEP_BUCKETS),
    Metric("ai_scheduler_inputs_total", "counter", (), "Inputs handled by the engine."),
    Metric("ai_scheduler_largest_gang_pods", "gauge", ("gpus_per_pod", "level"),
           "Pods of the largest gang that would fit now into one domain of a level: the cluster, and the three widest below it."),
    Metric("ai_scheduler_promise_error_seconds", "histogram", ("side",),
           "How far the start of a workload was from the one it was promised last, by side: early (or just in time) or late.",
           PROMISE_BUCKETS),
    Metric("ai_scheduler_leader", "gauge", (), "1 while this replica decides."),
)  # fmt: skip

prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # a time series beside each counter, of no use to anybody
_QUEUES = {"active": "active", "in-flight": "active", "backoff": "backoff", "gated": "gated"}
_PHASES = ("gated", "active", "backoff", "unschedulable", "in-flight", "waiting", "nominated", "binding")


class Metrics:
    """All metrics in a registry of their own."""

    def __init__(self) -> None:
        """Make each metric of the table, and those of the process."""
        self.registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=self.registry)
        self._made = {metric.name: self._make(metric) for metric in METRICS}
        #: Each metric with labels that were used, since looking them up costs more than counting.
        self._labelled: dict[tuple[str, ...], Any] = {}

    def exposition(self) -> tuple[bytes, str]:
        """Return the text for Prometheus and its content type."""
        return prometheus.generate_latest(self.registry), prometheus.CONTENT_TYPE_LATEST

    def decided(self, decision: Decision, seconds: float) -> None:
        """Count a Decision that took this long."""
        result, profile = decision.result, decision.profile
        self.count("scheduler_schedule_attempts_total", decision.pods, result, profile)
        self.observe("scheduler_scheduling_attempt_duration_seconds", seconds, result, profile)
        self.count("ai_scheduler_node_evaluations_total", decision.evaluations, profile)
        if decision.is_gang:
            self.count("ai_scheduler_gang_attempts_total", 1, result, profile)
        if decision.victims:
            self.count("scheduler_preemption_attempts_total", 1)
            self.observe("scheduler_preemption_victims", len(decision.victims))
        if decision.promised_start is not None and result in ("scheduled", "waiting"):
            late = decision.time - decision.promised_start
            self.observe("ai_scheduler_promise_error_seconds", abs(late), "late" if late > 0 else "early")
        if decision.reason and result != "scheduled":
            self.count("ai_scheduler_refusals_total", 1, decision.reason, decision.finality)

    def bound(self, seconds_since_seen: float, attempts: int) -> None:
        """Observe how long a pod took from first sight to its binding."""
        label = str(attempts) if attempts < 16 else "16+"  # noqa: PLR2004 - kube-scheduler's limit
        self.observe("scheduler_pod_scheduling_sli_duration_seconds", seconds_since_seen, label)

    def written(self, effect: Effect, outcome: str, seconds: float) -> None:
        """Count an effect that was carried out."""
        name = type(effect).__name__
        self.count("ai_scheduler_writes_total", 1, name, outcome)
        if isinstance(effect, BindPod | EvictPod) or outcome != "skipped":
            self.observe("ai_scheduler_write_duration_seconds", seconds, name)

    def pending(self, workloads: Iterable[PendingWorkload]) -> None:
        """Set the gauges of the queue."""
        pods: Counter[str] = Counter(dict.fromkeys(("active", "backoff", "unschedulable", "gated"), 0))
        phases: Counter[tuple[str, str]] = Counter({(k, p): 0 for k in ("pod", "gang") for p in _PHASES})
        for workload in workloads:
            pods[_QUEUES.get(workload.phase, "unschedulable")] += workload.pods
            phases[workload.kind, workload.phase] += 1
        for queue, number in pods.items():
            self.set("scheduler_pending_pods", number, queue)
        for (kind, phase), number in phases.items():
            self.set("ai_scheduler_pending_workloads", number, kind, phase)

    def room(self, gpus_per_pod: int, levels: Iterable[LevelRoom]) -> None:
        """Set the gauges of the largest gangs that would fit, for one number of GPUs per pod."""
        for level in levels:
            self.set("ai_scheduler_largest_gang_pods", level.pods, str(gpus_per_pod), level.level)

    def count(self, name: str, by: float, *labels: str) -> None:
        """Raise a counter."""
        self._of(name, *labels).inc(by)

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge."""
        self._of(name, *labels).set(value)

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Add to a histogram."""
        self._of(name, *labels).observe(value)

    def _of(self, *name_and_labels: str) -> Any:
        """Return the metric of a name with values for its labels."""
        found = self._labelled.get(name_and_labels)
        if found is None:
            name, *labels = name_and_labels
            metric = self._made[name]
            found = self._labelled[name_and_labels] = metric.labels(*labels) if labels else metric
        return found

    def _make(self, metric: Metric) -> prometheus.Counter | prometheus.Gauge | prometheus.Histogram:
        if metric.kind == "histogram":
            return prometheus.Histogram(
                metric.name, metric.help, metric.labels, registry=self.registry, buckets=metric.buckets
            )
        if metric.kind == "gauge":
            return prometheus.Gauge(metric.name, metric.help, metric.labels, registry=self.registry)
        return prometheus.Counter(metric.name, metric.help, metric.labels, registry=self.registry)


def table() -> list[tuple[str, str, str, str]]:
    """Return name, kind, labels and meaning of each metric, for the documentation."""
    return [(m.name, m.kind, ", ".join(m.labels), m.help) for m in METRICS]
