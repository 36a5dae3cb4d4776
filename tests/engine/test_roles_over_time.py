"""Gangs of roles: a launcher and its workers, elastic roles, roles within roles; their minima over time."""

from __future__ import annotations

import pytest

from scheduler.model.dialects.own import ROLE_LABEL
from tests.builders import a_gang, a_node, a_pod

from .shapes import nodes, running, stays
from .world import World


def in_role(role, count, gpus=8, start=0, gang="job"):
    """Return equal members of a role."""
    numbers = range(start, start + count)
    return [a_pod(f"{role}-{k}").gang(gang).label(ROLE_LABEL, role).gpus(gpus).cpu(1) for k in numbers]


def bound(world, role):
    """Count the members of a role that are on nodes."""
    return sum(name.startswith(f"{role}-") for name in world.placed)


def launcher_and_workers(workers=2):
    """Return a group of a launcher and some workers, without a minimum of its own."""
    return a_gang("job", 1).spec(minMember=None).role("launcher", 1).role("worker", workers)


def test_launcher_and_workers_start_together():
    """Neither is placed without the other."""
    world = World(
        nodes(1), a_node("c0").cpu(4), launcher_and_workers(), in_role("launcher", 1, 0), in_role("worker", 2)
    )
    stays(world.run())
    assert world.placed == {}
    world.add(a_node("n9").gpus(8).cpu(64)).run()
    assert (bound(world, "launcher"), bound(world, "worker")) == (1, 2)


def test_pods_of_one_role_do_not_stand_in_for_another():
    """Three workers are three pods, and no launcher; the wait says which role is short."""
    world = World(nodes(4), launcher_and_workers(), in_role("worker", 3)).wait(3)
    assert world.placed == {}
    assert "launcher: 0 of 1" in world.conditions("worker-0")[0][1]
    stays(world)
    world.add(in_role("launcher", 1, 0)).run()
    assert (bound(world, "launcher"), bound(world, "worker")) == (1, 3)


def test_pod_of_a_role_that_is_not_listed_is_named():
    """A slip of the pen does not leave a gang waiting without a word."""
    world = World(nodes(4), launcher_and_workers(), in_role("launcher", 1, 0), in_role("wroker", 2)).wait(3)
    assert world.placed == {}
    assert "there are pods of the roles wroker" in world.conditions("launcher-0")[0][1]


def test_elastic_role_takes_what_is_left():
    """Its members are placed as room allows, and hold up nobody."""
    gang = a_gang("job", 1).spec(minMember=None).role("worker", 2).role("extra")
    world = World(nodes(3), gang, in_role("worker", 2), in_role("extra", 2)).run()
    assert (bound(world, "worker"), bound(world, "extra")) == (2, 1)
    stays(world)
    world.add(a_node("n9").gpus(8)).run()
    assert (bound(world, "worker"), bound(world, "extra")) == (2, 2)


def test_elastic_members_are_the_first_to_go():
    """A more important pod takes the room of a member above the minimum, not that of one below."""
    gang = a_gang("job", 1).spec(minMember=None).role("worker", 2).role("extra")
    world = World(nodes(3), gang, in_role("worker", 2), in_role("extra", 1)).wait(5)
    world.add(a_pod("high").gpus(8).priority(9)).wait(5)
    assert world.evicted == ["extra-0"]
    assert bound(world, "worker") == 2


def test_lost_launcher_makes_a_gang_unsatisfied_though_enough_pods_are_left():
    """What counts is the tree, not the number; the status names the role."""
    world = World(
        nodes(4), a_node("c0").cpu(4), launcher_and_workers(), in_role("launcher", 1, 0), in_role("worker", 3)
    )
    world.wait(5)
    world.remove("launcher-0").wait(5)
    status = world.gang_status("job")
    assert (status.phase, status.satisfied, status.scheduled) == ("Pending", "False", "False")
    assert "(launcher: 0 of 1)" in status.satisfied_message
    world.add(in_role("launcher", 1, 0, start=1)).wait(5)
    assert world.gang_status("job").satisfied == "True"


