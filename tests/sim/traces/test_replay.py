"""The replay: the real engine on traces written by hand, with times by arithmetic, and on a published one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scheduler.config import parse
from scheduler.sim.traces.muri import read_muri
from scheduler.sim.traces.philly import read_philly
from scheduler.sim.traces.replay import Replayed, ReplayOptions, begin, replay
from scheduler.sim.traces.trace import ClusterShape
from tests.sim.worlds import violations

from .oracle import ends_of
from .tables import DATA, a_trace

if TYPE_CHECKING:
    from scheduler.sim.traces.trace import Trace

MURI_SHAPE = ClusterShape()
#: Whoever fits runs: nothing is held for those that wait, as the replays that these are compared with do not either.
PLAIN = parse("backfill: {policy: none}")


def run(trace: Trace, nodes: int, *, delay: float = 0, **options: object) -> Replayed:
    """Replay a trace on nodes of 8 GPUs."""
    made = ReplayOptions(ClusterShape(nodes, 8), start_delay_seconds=delay, **options)  # type: ignore[arg-type]
    return replay(trace, PLAIN, made)


def finished(replayed: Replayed) -> dict[str, float | None]:
    """Return when each job finished."""
    return {job.name: job.finished for job in replayed.jobs}


def test_completion_times_of_jobs_that_wait_for_each_other() -> None:
    """A fills the node for 100 s; b and c share it then: 100, 140 and 110 s from submission to end."""
    replayed = run(a_trace((8, 0, 100), (4, 10, 50), (4, 20, 30)), 1)
    assert finished(replayed) == {"a": 100, "b": 150, "c": 130}
    found = replayed.metrics
    assert found.mean_jct_seconds == pytest.approx((100 + 140 + 110) / 3)
    assert (found.p99_jct_seconds, found.makespan_seconds) == (140, 150)
    assert found.gpu_utilisation == pytest.approx((800 + 200 + 120) / (8 * 150))


def test_the_start_delay_counts_to_the_completion_time() -> None:
    """2 s until the containers run, then 100 s."""
    assert run(a_trace((8, 5, 100)), 1, delay=2).metrics.mean_jct_seconds == 102


def test_small_jobs_pass_large_ones_that_do_not_fit() -> None:
    """B needs both nodes and waits for a; c fits beside a, and is over before."""
    replayed = run(a_trace((8, 0, 100), (16, 10, 50), (8, 20, 30)), 2)
    assert finished(replayed) == {"a": 100, "b": 150, "c": 50}


def test_a_gang_takes_no_gpu_before_it_can_have_all() -> None:
    """B waits for a with both pods; nothing is held in vain."""
    replayed = run(a_trace((8, 0, 100), (16, 10, 50)), 2)
    assert {life.bound for life in replayed.jobs[1].lives} == {100}
    assert replayed.metrics.gpu_hours_held_idle == 0


def test_without_gangs_a_pod_that_starts_early_waits_for_its_sibling() -> None:
    """One pod of b takes the free node at 10 s, the other follows at 100 s: only then b advances, for its 50 s."""
    replayed = run(a_trace((8, 0, 100), (16, 10, 50)), 2, has_gangs=False)
    assert sorted(life.bound for life in replayed.jobs[1].lives) == [10, 100]
    assert finished(replayed) == {"a": 100, "b": 150}
    assert replayed.metrics.gpu_hours_held_idle == pytest.approx(8 * 90 / 3600)
    assert not replayed.deadlocked


def test_two_jobs_that_each_hold_half_are_a_dead_lock() -> None:
    """Two jobs want all of two nodes at once: by chance one gets both, or each gets one and both wait for ever.

    A third job arrives an hour later; until then a dead-lock holds 16 GPUs, which are 16 GPU-hours.
    """
    trace = a_trace((16, 0, 100), (16, 0, 100), (1, 3600, 10))
    outcomes = [run(trace, 2, has_gangs=False, seed=seed) for seed in range(12)]
    locked = [outcome for outcome in outcomes if outcome.deadlocked]
    assert 0 < len(locked) < len(outcomes)
    for outcome in locked:
        assert [job.name for job in outcome.deadlocked] == ["a", "b"]
        assert (outcome.metrics.finished, outcome.metrics.waiting) == (0, 1)
        assert outcome.metrics.gpu_hours_held_idle == 16
    for outcome in set(outcomes) - set(locked):
        assert sorted(finished(outcome).values()) == [100, 200, 3610]  # type: ignore[type-var]


def test_with_gangs_the_same_jobs_run_one_after_the_other() -> None:
    """No dead-lock is possible."""
    replayed = run(a_trace((16, 0, 100), (16, 0, 100), (1, 3600, 10)), 2)
    assert finished(replayed) == {"a": 100, "b": 200, "c": 3610}


def test_equal_seeds_give_equal_replays() -> None:
    """The random order comes of the seed alone."""
    trace = a_trace((16, 0, 100), (16, 0, 100), (16, 5, 10), (8, 7, 10))
    assert run(trace, 2, has_gangs=False, seed=3) == run(trace, 2, has_gangs=False, seed=3)


def test_a_cut_replay_calls_nothing_a_dead_lock() -> None:
    """At 50 s a runs, b has one pod, c has not come yet."""
    trace = a_trace((8, 0, 100), (16, 10, 50), (1, 60, 10))
    replayed = run(trace, 2, has_gangs=False, until_seconds=50)
    assert (replayed.is_cut, replayed.end_seconds, replayed.deadlocked) == (True, 50, ())
    found = replayed.metrics
    assert (found.jobs, found.running, found.incomplete, found.waiting) == (2, 1, 1, 0)


def test_a_cut_after_the_end_is_none() -> None:
    """A dead-lock is one whether or not a horizon is given."""
    trace = a_trace((16, 0, 100), (16, 0, 100))
    seeds = [seed for seed in range(12) if run(trace, 2, has_gangs=False, seed=seed).deadlocked]
    replayed = run(trace, 2, has_gangs=False, seed=seeds[0], until_seconds=5000)
    assert (replayed.is_cut, len(replayed.deadlocked)) == (False, 2)


def test_a_job_stands_still_while_a_pod_of_it_is_missing() -> None:
    """A pod is deleted at 40 of 100 s and gone 2 s later; the job goes on where it was, and ends at 102 s."""
    options = ReplayOptions(ClusterShape(2, 8), start_delay_seconds=0)
    (job,), simulation = begin(a_trace((16, 0, 100)), PLAIN, options)
    cluster = simulation.cluster
    cluster.agenda.at(cluster.world.start + 40, lambda: cluster.delete_pod(next(iter(cluster.pods.values()))))
    while simulation.advance():
        assert list(violations(simulation)) == []
    assert job.finished == 102
    assert len(job.life().lives) == 3


def test_the_state_stays_true_during_a_replay() -> None:
    """Nothing is over-committed, no gang is bound below its minimum: a hundred jobs, looked at after every moment."""
    trace = read_muri(str(DATA / "muri_trace3.csv"), MURI_SHAPE).first(100)
    _, simulation = begin(trace, PLAIN, ReplayOptions())
    while simulation.advance():
        assert list(violations(simulation)) == []


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_first_jobs_of_muri_trace_3_dead_lock_without_gangs(seed: int) -> None:
    """A hundred jobs: with gangs all finish and nothing is held in vain; without, some wait for each other for ever."""
    trace = read_muri(str(DATA / "muri_trace3.csv"), MURI_SHAPE).first(100)
    without = replay(trace, PLAIN, ReplayOptions(has_gangs=False, seed=seed))
    assert without.deadlocked
    assert without.metrics.finished < 100
    assert without.metrics.gpu_hours_held_idle > 0


def test_muri_trace_3_has_no_dead_lock_with_gangs() -> None:
    """All 992 jobs finish, when an independent replay says, and no incomplete job ever holds a GPU."""
    trace = read_muri(str(DATA / "muri_trace3.csv"), MURI_SHAPE)
    found = replay(trace, PLAIN, ReplayOptions())
    assert (found.metrics.jobs, found.metrics.finished, found.deadlocked) == (992, 992, ())
    assert found.metrics.gpu_hours_held_idle == 0
    assert finished(found) == pytest.approx(ends_of(trace, MURI_SHAPE, 2))


def test_philly_jobs_finish_when_an_independent_replay_says() -> None:
    """200 jobs on too few nodes for them."""
    shape = ClusterShape(4, 8)
    trace = read_philly(str(DATA / "philly_first200.csv.gz"), shape)
    found = replay(trace, PLAIN, ReplayOptions(shape, start_delay_seconds=5))
    assert finished(found) == pytest.approx(ends_of(trace, shape, 5))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_muri_trace_3_dead_locks_without_gangs(seed: int) -> None:
    """With every seed, before a tenth of the jobs has finished, as an independent simulation found."""
    trace = read_muri(str(DATA / "muri_trace3.csv"), MURI_SHAPE)
    found = replay(trace, PLAIN, ReplayOptions(has_gangs=False, seed=seed))
    assert found.deadlocked
    assert found.metrics.finished < 99
    assert found.metrics.gpu_hours_held_idle > 100_000
