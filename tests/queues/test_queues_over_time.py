"""Queues in the engine: who is tried next, who waits for quota, and what wakes them."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from scheduler.engine import inputs as i
from scheduler.framework.effects import SetQueueStatus
from scheduler.model.label_tests import LabelTest
from scheduler.model.queue import QUEUE_LABEL, Queue, Quota
from tests.builders import GPU, a_gang, a_node, a_pod, gangs_of
from tests.engine.world import World

from .making import a_namespace, a_queue, a_world, know, queued


def test_without_queues_labels_and_groups_of_other_projects_change_nothing():
    """The same Decisions, whatever pods say of queues, as long as there is no Queue object."""

    def decisions(*, labelled: bool):
        world = World(*(a_node(f"n{n}").gpus(4) for n in range(3)))
        for number in range(12):
            pod = a_pod(f"p{number}").gpus(1 + number % 3).priority(number % 2 * 10).created(number)
            world.add(pod.label(QUEUE_LABEL, "q") if labelled else pod.label("other/label", "q"))
        world.wait(20)
        world.remove("p1", "p3")
        world.wait(400)
        shown = [(d.workload, d.result, d.placements) for d in world.decisions]
        return shown, sorted(world.placed.items())

    assert decisions(labelled=True) == decisions(labelled=False)


def test_a_limit_holds_with_its_numbers_and_ends_when_a_pod_of_the_queue_does():
    """Exactly the workload that the freed quota helps is tried again."""
    world = a_world(32, a_queue("team-a", limit=16))
    world.add(queued("old", "team-a", 12)).wait(1)
    world.add(queued("big", "team-a", 8), queued("lost", "nowhere", 1))
    world.wait(5)
    assert set(world.placed) == {"old"}
    assert world.pending("big").reason == "QueueLimit"
    assert "queue team-a: limit 16 nvidia.com/gpu, 12 used, asks 8" in world.pending("big").message
    tries = world.pending("big").attempts
    world.add(a_pod("stranger").gpus(1))
    world.wait(5)
    world.remove("stranger")
    world.wait(5)
    assert world.pending("big").attempts == tries
    world.remove("old").wait(5)
    assert "big" in world.placed


def test_a_limit_counts_at_every_level():
    """The parent's quota is used by both."""
    world = a_world(32, a_queue("org", limit=4), a_queue("a", parent="org"), a_queue("b", parent="org"))
    world.add(queued("a1", "a", 3), queued("b1", "b", 3, created=1)).wait(3)
    assert set(world.placed) == {"a1"}
    assert "queue org: limit 4 nvidia.com/gpu, 3 used, asks 3" in world.pending("b1").message


def test_a_workload_that_is_larger_than_its_limit_is_told_never():
    """Until the queue changes."""
    world = a_world(32, a_queue("a", limit=4))
    world.add(queued("p", "a", 8)).wait(3)
    assert [decision.finality for decision in world.decisions] == ["never"]
    know(world, a_queue("a", limit=8))
    world.wait(3)
    assert "p" in world.placed


def test_a_gang_is_charged_whole_so_two_halves_never_meet():
    """Quota for one of two gangs: one starts whole, the other waits whole (volcano#1387)."""
    world = a_world(32, a_queue("a", limit=6))
    for name in ("g1", "g2"):
        members = queued(name, "a").gang(name, 4).times(4)
        world.add(*gangs_of(members), *members)
    world.wait(3)
    assert sorted(world.bound_members(name) for name in ("g1", "g2")) == [0, 4]


def test_members_above_the_minimum_start_as_far_as_quota_goes():
    """Minimum 2 of 5, quota for 4."""
    world = a_world(32, a_queue("a", limit=4))
    members = queued("g", "a").gang("g", 2).times(5)
    world.add(*gangs_of(members), *members).wait(3)
    assert world.bound_members("g") == 4


def test_the_cheapest_members_that_make_up_the_minimum_are_held_against_quota():
    """One of two is enough; the first asks more than the queue may ever use, the second does not."""
    world = a_world(16, a_queue("q", 0, 4))
    world.add(a_gang("job", 1), queued("large", "q", 8).gang("job"), queued("small", "q", 2).gang("job")).run()
    assert world.placed == {"small": "n0"}


