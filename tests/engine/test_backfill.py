"""Backfill in the engine: who has a reservation, what makes it another one, who is woken, and what it costs others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from scheduler.config import parse
from scheduler.engine.inputs import RunEnded
from scheduler.framework.effects import SetGangStatus, SetPromisedStart, SetQueueStatus
from scheduler.model.run_time import EXPECTED_RUN_SECONDS
from tests.builders import PodBuilder, a_gang, a_node, a_pod
from tests.queues.making import a_queue, a_world, of_queue

from .world import START, World

if TYPE_CHECKING:
    from scheduler.config import SchedulerConfiguration
    from scheduler.model import Pod


def running(name: str, node: str, gpus: int = 8, seconds: int | None = None, **fields: object) -> Pod:
    """Return a pod that has just started, and says how long it will run."""
    builder = a_pod(name).gpus(gpus).on(node).phase("Running")
    if seconds is not None:
        builder.annotation(EXPECTED_RUN_SECONDS, str(seconds))
    return structs.replace(builder.build(), started=START, **fields)


def waiting(name: str, gpus: int = 8, seconds: int | None = None) -> PodBuilder:
    """Return a pod that waits, and says how long it will run; those that come at once are tried by name."""
    builder = a_pod(name).gpus(gpus)
    return builder if seconds is None else builder.annotation(EXPECTED_RUN_SECONDS, str(seconds))


def configured(**backfill: object) -> SchedulerConfiguration:
    """Return a configuration with these wishes."""
    return parse(f"backfill: {{{', '.join(f'{key}: {value}' for key, value in backfill.items())}}}")


def a_cluster(count: int = 2) -> list[object]:
    """Return nodes of eight GPUs."""
    return [a_node(f"n{number}").gpus(8) for number in range(count)]


def told(world: World, name: str) -> list[float | None]:
    """Return the starts that a single pod was told, in seconds after the beginning."""
    return [
        None if effect.start is None else effect.start - START
        for effect in world.of(SetPromisedStart)
        if effect.pod.name == name
    ]


def end(world: World, name: str) -> World:
    """Let a pod end well."""
    return world.change(name, phase="Succeeded")


def test_a_group_of_ours_tells_its_start_in_its_status() -> None:
    """Two pods need both nodes, which are free after 100 and 300 s; when it starts, nothing is promised any more."""
    world = World(*a_cluster(), running("a", "n0", seconds=100), running("b", "n1", seconds=300), a_gang("big", 2))
    world.add(*(waiting(f"big-{number}").gang("big") for number in range(2))).wait(2)
    assert world.gang_status("big").promised_start == START + 300
    world.wait(297)
    end(end(world, "a"), "b").wait(2)
    assert world.bound_members("big") == 2
    assert world.gang_status("big").promised_start is None
    assert [d.promised_start for d in world.decisions if d.result == "scheduled"] == [START + 300]


def test_a_single_pod_tells_it_in_an_effect_of_its_own() -> None:
    """Once, as long as nothing moves."""
    world = World(*a_cluster(1), running("a", "n0", seconds=100), waiting("next")).wait(50)
    assert told(world, "next") == [100]


def test_without_run_times_nothing_is_reserved_or_told_before_the_hold() -> None:
    """The smaller pod takes what came free, as it always did."""
    world = World(*a_cluster(1), running("a", "n0", 4), running("b", "n0", 4), waiting("big"))
    world.wait(10)
    end(world, "a").add(waiting("small", 4)).wait(1)
    assert world.node_of("small") == "n0"
    assert told(world, "big") == []


def test_after_a_while_nodes_are_held_for_the_head() -> None:
    """The pod that asks for a whole node is refused for 300 s: then what comes free is kept for it."""
    world = World(*a_cluster(1), running("a", "n0", 4), running("b", "n0", 4), waiting("big")).wait(301)
    end(world, "a").add(waiting("small", 4)).wait(1)
    assert world.node_of("small") == ""
    assert "beside what is reserved for default/big" in world.conditions("small")[0][1]
    end(world, "b").wait(1)
    assert world.node_of("big") == "n0"
    assert told(world, "big") == []


def test_a_hold_in_vain_ends_and_comes_back_twice_as_long() -> None:
    """Held from 10 to 30, free until 50, held from 50 to 90, free until 130."""
    world = World(
        *a_cluster(1), running("a", "n0", 4), running("b", "n0", 4), waiting("big"),
        configuration=configured(holdAfterSeconds=10, holdSeconds=20),
    )  # fmt: skip
    end(world.wait(11), "a")
    for moment, is_held in ((15, True), (35, False), (55, True), (85, True), (95, False), (125, False), (135, True)):
        name = f"small-{moment}"
        world.wait(START + moment - world.now).add(waiting(name, 4)).wait(0.5)
        assert (world.node_of(name) == "") is is_held, moment
        world.remove(name).wait(0.1)


def test_services_are_not_waited_for() -> None:
    """Nodes where a ReplicaSet's pod stands in the way are never held: it will not end by itself."""
    service = structs.replace(
        a_pod("web").owner("ReplicaSet", "web").gpus(4).on("n0").phase("Running").build(), started=START
    )
    world = World(*a_cluster(1), service, running("b", "n0", 4), waiting("big")).wait(301)
    end(world, "b").add(waiting("small", 4)).wait(1)
    assert world.node_of("small") == "n0"


