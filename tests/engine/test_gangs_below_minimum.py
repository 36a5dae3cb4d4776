"""Gangs that were complete and lose members: what their status says, and what each policy does about it."""

from __future__ import annotations

import math

import msgspec
import pytest

from scheduler.framework.effects import EvictPod, SetGangStatus
from scheduler.model.api import Condition
from tests.builders import a_gang, a_node, a_pod

from .shapes import members, nodes, running, stays
from .world import START, World


def satisfied(world, name="job"):
    """Return status and reason of the condition Satisfied."""
    status = world.gang_status(name)
    return status.satisfied, status.satisfied_reason


def a_running_gang(gang, count=3, room=3):
    """Return a world in which a gang has its minimum on nodes."""
    world = World(nodes(room), gang, members("job", count)).wait(5)
    assert world.bound_members("job") == count
    return world


def test_satisfied_is_not_said_before_a_gang_is_complete():
    """While a gang waits for room, nothing is said of a minimum that it never had."""
    world = World(nodes(2), a_gang("job", 3), members("job", 3)).wait(5)
    assert satisfied(world) == ("", "")
    world.add(a_node("n9").gpus(8)).wait(5)
    assert satisfied(world) == ("True", "MinimumReached")


def test_lost_member_makes_a_gang_unsatisfied_with_numbers():
    """The condition counts, and is True again when the replacement is bound."""
    world = a_running_gang(a_gang("job", 3))
    world.remove("job-0").wait(5)
    assert satisfied(world) == ("False", "BelowMinimum")
    assert world.gang_status("job").satisfied_message == "2 of 3 members are on nodes; it waits for replacements"
    world.add(members("job", 1, start=7)).wait(5)
    assert satisfied(world) == ("True", "MinimumReached")


def test_replace_waits_for_ever():
    """Nobody is evicted, however long it takes, and a replacement is placed whenever it comes."""
    world = a_running_gang(a_gang("job", 3).when_incomplete("Replace", 10))
    world.remove("job-0")
    stays(world, minutes=10)
    world.add(members("job", 1, start=7)).run()
    assert world.bound_members("job") == 3


def test_replacements_wait_for_each_other():
    """Of a gang that lacks two, one replacement takes no room: it would not help the others."""
    world = a_running_gang(a_gang("job", 3))
    world.remove("job-0", "job-1").run()
    world.add(members("job", 1, start=7))
    stays(world)
    world.add(members("job", 1, start=8)).run()
    assert world.bound_members("job") == 3


def test_shrink_goes_on_with_fewer_after_the_grace():
    """Before its end replacements wait for each other; after it each joins by itself."""
    world = a_running_gang(a_gang("job", 3).when_incomplete("Shrink", 60))
    world.remove("job-0", "job-1").add(members("job", 1, start=7)).wait(55)
    assert world.bound_members("job") == 1
    world.wait(10)
    assert world.bound_members("job") == 2
    assert satisfied(world) == ("False", "Shrunk")
    assert len(world.events("GangShrunk")) == 1
    assert world.evicted == []
    world.add(members("job", 1, start=8)).wait(5)
    assert world.bound_members("job") == 3
    assert satisfied(world) == ("True", "MinimumReached")


def test_shrunk_gang_that_was_whole_again_has_its_grace_anew():
    """A second loss is a second shortfall."""
    world = a_running_gang(a_gang("job", 2).when_incomplete("Shrink", 60), count=2)
    world.remove("job-0").wait(70)
    assert satisfied(world) == ("False", "Shrunk")
    world.add(members("job", 1, start=7)).wait(5)
    world.remove("job-7").wait(30)
    assert satisfied(world) == ("False", "BelowMinimum")
    world.wait(40)
    assert satisfied(world) == ("False", "Shrunk")


def test_evict_ends_all_members_once_after_the_grace():
    """They get a reason, the group an event, and the gang starts anew as a whole."""
    world = a_running_gang(a_gang("job", 3).when_incomplete("Evict", 60))
    world.remove("job-0").wait(55)
    assert world.evicted == []
    world.wait(10)
    assert sorted(world.evicted) == ["job-1", "job-2"]
    assert {effect.reason for effect in world.of(EvictPod)} == {"GangBelowMinimum"}
    (event,) = world.events("GangBelowMinimum")
    assert (event.regarding.kind, event.regarding.name, event.type) == ("PodGroup", "job", "Warning")
    stays(world)
    world.add(members("job", 2, start=10)).run()
    assert world.bound_members("job") == 0
    world.add(members("job", 1, start=12)).wait(5)
    assert world.bound_members("job") == 3
    assert satisfied(world) == ("True", "MinimumReached")
    stays(world)


