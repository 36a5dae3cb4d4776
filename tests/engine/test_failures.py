"""What goes wrong between the decision and the binding, and in the middle of a cycle."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.engine import inputs as i
from scheduler.framework.effects import BindPod, SetGangStatus
from tests.builders import a_gang, a_node, a_pod

from .shapes import members, nodes, running, stays
from .world import World


def test_member_whose_binding_fails_is_placed_elsewhere():
    """A refused binding is repaired on another node; the others keep their places."""
    world = World(nodes(5), a_gang("job", 4), members("job", 4))
    world.failing = {"job-1": ["the node says no"]}
    world.run()
    others = dict(world.placed)
    assert len(others) == 3
    refused = next(e.node_name for e in world.of(BindPod) if e.pod.name == "job-1")
    world.wait(2)
    assert world.bound_members("job") == 4
    assert world.node_of("job-1") != refused
    assert others.items() <= world.placed.items()
    assert len(world.events("FailedBinding")) == 1
    stays(world, minutes=20)


def test_gang_that_cannot_be_repaired_is_rolled_back():
    """After scheduleTimeoutSeconds the bound members are evicted, once, with an event."""
    world = World(nodes(4), a_gang("job", 4).timeout(30), members("job", 4))
    world.failing = {"job-1": ["no"] * 100}
    world.run().wait(29)
    assert world.bound_members("job") == 3
    assert world.events("GangRolledBack") == []
    world.wait(2)
    assert sorted(world.evicted) == ["job-0", "job-2", "job-3"]
    assert len(world.events("GangRolledBack")) == 1
    assert world.bound_members("job") == 0
    stays(world, minutes=20)


def test_running_gang_is_not_rolled_back_for_a_late_member():
    """A gang that had its minimum loses a member; its replacement cannot be bound: the others run on."""
    world = World(nodes(2), a_gang("job", 2).timeout(30), members("job", 2)).run().wait(5)
    world.remove("job-0")
    world.add(*members("job", 1, start=2))
    world.failing = {"job-2": ["no"] * 1000}
    world.run().wait(300)
    assert world.evicted == []
    assert world.placed == {"job-1": world.node_of("job-1")}


def test_binding_backs_off():
    """A pod whose bindings fail is tried after 1, 2, 4, 8, 10, 10 seconds."""
    world = World(nodes(2), a_pod("p").cpu(1))
    world.failing = {"p": ["no"] * 6}
    times = []
    world.run()
    while len(times) < 6:
        times.append(world.now)
        before = len(world.of(BindPod))
        while len(world.of(BindPod)) == before:
            world.wait(0.25)
    gaps = [round(b - a, 2) for a, b in zip(times, [*times[1:], world.now], strict=True)]
    assert gaps == pytest.approx([1, 2, 4, 8, 10, 10], abs=0.5)
    assert world.node_of("p")


def test_pod_that_is_bound_already_is_given_up():
    """409: the room is given back, and the pod is never bound again."""
    world = World(nodes(2), a_pod("p").gpus(8))
    world.engine.step()
    (bind,) = [e for e in world.engine.take_effects() if isinstance(e, BindPod)]
    other = "n1" if bind.node_name == "n0" else "n0"
    world.engine.handle(i.BindingFailed("uid-p", "bound already", is_taken=True))
    assert world.engine.state.assumed == {}
    world.add(a_pod("p").gpus(8).on(other))
    world.add(a_pod("q").gpus(8)).run()
    assert world.placed == {"p": other, "q": bind.node_name}
    stays(world)


@pytest.mark.parametrize("order", ["answer first", "view first"])
def test_pod_that_is_gone_gives_its_room_back(order):
    """404: whichever of answer and view comes first, the room is free for others."""
    world = World(nodes(1), a_pod("p").gpus(8))
    world.engine.step()
    assert any(isinstance(e, BindPod) for e in world.engine.take_effects())
    for step in ("answer", "view") if order == "answer first" else ("view", "answer"):
        if step == "answer":
            world.engine.handle(i.BindingFailed("uid-p", "not found", is_gone=True))
        else:
            world.pods.pop("uid-p", None)
            world.engine.handle(i.PodRemoved("uid-p"))
    world.add(a_pod("q").gpus(8)).run()
    assert world.placed == {"q": "n0"}


def test_member_deleted_while_its_gang_is_bound():
    """The gang is watched from then on: without a replacement it is rolled back, in no silence."""
    world = World(nodes(4), a_gang("job", 4).timeout(60), members("job", 4))
    world.engine.step()
    effects = world.engine.take_effects()
    world.remove("job-3")
    world.effects += effects
    for effect in effects:
        world._carry_out(effect)
    world.run()
    assert world.bound_members("job") == 3
    world.wait(61)
    assert len(world.events("GangRolledBack")) == 1
    assert world.bound_members("job") == 0


def test_news_of_a_pod_whose_binding_was_taken_does_not_bind_it_again():
    """Between the answer and the view, a late echo of the pending pod changes nothing."""
    world = World(nodes(2), a_pod("p").cpu(1))
    world.view_lag = 5.0
    world.run()
    stale = msgspec.structs.replace(world.pod("p"), annotations={"touched": "yes"})
    world.engine.handle(i.PodChanged(stale))
    world.run()
    assert len(world.of(BindPod)) == 1
    world.wait(10)
    assert len(world.of(BindPod)) == 1
    assert world.node_of("p")


def test_pending_view_that_ends_before_the_answer_is_no_deletion():
    """A pod that leaves the pending view while it is bound is still expected on its node."""
    world = World(nodes(1), a_pod("p").gpus(8))
    world.engine.step()
    world.engine.handle(i.PendingPodLeft("uid-p"))
    assert world.engine.state.assumed == {"uid-p": "n0"}
    world.engine.handle(i.BindingSucceeded("uid-p"))
    world.engine.handle(i.PendingPodLeft("uid-p"))
    assert world.engine.state.node_of("uid-p") == "n0"


def in_small_steps(world: World, steps: int) -> World:
    """Work so many smallest steps."""
    for _ in range(steps):
        world.engine.step(1)
    return world


@pytest.mark.parametrize("steps", range(1, 9))
def test_pod_deleted_in_the_middle_of_a_cycle(steps):
    """Wherever the cycle is, a gang that lost a member binds nobody until it is complete again."""
    world = World(nodes(4), a_gang("job", 4), members("job", 4))
    in_small_steps(world, steps).remove("job-2")
    world.run().wait(5)
    bound_before = any(isinstance(e, BindPod) for e in world.effects)
    assert world.bound_members("job") in ((3,) if bound_before else (0,))
    world.add(a_pod("job-9").gang("job").gpus(8)).run().wait(30)
    assert world.bound_members("job") == 4


@pytest.mark.parametrize("steps", range(1, 5))
def test_member_bound_by_someone_else_in_the_middle_of_a_cycle(steps):
    """It counts as placed, and what was decided without it is decided again; from the fifth step on the gang is bound."""
    world = World(nodes(5), a_gang("job", 4), members("job", 4))
    in_small_steps(world, steps)
    world.add(running("job-1", "n0").gang("job"))
    world.run().wait(30)
    assert world.bound_members("job") == 4
    assert world.node_of("job-1") == "n0"
    stays(world)


@pytest.mark.parametrize("steps", range(1, 9))
def test_node_deleted_in_the_middle_of_a_cycle(steps):
    """Nobody is bound to a node that is gone before the binding is sent."""
    world = World(nodes(5), a_gang("job", 4), members("job", 4))
    in_small_steps(world, steps)
    sent = [e for e in world.engine.take_effects() if isinstance(e, BindPod)]
    if sent:
        return
    world.remove_node("n0").run().wait(30)
    assert world.bound_members("job") == 4
    assert "n0" not in world.placed.values()


@pytest.mark.parametrize("steps", range(1, 9))
def test_node_added_in_the_middle_of_a_cycle(steps):
    """Rows move under a cycle: the decision still means the nodes that it was made for."""
    world = World(nodes(4), a_gang("job", 4), members("job", 4))
    in_small_steps(world, steps)
    world.add(a_node("a-first").gpus(8)).run()
    assert world.bound_members("job") == 4
    assert len(set(world.placed.values())) == 4


@pytest.mark.parametrize("steps", range(1, 9))
def test_foreign_pod_takes_a_place_in_the_middle_of_a_cycle(steps):
    """What another scheduler bound before our bindings are sent is respected."""
    world = World(nodes(5), a_gang("job", 4), members("job", 4))
    in_small_steps(world, steps)
    sent = [e for e in world.engine.take_effects() if isinstance(e, BindPod)]
    if sent:
        return
    world.add(running("foreign", "n2").scheduler("somebody")).run().wait(30)
    assert world.bound_members("job") == 4
    assert len(set(world.placed.values())) == 5


@pytest.mark.parametrize("steps", range(1, 9))
def test_group_removed_in_the_middle_of_a_cycle(steps):
    """A gang without its group is not placed, whatever the cycle found."""
    world = World(nodes(4), a_gang("job", 4), members("job", 4))
    in_small_steps(world, steps)
    if [e for e in world.engine.take_effects() if isinstance(e, BindPod)]:
        return
    world.engine.handle(i.GangRemoved(a_gang("job", 4).build().key))
    world.run().wait(5)
    assert world.placed == {}
    world.add(a_gang("job", 4)).run()
    assert world.bound_members("job") == 4


@pytest.mark.parametrize("steps", range(1, 9))
def test_gang_deleted_and_created_again_in_the_middle_of_a_cycle(steps):
    """New pods of the same names are a new workload, and are not forgotten."""
    world = World(nodes(4), a_gang("job", 4), members("job", 4))
    in_small_steps(world, steps)
    if [e for e in world.engine.take_effects() if isinstance(e, BindPod)]:
        return
    world.remove(*[f"job-{k}" for k in range(4)])
    world.add(*[pod.uid(f"new-{k}") for k, pod in enumerate(members("job", 4))]).run()
    assert world.bound_members("job") == 4


def test_events_that_arrive_during_a_cycle_are_not_lost():
    """Room that comes free while the refusal is being worked out wakes the gang at once."""
    for steps in range(1, 8):
        old = running("old", "n1")
        world = World(nodes(2), old, a_gang("job", 2), members("job", 2))
        in_small_steps(world, steps).remove("old").run()
        assert world.bound_members("job") == 2, steps


def test_foreign_pods_take_room_and_give_it_back():
    """A gang waits while other schedulers' pods are in its way, and goes when they end."""
    foreign = [running(f"f{k}", f"n{k}").scheduler("somebody") for k in range(2)]
    world = World(nodes(3), foreign, a_gang("job", 3), members("job", 3)).run()
    assert world.bound_members("job") == 0
    stays(world)
    world.change("f0", phase="Succeeded").run()
    assert world.bound_members("job") == 0
    world.remove("f1").run()
    assert world.bound_members("job") == 3
    stays(world)


