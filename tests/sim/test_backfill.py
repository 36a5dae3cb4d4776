"""Backfill over virtual time: who runs ahead of a gang that waits, and whether what it is promised is kept."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.config import parse
from scheduler.sim.kubelets import KubeletTimes
from scheduler.sim.run import RunOptions, simulation_of

from .worlds import PREFIX, Manifest, a_gang, a_pod, a_world, nodes

if TYPE_CHECKING:
    from scheduler.sim.outcome import Outcome, WorkloadOutcome

EXPECTED = f"{PREFIX}/expected-run-seconds"
GPUS = 4


def expecting(manifest: Manifest, seconds: float) -> Manifest:
    """Let a pod, or the pods of a template, say how long they will run."""
    target = manifest["spec"].get("template", manifest)
    target["metadata"].setdefault("annotations", {})[EXPECTED] = f"{seconds:.0f}"
    return manifest


def a_run(name: str, gpus: int, seconds: int, *, stated: int | None = None, **fields: Any) -> Manifest:
    """Return a pod that runs for so long, and says so or, if it is wrong, something else (0: nothing)."""
    pod = a_pod(name, gpus, run=seconds, **fields)
    return pod if stated == 0 else expecting(pod, stated or seconds)


def a_gang_run(
    name: str, size: int, gpus: int, seconds: int, *, submit: float = 0, stated: int | None = None
) -> list[Manifest]:
    """Return a gang of a Job that runs for so long, and says so unless `stated` is 0."""
    group, job = a_gang(name, size, gpus, run=seconds)
    for manifest in (group, job):
        manifest["metadata"].setdefault("annotations", {})[f"{PREFIX}/submit-seconds"] = str(submit)
    return [group, job if stated == 0 else expecting(job, stated or seconds)]


def run(
    *manifests: Manifest, policy: str = "easy", hold_after: int = 300, hold: int = 3600, learns: bool = False
) -> Outcome:
    """Simulate with kubelets that take no time."""
    backfill = f"{{policy: {policy}, holdAfterSeconds: {hold_after}, holdSeconds: {hold}, learnRunTimes: {str(learns).lower()}}}"
    simulation = simulation_of(
        a_world(*manifests), parse(f"backfill: {backfill}"), RunOptions(times=KubeletTimes(0, 0))
    )
    while simulation.advance():
        pass
    return simulation.outcome()


def of(outcome: Outcome, name: str) -> WorkloadOutcome:
    """Return a workload by name."""
    return next(workload for workload in outcome.workloads if workload.name == name)


def started(outcome: Outcome, name: str) -> float | None:
    """Return when a workload started, in seconds after the start."""
    return of(outcome, name).started


TWO_BUSY = (
    *nodes(2, GPUS),
    a_run("first", GPUS, 100, node="node-0"),
    a_run("second", GPUS, 200, node="node-1"),
)


def test_a_gang_is_promised_the_moment_at_which_those_in_its_way_have_ended() -> None:
    """Both nodes are free after 200 s: then two pods that each ask for a whole one start, as they were told at once."""
    big = of(run(*TWO_BUSY, *a_gang_run("big", 2, GPUS, 50)), "big")
    assert (big.promised_start, big.last_promised_start, big.started) == (200, 200, 200)


def test_work_runs_ahead_if_it_has_ended_by_then_and_else_waits() -> None:
    """After 100 s a node is free for 100 s more: long enough for 90 s of work, not for 110 s."""
    outcome = run(
        *TWO_BUSY, *a_gang_run("big", 2, GPUS, 50), a_run("long", 2, 110, submit=10), a_run("short", 2, 90, submit=20)
    )
    assert started(outcome, "short") == 100
    assert started(outcome, "big") == 200
    assert started(outcome, "long") >= 250  # type: ignore[operator]


def test_work_of_unknown_length_runs_ahead_only_beside_what_is_reserved() -> None:
    """The gang asks for 3 of 4 GPUs of both nodes: one GPU of each is nobody's, a second one would be in its way."""
    outcome = run(
        *TWO_BUSY,
        *a_gang_run("big", 2, 3, 50),
        a_run("beside", 1, 500, stated=0, submit=10),
        a_run("against", 2, 500, stated=0, submit=20),
    )
    assert (started(outcome, "beside"), started(outcome, "big")) == (100, 200)
    assert started(outcome, "against") == 250


def test_without_backfill_whoever_fits_runs() -> None:
    """With `none` the long one takes the free node, and the gang waits for its end."""
    outcome = run(*TWO_BUSY, *a_gang_run("big", 2, GPUS, 50), a_run("long", 2, 500, submit=10), policy="none")
    assert (started(outcome, "long"), started(outcome, "big")) == (100, 600)
    assert of(outcome, "big").promised_start is None


