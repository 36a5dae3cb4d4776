"""The harness beside kube-scheduler: what it counts, how it judges, and that its reviewed ranges fit its workloads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from benchmarks.peers import ranges, work
from benchmarks.peers.audit import Audit, writes
from benchmarks.peers.client import percentile
from benchmarks.peers.goals import GOALS, Goal, fixed, times
from benchmarks.peers.results import by_row, page
from benchmarks.peers.schedulers import BARE, KUBE, OURS
from benchmarks.peers.workloads import WORKLOADS

if TYPE_CHECKING:
    from pathlib import Path


def entry(verb: str, resource: str, subresource: str = "") -> str:
    """Return a line of an audit log."""
    return (
        json.dumps({"verb": verb, "objectRef": {"resource": resource, "subresource": subresource}, "stage": "x"}) + "\n"
    )


def test_requests_are_counted_from_the_log_as_it_grows(tmp_path: Path) -> None:
    """Neither the Lease nor watches count; a line that is half written counts when it is whole."""
    log = tmp_path / "audit.log"
    audit = Audit(log)
    assert audit.take() == {}
    half = entry("create", "events")
    log.write_text(
        entry("create", "pods", "binding") * 2 + entry("update", "leases") + entry("watch", "pods") + half[:10]
    )
    assert audit.take() == {"create pods/binding": 2}
    with log.open("a") as file:
        file.write(half[10:] + entry("get", "pods"))
    found = audit.take()
    assert found == {"create events": 1, "get pods": 1}
    assert writes(found) == 1


@pytest.mark.parametrize(
    ("ours", "kube", "expected"),
    [(19.0, 10.0, "met: 19, at least 19"), (18.0, 10.0, "missed: 18, at least 19"), (18.0, None, "")],
)
def test_a_goal_is_judged_by_medians(ours: float, kube: float | None, expected: str) -> None:
    """A goal beside a scheduler that was not measured says nothing."""
    goal = Goal("row", "rate", "at least", times(1.9, KUBE, "rate"), is_floor=True)
    medians = {OURS: {"rate": ours}} | ({KUBE: {"rate": kube}} if kube is not None else {})
    assert goal.judge(medians) == expected


def test_a_ceiling_is_met_by_what_is_below_it() -> None:
    """The other direction."""
    goal = Goal("row", "no_s", "at most", fixed(0.05))
    assert goal.judge({OURS: {"no_s": 0.05}}).startswith("met")
    assert goal.judge({OURS: {"no_s": 0.0501}}).startswith("missed")


def turn(scheduler: str, rate: float, repetition: int = 1, **more: Any) -> dict[str, Any]:
    """Return a turn with one figure."""
    figures = {"": {"pods_per_s": rate}}
    head = {"workload": "gangs of 4 × 2 GPUs", "scheduler": scheduler, "repetition": repetition}
    return {**head, "figures": figures, **more}


def test_the_page_has_median_and_range_and_what_failed() -> None:
    """Three turns of ours, two of the other, one of them in error."""
    turns = [turn(OURS, rate) for rate in (300.0, 100.0, 200.0)] + [turn(KUBE, 100.0)]
    failed = {"workload": "gangs of 4 × 2 GPUs", "scheduler": KUBE, "repetition": 2, "error": "too late"}
    text = page({"date": "then", "machine": "one", "versions": {"x": "1"}, "turns": [*turns, failed]})
    assert (
        "| gangs of 4 × 2 GPUs | pods/s | 200 (100–300) | 100 | met: 200, pods/s at least 1.9 × kube-scheduler: 190 |"
        in text
    )
    assert "gangs of 4 × 2 GPUs, kube-scheduler, turn 2: too late" in text


def test_ranges_name_what_is_out_of_them_or_missing(tmp_path: Path) -> None:
    """The row, the figure, what was found and what is allowed."""
    file = tmp_path / "ranges.yaml"
    file.write_text(yaml.safe_dump({"row": {"a": [1, 2], "b": [0, 0], "c": [0, 1]}}))
    assert ranges.problems({"row": {"a": 2.5, "b": 0}}, file) == [
        "row: a is 2.5; allowed: 1 to 2",
        "row: c was not measured; allowed: 0 to 1",
    ]
    assert ranges.problems({"row": {"a": 1, "b": 0, "c": 1}}, file) == []


def test_ratios_stand_beside_the_figures_of_ours() -> None:
    """Ours by kube-scheduler's."""
    found = ranges.found_values([turn(OURS, 300.0), turn(KUBE, 100.0)])
    assert found == {"gangs of 4 × 2 GPUs": {"pods_per_s": 300.0, "pods_per_s_beside_kube_scheduler": 3.0}}


def test_no_range_holds_a_time() -> None:
    """Times are for reports; a loaded machine must not fail a check."""
    reviewed = yaml.safe_load(ranges.FILE.read_text())
    figures = {figure.removesuffix(ranges.BESIDE) for row in reviewed.values() for figure in row}
    assert figures <= {
        "node_evaluations_per_pod", "rows_per_pod", "plugin_calls_per_pod", "device_searches_per_pod", "requests_per_pod",
        "idle_writes", "pods_per_s",
    }  # fmt: skip
    assert not any("pods_per_s" in row for row in reviewed.values())


def test_the_engine_counts_what_the_reviewed_ranges_allow() -> None:
    """Node evaluations, rows and calls of plugins are the same wherever they are counted."""
    found = work.counters()
    assert work.SCENARIOS["engine: a gang without room"]() == found["engine: a gang without room"]
    reviewed = yaml.safe_load(ranges.FILE.read_text())
    assert found.keys() == {row for row in reviewed if row.startswith("engine:")}
    assert [line for line in ranges.problems(found) if line.startswith("engine:")] == []


def test_every_goal_has_a_workload_and_every_workload_of_one_pod_the_limit() -> None:
    """Rows are named as the workloads are, or as one of their parts."""
    parts = {"one gang of 256", "one gang of 512", "no, then yes"}
    assert {goal.row for goal in GOALS} <= {workload.name for workload in WORKLOADS} | parts
    assert [w.name for w in WORKLOADS if BARE in w.schedulers] == ["singles on 1,000 nodes", "singles on 5,000 nodes"]
    full = {w.name: (w.full.nodes, w.full.pods) for w in WORKLOADS}
    assert full["gangs of 4 × 2 GPUs"] == (500, 500 * 4)


@pytest.mark.parametrize(("hundredths", "expected"), [(50, 50), (99, 99), (100, 100), (1, 1)])
def test_percentiles_are_of_the_nearest_rank(hundredths: int, expected: int) -> None:
    """Of 1 to 100."""
    assert percentile(list(range(100, 0, -1)), hundredths) == expected


def test_parts_of_a_turn_are_rows_of_their_own() -> None:
    """A workload that measures several things names them."""
    found = by_row([turn(OURS, 1.0) | {"figures": {"one": {"x": 1.0}, "": {"x": 2.0}}}])
    assert found["one"][OURS]["x"] == [1.0]
    assert found["gangs of 4 × 2 GPUs"][OURS]["x"] == [2.0]