def test_node_deleted_between_decision_and_binding_answer():
    """The answer comes after the node is gone: state stays consistent, and the pod is not bound twice."""
    world = World(nodes(2), a_pod("p").gpus(8))
    world.engine.step()
    effects = world.engine.take_effects()
    (bind,) = [e for e in effects if isinstance(e, BindPod)]
    world.remove_node(bind.node_name)
    for effect in effects:
        world._carry_out(effect)
    world.run()
    assert world.node_of("p") == bind.node_name
    world.remove("p").run()
    assert world.engine.state.validate() == []


def test_gang_that_a_dead_process_left_half_bound_is_rolled_back():
    """Whatever phase was written: a new process goes by the members, and evicts them when the timeout has passed."""
    nodes = [a_node(f"n{i}").gpus(8).cpu(64).memory("512Gi").pods(110) for i in range(2)]
    bound = [a_pod(f"job-{i}").gang("job").gpus(8).on(f"n{i}") for i in range(2)]
    world = World(nodes, a_gang("job", 3).timeout(30), bound, a_pod("job-2").gang("job").gpus(8)).wait(20)
    assert world.evicted == []
    world.wait(15)
    assert sorted(world.evicted) == ["job-0", "job-1"]
    assert len(world.events("GangRolledBack")) == 1