def test_with_none_nothing_is_held() -> None:
    """The configuration switches all of it off."""
    world = World(
        *a_cluster(1), running("a", "n0", 4, 50), running("b", "n0", 4, 500), waiting("big"), configuration=configured(policy="none")
    ).wait(301)  # fmt: skip
    end(world, "a").add(waiting("small", 4)).wait(1)
    assert world.node_of("small") == "n0"
    assert told(world, "big") == []


def test_nothing_is_reserved_for_pods_of_the_parity_profile() -> None:
    """kube-scheduler knows no reservations."""
    world = World(
        *a_cluster(1), running("a", "n0", 8, 50), waiting("big"),
        configuration=parse("profiles: [{base: kube-default}]"),
    ).wait(400)  # fmt: skip
    assert told(world, "big") == []


def test_each_set_of_nodes_has_a_head() -> None:
    """A pod that waits for one pool is first there, whoever waits for another pool before it."""
    nodes = [a_node("h0").gpus(8).label("pool", "h"), a_node("v0").gpus(8).label("pool", "v")]
    world = World(
        *nodes, running("a", "h0", 8, 100), running("b", "v0", 8, 200),
        waiting("for-h").select("pool", "h"), waiting("for-v").select("pool", "v"),
        waiting("second-v").select("pool", "v"),
    ).wait(5)  # fmt: skip
    assert (told(world, "for-h"), told(world, "for-v"), told(world, "second-v")) == ([100], [200], [])


def test_conservative_promises_everyone_a_start_one_after_the_other() -> None:
    """One node: 100 s are left, the first runs for 30, the second for 20, the third for ever."""
    world = World(
        *a_cluster(1), running("a", "n0", 8, 100),
        waiting("first", 8, 30), waiting("second", 8, 20), waiting("third", 8),
        configuration=configured(policy="conservative"),
    ).wait(5)  # fmt: skip
    assert [told(world, name) for name in ("first", "second", "third")] == [[100], [130], [150]]


def test_the_next_head_is_found_within_a_second() -> None:
    """When the first has started, the second is promised its end."""
    world = World(*a_cluster(1), running("a", "n0", 8, 100), waiting("one", 8, 30), waiting("two", 8)).wait(10)
    end(world, "a").wait(1.5)
    assert world.node_of("one") == "n0"
    assert told(world, "two") == [pytest.approx(40, abs=2)]


def test_a_node_that_goes_moves_the_promise_to_another() -> None:
    """The node that is free first is cordoned: then it is the other one, and the promise is told anew a minute later at the earliest."""
    world = World(*a_cluster(), running("a", "n0", 8, 100), running("b", "n1", 8, 300), waiting("next")).wait(10)
    world.add(a_node("n0").gpus(8).cordoned()).wait(100)
    assert told(world, "next") == [100, 300]


def test_a_pod_of_another_scheduler_on_a_reserved_node_moves_the_promise() -> None:
    """Nobody can keep it off: it is looked again."""
    world = World(*a_cluster(), running("a", "n0", 8, 100), running("b", "n1", 8, 300), waiting("next")).wait(10)
    end(world, "a")
    other = structs.replace(running("other", "n0", 8), scheduler_name="default-scheduler")
    world.add(other).wait(100)
    assert told(world, "next") == [100, 300]


def test_a_head_that_goes_lets_those_run_that_waited_for_its_nodes() -> None:
    """Nothing else wakes them."""
    world = World(*a_cluster(1), running("a", "n0", 4, 100), waiting("big"), waiting("small", 4)).wait(5)
    assert world.node_of("small") == ""
    world.remove("big").wait(0.5)
    assert world.node_of("small") == "n0"


