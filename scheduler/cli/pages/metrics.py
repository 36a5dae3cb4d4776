"""docs/metrics.md: every metric with its labels and meaning."""

from __future__ import annotations

from scheduler.kube.metrics import METRICS, Metric

from . import GENERATED_FROM, table

UPSTREAM_PREFIX = "scheduler_"

_INTRODUCTION = f"""\
# Metrics

`ai-scheduler run` serves them at `/metrics` of `metricsBindAddress` in the text format of Prometheus. Metrics whose names
begin with `{UPSTREAM_PREFIX}` are kube-scheduler's: the name, the labels and the meaning are the same, so its dashboards and
alerts read them; a label may have values that it does not know. The others are ours. Those of the process itself
(`process_cpu_seconds_total`, `process_resident_memory_bytes`, …) are the client library's.

A replica that stands by serves its metrics too: `ai_scheduler_leader` tells them apart, and what it counts of decisions
stands still.
"""


def metrics_page() -> str:
    """Return docs/metrics.md."""
    rows = [(f"`{m.name}`", m.kind, ", ".join(f"`{name}`" for name in m.labels), _origin(m), m.help) for m in METRICS]
    lines = [GENERATED_FROM.format("scheduler/kube/metrics.py"), _INTRODUCTION]
    lines += table(("name", "type", "labels", "origin", "meaning"), rows)
    lines += ["", "## Buckets", "", "Upper bounds of the histograms, in seconds or in pieces; `+Inf` follows.", ""]
    lines += table(
        ("histogram", "bounds"),
        [(f"`{m.name}`", ", ".join(f"{bound:g}" for bound in m.buckets)) for m in METRICS if m.kind == "histogram"],
    )
    return "\n".join([*lines, ""])


def _origin(metric: Metric) -> str:
    return "kube-scheduler" if metric.name.startswith(UPSTREAM_PREFIX) else "own"
