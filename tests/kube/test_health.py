"""Health, metrics and logs: what operators of the scheduler see."""

from __future__ import annotations

import io
import json
import logging

import aiohttp
import structlog

from scheduler.engine.decision import Decision, PlacedPod, VictimPod
from scheduler.engine.inputs import BindingSucceeded, PodChanged
from scheduler.engine.pending import PendingWorkload
from scheduler.kube.health import HealthServer
from scheduler.kube.logs import configure_logs
from scheduler.kube.metrics import METRICS, Metrics, table
from scheduler.kube.observing import Observer
from tests.builders import a_pod


async def fetch(server: HealthServer, address: str, path: str) -> tuple[int, str]:
    """Return status and text of a page."""
    host, port = server.bound[address]
    async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}{path}") as response:
        return response.status, await response.text()


async def test_pages_on_one_address() -> None:
    """Healthy, not ready with the reason, metrics."""
    address = "127.0.0.1:0"
    server = HealthServer(address, address, lambda: (b"metrics here", "text/plain; version=1.0"))
    server.alive = {"loop": lambda: ""}
    server.ready = {"views": lambda: "not complete: nodes"}
    await server.start()
    assert await fetch(server, address, "/healthz") == (200, "ok")
    assert await fetch(server, address, "/livez") == (200, "ok")
    assert await fetch(server, address, "/readyz") == (503, "[-]views: not complete: nodes\n")
    assert await fetch(server, address, "/metrics") == (200, "metrics here")
    await server.stop()


async def test_pages_on_two_addresses_or_none() -> None:
    """Each address serves its own pages; an empty one is off."""
    server = HealthServer("127.0.0.1:0", "", lambda: (b"", "text/plain"))
    await server.start()
    assert (await fetch(server, "127.0.0.1:0", "/metrics"))[0] == 404
    await server.stop()
    off = HealthServer("", "", lambda: (b"", "text/plain"))
    await off.start()
    assert off.bound == {}


def decision(result: str = "scheduled", **fields: object) -> Decision:
    """Return a Decision about one pod."""
    placed = (PlacedPod(pod="default/p", uid="uid-p", node="n"),) if result == "scheduled" else ()
    return Decision(
        cycle=1, time=0.0, generation=1, workload="pod:default/p", is_gang=False, profile="ai-scheduler", priority=0,
        pods=1, needed=1, result=result, placements=placed, evaluations=7, **fields,
    )  # type: ignore[arg-type] # fmt: skip


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """Return what a metric says."""
    return metrics.registry.get_sample_value(name, labels)


def test_decisions_are_counted_under_upstream_names() -> None:
    """Attempts by result, duration, victims."""
    metrics = Metrics()
    metrics.decided(decision(), 0.25)
    victims = (VictimPod(pod="default/v", uid="v", node="n"),) * 3
    metrics.decided(decision("nominated", victims=victims, reason="Unschedulable", finality="not now"), 0.5)
    both = {"profile": "ai-scheduler"}
    assert value(metrics, "scheduler_schedule_attempts_total", result="scheduled", **both) == 1
    assert value(metrics, "scheduler_scheduling_attempt_duration_seconds_sum", result="nominated", **both) == 0.5
    assert value(metrics, "scheduler_preemption_victims_sum") == 3
    assert value(metrics, "scheduler_preemption_attempts_total") == 1
    assert value(metrics, "ai_scheduler_refusals_total", reason="Unschedulable", finality="not now") == 1


def test_the_queue_is_shown_as_upstream_shows_it() -> None:
    """Pods by queue, workloads by phase; what is empty is zero, not missing."""
    metrics = Metrics()
    gang = PendingWorkload("default/g", "gang", "default", "g", "unschedulable", 0, 8, 8, 0.0, 1, "", "")
    metrics.pending([gang])
    assert value(metrics, "scheduler_pending_pods", queue="unschedulable") == 8
    assert value(metrics, "scheduler_pending_pods", queue="active") == 0
    assert value(metrics, "ai_scheduler_pending_workloads", kind="gang", phase="unschedulable") == 1
    metrics.pending([])
    assert value(metrics, "scheduler_pending_pods", queue="unschedulable") == 0


def test_the_way_of_a_pod_is_measured() -> None:
    """From first sight to binding, with the number of attempts."""
    metrics, now = Metrics(), [0.0]
    observer = Observer(metrics, clock=lambda: now[0])
    observer.input(PodChanged(a_pod("p").build()))
    for result in ("unschedulable", "scheduled"):
        observer.step_began()
        now[0] += 2.0
        observer.decided(decision(result))
        observer.step_ended(has_more=False)
    observer.input(BindingSucceeded("uid-p"))
    assert value(metrics, "scheduler_pod_scheduling_sli_duration_seconds_sum", attempts="2") == 4.0


def test_an_attempt_over_several_steps_is_one_duration() -> None:
    """Pauses between the steps do not count."""
    metrics, now = Metrics(), [0.0]
    observer = Observer(metrics, clock=lambda: now[0])
    observer.step_began()
    now[0] += 0.3
    observer.step_ended(has_more=True)
    now[0] += 100
    observer.step_began()
    now[0] += 0.2
    observer.decided(decision())
    observer.step_ended(has_more=False)
    labels = {"result": "scheduled", "profile": "ai-scheduler"}
    assert value(metrics, "scheduler_scheduling_attempt_duration_seconds_sum", **labels) == 0.5


def test_each_metric_is_documented() -> None:
    """One list makes metrics and table; names carry one of two prefixes."""
    names = [row[0] for row in table()]
    assert names == [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    assert all(name.startswith(("scheduler_", "ai_scheduler_")) for name in names)
    assert all(row[3].endswith(".") or row[3].startswith("1 ") for row in table())


def test_logs_of_everybody_are_json_lines() -> None:
    """Ours with fields, the standard library's, and exceptions."""
    stream = io.StringIO()
    handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
    try:
        configure_logs("info", as_json=True, stream=stream)
        structlog.stdlib.get_logger("test").info("decision", pods=3, weird=object)
        logging.getLogger("elsewhere").warning("hello %s", "world")
        logging.getLogger("kopf").info("not heard")
        try:
            int("x")
        except ValueError:
            structlog.stdlib.get_logger("test").exception("crash")
    finally:
        logging.getLogger().handlers[:] = handlers
        logging.getLogger().setLevel(level)
        logging.captureWarnings(capture=False)
        structlog.reset_defaults()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["decision", "hello world", "crash"]
    assert (lines[0]["pods"], lines[0]["level"], lines[0]["logger"]) == (3, "info", "test")
    assert lines[2]["exception"][0]["exc_type"] == "ValueError"
