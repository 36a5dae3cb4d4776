"""Workloads of which a part is placed, evicted, failed or left from a dump: lines and reports count pods, not workloads."""

import io
from typing import Any

from rich.console import Console

from scheduler.sim.outcome import Outcome
from scheduler.sim.report import happening_line, print_report, waiting_text

from .test_workloads import IGNORE
from .worlds import PREFIX, a_class, a_gang, a_job, a_pod, a_world, nodes, replicas, run_checked, start, workload

PARALLEL = {"podManagementPolicy": "Parallel"}


def told(*manifests: Any) -> tuple[list[str], Outcome]:
    """Run manifests and return the lines, without their times, and the outcome."""
    simulation = run_checked(start(a_world(*manifests)))
    lines = [happening_line(entry, simulation.world.start) for entry in simulation.cluster.history.happenings]
    return [line.split(maxsplit=1)[1] for line in lines], simulation.outcome()


def report_of(outcome: Outcome) -> str:
    """Return the report as a file would get it."""
    console = Console(file=io.StringIO(), width=160)
    print_report(outcome, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def running(pod: Any, created: str, kind: str = "", name: str = "") -> Any:
    """Make a pod one of a dump, with an owner."""
    pod["metadata"]["creationTimestamp"] = created
    pod["status"] = {"phase": "Running", "startTime": created}
    if kind:
        pod["metadata"]["ownerReferences"] = [{"kind": kind, "name": name, "controller": True}]
    return pod


def test_pods_that_wait_beside_others_are_counted_alone() -> None:
    """Sixteen GPUs for twenty pods: four pods wait for four GPUs, and the sixteen have a line."""
    lines, outcome = told(*nodes(2), replicas("StatefulSet", "s", 20, 1, spec=PARALLEL))
    found = workload(outcome, "s")
    assert lines == [
        "default/s was submitted: StatefulSet, 20 pods", "default/s has 16 of 20 pods started after 0s on node-[0-1]",
    ]  # fmt: skip
    assert (found.phase, found.waiting, found.waiting_gpus, found.gpus) == ("Running", 4, 4, 16)
    assert waiting_text(found) == "since 0s (4 of 20 pods, 4 GPUs)"


def test_a_gang_is_told_as_a_whole() -> None:
    """Its pods are submitted at once; those above the minimum that come later have a line."""
    lines, _ = told(*nodes(2), a_pod("p", 8, run=50), *a_gang("g", 2, 8, minimum=1, submit=1, run=500))
    assert lines[2:4] == ["default/g was submitted: PodGroup, 1 pod at once", "default/g started after 0s on node-1"]
    assert "default/g has 1 pod more, on node-0" in lines


def preempted(gpus: int, run: float | None = 100) -> tuple[list[str], Outcome]:
    """Two pods of eight GPUs, and an urgent Job that needs so many; without a time all run on."""
    return told(
        *nodes(2), a_class("low", 1), a_class("high", 9),
        a_job("low", 2, 8, priorityClassName="low", run=run and 500, job=IGNORE),
        a_job("high", gpus // 8, 8, priorityClassName="high", run=run, submit=50),
    )  # fmt: skip


def test_an_eviction_of_one_pod_is_not_told_of_the_workload() -> None:
    """The other pod never stopped."""
    lines, outcome = preempted(8)
    assert "default/low lost 1 of 2 pods, which had to go for default/high" in lines
    assert "default/low has 1 of 2 pods again, on node-0" in lines
    assert "1 of 2 pods of default/low had to go for default/high (1 pod, 8 GPUs on node-0)" in report_of(outcome)


def test_an_eviction_of_all_pods_is() -> None:
    """Nothing of it ran meanwhile."""
    lines, outcome = preempted(16)
    assert "default/low had to go for default/high" in lines
    assert "default/low runs again, on node-[0-1]" in lines
    assert " default/low had to go for default/high (2 pods, 16 GPUs on node-[0-1])" in report_of(outcome)


def test_a_pod_that_waits_again_waits_since_it_was_made_again() -> None:
    """One pod of eight GPUs, since the other one was evicted and gone."""
    _, outcome = preempted(8, run=None)
    assert waiting_text(workload(outcome, "low")) == "since 52s (1 of 2 pods, 8 GPUs)"


def test_a_pod_that_went_for_good_does_not_wait() -> None:
    """It has no controller."""
    _, outcome = told(*nodes(1), a_pod("low", 8, priority=1), a_pod("high", 8, priority=9, submit=5))
    assert waiting_text(workload(outcome, "low")) == "went at 7s (8 GPUs)"


def test_failures_of_pods_have_lines() -> None:
    """What the page shows as a cross is in the log, drawn together."""
    job = a_job("j", 3, 1, run=10)
    job["spec"]["template"]["metadata"]["annotations"] |= {f"{PREFIX}/exit-code": "3", f"{PREFIX}/fail-count": "2"}
    assert "default/j 2 pods failed on node-0: exit code 3" in told(*nodes(1), job)[0]
    job["spec"]["template"]["metadata"]["annotations"][f"{PREFIX}/fail-count"] = "1"
    (line,) = [line for line in told(*nodes(1), job)[0] if "failed" in line]
    assert line.startswith("default/j pod j-")


def test_what_leads_to_a_failure_is_told_before_it() -> None:
    """A Job without retries fails with its pod."""
    job = a_job("j", 1, 1, run=10, job={"backoffLimit": 0})
    job["spec"]["template"]["metadata"]["annotations"][f"{PREFIX}/exit-code"] = "1"
    lines, _ = told(*nodes(1), job)
    assert ["pod j-" in line for line in lines[-2:]] == [True, False]
    assert lines[-1].startswith("default/j failed: BackoffLimitExceeded")


def test_a_gang_scaled_below_its_minimum_runs() -> None:
    """A dump with one pod of a gang of three: nothing waits, and the report says what is short."""
    deployment = replicas("Deployment", "gd", 1, 1, gang="gd")
    replica_set = replicas("ReplicaSet", "gd-x", 1, 1, gang="gd")
    replica_set["metadata"]["ownerReferences"] = [{"kind": "Deployment", "name": "gd", "controller": True}]
    pod = running(a_pod("gd-x-1", 1, gang="gd", node="node-0"), "2026-02-01T10:00:00Z", "ReplicaSet", "gd-x")
    late = running(a_pod("late", node="node-0"), "2026-02-01T10:00:15Z")
    group = a_gang("gd", 3, 1)[0] | {"status": {"phase": "Running"}}
    lines, outcome = told(*nodes(1), group, deployment, replica_set, pod, late)
    found, text = workload(outcome, "gd"), report_of(outcome)
    assert (found.phase, found.does_not_fit) == ("Running", False)
    assert "default/gd: 1 pod runs of the 3 that it needs, and it has no others" in text
    assert "Nothing waits." in text
    assert lines[0] == "default/gd ran with 1 of 3 pods before the start, on node-0"
    assert " 15s before " in text
    assert "-15s" not in text


def test_the_pods_of_a_dump_are_its_controllers_wherever_they_stand() -> None:
    """A controller that is written before its pods makes no others."""
    pod = running(a_pod("web-1", node="node-0"), "2026-02-01T10:00:00Z", "ReplicaSet", "web")
    for order in ([replicas("ReplicaSet", "web", 1), pod], [pod, replicas("ReplicaSet", "web", 1)]):
        assert len(workload(told(*nodes(1), *order)[1], "web").pods) == 1