def test_half_started_tree_is_rolled_back():
    """Three workers without their launcher are no start, however many pods that are."""
    workers = [pod.on(f"n{k}") for k, pod in enumerate(in_role("worker", 3))]
    world = World(nodes(3), launcher_and_workers().timeout(30), workers).wait(60)
    assert len(world.evicted) == 3


def test_roles_within_roles():
    """A server of replicas, each of a leader and workers: with two of three replicas it starts."""
    gang = a_gang("job", 1).spec(minMember=None).role("replicas", minRoles=2)
    for k in range(3):
        gang.role(f"r{k}", parent="replicas").role(f"lead{k}", 1, parent=f"r{k}").role(f"work{k}", 2, parent=f"r{k}")
    pods = [pod for k in range(3) for pod in (*in_role(f"lead{k}", 1, 1), *in_role(f"work{k}", 2, 4))]
    tight = [a_node(f"n{k}").gpus(9).cpu(64) for k in range(2)]
    world = World(tight[:1], gang, pods).run()
    assert world.placed == {}
    world.add(tight[1]).run()
    whole = [k for k in range(3) if bound(world, f"lead{k}") and bound(world, f"work{k}") == 2]
    assert len(whole) == 2
    assert len(world.placed) == 6
    stays(world)


def test_group_may_ask_for_more_than_its_roles():
    """Beside the minima of the roles the minimum of the whole counts; anybody makes up for the rest."""
    gang = a_gang("job", 4).role("worker", 2).role("extra")
    world = World(nodes(4), gang, in_role("worker", 2), in_role("extra", 1)).run()
    assert world.placed == {}
    world.add(in_role("extra", 1, start=1)).run()
    assert len(world.placed) == 4


@pytest.mark.parametrize("units", [1, 20_000])
def test_minimum_of_a_role_that_changes_while_it_is_tried(units):
    """A plan for two workers is not carried out for a group that wants three."""
    for steps in range(1, 12):
        world = World(nodes(3), launcher_and_workers(), in_role("launcher", 1, 0), in_role("worker", 2))
        world.work_units = units
        for _ in range(steps):
            world.engine.step(units)
        if world.engine.take_effects():
            break
        world.add(launcher_and_workers(3).generation(2)).run()
        assert world.placed == {}
        world.add(in_role("worker", 1, start=2)).run()
        assert bound(world, "worker") == 3


def test_role_without_room_says_so():
    """A launcher that fits nowhere keeps the workers out."""
    world = World(nodes(2), launcher_and_workers(), in_role("worker", 2))
    world.add(a_pod("launcher-0").gang("job").label(ROLE_LABEL, "launcher").cpu(999)).wait(5)
    assert world.placed == {}
    assert world.gang_status("job").phase == "Pending"


def test_broken_tree_is_an_error_at_the_group():
    """A parent that does not exist is named, and nothing is placed."""
    gang = a_gang("job", 1).spec(minMember=None).role("worker", 2, parent="nobody")
    world = World(nodes(2), gang, in_role("worker", 2)).wait(5)
    assert world.placed == {}
    assert world.gang_status("job").phase == "Invalid"
    assert "spec.roles[worker].parent: 'nobody' is no subgroup" in world.gang_status("job").message
    assert [event.regarding.kind for event in world.events("InvalidPodGroup")] == ["PodGroup", "Pod"]


def test_foreign_role_label_without_roles_is_ignored():
    """A group without roles counts pods, whatever they call themselves."""
    world = World(nodes(2), a_gang("job", 2), in_role("a", 1), in_role("b", 1)).run()
    assert len(world.placed) == 2


def test_workers_of_a_complete_gang_do_not_wait_for_a_launcher_that_is_there():
    """A late worker is placed by itself."""
    world = World(nodes(4), launcher_and_workers(), in_role("launcher", 1, 0), in_role("worker", 2)).wait(5)
    world.add(running("foreign", "n3"), in_role("worker", 1, start=2)).run()
    assert bound(world, "worker") == 3
