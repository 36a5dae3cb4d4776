"""Pods that a kubelet refuses: their room is free, their gang is mended elsewhere, and keeps off that node for a while."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from scheduler.engine.rejections import rejected_at
from scheduler.model import GangKey
from scheduler.model.api import Condition
from tests.builders import a_gang, a_node, a_pod

from .shapes import members, nodes, stays
from .world import START, World

REASONS = ["OutOfcpu", "OutOfnvidia.com/gpu", "UnexpectedAdmissionError", "TopologyAffinityError", "NodeAffinity"]
KEY = GangKey("ai-scheduler", "default", "job")


def shunned(world):
    """Return the names of the nodes that the gang keeps off."""
    access = world.engine._core.access
    access.snapshot = world.engine.state.snapshot()
    return {access.snapshot.all_rows[row].node.name for row in access.shunned_rows(KEY, world.now)}


def rejected(reason="OutOfcpu", room=2):
    """Return a world in which a node refuses one of two members, and the name of the node."""
    world = World(nodes(room), a_gang("job", 2), members("job", 2)).wait(5)
    node = world.node_of("job-0")
    return world.change("job-0", phase="Failed", status_reason=reason).wait(1), node


@pytest.mark.parametrize("reason", REASONS)
def test_refused_member_is_replaced_elsewhere(reason):
    """Its gang is told, and the replacement goes to another node though the first one looks free."""
    world, node = rejected(reason, room=3)
    assert world.gang_status("job").satisfied == "False"
    assert len(world.events("RejectedByNode")) == 1
    assert shunned(world) == {node}
    world.add(members("job", 1, start=7)).run()
    assert world.node_of("job-7") not in ("", node)


def test_node_that_refused_is_tried_again_after_five_minutes():
    """If there is no other, the gang waits for it; nothing else has to happen."""
    world, node = rejected()
    world.add(members("job", 1, start=7)).wait(200)
    assert not world.node_of("job-7")
    world.wait(120)
    assert world.node_of("job-7") == node
    assert shunned(world) == set()
    stays(world)


def test_others_may_use_a_node_that_refused():
    """Only that gang is known to be unwelcome there."""
    world, node = rejected()
    world.add(a_gang("other", 1), members("other", 1)).run()
    assert world.node_of("other-0") == node


@pytest.mark.parametrize("reason", ["Evicted", "DeadlineExceeded", ""])
def test_other_failures_are_no_refusal(reason):
    """A pod that failed for another reason may go where it was."""
    world, node = rejected(reason)
    assert shunned(world) == set()
    world.add(members("job", 1, start=7)).run()
    assert world.node_of("job-7") == node


def test_refusal_after_the_start_counts_too():
    """A kubelet that restarts admits its pods anew, and may refuse what it ran before."""
    world = World(nodes(2), a_gang("job", 2), members("job", 2)).wait(5)
    world.change("job-0", phase="Running").wait(1)
    node = world.node_of("job-0")
    world.change("job-0", phase="Failed", status_reason="OutOfcpu").wait(1)
    assert shunned(world) == {node}


def test_refusal_during_the_start_is_mended_before_the_rollback():
    """A gang that never was complete has its schedule timeout to find another node."""
    world = World(nodes(2), a_gang("job", 2).timeout(30), members("job", 2)).run()
    world.change("job-0", phase="Failed", status_reason="OutOfpods").wait(5)
    world.add(a_node("n9").gpus(8), members("job", 1, start=7)).wait(5)
    assert world.bound_members("job") == 3
    assert world.node_of("job-7") == "n9"
    assert world.evicted == []


def at(seconds, kind="PodScheduled"):
    """Return a condition that began so many seconds after the start of the world."""
    moment = datetime.fromtimestamp(START + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Condition(type=kind, status="True", last_transition_time=moment)


def test_new_process_keeps_off_a_node_that_refused_for_the_rest_of_the_five_minutes():
    """The failed pod says why and when; it is not told a second time."""
    world, node = rejected()
    told = len(world.events("RejectedByNode"))
    world.change("job-0", started=START + 5, conditions=(at(0),)).wait(100)
    world.restart().add(members("job", 1, start=7)).wait(150)
    assert shunned(world) == {node}
    assert not world.node_of("job-7")
    world.wait(60)
    assert world.now - START > 305
    assert world.node_of("job-7") == node
    assert len(world.events("RejectedByNode")) == told
    stays(world)


def test_new_process_forgets_refusals_that_are_long_ago_or_of_no_known_time():
    """It may go to that node at once; so it may after another failure than a refusal."""
    for known in (
        {"started": START - 400},
        {"conditions": (at(-400),)},
        {},
        {"started": START, "status_reason": "Evicted"},
    ):
        world, node = rejected()
        world.change("job-0", **known).restart().add(members("job", 1, start=7)).run()
        assert world.node_of("job-7") == node, known


def test_refusal_in_the_future_counts_from_now():
    """A kubelet's clock that is ahead keeps nobody away for longer."""
    world, node = rejected()
    world.change("job-0", started=START + 10_000).restart().run()
    assert shunned(world) == {node}
    world.wait(301)
    assert shunned(world) == set()


def test_time_of_a_refusal_is_the_latest_in_the_status():
    """A pod that ran for long before its kubelet started again was refused when it was not ready any more."""
    pod = a_pod("p").build()
    assert rejected_at(pod) is None
    ran = msgspec.structs.replace(pod, started=START, conditions=(at(-1), at(500, "Ready"), Condition(type="Odd")))
    assert rejected_at(ran) == START + 500
    odd = msgspec.structs.replace(pod, started=START, conditions=(Condition(type="Odd", last_transition_time="soon"),))
    assert rejected_at(odd) == START
