"""Gangs over time: rounds until a state is reached, then rounds in which it must stay."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.engine import inputs as i
from scheduler.model import GangKey, PriorityClass
from tests.builders import a_gang, a_node, a_pod

from .shapes import members, nodes, running, stays
from .world import World


def test_interleaved_gangs_do_not_lock_each_other_out():
    """Two gangs of three whose pods come in turns, on four nodes: one runs, and the other as soon as it has ended."""
    pods = [pod for pair in zip(members("a", 3), members("b", 3), strict=True) for pod in pair]
    world = World(nodes(4), a_gang("a", 3), a_gang("b", 3))
    for pod in pods:
        world.add(pod).run()
    first = "a" if world.bound_members("a") else "b"
    second = "b" if first == "a" else "a"
    assert (world.bound_members(first), world.bound_members(second)) == (3, 0)
    stays(world)
    world.remove(*[f"{first}-{k}" for k in range(3)]).run()
    assert world.bound_members(second) == 3
    stays(world)


def test_late_members_of_a_running_gang_are_placed():
    """A member that comes after the minimum is on nodes does not wait for another minimum."""
    world = World(nodes(4), a_gang("job", 2), members("job", 2)).run()
    assert world.bound_members("job") == 2
    world.add(*members("job", 1, start=2)).run()
    assert world.bound_members("job") == 3
    stays(world)


def test_replacement_of_a_lost_member_is_placed():
    """A member that is deleted and comes back joins the others."""
    world = World(nodes(2), a_gang("job", 2), members("job", 2)).run().wait(5)
    world.remove("job-0").run()
    stays(world)
    world.add(a_pod("job-2").gang("job").gpus(8)).run()
    assert world.bound_members("job") == 2
    stays(world, minutes=30)


def test_surplus_members_wait_without_hindering_the_minimum():
    """Of four members with a minimum of two, two fit; the others get room when there is some, and evict nobody."""
    world = World(nodes(2), a_gang("job", 2), members("job", 4)).run()
    assert world.bound_members("job") == 2
    assert world.evicted == []
    stays(world, minutes=10)
    world.add(a_node("n9").gpus(8)).run()
    assert world.bound_members("job") == 3
    stays(world)


def test_surplus_does_not_evict_what_the_minimum_can_spare():
    """A gang whose minimum needs one node evicts one victim, although more members exist."""
    low = [running(f"low-{k}", f"n{k}") for k in range(4)]
    world = World(nodes(4), low, a_gang("job", 1), members("job", 1, priority=10)).run()
    assert len(world.evicted) == 1
    world = World(nodes(4), low, a_gang("job", 2), members("job", 4, priority=10))
    decisions = world.decisions
    world.engine.step(10**9)
    assert [len(d.victims) for d in decisions][:1] == [2]


def test_gated_members_hold_nothing_and_are_not_placed():
    """While too few members are free of gates nothing is reserved; gated surplus stays out of a plan."""
    gated = [a_pod(f"job-{k}").gang("job").gpus(8).gate("example.com/quota") for k in (2, 3)]
    world = World(nodes(4), a_gang("job", 3), members("job", 2), gated).wait(3)
    assert world.placed == {}
    assert {reason for k in range(4) for reason, _ in world.conditions(f"job-{k}")} == {"SchedulingGated"}
    stays(world)
    world.change("job-2", gates=()).run()
    assert sorted(world.placed) == ["job-0", "job-1", "job-2"]
    stays(world)
    world.change("job-3", gates=()).run()
    assert world.bound_members("job") == 4


def test_gang_that_preempts_nominates_no_gated_member():
    """A gated member is neither nominated nor worth a victim."""
    low = [running(f"low-{k}", f"n{k}") for k in range(3)]
    gated = a_pod("job-2").gang("job").gpus(8).priority(10).gate("example.com/quota")
    world = World(nodes(3), low, a_gang("job", 2), members("job", 2, priority=10), gated).run()
    assert len(world.evicted) == 2
    assert world.bound_members("job") == 2
    stays(world)


def test_missing_group_is_waited_for():
    """Members of a group that does not exist wait, with a reason, and go when it comes; another namespace's does not count."""
    world = World(nodes(2), a_gang("job", 2).namespace("elsewhere"), members("job", 2)).wait(3)
    assert world.conditions("job-0") == [("SchedulingGated", "PodGroup default/job (ai-scheduler) does not exist")]
    assert world.placed == {}
    stays(world, minutes=10)
    world.add(a_gang("job", 2)).run()
    assert world.bound_members("job") == 2


def test_group_that_makes_no_sense_is_waited_for_until_it_does():
    """MinMember 0 is refused with the field's name; corrected, the gang goes."""
    world = World(nodes(2), a_gang("job", 0), members("job", 2)).wait(3)
    assert "spec.minMember: 0 is out of range" in world.conditions("job-0")[0][1]
    assert world.gang_phases("job") == ["Invalid"]
    stays(world)
    world.add(a_gang("job", 2)).run()
    assert world.bound_members("job") == 2