def test_ends_on_a_reserved_node_do_not_wake_who_finds_no_room_beside() -> None:
    """Seven pods end one after the other on the node that is kept for the head: the others are not tried for it."""
    pods = [running(f"a{number}", "n0", 1, 100) for number in range(8)]
    world = World(*a_cluster(1), *pods, waiting("big"))
    world.add(*(waiting(f"small-{number}", 1, 500) for number in range(20))).wait(20)
    before = len(world.decisions)
    for number in range(7):
        end(world, f"a{number}").wait(1)
    assert len(world.decisions) == before
    end(world, "a7").wait(1)
    assert world.node_of("big") == "n0"


def test_nothing_is_due_when_nobody_waits() -> None:
    """No timer of its own wakes an engine without waiting work, whatever was reserved before."""
    world = World(*a_cluster(1), running("a", "n0", 8, 100), waiting("next", 8, 5)).wait(10)
    end(world, "a").wait(5)
    assert world.node_of("next") == "n0"
    assert world.engine.next_deadline() is None


def test_places_in_queues_tell_what_was_promised() -> None:
    """Over HTTP; the status of a queue has no times, so that it is not written again for them."""
    world = a_world(8, a_queue("a"))
    world.add(running("now", "n0", seconds=100))
    world.add(of_queue("a", waiting("first")), of_queue("a", waiting("second", 4).created(1))).wait(2)
    places = world.engine.queue_positions()["a"]
    assert [(place.name, place.promised_start) for place in places] == [("first", START + 100), ("second", None)]
    assert all(place.promised_start is None for effect in world.of(SetQueueStatus) for place in effect.pending)


@pytest.mark.parametrize("is_gang", [True, False])
def test_a_new_process_stands_by_what_was_promised(is_gang: bool) -> None:
    """The end of who runs moves by 2 % meanwhile, so that no other start is told, and the error is measured by the old one."""
    world = World(*a_cluster(1), running("a", "n0", seconds=500))
    world.add(*([a_gang("big", 1), waiting("big-0").gang("big")] if is_gang else [waiting("big-0")])).wait(2)
    world.change("a", annotations={EXPECTED_RUN_SECONDS: "510"})
    world.restart().wait(100)
    starts = (
        {e.promised_start for e in world.of(SetGangStatus)}
        if is_gang
        else {e.start for e in world.of(SetPromisedStart)}
    )
    assert starts - {None} == {START + 500}
    assert len(told(world, "big-0")) == (0 if is_gang else 1)
    end(world, "a").wait(2)
    assert [d.promised_start for d in world.decisions if d.result == "scheduled"] == [START + 500]


def test_a_new_process_tells_a_start_that_has_moved() -> None:
    """By more than a tenth: within the minute after it took over nothing is told, and then the new start."""
    world = World(*a_cluster(1), running("a", "n0", seconds=500), waiting("big")).wait(2)
    world.change("a", annotations={EXPECTED_RUN_SECONDS: "900"}).restart().wait(50)
    assert told(world, "big") == [500]
    assert told(world.wait(20), "big") == [500, 900]


def test_a_new_process_withdraws_a_promise_that_it_cannot_make() -> None:
    """Nothing is known of the end any more: the promise goes, though the pod waits on."""
    world = World(*a_cluster(1), running("a", "n0", seconds=500), waiting("big")).wait(2)
    world.change("a", annotations={}).add(running("c", "other", 1, seconds=5)).restart().wait(50)
    assert told(world, "big") == [500, None]


def test_a_new_process_learns_from_what_has_ended_before_it() -> None:
    """Three runs of 200 s: the one that runs is expected to end after as long, and whoever waits is promised that."""
    world = World(*a_cluster(1), configuration=configured(learnRunTimes="true"))
    for number in range(3):
        world.engine.handle(RunEnded(f"u{number}", ("default", "Job", "train-#"), START - 10 * number, 200.0))
    pod = a_pod("train-7-x").gpus(8).owner("Job", "train-7").on("n0").phase("Running").build()
    world.add(structs.replace(pod, started=START - 50), waiting("next")).wait(2)
    assert told(world, "next") == [150]


def test_a_new_process_learns_from_ended_members_of_gangs() -> None:
    """As pods of Jobs are: they are shown as pods, and say when they ended."""
    world = World(*a_cluster(1), configuration=configured(learnRunTimes="true"))
    for number in range(3):
        pod = a_pod(f"train-{number}-x").gpus(8).owner("Job", f"train-{number}").on("n0").phase("Succeeded").build()
        world.add(structs.replace(pod, started=START - 900, ended=START - 700))
    pod = a_pod("train-7-x").gpus(8).owner("Job", "train-7").on("n0").phase("Running").build()
    world.add(structs.replace(pod, started=START - 50), waiting("next")).wait(2)
    assert told(world, "next") == [150]