def test_slow_victims_are_evicted_once():
    """Members that take their time to go are not asked again."""
    world = a_running_gang(a_gang("job", 3).when_incomplete("Evict", 60))
    world.grace = 600.0
    world.remove("job-0").wait(500)
    assert sorted(world.evicted) == ["job-1", "job-2"]
    assert len(world.events("GangBelowMinimum")) == 1


def test_refused_eviction_is_tried_again_after_another_grace():
    """A member that could not be evicted does not run on for ever without its gang."""
    world = a_running_gang(a_gang("job", 3).when_incomplete("Evict", 60))
    world.unevictable = {"job-1"}
    world.remove("job-0").wait(70)
    assert world.bound_members("job") == 1
    world.unevictable = set()
    world.wait(70)
    assert world.bound_members("job") == 0


def test_replacement_in_time_prevents_the_eviction():
    """One that is bound when the grace ends counts, though nothing was written of it yet."""
    world = a_running_gang(a_gang("job", 3).when_incomplete("Evict", 60))
    world.remove("job-0").wait(59.9)
    world.add(members("job", 1, start=7)).wait(300)
    assert world.evicted == []
    assert world.bound_members("job") == 3


def test_binding_on_its_way_is_waited_for():
    """A replacement whose binding is not seen yet when the grace ends holds up the eviction."""
    world = a_running_gang(a_gang("job", 3).when_incomplete("Evict", 60))
    world.view_lag = 20.0
    world.remove("job-0").wait(55)
    world.add(members("job", 1, start=7)).wait(300)
    assert world.evicted == []
    assert satisfied(world) == ("True", "MinimumReached")


def test_infinite_grace_is_never_over():
    """A dialect that says never gets never."""
    gang = msgspec.structs.replace(a_gang("job", 3).build(), incomplete_policy="Evict", grace_seconds=math.inf)
    world = a_running_gang(gang)
    world.remove("job-0")
    stays(world, minutes=60)


def test_grace_goes_on_in_a_new_process():
    """Since when a gang is below its minimum stands in its status."""
    world = a_running_gang(a_gang("job", 3).when_incomplete("Evict", 60))
    world.remove("job-0").wait(40)
    world.restart().wait(15)
    assert world.evicted == []
    world.wait(10)
    assert sorted(world.evicted) == ["job-1", "job-2"]
    assert len(world.events("GangBelowMinimum")) == 1


def test_grace_that_ended_while_nobody_led_leaves_replacements_ten_seconds():
    """One that can be placed now is placed, and nobody is evicted; without one the policy acts."""
    for replacements in (1, 0):
        world = a_running_gang(a_gang("job", 3).when_incomplete("Evict", 60))
        world.remove("job-0").wait(5)
        world.now += 500
        world.restart().add(members("job", replacements, start=7)).wait(9)
        assert world.evicted == []
        world.wait(30)
        assert sorted(world.evicted) == ([] if replacements else ["job-1", "job-2"])


def test_gang_that_shrank_is_still_shrunk_in_a_new_process():
    """Its late members do not wait for each other again, and it is not told a second time."""
    world = a_running_gang(a_gang("job", 3).when_incomplete("Shrink", 60))
    world.remove("job-0", "job-1").wait(70)
    world.restart().add(members("job", 1, start=7)).wait(5)
    assert world.bound_members("job") == 2
    assert satisfied(world) == ("False", "Shrunk")
    world.wait(300)
    assert len(world.events("GangShrunk")) == 1


def test_shortfall_that_ended_while_nobody_led_is_over():
    """What the pods show counts, not what the status said."""
    world = a_running_gang(a_gang("job", 3).when_incomplete("Evict", 60))
    lost = world.pod("job-0")
    world.remove("job-0").wait(5)
    world.pods[lost.uid] = lost
    world.now += 500
    world.restart().wait(60)
    assert world.evicted == []
    assert satisfied(world) == ("True", "MinimumReached")


def test_policy_and_grace_may_be_changed_while_a_gang_is_below_its_minimum():
    """What the group says now counts."""
    world = a_running_gang(a_gang("job", 3))
    world.remove("job-0").wait(100)
    world.add(a_gang("job", 3).generation(2).when_incomplete("Evict", 300)).wait(100)
    assert world.evicted == []
    world.add(a_gang("job", 3).generation(3).when_incomplete("Evict", 10)).wait(5)
    assert sorted(world.evicted) == ["job-1", "job-2"]


