"""The benchmark of the fabric judges rightly: its minima, its arrivals, and the form of what it prints."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import fabric
from benchmarks.fabric_arrivals import LOAD, arrivals, play, summary
from benchmarks.fabric_layout import Job, constraint, fewest_leaves, is_kept, layouts
from benchmarks.fabric_placing import WAYS, ByChance, ByEngine, way
from scheduler.model import TopologyConstraint

if TYPE_CHECKING:
    from benchmarks.fabric_layout import Layout

NVL72, MEDIUM, TREE = layouts()


def job(pods: int, gpus: int = 8, topology: TopologyConstraint | None = None, name: str = "job") -> Job:
    """Return a gang."""
    return Job(name, pods, gpus, "none", topology)


def by_trying(layout: Layout, free: list[int], gang: Job) -> int | None:
    """Return the fewest leaves by trying all sets of them."""
    leaf, asked = layout.domains["tier-0"].tolist(), gang.topology
    size = asked.segment_size if asked is not None and asked.segment_size else 1
    for count in range(1, 5):
        for chosen in itertools.combinations(range(4), count):
            rows = [row for row in range(8) if leaf[row] in chosen]
            if asked is not None and asked.required and layout.used(asked.required, rows) > 1:
                continue
            room = [sum(free[row] // gang.gpus for row in rows if leaf[row] == one) for one in chosen]
            if sum(one // size for one in room) * size >= gang.pods:
                return count
    return None


@given(
    st.lists(st.integers(0, 8), min_size=8, max_size=8),
    st.sampled_from([2, 4, 8]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from(
        [None, TopologyConstraint(required="tier-1"), TopologyConstraint(segment_size=2, segment_required="tier-0")]
    ),
)
@settings(max_examples=200, deadline=None)
def test_the_fewest_leaves_are_what_trying_everything_finds(free, pods, gpus, topology):
    """On four leaves of two nodes each."""
    gang = job(pods, gpus, topology)
    assert fewest_leaves(MEDIUM, np.array(free, dtype=np.int64), gang) == by_trying(MEDIUM, free, gang)


def test_what_a_gang_asks_for_is_checked_by_rank():
    """The same nodes in another order are other segments."""
    segments = job(4, topology=TopologyConstraint(segment_size=2, segment_required="tier-0"))
    assert is_kept(TREE, segments, [0, 1, 2, 3])
    assert not is_kept(TREE, segments, [0, 2, 1, 3])
    assert not is_kept(TREE, job(2, topology=TopologyConstraint(required="tier-0")), [1, 2])
    assert is_kept(TREE, job(2), [0, 511])


@pytest.mark.parametrize("layout", [NVL72, MEDIUM, TREE], ids=lambda layout: layout.name)
def test_arrivals_ask_for_the_load_and_follow_from_the_seed(layout):
    """80 % of what is there until the last arrival; every gang fits into the idle cluster."""
    jobs = arrivals(layout, 100, seed=7)
    asked = sum(one.total * one.seconds for one in jobs)
    assert asked == pytest.approx(LOAD * layout.capacity * jobs[-1].arrival)
    assert jobs == arrivals(layout, 100, seed=7)
    assert jobs != arrivals(layout, 100, seed=8)
    assert all(fewest_leaves(layout, layout.idle(), one) for one in jobs)


@pytest.mark.parametrize("name", WAYS)
def test_every_gang_has_its_turn_and_leaves_nothing_behind(name):
    """Each way places all gangs sooner or later, within what nodes have, and all is idle afterwards."""
    jobs, placing = arrivals(MEDIUM, 30, seed=3), way(name, MEDIUM, 3)
    played = play(MEDIUM, jobs, placing)
    assert sorted(result.job.name for result in played.results) == sorted(one.name for one in jobs)
    assert (placing.free == MEDIUM.idle()).all()
    assert all(result.minimum is None or result.leaves >= result.minimum for result in played.results if result.is_kept)
    assert 0 < played.load <= 1


def test_a_gang_waits_until_another_one_leaves():
    """The wait is the time from the arrival to the place: the first gang's 100 seconds less the 30 that pass before."""
    jobs = [Job("a", 8, 8, "none", None, 0.0, 100.0), Job("b", 8, 8, "none", None, 30.0, 100.0)]
    played = play(MEDIUM, jobs, ByChance(MEDIUM, 1))
    assert [result.wait for result in played.results] == [0.0, pytest.approx(70.0)]
    waits = summary(jobs, played.results)["waitSeconds"]
    assert waits["mean"] == 35.0


def test_the_engine_keeps_its_rest_in_waits_short():
    """A gang that was refused is placed within the longest backoff after room comes free."""
    jobs = [Job("a", 8, 8, "none", None, 0.0, 100.0), Job("b", 8, 8, "none", None, 30.0, 100.0)]
    played = play(MEDIUM, jobs, ByEngine(MEDIUM))
    assert 70.0 <= played.results[1].wait <= 80.0


def test_only_the_engine_with_the_plugin_is_told_what_gangs_ask_for():
    """Segments of two on one leaf hold with it; without it they are luck."""
    for name, is_told in (("engine", True), ("node scores", False)):
        placing = way(name, TREE, 1)
        asked = Job("seg", 16, 8, "segmented", constraint(TREE, "segmented", 16, 8))
        placing.submit(asked)
        [placed] = placing.run()
        gang = next(iter(placing.engine.state.gangs.values()))
        assert (gang.topology is not None) == is_told
        assert is_kept(TREE, asked, placed.rows) or not is_told


def test_json_is_as_documented(monkeypatch, capsys):
    """On the smallest fabric, without the speed lines; every word of the form stands in the module's docstring."""
    monkeypatch.setattr(fabric, "layouts", lambda: [MEDIUM])
    monkeypatch.setattr(fabric, "speed", lambda _: [])
    fabric.main(["--gangs", "12", "-o", "json"])
    found = json.loads(capsys.readouterr().out)
    figures = found["fabrics"]["medium"]["load"]["kinds"]["all"]["engine"]
    assert figures["gangs"] == 8
    for level in (found, found["fabrics"]["medium"], found["goals"][0], figures, figures["leavesPerMinimum"]):
        for key in level:
            assert f'"{key}"' in fabric.__doc__
    fabric.show(found)
    assert "goals are met" in capsys.readouterr().out