def test_more_important_work_does_not_wait_for_a_promise() -> None:
    """A promise binds those that come later in the order; who is more important comes earlier."""
    urgent = a_run("urgent", GPUS, 500, submit=10, priority=100, preemptionPolicy="Never")
    outcome = run(*TWO_BUSY, *a_gang_run("big", 2, GPUS, 50), urgent)
    assert (started(outcome, "urgent"), started(outcome, "big")) == (100, 600)
    assert of(outcome, "big").last_promised_start == 600


def test_a_run_that_outlives_its_time_moves_the_promise_and_loses_nobody() -> None:
    """The second one says 200 s and runs for 1000: the gang starts when it has ended, and all others in the end."""
    outcome = run(
        *nodes(2, GPUS),
        a_run("first", GPUS, 100, node="node-0"),
        a_run("second", GPUS, 1000, stated=200, node="node-1"),
        *a_gang_run("big", 2, GPUS, 50),
        a_run("long", 2, 900, submit=10),
    )
    assert of(outcome, "big").promised_start == 200
    assert started(outcome, "big") == 1000
    assert {workload.phase for workload in outcome.workloads} == {"Succeeded"}


def test_the_start_is_rewritten_once_a_minute_at_most_and_only_if_it_moves() -> None:
    """Each expected end that passes moves the promise: of a run that says 10 s and takes 600 not more than ten tell."""
    told: list[float] = []
    world = a_world(*nodes(1, GPUS), a_run("old", GPUS, 600, stated=10, node="node-0"), a_run("next", GPUS, 10))
    simulation = simulation_of(world, parse(""), RunOptions(times=KubeletTimes(0, 0)))
    while simulation.advance():
        told = [h.moment - world.start for h in simulation.cluster.history.happenings if h.what == "promised"]
    assert told[0] == 0
    assert len(told) > 2
    assert all(later - earlier >= 60 for earlier, later in pairwise(told))


def test_an_early_end_starts_the_gang_before_its_promise() -> None:
    """A deadline is no more than the longest that a run may take."""
    deadline = a_run("second", GPUS, 50, stated=0, node="node-1")
    deadline["spec"]["activeDeadlineSeconds"] = 5000
    outcome = run(*nodes(2, GPUS), a_run("first", GPUS, 100, node="node-0"), deadline, *a_gang_run("big", 2, GPUS, 50))
    assert (of(outcome, "big").promised_start, started(outcome, "big")) == (5000, 100)


def test_the_deadline_of_a_job_counts_for_its_pods() -> None:
    """A Job with a deadline says how long its pods run at most."""
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "old"},
        "spec": {"activeDeadlineSeconds": 300, "template": a_pod("x", GPUS, run=300, restartPolicy="Never")},
    }  # fmt: skip
    outcome = run(*nodes(1, GPUS), job, a_run("next", GPUS, 10, submit=5))
    assert (of(outcome, "next").promised_start, started(outcome, "next")) == (300, 300)


def test_run_times_are_learned_from_runs_of_the_same_name() -> None:
    """Three runs of 100 s have been seen: the fourth is expected to end after as long."""
    jobs = [
        {
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": f"train-{number}", "annotations": {f"{PREFIX}/submit-seconds": str(120 * number)}},
            "spec": {"template": a_pod("x", GPUS, run=100, restartPolicy="Never")},
        }
        for number in range(4)
    ]  # fmt: skip
    later = a_run("next", GPUS, 10, stated=0, submit=370)
    assert of(run(*nodes(1, GPUS), *jobs, later, learns=True), "next").promised_start == 460
    assert of(run(*nodes(1, GPUS), *jobs, later), "next").promised_start is None


@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_a_wrong_annotation_is_told_and_counts_for_nothing(policy: str) -> None:
    """A run time that is no number leaves the pod as one of unknown length, and an event says what is allowed."""
    wrong = a_pod("wrong", GPUS, run=50, node="node-0")
    wrong["metadata"]["annotations"][EXPECTED] = "1h"
    waits = a_pod("waits", GPUS, run=5)
    waits["metadata"]["annotations"][EXPECTED] = "-3"
    simulation = simulation_of(
        a_world(*nodes(1, GPUS), wrong, waits),
        parse(f"backfill: {{policy: {policy}}}"),
        RunOptions(times=KubeletTimes(0, 0)),
    )
    while simulation.advance():
        pass
    assert started(simulation.outcome(), "waits") == 50
    notes = [event.note for event in simulation.cluster.events if event.reason == "InvalidRunTime"]
    assert len(notes) == 1
    assert EXPECTED in notes[0]
    assert "allowed: whole seconds from 1" in notes[0]


