"""What attempts, events and writes cost: backoff, flush, hopeless workloads, silence, and equal decisions."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from scheduler.config import parse
from scheduler.engine.decision import encode_decision
from scheduler.framework.effects import EmitEvent, SetGangStatus, SetPodScheduled
from tests.builders import a_gang, a_node, a_pod

from .shapes import members, nodes, running
from .world import World


def attempts(world, name):
    """Count the decisions about a workload."""
    return sum(
        decision.workload.endswith(f"/{name}") or f"/{name}:" in decision.workload for decision in world.decisions
    )


def test_refused_workload_is_tried_again_after_five_minutes():
    """Without any event there is one attempt per flush period."""
    world = World(nodes(1), a_pod("p").gpus(16)).run()
    assert attempts(world, "p") == 1
    world.wait(299)
    assert attempts(world, "p") == 1
    world.wait(2)
    assert attempts(world, "p") == 2
    world.wait(3600)
    assert attempts(world, "p") == 14


def test_hopeless_gang_costs_nothing_per_event():
    """A gang that can never fit is not tried again for a thousand pods that come and go."""
    world = World(nodes(4), a_gang("big", 9), members("big", 9)).run()
    for k in range(500):
        world.add(a_pod(f"p{k}").gpus(1)).run()
        world.remove(f"p{k}").run()
    assert attempts(world, "big") == 1


def test_gang_that_lacks_much_is_not_tried_for_little():
    """Of ten nodes that a gang needs, one after the other comes free: it is tried when there are ten, not before."""
    busy = [running(f"high-{k}", f"n{k}", priority=9) for k in range(10)]
    world = World(nodes(10), busy, a_gang("big", 10), members("big", 10)).run()
    for k in range(9):
        world.remove(f"high-{k}").run()
    assert attempts(world, "big") == 1
    world.remove("high-9").run()
    assert attempts(world, "big") == 2
    assert world.bound_members("big") == 10


def test_thousand_events_cost_a_hopeless_gang_the_same_whatever_its_size():
    """Node evaluations per event do not grow with the members of the gang."""

    def evaluations(size):
        world = World(nodes(20), [running(f"high-{k}", f"n{k}", priority=9) for k in range(20)])
        world.add(a_gang("big", size), members("big", size)).run()
        first = sum(d.evaluations for d in world.decisions)
        for k in range(100):
            name = f"high-{k % 19}"
            world.remove(name).add(running(name, f"n{k % 19}", priority=9)).run()
        return sum(d.evaluations for d in world.decisions) - first

    assert evaluations(20) <= 100 * 2
    assert evaluations(15) <= 100 * 2


def test_waiting_pods_are_woken_by_room_for_them_only():
    """A hundred pods of eight GPUs do not look at each GPU that comes free, and one takes each node."""
    world = World(nodes(2), [running(f"s{k}", f"n{k // 8}", gpus=1) for k in range(16)])
    world.add([a_pod(f"w{k}").gpus(8) for k in range(100)]).run()
    assert len(world.decisions) == 100
    for k in range(7):
        world.remove(f"s{k}").run()
    assert len(world.decisions) == 100
    world.remove("s7").run()
    assert len(world.placed) == 9
    assert len(world.decisions) == 101


def test_own_writes_do_not_wake_what_they_tell_about():
    """Conditions, nominations and group statuses come back as changes of pods and groups: no attempt for those."""
    world = World(nodes(2), a_gang("big", 5), members("big", 5), a_pod("p").gpus(16)).run().wait(30)
    assert world.of(SetGangStatus)
    assert world.of(SetPodScheduled)
    assert attempts(world, "big") == attempts(world, "p") == 1


def test_members_that_start_to_run_do_not_wake_the_surplus():
    """A gang's running members change often: its waiting ones are not tried for that."""
    world = World(nodes(2), a_gang("job", 2), members("job", 3)).run().wait(5)
    before = attempts(world, "job")
    for phase in ("Running", "Pending", "Running"):
        world.change("job-0", phase=phase).run()
    assert attempts(world, "job") == before


