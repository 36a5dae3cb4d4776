"""Small traces under policies, by arithmetic; a start takes 10 s, as nobody has measured these models."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.sim.policies.dealing import deal_trace
from scheduler.sim.policies.holding import hold_trace
from scheduler.sim.policies.own import Attained, Fifo
from scheduler.sim.policies.published import TiresiasL, srsf, srtf
from scheduler.sim.policies.run import POLICIES, run_policy
from scheduler.sim.policies.work import Work, effective_seconds
from scheduler.sim.traces.trace import ClusterShape, Trace, TraceJob, in_order

ONE_NODE = ClusterShape(1, 8)


def jobs_of(*jobs: tuple[int, float, float]) -> Trace:
    """Return jobs by their GPUs, submission and run time (seconds)."""
    return Trace(in_order([TraceJob(f"job-{k}", g, at, run) for k, (g, at, run) in enumerate(jobs)]))


def ends(works: list[Work]) -> list[float | None]:
    """Return when the jobs ended."""
    return [work.finished for work in works]


def test_a_job_is_as_long_as_its_iterations_where_the_trace_tells_them() -> None:
    """The authors of Muri take 1.015 times the iteration time; other traces tell the duration alone."""
    assert effective_seconds(TraceJob("a", 1, 0, 7.0, iterations=100, iteration_seconds=2.0)) == pytest.approx(203)
    assert effective_seconds(TraceJob("a", 1, 0, 7.0)) == 7.0


def test_shortest_service_first_deals_anew() -> None:
    """A has made 40 s of progress when b comes, which is shorter; its end is foreseen 100 s later, and a's 960 s after that."""
    works = deal_trace(jobs_of((8, 0, 1000), (8, 50, 100)), srsf(ONE_NODE))
    assert ends(works) == [1110, 150]
    assert [work.preemptions for work in works] == [1, 0]


def test_time_and_service_are_different_orders() -> None:
    """60 s on 8 GPUs are more service than 100 s on 1, and less time."""
    trace = jobs_of((8, 0, 60), (1, 0, 100))
    assert ends(deal_trace(trace, srtf(ONE_NODE))) == [60, 160]
    assert ends(deal_trace(trace, srsf(ONE_NODE))) == [160, 100]


def test_tiresias_demotes_who_has_had_its_share() -> None:
    """A falls into the second queue after 100 s on 8 GPUs, with 40 + 40 s of progress; b does at 200, behind a, with 90 s."""
    works = deal_trace(jobs_of((8, 0, 300), (8, 50, 200)), TiresiasL(ONE_NODE, (800,)))
    assert ends(works) == [200 + 220, 420 + 110]


def test_least_attained_service_first_waits_for_a_new_rank() -> None:
    """A leaves the first rank after 100 s; b runs 10 + 100 s, and a has 1000 - 90 s left and starts once more."""
    policy = Attained(new_service=800, ratio=10, least_run_seconds=0)
    works = hold_trace(jobs_of((8, 0, 1000), (8, 50, 100)), ONE_NODE, policy)
    assert ends(works) == [1130, 210]
    assert [(work.preemptions, work.starts) for work in works] == [(1, 2), (0, 1)]


def test_nobody_is_preempted_soon_after_a_start() -> None:
    """With 150 s of respect, b waits until 150."""
    policy = Attained(new_service=800, ratio=10, least_run_seconds=150)
    works = hold_trace(jobs_of((8, 0, 1000), (8, 50, 100)), ONE_NODE, policy)
    assert works[1].finished == 150 + 10 + 100


def test_nobody_is_preempted_in_vain() -> None:
    """Two jobs of 4 GPUs run; one of 2 is had by one of them, the one that had more."""
    policy = Attained(new_service=400, ratio=10, least_run_seconds=0)
    works = hold_trace(jobs_of((4, 0, 1000), (4, 10, 1000), (2, 500, 10)), ONE_NODE, policy)
    assert [work.preemptions for work in works] == [0, 1, 0]


def test_first_come_first_served_lets_nobody_pass() -> None:
    """C would fit beside a, but b came first."""
    works = hold_trace(jobs_of((4, 0, 100), (8, 0, 50), (4, 0, 10)), ONE_NODE, Fifo())
    assert ends(works) == [110, 170, 190]


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 2, 3, 4, 8, 16]), st.integers(0, 2000).map(float), st.integers(1, 5000).map(float)
        ),
        min_size=1,
        max_size=12,
    )
)
def test_every_job_ends_and_no_gpu_is_held_twice(policy: str, jobs: list[tuple[int, float, float]]) -> None:
    """Whatever comes: all work is done, and at no moment more GPUs are held than there are."""
    shape = ClusterShape(2, 8)
    trace = jobs_of(*jobs)
    run = run_policy(policy, trace, shape)
    assert run.metrics.finished == len(jobs)
    assert run.lost_gpu_seconds >= 0
    changes = sorted(
        (moment, change)
        for job in run.jobs
        for life in job.lives
        for moment, change in ((life.bound, life.gpus), (life.ended, -life.gpus))
    )
    held = 0
    for _, change in changes:
        held += change
        assert held <= shape.gpus
    for job, asked in zip(run.jobs, trace.jobs, strict=True):
        assert job.finished is not None
        assert job.finished - asked.submit_seconds >= asked.run_seconds - 1e-6
