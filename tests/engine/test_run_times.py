"""Run times: which source counts, what is learned, and when a pod that runs is expected to end."""

from __future__ import annotations

import pytest
from msgspec import structs

from scheduler.engine.run_times import RunTimes, pattern_of
from scheduler.model import Gang, GangKey
from scheduler.model.run_time import EXPECTED_RUN_SECONDS, MAX_EXEC_SECONDS, problem_at, seconds_at
from scheduler.state.cluster import ClusterState
from tests.builders import PodBuilder, a_pod

NOW = 10_000.0


def times_of(*gangs: Gang, learns: bool = False) -> RunTimes:
    """Return run times in a cluster that knows some groups."""
    cluster = ClusterState()
    for gang in gangs:
        cluster.groups.put(gang)
    return RunTimes(cluster, learns=learns)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1", 1), ("3600", 3600), ("1000000000", 10**9), ("0", None), ("-5", None), ("1.5", None), ("1h", None), ("", None),
        ("1000000001", None), ("٣", None), ("9" * 5000, None),
    ],
)  # fmt: skip
def test_the_annotation_is_a_whole_number_of_seconds(text: str, seconds: int | None) -> None:
    """Everything else counts for nothing, and is told with what is allowed."""
    annotations = {EXPECTED_RUN_SECONDS: text}
    assert seconds_at(annotations, EXPECTED_RUN_SECONDS) == seconds
    problem = problem_at(annotations)
    assert (problem == "") == (seconds is not None)
    if problem:
        assert EXPECTED_RUN_SECONDS in problem
        assert "allowed: whole seconds from 1 to 1000000000" in problem
        assert len(problem) < 300


@pytest.mark.parametrize(
    ("pod", "seconds", "source"),
    [
        (a_pod().annotation(EXPECTED_RUN_SECONDS, "600"), 600, "annotation"),
        (a_pod().annotation(EXPECTED_RUN_SECONDS, "600").patch_spec(activeDeadlineSeconds=300), 300, "annotation"),
        (a_pod().annotation(EXPECTED_RUN_SECONDS, "soon").patch_spec(activeDeadlineSeconds=300), 300, "deadline"),
        (a_pod().patch_spec(activeDeadlineSeconds=300), 300, "deadline"),
        (a_pod().label(MAX_EXEC_SECONDS, "900"), 900, "deadline"),
        (a_pod().label(MAX_EXEC_SECONDS, "900").patch_spec(activeDeadlineSeconds=1000), 900, "deadline"),
    ],
)
def test_what_a_pod_states_of_itself(pod: PodBuilder, seconds: float, source: str) -> None:
    """The annotation is an expectation, the others are limits; the shortest limit bounds all."""
    found = times_of().of(pod.build())
    assert found is not None
    assert (found.seconds, found.longest, found.source) == (seconds, seconds, source)


def test_groups_and_jobs_state_it_for_their_pods() -> None:
    """A PodGroup by its annotation, a Job by its deadline; the pod's own word goes first."""
    key = GangKey("ai-scheduler", "default", "train")
    group = Gang(key=key, uid="1", annotations={EXPECTED_RUN_SECONDS: "500"})
    job = Gang(key=GangKey("job", "default", "fit"), uid="2", deadline_seconds=700)
    times = times_of(group, job)
    member = a_pod("m").gang("train")
    assert times.of(member.build()).seconds == 500  # type: ignore[union-attr]
    assert times.of(member.annotation(EXPECTED_RUN_SECONDS, "50").build()).seconds == 50  # type: ignore[union-attr]
    assert times.of(a_pod("p").owner("Job", "fit").build()).seconds == 700  # type: ignore[union-attr]
    assert times.of(a_pod("q").owner("Job", "other").build()) is None


def test_nothing_is_known_until_somebody_states_it() -> None:
    """A cluster without run times is never looked ahead in."""
    times = times_of()
    times.saw(a_pod().build())
    times.saw_group({}, {}, None)
    assert not times.are_known
    times.saw(a_pod().label(MAX_EXEC_SECONDS, "5").build())
    assert times.are_known


@pytest.mark.parametrize(
    ("started", "end"),
    [
        (NOW - 40, NOW + 60),  # 100 s are stated, 60 are left
        (NOW - 100, NOW + 10),  # just over: a tenth more
        (NOW - 109, NOW + 1),
        (NOW - 110, NOW + 10),  # a tenth was not enough: two tenths
        (NOW - 130, NOW + 10),  # four tenths
        (NOW - 300, NOW + 120),  # 32 tenths
        (None, NOW + 100),  # it has not started yet
    ],
)
def test_a_pod_that_outlives_its_time_is_given_more_and_more(started: float | None, end: float) -> None:
    """The expected end is the stated one plus 10 %, 20 %, 40 % … of the stated time, the first that has not passed."""
    pod = structs.replace(a_pod().annotation(EXPECTED_RUN_SECONDS, "100").on("n").build(), started=started)
    assert times_of().end_of(pod, NOW) == pytest.approx(end)