def test_unknown_priority_class_is_waited_for():
    """A priorityClassName that does not exist is named with those that do; once it exists the gang goes."""
    world = World(
        nodes(2), PriorityClass(name="gold", value=9), a_gang("job", 2).priority_class("silver"), members("job", 2)
    ).wait(3)
    assert "'silver' does not exist; existing are gold" in world.conditions("job-0")[0][1]
    assert world.placed == {}
    world.add(PriorityClass(name="silver", value=5)).run()
    assert world.bound_members("job") == 2


def test_class_of_the_group_gives_no_right_above_the_members():
    """A gang of pods of priority 0 whose group names a class of 1,000 evicts nobody; a lower class counts."""
    low = [running(f"low-{k}", f"n{k}", priority=5) for k in range(2)]
    gold = PriorityClass(name="gold", value=1000)
    world = World(nodes(2), gold, low, a_gang("job", 2).priority_class("gold"), members("job", 2)).run()
    assert world.evicted == []
    assert world.pending("job").priority == 0
    stays(world)
    iron = PriorityClass(name="iron", value=3)
    world = World(nodes(2), iron, low, a_gang("job", 2).priority_class("iron"), members("job", 2, priority=100)).run()
    assert world.evicted == []
    assert world.pending("job").priority == 3


def test_group_removed_while_its_members_wait():
    """Without their group the members wait; they never go one by one."""
    world = World(nodes(2), a_gang("job", 3), members("job", 3)).run()
    world.engine.handle(i.GangRemoved(GangKey("ai-scheduler", "default", "job")))
    world.add(nodes(3)).wait(3)
    assert world.placed == {}
    stays(world)


def test_lower_minimum_lets_a_gang_go():
    """MinMember lowered to what fits is news."""
    world = World(nodes(2), a_gang("job", 3), members("job", 3)).run()
    assert world.placed == {}
    world.add(msgspec.structs.replace(a_gang("job", 2).build(), generation=2)).run()
    assert world.bound_members("job") == 2
    stays(world)


@pytest.mark.parametrize("lag", [0.0, 3.0])
def test_restart_continues_where_the_former_process_was(lag):
    """A new engine with the same objects binds nobody twice, and waits for victims that go already."""
    low = [running(f"low-{k}", f"n{k}") for k in range(4)]
    world = World(nodes(4), low, a_gang("job", 2), members("job", 2, priority=10))
    world.grace, world.view_lag = 20.0, lag
    world.run()
    evicted = list(world.evicted)
    assert len(evicted) == 2
    world.restart().run()
    assert world.evicted == evicted
    world.wait(30)
    assert world.evicted == evicted
    assert world.bound_members("job") == 2
    stays(world.restart())


def test_restart_in_the_middle_of_binding_binds_the_rest():
    """Members that the former process bound count; the others follow."""
    bound = [pod.on(f"n{k}") for k, pod in enumerate(members("job", 2))]
    world = World(nodes(4), a_gang("job", 4), bound, members("job", 2, start=2)).run()
    assert world.bound_members("job") == 4
    stays(world)


def test_restart_does_not_leave_a_half_bound_gang():
    """A gang that was being bound, and whose rest finds no room, is rolled back at its schedule timeout."""
    bound = [pod.on(f"n{k}") for k, pod in enumerate(members("job", 2))]
    gang = msgspec.structs.replace(a_gang("job", 4).timeout(60).build(), phase="Scheduling")
    world = World(nodes(2), gang, bound, members("job", 2, start=2)).run()
    assert world.bound_members("job") == 2
    world.wait(61)
    assert world.bound_members("job") == 0
    assert len(world.events("GangRolledBack")) == 1


def test_other_dialects_are_scheduled_and_never_written():
    """A gang of Coscheduling's is bound whole; its object gets no status from us."""
    pods = [a_pod(f"job-{k}").gang("job", dialect="coscheduling").gpus(8) for k in range(3)]
    world = World(nodes(2), a_gang("job", 3).dialect("coscheduling"), pods).wait(5)
    assert world.placed == {}
    world.add(a_node("n9").gpus(8)).wait(5)
    assert world.bound_members("job") == 3
    assert world.gang_phases("job") == []


def test_mixed_roles_are_placed_together():
    """A driver without GPUs and workers with eight each: all or none."""
    driver = a_pod("driver").gang("job").cpu(32)
    world = World(nodes(2), a_node("c0").cpu(16), a_gang("job", 3), driver, members("job", 2)).run()
    assert world.bound_members("job") == 3
    tight = [a_node(f"n{k}").gpus(8).cpu(20) for k in range(2)]
    world = World(tight, a_node("c0").cpu(16), a_gang("job", 3), driver, members("job", 2)).run()
    assert world.placed == {}
    stays(world)
