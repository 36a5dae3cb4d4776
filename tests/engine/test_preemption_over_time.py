"""Preemption over time: whole transactions, the right victims, and no eviction that nobody needs."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.framework.effects import EvictPod, NominatePod
from scheduler.model import Budget, PriorityClass
from scheduler.model.api import LabelSelector
from tests.builders import a_gang, a_node, a_pod

from .shapes import members, nodes, running, stays
from .world import World


def low_nodes(count, priority=0):
    """Return one unimportant pod on each of so many nodes."""
    return [running(f"low-{k}", f"n{k}", priority=priority) for k in range(count)]


def budget(name, allowed, **labels):
    """Return a PodDisruptionBudget."""
    return Budget(
        namespace="default", name=name, selector=LabelSelector(match_labels=labels), disruptions_allowed=allowed
    )


def test_victims_that_take_their_time_are_awaited():
    """While the victims terminate, nobody else is evicted, and their room is kept."""
    world = World(nodes(4), low_nodes(4), a_gang("job", 2), members("job", 2, priority=10))
    world.grace = 50.0
    world.run().wait(49)
    assert len(world.evicted) == 2
    assert world.bound_members("job") == 0
    world.add(a_pod("later").gpus(8)).run()
    world.wait(2)
    assert world.bound_members("job") == 2
    assert world.node_of("later") == ""
    assert len(world.evicted) == 2
    stays(world)


def test_victims_that_never_go_are_given_up_for_others():
    """After the patience of the gang the plan is made anew, without counting on them."""
    world = World(nodes(4), low_nodes(4), a_gang("job", 2).timeout(60), members("job", 2, priority=10))
    world.grace = None
    world.run().wait(59)
    stuck = set(world.evicted)
    assert len(stuck) == 2
    world.grace = 0.0
    world.wait(2)
    assert len(world.evicted) == 4
    assert world.bound_members("job") == 2
    assert stuck <= world.placed.keys()
    stays(world, minutes=20)


def test_pod_gives_up_victims_that_never_go():
    """A single pod waits for the grace period and two minutes; then another node is cleared."""
    world = World(nodes(2), low_nodes(2), a_pod("urgent").gpus(8).priority(10))
    world.grace = None
    world.run().wait(149)
    (stuck,) = world.evicted
    world.grace = 0.0
    world.wait(2)
    assert len(world.evicted) == 2
    assert world.node_of("urgent") not in ("", world.node_of(stuck))
    stays(world)


def test_all_victims_stuck_leads_to_no_more_evictions():
    """When nothing is left to evict the workload waits; nobody is evicted twice."""
    world = World(nodes(2), low_nodes(2), a_gang("job", 2).timeout(60), members("job", 2, priority=10))
    world.grace = None
    world.run().wait(600)
    assert sorted(world.evicted) == ["low-0", "low-1"]
    assert all(world.engine.state.nominations.get(f"uid-job-{k}") is None for k in range(2))
    world.remove("low-0", "low-1").run()
    assert world.bound_members("job") == 2


def test_nominated_room_is_kept_from_lower_and_equal_pods():
    """Later pods of no more importance do not take the room of victims; a more important one may."""
    world = World(nodes(1), running("low", "n0"), a_pod("urgent").gpus(8).priority(10))
    world.grace = 20.0
    world.run()
    assert world.evicted == ["low"]
    world.add(a_pod("equal").gpus(8).priority(10), a_pod("lower").gpus(8).priority(5)).run()
    world.wait(21)
    assert world.node_of("urgent") == "n0"
    assert {world.node_of("equal"), world.node_of("lower")} == {""}
    stays(world)

    world = World(nodes(1), running("low", "n0"), a_pod("urgent").gpus(8).priority(10))
    world.grace = 20.0
    world.run().add(a_pod("first").gpus(8).priority(100)).run().wait(21)
    assert world.node_of("first") == "n0"
    assert world.node_of("urgent") == ""
    assert world.pod("urgent").nominated_node_name == ""
    assert world.evicted == ["low"]
    stays(world)


def test_room_is_kept_for_a_gang_at_the_priority_of_its_class():
    """A lower class of the group counts here too: a pod between the class and the members takes the room."""
    iron = PriorityClass(name="iron", value=3)
    gang = [a_gang("job", 1).priority_class("iron"), members("job", 1, priority=100)]
    world = World(nodes(1), iron, running("low", "n0"), *gang)
    world.grace = 20.0
    world.run().add(a_pod("between").gpus(8).priority(50)).wait(21)
    assert world.evicted == ["low"]
    assert world.node_of("between") == "n0"
    stays(world)


def test_room_that_was_kept_is_free_once_nobody_wants_it():
    """When the nominated pod is deleted, whoever waited for its room is woken."""
    world = World(nodes(1), running("low", "n0"), a_pod("urgent").gpus(8).priority(10))
    world.grace = 20.0
    world.run().add(a_pod("later").gpus(8)).run().wait(19)
    world.wait(0.5)
    world.remove("urgent").wait(1)
    assert world.node_of("later") == "n0"


def test_stale_nomination_is_cleared():
    """A pod that names a node where it cannot go, and that cannot preempt, is written free of it."""
    high = running("high", "n0", priority=100)
    world = World(nodes(1), high, a_pod("p").gpus(8).nominated("n0")).run()
    assert [(e.pod.name, e.node_name) for e in world.of(NominatePod)] == [("p", "")]
    stays(world)


def test_policy_never_evicts_nobody():
    """The preemptionPolicy Never is respected, for pods and for gangs with one such member."""
    shy = a_pod("shy").gpus(8).priority(10).preemption_policy("Never")
    world = World(nodes(2), low_nodes(2), shy).run()
    assert world.evicted == []
    gang = members("job", 2, priority=10)
    gang[1].preemption_policy("Never")
    world = World(nodes(2), low_nodes(2), a_gang("job", 2), gang).run()
    assert world.evicted == []
    stays(world)


def test_budget_is_avoided_where_possible():
    """Of equal victims those without a budget go; with no choice the budget is broken, and the decision says so."""
    kept = [pod.label("app", "db") for pod in low_nodes(2)]
    world = World(nodes(3), budget("db", 0, app="db"), kept, running("other", "n2"))
    world.add(a_pod("urgent").gpus(8).priority(10)).run()
    assert world.evicted == ["other"]
    world.add(a_gang("job", 1), members("job", 1, priority=10)).run()
    assert world.evicted[1:] == [world.evicted[-1]]
    assert world.evicted[-1] in ("low-0", "low-1")
    assert [v.violates_budget for d in world.decisions for v in d.victims] == [False, True]
    stays(world)


def test_gang_breaks_no_budget_if_another_node_can_do():
    """The cheapest nodes are those without a broken budget."""
    kept = [pod.label("app", "db") for pod in low_nodes(2)]
    world = World(nodes(4), budget("db", 0, app="db"), kept, running("x", "n2"), running("y", "n3"))
    world.add(a_gang("job", 2), members("job", 2, priority=10)).run()
    assert sorted(world.evicted) == ["x", "y"]


def victim_gang(minimum, count, gpus=8):
    """Return a running gang of priority 1."""
    pods = [pod.on(f"n{k}") for k, pod in enumerate(members("victim", count, gpus=gpus, priority=1))]
    return [a_gang("victim", minimum), *pods]


@pytest.mark.parametrize("preemptor", ["pod", "gang"])
def test_gang_is_a_victim_as_a_whole(preemptor):
    """One member in the way costs all of them, on every node, in one transaction."""
    urgent = (
        [a_pod("urgent").gpus(8).priority(10)]
        if preemptor == "pod"
        else [a_gang("urgent", 1), members("urgent", 1, priority=10)]
    )
    world = World(nodes(3), victim_gang(3, 3), *urgent).run()
    assert sorted(world.evicted) == ["victim-0", "victim-1", "victim-2"]
    stays(world)


@pytest.mark.parametrize("preemptor", ["pod", "gang"])
def test_surplus_of_a_gang_goes_alone(preemptor):
    """Members above the minimum may go without the rest."""
    urgent = (
        [a_pod("urgent").gpus(8).priority(10)]
        if preemptor == "pod"
        else [a_gang("urgent", 1), members("urgent", 1, priority=10)]
    )
    world = World(nodes(3), victim_gang(2, 3), *urgent).run()
    assert len(world.evicted) == 1
    assert world.bound_members("victim") == 2
    stays(world)


def test_member_that_goes_already_is_no_surplus_to_spend():
    """A gang of three with a minimum of two, one of which is going: no other may go alone."""
    world = World(nodes(4), victim_gang(2, 3), running("single", "n3", priority=1)).run()
    world.grace = None
    world.change("victim-2", is_terminating=True).run()
    world.add(a_gang("urgent", 2), members("urgent", 2, priority=10)).run()
    assert world.evicted == ["single"]


def test_pods_that_go_anyway_are_waited_for():
    """A node that is being vacated is enough: nobody is evicted."""
    world = World(nodes(2), running("going", "n0", priority=50), running("staying", "n1"))
    world.change("going", is_terminating=True)
    world.add(a_pod("urgent").gpus(8).priority(10), a_gang("job", 1)).run()
    assert world.evicted == []
    world.remove("going").run()
    assert world.node_of("urgent") == "n0"
    stays(world)


def test_no_eviction_without_a_placement_that_needs_it():
    """Half of a gang's room cannot be had: nobody goes, for hours."""
    high = [running(f"high-{k}", f"n{k}", priority=100) for k in (2, 3)]
    world = World(nodes(4), low_nodes(2), high, a_gang("job", 3), members("job", 3, priority=10)).run()
    stays(world, minutes=60)
    assert world.evicted == []