@pytest.mark.parametrize(("phase", "counts"), [("Succeeded", True), ("Failed", False)])
def test_member_that_succeeded_counts_and_one_that_failed_does_not(phase, counts):
    """What has done its work is not missed."""
    world = a_running_gang(a_gang("job", 3).when_incomplete("Evict", 60))
    world.change("job-0", phase=phase).wait(5)
    assert satisfied(world)[0] == ("True" if counts else "False")
    world.wait(100)
    assert sorted(world.evicted) == ([] if counts else ["job-1", "job-2"])


def test_terminating_member_does_not_count():
    """It is as good as gone, so its replacement is placed while it still runs, if there is room."""
    world = a_running_gang(a_gang("job", 3), room=4)
    world.change("job-0", is_terminating=True).wait(5)
    assert satisfied(world) == ("False", "BelowMinimum")
    world.add(members("job", 1, start=7)).wait(5)
    assert world.node_of("job-7")
    assert satisfied(world) == ("True", "MinimumReached")


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_start_counts_only_what_is_there(phase):
    """A new member next to one that succeeded makes two; next to one that failed or goes it does not."""
    done = a_pod("job-0").gang("job").gpus(8).on("n0").phase("Succeeded")
    world = World(nodes(2), a_gang("job", 2), done, members("job", 1, start=1)).run()
    assert world.node_of("job-1")
    failed = a_pod("job-0").gang("job").gpus(8).on("n0").phase("Failed")
    world = World(nodes(2), a_gang("job", 2), failed, members("job", 1, start=1)).run()
    assert not world.node_of("job-1")
    going = a_pod("job-0").gang("job").gpus(8).on("n0").phase(phase).terminating()
    world = World(nodes(2), a_gang("job", 2), going, members("job", 1, start=1)).run()
    assert not world.node_of("job-1")


def test_replacement_goes_before_older_work_of_its_priority():
    """What frees the room of one member goes to the gang that waits for one, not to who has waited longer."""
    world = a_running_gang(a_gang("job", 3))
    foreign = running("foreign", "n9")
    world.add(a_node("n9").gpus(8), foreign).run()
    world.add(a_pod("old").gpus(8)).wait(20)
    world.change("job-0", is_terminating=True).wait(5)
    world.add(members("job", 1, start=7)).wait(5)
    assert world.waiting == {"old", "job-7"}
    world.remove("foreign").run()
    assert world.waiting == {"old"}
    assert world.node_of("job-7") == "n9"


def test_replacement_does_not_go_before_higher_priority():
    """Repair is worth less than a priority."""
    world = a_running_gang(a_gang("job", 3))
    world.add(a_node("n9").gpus(8), running("foreign", "n9", priority=9)).run()
    world.change("job-0", is_terminating=True).wait(5)
    world.add(members("job", 1, start=7)).wait(5)
    world.add(a_pod("high").gpus(8).priority(5).preemption_policy("Never")).run()
    world.remove("foreign").run()
    assert world.waiting == {"job-7"}


def test_surplus_of_a_complete_gang_is_no_repair():
    """A member above the minimum waits in turn."""
    world = a_running_gang(a_gang("job", 3))
    world.add(a_node("n9").gpus(8), running("foreign", "n9")).run()
    world.add(a_pod("old").gpus(8)).wait(20)
    world.add(members("job", 1, start=7)).wait(5)
    world.remove("foreign").run()
    assert world.waiting == {"job-7"}


def test_raised_minimum_of_a_running_gang_evicts_nobody_by_itself():
    """The gang is below its new minimum; the late members are placed together."""
    world = a_running_gang(a_gang("job", 2), count=2, room=4)
    world.add(a_gang("job", 4).generation(2)).wait(5)
    assert satisfied(world) == ("False", "BelowMinimum")
    world.add(members("job", 1, start=2)).run()
    assert world.bound_members("job") == 2
    world.add(members("job", 1, start=3)).wait(5)
    assert world.bound_members("job") == 4
    assert satisfied(world) == ("True", "MinimumReached")


def test_lowered_minimum_satisfies_a_gang():
    """What is enough now is enough."""
    world = a_running_gang(a_gang("job", 3).when_incomplete("Evict", 60))
    world.remove("job-0").wait(5)
    world.add(a_gang("job", 2).generation(2).when_incomplete("Evict", 60)).wait(300)
    assert satisfied(world) == ("True", "MinimumReached")
    assert world.evicted == []