class Drawn:
    """A cluster, what runs there, a gang that waits, and what comes after it; all run times are stated as they are."""

    def __init__(
        self, node_count: int, old: list[tuple[int, int]], gang: tuple[int, int], later: list[tuple[int, ...]]
    ) -> None:
        self.nodes = nodes(node_count, GPUS)
        free = dict.fromkeys(range(node_count), GPUS)
        self.old: list[Manifest] = []
        for number, (gpus, seconds) in enumerate(old):
            place = number % node_count
            if gpus <= free[place]:
                free[place] -= gpus
                self.old.append(a_run(f"old-{number}", gpus, seconds, node=f"node-{place}"))
        self.gang = a_gang_run("big", min(gang[0], node_count), gang[1], 100, submit=1)
        self.later = [
            a_run(f"later-{number}", gpus, seconds, submit=submit, stated=stated)
            for number, (gpus, seconds, submit, stated) in enumerate(later)
        ]

    def outcome(self, **options: Any) -> Outcome:
        return run(*self.nodes, *self.old, *self.gang, *self.later, **options)


SECONDS = st.integers(1, 400)
SIZES = st.integers(1, GPUS)
STATED = st.tuples(SIZES, SECONDS, st.integers(2, 300), st.none())


def drawn(later: st.SearchStrategy[Any]) -> st.SearchStrategy[Drawn]:
    """Return worlds, with what comes later."""
    return st.builds(
        Drawn,
        st.integers(1, 3),
        st.lists(st.tuples(SIZES, SECONDS), max_size=8),
        st.tuples(st.integers(1, 3), SIZES),
        st.lists(later, max_size=8),
    )


SLOW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SLOW
@given(drawn(st.tuples(SIZES, SECONDS, st.integers(2, 300), st.sampled_from([None, 0]))))
def test_easy_never_delays_the_head(world: Drawn) -> None:
    """The head starts no later than if nothing had ever come after it, whether what comes says how long it runs or not."""
    alone = Drawn(1, [], (1, 1), [])
    alone.nodes, alone.old, alone.gang = world.nodes, world.old, world.gang
    outcome = world.outcome()
    assert started(outcome, "big") <= started(alone.outcome(), "big")  # type: ignore[operator]
    assert {workload.phase for workload in outcome.workloads} == {"Succeeded"}


@SLOW
@given(drawn(STATED))
def test_conservative_keeps_every_promise_when_run_times_are_exact(world: Drawn) -> None:
    """Nobody starts later than the first start that it was told, if all are of one priority and nobody outlives its time."""
    for workload in world.outcome(policy="conservative").workloads:
        if workload.promised_start is not None:
            assert workload.started is not None
            assert workload.started <= workload.promised_start


@SLOW
@given(
    drawn(st.tuples(SIZES, SECONDS, st.integers(2, 300), st.integers(0, 500))),
    st.sampled_from(["easy", "conservative"]),
)
def test_wrong_run_times_never_lose_a_workload(world: Drawn, policy: str) -> None:
    """Whatever is stated, everything runs in the end."""
    outcome = world.outcome(policy=policy, hold_after=30, hold=20)
    assert {workload.phase for workload in outcome.workloads} == {"Succeeded"}
    assert not outcome.evictions


@settings(SLOW, max_examples=6)
@given(
    node_count=st.integers(1, 2),
    longest=st.integers(20, 200),
    hold_after=st.integers(0, 60),
    hold=st.integers(5, 100),
)
def test_the_wait_of_the_head_is_bounded_though_nothing_is_known(
    node_count: int, longest: int, hold_after: int, hold: int
) -> None:
    """A gang of whole nodes, in an endless stream of small pods that run for R at most, waits no longer than A + 5 R.

    A is `holdAfterSeconds`; where R is no longer than `holdSeconds` it is A + R.
    """
    gap = max(1, longest // 10)
    stream = [
        a_run(f"small-{number}", 2, 1 + (37 * number) % longest, stated=0, submit=gap * number)
        for number in range((hold_after + 6 * longest) // gap)
    ]
    gang = a_gang_run("big", node_count, GPUS, 10, submit=gap, stated=0)
    waited = of(run(*nodes(node_count, GPUS), *stream, *gang, hold_after=hold_after, hold=hold), "big").wait_seconds
    assert waited is not None
    assert waited <= hold_after + longest * (1 if longest <= hold else 5) + 1