def test_member_does_not_join_a_gang_that_is_being_evicted():
    """Between the decision to evict a gang and its end, a late member does not count on the others."""
    world = World(nodes(1, gpus=16), a_gang("low", 2), members("low", 2)).run().wait(5)
    late = a_pod("low-late").gang("low").cpu(1)
    world.add(a_pod("urgent").gpus(16).priority(10), late)
    world.engine.step()
    world.grace = 20.0
    world.run()
    assert sorted(world.evicted) == ["low-0", "low-1"]
    assert world.node_of("low-late") == ""
    world.wait(30)
    assert world.placed == {"urgent": "n0"}


def test_two_preemptors_in_one_step_evict_nobody_twice():
    """The second counts the first one's victims as going, and finds its own."""
    world = World(nodes(3), low_nodes(3), a_pod("a").gpus(8).priority(10), a_pod("b").gpus(8).priority(9))
    world.grace = 20.0
    world.run()
    assert len(world.evicted) == len(set(world.evicted)) == 2
    world.wait(30)
    assert world.waiting == set()
    assert len(world.evicted) == 2


def test_two_preemptors_take_turns_in_peace():
    """Gangs of equal importance never evict each other."""
    world = World(nodes(2), a_gang("a", 2), members("a", 2, priority=5)).run()
    world.add(a_gang("b", 2), members("b", 2, priority=5)).run()
    assert (world.bound_members("a"), world.evicted) == (2, [])
    stays(world, minutes=30)