def test_gang_that_only_its_pods_told_of_is_forgotten_with_them():
    """No object goes that would say so; the next gang of that name is a new one."""
    gang = msgspec.structs.replace(a_gang("job", 2).build(), uid="", api_version="")
    pods = [
        msgspec.structs.replace(pod, membership=msgspec.structs.replace(pod.membership, implied=gang))
        for pod in (member.build() for member in members("job", 2))
    ]
    world = World(nodes(2), pods).wait(5)
    assert len(world.placed) == 2
    core = world.engine._core
    assert core.completed == {gang.key}
    world.remove("job-0").wait(5).remove("job-1").wait(5)
    assert (core.completed, core.placements, core.reporter._gangs_written) == (set(), {}, {})


def a_foreign_gang(world_of=2, timeout=30):
    """Return a world in which a gang of another project's dialect, whose status says nothing, has its minimum on nodes."""
    gang = msgspec.structs.replace(
        a_gang("job", world_of).timeout(timeout).build(), api_version="scheduling.run.ai/v2alpha2"
    )
    key = gang.key._replace(dialect="kai")
    pods = [
        msgspec.structs.replace(pod, membership=msgspec.structs.replace(pod.membership, key=key))
        for pod in (member.build() for member in members("job", world_of))
    ]
    world = World(nodes(world_of), msgspec.structs.replace(gang, key=key), pods).wait(5)
    assert len(world.placed) == world_of
    return world


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_failed_member_bears_witness_that_a_gang_of_another_dialect_was_complete(phase):
    """Nothing of ours is written at its group, so a new process goes by the pods: what runs is no failed start."""
    world = a_foreign_gang().change("job-0", phase=phase).restart().wait(300)
    assert world.evicted == []


def test_gang_of_another_dialect_that_was_never_complete_is_rolled_back_by_a_new_process():
    """Fewer than its minimum have been on nodes, or had been rolled back before."""
    world = a_foreign_gang()
    world.remove("job-0").restart().wait(300)
    assert world.evicted == ["job-1"]
    world = a_foreign_gang()
    target = Condition(type="DisruptionTarget", status="True", reason="GangRolledBack")
    world.change("job-0", phase="Failed", conditions=(target,)).restart().wait(300)
    assert world.evicted == ["job-1"]


def test_room_of_a_lost_member_is_not_held_but_its_replacement_is_next():
    """Who waits for the room gets it; the replacement comes before others of its priority, and evicts the less important."""
    world = a_running_gang(a_gang("job", 3))
    world.add(a_pod("first").gpus(8)).run()
    home = world.node_of("job-0")
    world.remove("job-0").run()
    assert world.node_of("first") == home
    world.add(a_pod("second").gpus(8)).run().wait(5)
    world.add(members("job", 1, start=7)).run().wait(5)
    assert world.waiting == {"second", "job-7"}
    assert not world.evicted
    world.remove("first").wait(5)
    assert world.node_of("job-7") == home
    assert world.waiting == {"second"}


def test_room_of_a_lost_member_is_taken_back_from_the_less_important():
    """A pod of lower priority that took the place goes when the replacement exists."""
    world = World(nodes(3), a_gang("job", 3), members("job", 3, priority=5)).wait(5)
    home = world.node_of("job-0")
    world.remove("job-0").add(a_pod("weak").gpus(8)).run()
    assert world.node_of("weak") == home
    world.add(members("job", 1, start=7, priority=5)).run().wait(5)
    assert world.evicted == ["weak"]
    assert world.node_of("job-7") == home


def test_gangs_of_another_scheduler_are_left_to_it():
    """Two schedulers of this kind may serve one cluster, by different names: each tells of its own gangs, and evicts no others'."""
    gang = a_gang("theirs", 2).when_incomplete("Evict", 10).build()
    gang = msgspec.structs.replace(gang, was_complete=True, short_since=START - 100)
    pods = [a_pod(f"theirs-{k}").gang("theirs").scheduler("another").gpus(8).build() for k in range(2)]
    world = World(nodes(2), gang, pods[0]).wait(5)
    world.add(msgspec.structs.replace(pods[1], node_name="n0", phase="Running")).wait(600)
    assert not [e for e in world.effects if isinstance(e, (EvictPod, SetGangStatus))]