@pytest.mark.parametrize(("name", "code"), [("nowhere", "UnknownQueue"), ("theirs", "QueueNotAllowed")])
def test_a_queue_that_one_may_not_use_is_a_condition_and_the_workload_waits(name, code):
    """It is woken when there is such a queue, or the namespace may use it."""
    world = a_world(8, a_queue("a"), a_queue("theirs", namespaces=(LabelTest("team", "Exists"),)))
    world.add(queued("p", name)).wait(5)
    assert world.placed == {}
    assert world.pending("p").reason == code
    assert "allowed are a, default" in world.conditions("p")[-1][1]
    assert [event.reason for event in world.events(code)] == [code]
    know(world, a_queue("nowhere"), a_namespace("default", team="x"))
    world.wait(5)
    assert "p" in world.placed


def test_a_gang_whose_pods_name_different_queues_waits():
    """It cannot be charged as one."""
    world = a_world(8, a_queue("a"), a_queue("b"))
    members = queued("g", "a").gang("g", 2).times(2)
    members[1].label(QUEUE_LABEL, "b")
    world.add(*gangs_of(members), *members).wait(5)
    assert world.placed == {}
    assert "name different queues: a, b; allowed is one" in world.pending("g").message


def test_the_group_says_the_queue_for_all_of_its_pods():
    """A pod cannot get out of its queue by joining a group, or into another one."""
    world = a_world(8, a_queue("a", limit=1), a_queue("b"))
    members = queued("g", "b").gang("g", 2).times(2)
    world.add(a_gang("g", 2).label(QUEUE_LABEL, "a"), *members).wait(3)
    assert world.pending("g").reason == "QueueLimit"


def test_guaranteed_queues_come_first_then_the_smaller_share():
    """Eight GPUs one by one: two for the guarantee of b, the rest in turns."""
    world = a_world(8, a_queue("a"), a_queue("b", 2))
    for number in range(8):
        world.add(queued(f"a{number}", "a", created=number), queued(f"b{number}", "b", created=number))
    world.wait(3)
    order = [decision.workload.split("/")[-1].split(":")[0][0] for decision in world.decisions][:8]
    assert order == ["b", "b", "a", "b", "a", "b", "a", "b"]


def test_weights_divide_what_nobody_is_guaranteed():
    """Three to one, of twelve GPUs."""
    world = a_world(12, a_queue("a", weight=3), a_queue("b", weight=1))
    for number in range(12):
        world.add(queued(f"a{number}", "a", created=number), queued(f"b{number}", "b", created=number))
    world.wait(3)
    assert sum(name.startswith("a") for name in world.placed) == 9


def test_within_a_queue_its_ordering_counts():
    """Priority, the oldest, or the namespace that has least."""

    def first(ordering: str) -> str:
        world = a_world(1, a_queue("q", ordering=ordering))
        world.add(
            a_pod("busy-runs").cpu(1).label(QUEUE_LABEL, "q").namespace("busy").on("n0"),
            queued("important", "q", created=9).namespace("busy").priority(10),
            queued("oldest", "q", created=1).namespace("busy"),
            queued("modest", "q", created=5).namespace("idle"),
        )
        world.add(a_node("n1").cpu(8).memory("8Gi"))
        world.wait(3)
        return next(name for name in world.placed if name != "busy-runs")

    assert first("Priority") == "important"
    assert first("FIFO") == "oldest"


def test_fair_ordering_lets_the_namespace_with_least_go_first():
    """However important the other one's pods are."""
    world = a_world(2, a_queue("q", ordering="Fair"))
    world.add(queued("runs", "q").namespace("busy").on("n0")).wait(1)
    world.add(
        queued("important", "q", created=1).namespace("busy").priority(10).preemption_policy("Never"),
        queued("modest", "q", created=5).namespace("idle"),
    )
    world.wait(3)
    assert set(world.placed) == {"runs", "modest"}