def test_a_pod_that_is_being_deleted_ends_with_its_grace() -> None:
    """Whatever it states, its kubelet ends it."""
    pod = structs.replace(
        a_pod().on("n").annotation(EXPECTED_RUN_SECONDS, "9999").terminating().build(), deletes_at=NOW + 20
    )
    assert times_of().end_of(pod, NOW) == pytest.approx(NOW + 20)


def ended(times: RunTimes, name: str, seconds: float, *, phase: str = "Succeeded", kind: str = "Job") -> None:
    """Let a pod of an owner end after so long."""
    builder = a_pod(f"{name}-x").owner(kind, name).on("n")
    running = structs.replace(builder.build(), phase="Running", started=NOW)
    times.ended(running, structs.replace(running, phase=phase), NOW + seconds)


def test_the_median_of_what_ran_before_is_expected_with_its_spread() -> None:
    """Runs of 100, 300, 120, 110 and 130 s: the median is 120 s; who runs ahead counts with the longest, 300 s."""
    times = times_of(learns=True)
    for number, seconds in enumerate((100, 300, 120, 110, 130)):
        ended(times, f"train-{number}", seconds)
    found = times.of(a_pod("new").owner("Job", "train-77").build())
    assert found is not None
    assert (found.seconds, found.longest, found.shortest, found.samples) == (120, 300, 100, 5)
    assert str(found) == "120 s, the median of 5 ends between 100 and 300 s"


def test_failures_few_ends_and_services_teach_nothing() -> None:
    """Two ends are too few, a failed pod says nothing of how long one runs, and a service has no end."""
    times = times_of(learns=True)
    for number in range(2):
        ended(times, f"train-{number}", 100)
    for number in range(9):
        ended(times, f"fit-{number}", 100, phase="Failed")
        ended(times, f"web-{number}", 100, kind="ReplicaSet")
    assert times.of(a_pod().owner("Job", "train-3").build()) is None
    assert times.of(a_pod().owner("Job", "fit-3").build()) is None
    assert times.of(a_pod().owner("ReplicaSet", "web-3").build()) is None
    assert not times.are_known


def test_nothing_is_learned_unless_that_is_wanted() -> None:
    """The configuration switches it on."""
    times = times_of()
    for number in range(5):
        ended(times, f"train-{number}", 100)
    assert times.of(a_pod().owner("Job", "train-9").build()) is None


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("nightly-29384756", "nightly-#"),
        ("train-llama-7b-x4k2d", "train-llama-#b-*"),
        ("train-llama-13b-bqv9z", "train-llama-#b-*"),
        ("preprocess", "preprocess"),
    ],
)
def test_what_is_counted_or_drawn_in_a_name_does_not_tell_owners_apart(name: str, pattern: str) -> None:
    """CronJobs count, generated names are drawn from letters without vowels."""
    assert pattern_of(a_pod().owner("Job", name).build()) == ("default", "Job", pattern)


def found(times: RunTimes, name: str, ended_at: float, seconds: float) -> None:
    """Let a new process find a pod that ended before it."""
    builder = a_pod(f"{name}-x").owner("Job", name).on("n")
    pod = structs.replace(builder.build(), phase="Succeeded", started=ended_at - seconds, ended=ended_at)
    times.ended(None, pod, NOW)


def test_a_new_process_learns_from_pods_that_ended_before_it() -> None:
    """They say when they ended; a pod that does not teaches nothing, and none is learned from twice."""
    times = times_of(learns=True)
    for number, seconds in enumerate((100, 300, 120)):
        found(times, f"train-{number}", NOW - 50 * number, seconds)
        found(times, f"train-{number}", NOW - 50 * number, seconds)
    silent = structs.replace(a_pod("s").owner("Job", "train-9").on("n").build(), phase="Succeeded", started=NOW - 9)
    times.ended(None, silent, NOW)
    run = times.of(a_pod("new").owner("Job", "train-77").build())
    assert run is not None
    assert (run.seconds, run.samples) == (120, 3)
    assert times.are_known


def test_the_last_ends_count_in_whatever_order_they_are_found() -> None:
    """Of 40 runs of 1 to 40 s, found from the last to the first, the 32 that ended last count: 9 to 40 s."""
    times = times_of(learns=True)
    for number in range(40, 0, -1):
        found(times, f"train-{number}", NOW + 100 * number, float(number))
    run = times.of(a_pod("new").owner("Job", "train-77").build())
    assert run is not None
    assert (run.samples, run.shortest, run.longest) == (32, 9, 40)
