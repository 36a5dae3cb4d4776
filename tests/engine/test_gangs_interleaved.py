"""Gangs against each other, against change and against death: all of the minimum or none, and never a deadlock."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.framework.effects import BindPod
from tests.builders import a_gang, a_pod

from .shapes import members, nodes, profile, stays
from .world import World


@settings(max_examples=30, deadline=None)
@given(order=st.permutations(list(range(8))), pauses=st.lists(st.integers(0, 3), min_size=8, max_size=8))
def test_two_gangs_never_hold_room_from_each_other(order, pauses):
    """In whatever order and rhythm the pods of two gangs of four come to six nodes, one runs, and then the other."""
    pods = [*members("a", 4), *members("b", 4)]
    world = World(nodes(6), a_gang("a", 4), a_gang("b", 4))
    for number, pause in zip(order, pauses, strict=True):
        world.add(pods[number]).run()
        world.wait(pause)
        assert {world.bound_members("a"), world.bound_members("b")} <= {0, 4}
    first, second = ("a", "b") if world.bound_members("a") else ("b", "a")
    assert (world.bound_members(first), world.bound_members(second)) == (4, 0)
    world.remove(*[f"{first}-{k}" for k in range(4)]).run()
    assert world.bound_members(second) == 4


@settings(max_examples=30, deadline=None)
@given(order=st.permutations(list(range(9))), units=st.sampled_from([1, 5, 20_000]))
def test_three_gangs_in_small_steps_never_hold_room_from_each_other(order, units):
    """Pods that come while another gang is being tried change nothing about that."""
    pods = [pod for name in "abc" for pod in members(name, 3)]
    world = World(nodes(4), [a_gang(name, 3) for name in "abc"])
    world.work_units = units
    for number in order:
        world.add(pods[number])
        world.engine.step(units)
    world.run()
    counts = sorted(world.bound_members(name) for name in "abc")
    assert counts == [0, 0, 3]


@pytest.mark.parametrize("after", range(5))
def test_process_that_dies_in_the_middle_of_a_gang_leaves_all_or_none(after):
    """However many of four bindings were carried out, the next process makes them four."""
    world = World(nodes(4), a_gang("job", 4), members("job", 4)).crash(after)
    assert world.bound_members("job") == after
    world.run()
    assert world.bound_members("job") == 4
    stays(world)


@pytest.mark.parametrize("after", range(1, 4))
def test_rest_of_a_half_bound_gang_that_finds_no_room_takes_the_others_back(after):
    """If what is left cannot be placed any more, the members that were bound give their room back in time."""
    world = World(nodes(4), a_gang("job", 4).timeout(60), members("job", 4)).crash(after)
    free = sorted({f"n{k}" for k in range(4)} - set(world.placed.values()))
    world.add(a_pod("foreign").gpus(8).scheduler("somebody").on(free[0])).run()
    world.wait(59)
    world.wait(5)
    assert world.bound_members("job") == 0


def test_death_after_death_leaves_all_or_none():
    """Each process gets one binding further."""
    world = World(nodes(4), a_gang("job", 4), members("job", 4))
    for count in range(1, 5):
        world.crash(1)
        assert world.bound_members("job") == count
    stays(world.run())


@pytest.mark.parametrize("minimum", [1, 2, 3, 4])
def test_minimum_that_changes_while_a_gang_is_tried(minimum):
    """The plan of an older generation is carried out only if it is enough for the new one."""
    for steps in range(1, 12):
        world = World(nodes(3), a_gang("job", 3), members("job", 4))
        for _ in range(steps):
            world.engine.step(1)
        if any(isinstance(effect, BindPod) for effect in world.engine.take_effects()):
            break
        world.add(a_gang("job", minimum).generation(2)).run()
        assert world.bound_members("job") == (3 if minimum <= 3 else 0), steps


def test_minimum_that_is_raised_above_what_exists_holds_everybody_back():
    """From the next attempt on."""
    world = World(nodes(1), a_gang("job", 2), members("job", 2)).run()
    world.add(a_gang("job", 3).generation(2), nodes(4)).run()
    assert world.placed == {}
    world.add(members("job", 1, start=2)).run()
    assert world.bound_members("job") == 3


def test_members_of_different_schedulers_are_an_error_at_the_group():
    """No profile could place all of them."""
    two = profile(schedulerName="ai-scheduler").model_copy(
        update={"profiles": [*profile(schedulerName="ai-scheduler").profiles, *profile(schedulerName="other").profiles]}
    )
    strange = a_pod("job-1").gang("job").gpus(8).scheduler("other")
    world = World(nodes(2), a_gang("job", 2), members("job", 1), strange, configuration=two).wait(5)
    assert world.placed == {}
    assert world.gang_status("job").reason == "InvalidPodGroup"
    assert "different schedulers: ai-scheduler (1), other (1); allowed is one" in world.gang_status("job").message
    assert ("Warning", "PodGroup") in [(e.type, e.regarding.kind) for e in world.events("InvalidPodGroup")]
    world.remove("job-1").add(members("job", 1, start=2)).run()
    assert world.bound_members("job") == 2


def test_pending_member_of_a_scheduler_that_is_not_ours_is_an_error_at_the_group():
    """Nobody would ever place both; when it goes, and another comes in its place, the gang is placed."""
    strange = a_pod("job-3").gang("job").gpus(8).scheduler("somebody")
    world = World(nodes(3), a_gang("job", 3), members("job", 2), strange).wait(5)
    assert world.placed == {}
    status = world.gang_status("job")
    assert status.reason == "InvalidPodGroup"
    assert "different schedulers: ai-scheduler (2), somebody (1)" in status.message
    assert {reason for name in ("job-0", "job-1") for reason, _ in world.conditions(name)} == {"SchedulingGated"}
    assert world.conditions("job-3") == []
    stays(world)
    world.remove("job-3").add(members("job", 1, start=2)).run()
    assert world.bound_members("job") == 3


def test_pending_pod_of_another_scheduler_stops_the_late_members_of_a_running_gang_alone():
    """What runs is left alone."""
    world = World(nodes(4), a_gang("job", 2), members("job", 2)).wait(5)
    world.add(a_pod("odd").gang("job").gpus(8).scheduler("somebody"), members("job", 1, start=2)).wait(5)
    assert world.bound_members("job") == 2
    assert world.evicted == []
    assert world.pending("job").reason == "InvalidPodGroup"


def test_pending_pods_of_another_scheduler_alone_are_nothing_to_us():
    """Nothing is queued or written about them, and a single one is not even known."""
    world = World(nodes(1), a_pod("single").scheduler("somebody"))
    world.add(a_pod("a").gang("theirs").scheduler("somebody")).wait(5)
    assert world.engine.pending() == []
    assert world.effects == []
    assert set(world.engine.state.pods) == {"uid-a"}


def test_binding_that_fails_for_one_member_is_repeated_for_it_alone():
    """The others stay, and are evicted only if the gang is not whole in time."""
    world = World(nodes(4), a_gang("job", 3).timeout(30), members("job", 3))
    world.failing["job-1"] = ["boom"]
    world.wait(10)
    assert world.bound_members("job") == 3
    assert world.evicted == []
    world = World(nodes(4), a_gang("job", 3).timeout(30), members("job", 3))
    world.failing["job-1"] = ["boom"] * 100
    world.wait(60)
    assert world.bound_members("job") == 0
    assert sorted(set(world.evicted)) == ["job-0", "job-2"]