def test_queues_that_come_later_count_from_then_on_and_those_that_go_no_more():
    """Nothing is restarted for it."""
    world = a_world(8)
    world.add(queued("p1", "a", 4)).wait(3)
    know(world, a_queue("a", limit=4))
    world.add(queued("p2", "a", 4, created=1)).wait(3)
    assert set(world.placed) == {"p1"}
    world.engine.handle(i.ObjectRemoved(Queue, ("ai-scheduler", "a")))
    world.wait(3)
    assert set(world.placed) == {"p1", "p2"}


def test_usage_is_the_same_after_a_restart():
    """It is read from pods, and from nothing else."""
    world = a_world(8, a_queue("a", limit=4))
    world.add(queued("p1", "a", 4), queued("p2", "a", 4, created=1)).wait(3)
    world.restart()
    know(world, a_queue("a", limit=4))
    world.wait(3)
    assert "limit 4 nvidia.com/gpu, 4 used, asks 4" in world.pending("p2").message


def test_the_status_says_what_a_queue_has_and_who_waits_and_is_written_only_when_it_changes():
    """After five seconds, and never again while nothing happens."""
    world = a_world(8, a_queue("org", 8), a_queue("a", 4, 4, parent="org"), a_queue("bad", parent="nowhere"))
    world.add(*(queued(f"p{number:02}", "a", 1, created=number) for number in range(26))).wait(30)
    written = {effect.name: effect for effect in world.of(SetQueueStatus)}
    status = written["a"]
    (gpus,) = [one for one in status.resources if one.name == "nvidia.com/gpu"]
    assert (gpus.guaranteed, gpus.allocated, gpus.requested, gpus.fair_share) == ("4", "4", "26", "4")
    assert (status.share, status.pending_count, len(status.pending)) == ("0.500", 22, 20)
    assert [(place.position, place.name, place.reason) for place in status.pending[:2]] == [
        (1, "p04", "QueueLimit"),
        (2, "p05", "QueueLimit"),
    ]
    assert (status.usable, written["org"].pending_count, written["org"].share) == ("True", 22, "0.500")
    assert (written["bad"].usable, written["bad"].reason) == ("False", "InvalidQueue")
    assert "there is no queue nowhere; allowed are a, org" in written["bad"].message
    assert len(world.engine.queue_positions()["a"]) == 22
    count = len(world.of(SetQueueStatus))
    world.wait(200)
    assert len(world.of(SetQueueStatus)) == count
    world.remove("p00").wait(10)
    assert [effect.name for effect in world.of(SetQueueStatus)[count:]] == ["a", "org"]


@pytest.mark.parametrize(("lending", "expected"), [(None, 8), (1, 5), (0, 4), (3, 7)])
def test_a_sibling_borrows_no_more_than_is_lent(lending, expected):
    """Two queues of four GPUs: of what one does not use the other has as much as its lending limit says."""
    lender = msgspec.structs.replace(a_queue("lender", 4), quotas={GPU: Quota(4, None, Fraction(1), lending)})
    world = a_world(8, lender, a_queue("b", 4))
    world.add(*(queued(f"b{n}", "b", created=n) for n in range(8))).run()
    assert len(world.placed) == expected
    world.add(*(queued(f"l{n}", "lender", created=20 + n) for n in range(4))).run().wait(30)
    assert sum(name.startswith("l") for name in world.placed) == 4


def test_what_a_lender_keeps_is_told_with_its_numbers():
    """The limit is what is guaranteed and what is lent."""
    lender = msgspec.structs.replace(a_queue("lender", 4), quotas={GPU: Quota(4, None, Fraction(1), 1)})
    world = a_world(8, lender, a_queue("b", 4))
    world.add(queued("b0", "b", 5), queued("b1", "b", 1, created=5)).run()
    assert world.node_of("b1") == ""
    [(_, message)] = world.conditions("b1")
    assert "queue b: limit 5 nvidia.com/gpu, 5 used, asks 1" in message


def test_where_there_is_no_node_nobody_says_that_evictions_do_not_help():
    """The whole sentence is kube-scheduler's, as it is without queues."""
    world = a_world(8, a_queue("a", 8), nodes=0)
    world.add(queued("p", "a", 1)).wait(1)
    assert world.pending("p").message == "no nodes available to schedule pods"