@pytest.mark.parametrize("restarted", [False, True])
def test_quiet_cluster_writes_nothing(restarted):
    """Waiting gangs, refused pods, missing groups: ten minutes without one effect."""
    world = World(
        nodes(3), running("low", "n0"), a_gang("big", 9), members("big", 9), a_gang("small", 4), members("small", 2),
        members("orphan", 2), a_pod("p").gpus(16), a_pod("gated").gate("example.com/g"),
    ).run().wait(10)  # fmt: skip
    if restarted:
        world.restart().run().wait(10)
    before = len(world.effects)
    world.wait(600)
    assert world.effects[before:] == []


def test_condition_is_written_once_per_reason():
    """Attempts that end alike write nothing; another reason is written, and so is its event, once per workload."""
    world = World(nodes(1), running("high", "n0", priority=9), a_pod("p").gpus(8)).run()
    world.wait(1600)
    assert attempts(world, "p") == 6
    assert len(world.conditions("p")) == 1
    assert len(world.events("FailedScheduling")) == 1


def test_wait_is_written_after_two_seconds():
    """A gang that is complete within two seconds never says that it waited."""
    world = World(nodes(3), a_gang("job", 3), members("job", 2)).run().wait(1.9)
    assert world.of(SetPodScheduled) == []
    world.add(members("job", 1, start=2)).run().wait(5)
    assert world.of(SetPodScheduled) == []
    world = World(nodes(3), a_gang("job", 3), members("job", 2)).run().wait(2.1)
    assert [e.reason for e in world.of(SetPodScheduled)] == ["SchedulingGated"] * 2
    assert not [e for e in world.of(EmitEvent) if e.type == "Warning"]


def test_every_unplaced_member_of_a_refused_gang_is_unschedulable():
    """Autoscalers see each of them."""
    world = World(nodes(1), a_gang("job", 3), members("job", 3)).run()
    assert [world.conditions(f"job-{k}")[0][0] for k in range(3)] == ["Unschedulable"] * 3


def busy_story():
    """Run a story with all kinds of decisions and return them, encoded."""
    low = [running(f"low-{k}", f"n{k}", priority=1) for k in range(4)]
    world = World(nodes(6), low, a_gang("a", 3), members("a", 3, priority=5), a_gang("b", 2), members("b", 2))
    world.failing = {"a-1": ["no"]}
    world.grace = 7.0
    world.run().add(*[a_pod(f"p{k}").gpus(k % 5).cpu(1).priority(k) for k in range(20)]).wait(60)
    world.remove("a-0").wait(700)
    return b"\n".join(encode_decision(decision) for decision in world.decisions)


def test_equal_inputs_give_equal_decisions():
    """Byte for byte, in one process and across hash seeds."""
    assert busy_story() == busy_story()
    program = (
        "import sys; from tests.engine.test_quiet_and_cheap import busy_story; sys.stdout.buffer.write(busy_story())"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs == [busy_story()] * 2


#: It learns in steps of a quarter of the pods, and a new process learns at once: its scores may differ by that, not by what is kept.
WITHOUT_LEARNING = parse("profiles: [{plugins: {multiPoint: {disabled: [{name: GPUFragmentation}]}}}]")


def test_warm_candidates_decide_like_fresh_ones():
    """What is kept from cycle to cycle changes no decision: a story in one engine equals one with restarts in between."""

    def story(*, restarts):
        world = World(nodes(5), [a_node(f"c{k}").cpu(8) for k in range(3)], configuration=WITHOUT_LEARNING)
        for k in range(40):
            world.add(a_pod(f"p{k}").gpus(k % 3).cpu(1).memory("1Gi")).run()
            if k % 7 == 6:
                world.remove(f"p{k - 5}").run()
            if restarts:
                world.restart(WITHOUT_LEARNING).run()
        return world.placed

    assert story(restarts=False) == story(restarts=True)