def test_evicted_gang_comes_back_when_there_is_room_and_not_before():
    """The victim's controller makes new pods at once: they wait, and evict nobody."""
    world = World(nodes(2), a_gang("low", 2), members("low", 2)).run()
    world.add(a_gang("high", 2), members("high", 2, priority=10)).run()
    assert sorted(world.evicted) == ["low-0", "low-1"]
    world.add(members("low", 2, start=2)).run()
    stays(world, minutes=20)
    assert world.bound_members("high") == 2
    world.remove("high-0", "high-1").run()
    assert world.bound_members("low") == 2
    stays(world)


def test_eviction_that_is_refused_ends_the_plan():
    """The workload plans again after its backoff, and keeps no room meanwhile for nothing."""
    world = World(nodes(1), running("low", "n0"), a_pod("urgent").gpus(8).priority(10))
    world.unevictable = {"low"}
    world.run()
    attempts = len(world.of(EvictPod))
    assert attempts == 1
    world.wait(60)
    assert 3 <= len(world.of(EvictPod)) <= 10
    world.unevictable = set()
    world.wait(11)
    assert world.node_of("urgent") == "n0"


def test_bound_pods_that_the_view_lags_behind_with_are_evicted_not_forgotten():
    """A victim whose binding was taken, but is not seen yet, is deleted like others."""
    world = World(nodes(1), a_pod("low").gpus(8))
    world.view_lag = 10.0
    world.run()
    assert world.engine.state.assumed == {"uid-low": "n0"}
    world.add(a_pod("urgent").gpus(8).priority(10)).run()
    assert world.evicted == ["low"]
    assert world.node_of("urgent") == ""
    world.wait(30)
    assert world.engine.state.node_of("uid-urgent") == "n0"


