"""The figures of a trace, by arithmetic."""

from __future__ import annotations

import pytest

from scheduler.sim.traces.metrics import JobLife, PodLife, metrics_of, percentile


def whole(name: str, gpus: int, submitted: float, bound: float, finished: float, delay: float = 0) -> JobLife:
    """Return a job of one pod that finished."""
    return JobLife(name, gpus, 1, submitted, finished, (PodLife(gpus, bound, bound + delay, finished),))


def test_completion_times_makespan_and_utilisation() -> None:
    """Three jobs on 8 GPUs: 8 of them 100 s, then 4 for 50 s and 4 for 30 s."""
    jobs = [whole("a", 8, 0, 0, 100), whole("b", 4, 10, 100, 150), whole("c", 4, 20, 100, 130)]
    found = metrics_of(jobs, 8, 150)
    assert (found.jobs, found.finished, found.running, found.incomplete, found.waiting) == (3, 3, 0, 0, 0)
    assert found.mean_jct_seconds == pytest.approx((100 + 140 + 110) / 3)
    assert found.p99_jct_seconds == 140
    assert found.mean_wait_seconds == pytest.approx((0 + 90 + 80) / 3)
    assert found.makespan_seconds == 150
    assert found.gpu_utilisation == pytest.approx((800 + 200 + 120) / (8 * 150))
    assert found.gpu_hours_held_idle == 0


def test_time_counts_from_the_first_submission() -> None:
    """What lies before it is nobody's."""
    found = metrics_of([whole("a", 8, 1000, 1000, 1100)], 8, 1100)
    assert (found.makespan_seconds, found.gpu_utilisation) == (100, 1)


def test_containers_that_still_start_do_no_work_and_block_nobody() -> None:
    """8 GPUs are held for 100 s, and work for 98 s; all pods have a place, so nothing is held in vain."""
    found = metrics_of([whole("a", 8, 0, 0, 100, delay=2)], 8, 100)
    assert found.gpu_utilisation == pytest.approx(0.98)
    assert found.gpu_hours_held_idle == 0


def test_a_job_works_while_all_its_pods_run() -> None:
    """One pod waits an hour for the other: 8 GPU-hours are held idle; then 16 GPUs work for an hour."""
    job = JobLife("a", 16, 2, 0, 7200, (PodLife(8, 0, 0, 7200), PodLife(8, 3600, 3600, 7200)))
    found = metrics_of([job], 16, 7200)
    assert found.gpu_hours_held_idle == 8
    assert found.gpu_utilisation == 0.5
    assert found.mean_wait_seconds == 3600


def test_a_pod_that_was_evicted_and_came_back_has_two_lives() -> None:
    """The job stands still from 100 to 200 s, and its other pod holds 8 GPUs in vain."""
    lives = (PodLife(8, 0, 0, 300), PodLife(8, 0, 0, 100), PodLife(8, 200, 200, 300))
    found = metrics_of([JobLife("a", 16, 2, 0, 300, lives)], 16, 300)
    assert found.gpu_utilisation == pytest.approx(200 / 300)
    assert found.gpu_hours_held_idle == pytest.approx(800 / 3600)


def test_jobs_that_have_not_finished() -> None:
    """All pods placed: running; some: incomplete, until the end; none: waiting. None of them has a completion time."""
    jobs = [
        JobLife("runs", 8, 1, 0, None, (PodLife(8, 0, 2, None),)),
        JobLife("half", 16, 2, 0, None, (PodLife(8, 0, 2, None),)),
        JobLife("waits", 16, 2, 0, None, ()),
    ]
    found = metrics_of(jobs, 64, 3600)
    assert (found.finished, found.running, found.incomplete, found.waiting) == (0, 1, 1, 1)
    assert (found.mean_jct_seconds, found.p99_jct_seconds, found.makespan_seconds) == (None, None, None)
    assert found.gpu_hours_held_idle == 8
    assert found.gpu_utilisation == pytest.approx(8 * 3598 / (64 * 3600))


def test_no_jobs_at_all() -> None:
    """Nothing is divided by nothing."""
    found = metrics_of([], 8, 0)
    assert (found.jobs, found.mean_jct_seconds, found.gpu_utilisation) == (0, None, 0)


@pytest.mark.parametrize(
    ("count", "share", "expected"), [(1, 0.99, 1), (100, 0.99, 99), (101, 0.99, 100), (992, 0.99, 983), (4, 0.5, 2)]
)
def test_percentiles_are_values_that_occurred(count: int, share: float, expected: int) -> None:
    """The nearest rank of 1 … count: the lowest that so great a share does not exceed."""
    assert percentile(range(count, 0, -1), share) == expected