def test_gang_that_was_complete_and_lost_a_member_runs_on_after_a_restart():
    """Its condition says BelowMinimum, and a new process believes that."""
    nodes = [a_node(f"n{i}").gpus(8).cpu(64).memory("512Gi").pods(110) for i in range(2)]
    bound = [a_pod(f"job-{i}").gang("job").gpus(8).on(f"n{i}") for i in range(2)]
    gang = msgspec.structs.replace(a_gang("job", 3).timeout(30).build(), was_complete=True)
    world = World(nodes, gang, bound, a_pod("job-2").gang("job").gpus(8)).wait(600)
    assert world.evicted == []
    assert world.of(SetGangStatus)[-1].reason == "BelowMinimum"


def test_gang_of_new_pods_under_an_old_group_starts_anew():
    """A group whose pods are all gone is no longer complete: the next start is rolled back like the first."""
    nodes = [a_node(f"n{i}").gpus(8).cpu(64).memory("512Gi").pods(110) for i in range(2)]
    members = [a_pod(f"old-{i}").gang("job").gpus(8) for i in range(2)]
    world = World(nodes, a_gang("job", 2).timeout(30), members).wait(5)
    world.remove("old-0", "old-1").wait(5)
    world.add(a_pod("new-0").gang("job").gpus(8).on("n0")).wait(60)
    assert world.evicted == ["new-0"]


def test_group_that_a_bound_member_leaves_by_its_label_counts_anew():
    """Counts follow the label."""
    node = a_node("n0").gpus(8).cpu(64).memory("512Gi").pods(110)
    world = World(node, a_gang("job", 1), a_pod("p").gang("job").gpus(1).on("n0").phase("Running")).wait(2)
    assert dict(world.of(SetGangStatus)[-1].counts)["running"] == 1
    world.add(a_pod("p").gpus(1).on("n0").phase("Running")).wait(2)
    assert dict(world.of(SetGangStatus)[-1].counts)["running"] == 0


def test_gang_whose_bound_members_are_gone_is_not_being_scheduled_any_more():
    """One binding failed, then all pods but the one that waits are deleted: the group is Pending, for it holds nothing."""
    world = World(nodes(2), a_gang("job", 2).timeout(600), members("job", 2))
    world.failing = {"job-1": ["no"] * 3}
    world.run().remove("job-0").wait(5)
    assert world.placed == {}
    assert world.gang_status("job").phase == "Pending"
    stays(world)


def test_start_after_one_that_held_nothing_in_the_end_has_all_of_its_time():
    """The second one is not rolled back by the deadline of the first."""
    world = World(nodes(2), a_gang("job", 2).timeout(60), members("job", 2))
    world.failing = {"job-1": ["no"]}
    world.run().remove("job-0").wait(50)
    world.failing = {"job-1": ["no"] * 4}
    world.add(members("job", 1, start=2)).run().wait(55)
    assert world.evicted == []
    assert world.bound_members("job") == 2