def test_gang_in_the_way_of_a_pod_on_a_shared_node():
    """Small members of a gang beside others: only what has to go goes."""
    pods = [running(f"small-{k}", "n0", gpus=2, priority=k) for k in range(4)]
    world = World(nodes(1), pods, a_pod("urgent").gpus(4).priority(10)).run()
    assert sorted(world.evicted) == ["small-0", "small-1"]
    assert world.node_of("urgent") == "n0"


def test_preemptor_that_finds_other_room_keeps_no_nomination():
    """A node that appears while the victims go is taken, and the room elsewhere is free for others."""
    world = World(nodes(1), running("low", "n0"), a_pod("urgent").gpus(8).priority(10))
    world.grace = 60.0
    world.run().add(a_node("n9").gpus(8)).run()
    assert world.node_of("urgent") == "n9"
    world.add(a_pod("later").gpus(8)).wait(61)
    assert world.node_of("later") == "n0"


def protecting(what="", pods=()):
    """Return a world in which a gang of two with a surplus of one, of which this is protected, fills three nodes."""
    said = {"": {}, "whole": {"is_preemptible": False}, "minimum": {"is_preemptible": True, "is_minimum_firm": True}}
    gang = msgspec.structs.replace(a_gang("old", 2).build(), **said[what])
    held = [running(f"old-{k}", f"n{k}").gang("old") for k in range(3)]
    held = [pod.annotation("volcano.sh/preemptable", str(f"old-{k}" not in pods)) for k, pod in enumerate(held)]
    return World(nodes(3), gang, [msgspec.structs.replace(pod.build(), started=float(k)) for k, pod in enumerate(held)])


@pytest.mark.parametrize(
    ("what", "pods", "wanted", "evicted"),
    [
        ("", (), 3, {"old-0", "old-1", "old-2"}),
        ("whole", (), 1, set()),
        ("minimum", (), 1, {"old-2"}),
        ("minimum", (), 2, set()),
        ("", ("old-2",), 1, {"old-1"}),
        ("", ("old-2",), 2, set()),
        ("", ("old-0", "old-1", "old-2"), 1, set()),
    ],
)
def test_what_a_gang_or_a_pod_protects_is_no_victim(what, pods, wanted, evicted):
    """Neither for a gang nor for a single pod, whatever their priority; a protected member is spared before others."""
    world = protecting(what, pods).add(a_gang("new", wanted), members("new", wanted, priority=1000)).wait(5)
    assert set(world.evicted) == evicted
    if wanted == 1:
        world = protecting(what, pods).add(a_pod("single").gpus(8).priority(1000)).wait(5)
        assert set(world.evicted) == evicted


@pytest.mark.parametrize("is_by_class", [True, False])
def test_room_is_kept_by_the_priority_of_the_group_however_it_is_stated(is_by_class):
    """A group of priority 0 waits for its victim to go; a pod of 5 takes the room, whatever the priority of the group's pods."""
    job = a_gang("job", 1).build()
    stated = {"priority_class_name": "iron"} if is_by_class else {"priority": 0}
    world = World(nodes(1), PriorityClass(name="iron", value=0), running("weak", "n0", priority=-5))
    world.grace = 30
    world.add(msgspec.structs.replace(job, **stated), members("job", 1, priority=10)).run()
    assert world.evicted == ["weak"]
    world.add(a_pod("middle").gpus(8).cpu(1).priority(5)).wait(40)
    assert world.placed == {"middle": "n0"}


@pytest.mark.parametrize("change", ["cordoned", "gone", "taken"])
def test_a_plan_is_checked_again_before_the_first_eviction(change):
    """The room that a plan would make is of no use any more when the plan is there: nobody is evicted."""
    world = World(nodes(2), low_nodes(2), a_gang("job", 2), members("job", 2, priority=10))
    steps = 0
    while steps == 0 or world.engine._attempt is not None:  # the plan is complete just before the last step
        probe = World(nodes(2), low_nodes(2), a_gang("job", 2), members("job", 2, priority=10))
        for _ in range(steps + 1):
            probe.engine.step(1)
        if probe.engine._attempt is None:
            break
        world.engine.step(1)
        steps += 1
    assert world.engine._attempt is not None
    if change == "cordoned":
        world.add(a_node("n1").gpus(8).cpu("64").memory("512Gi").pods(110).cordoned())
    elif change == "gone":
        world.remove_node("n1")
    else:
        world.remove("low-1").add(running("top", "n1", priority=99))
    world.run().wait(5)
    assert world.evicted == []
    stays(world)
