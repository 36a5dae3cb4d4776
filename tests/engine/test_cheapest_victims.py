"""Who is evicted: what is lost least, in the stated order, and nobody whom the preemptor can do without."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.config import SchedulerConfiguration
from scheduler.framework.effects import EvictPod
from scheduler.model.checkpoints import LAST_CHECKPOINT, RESTART_SECONDS
from scheduler.state.cluster import RESTARTABLE
from tests.builders import GPU, a_gang, a_pod

from .shapes import members, nodes, running, stays
from .test_preemption_over_time import budget
from .world import START, World


def at(seconds: float) -> str:
    """Return a time so many seconds before now (negative: after), as it stands in an annotation."""
    return datetime.fromtimestamp(START - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def old(name, node, age=3600.0, saved=None, gpus=8, **fields):
    """Return a pod that has run for so many seconds and saved its work so many seconds ago."""
    pod = running(name, node, gpus=gpus, priority=fields.pop("priority", 0))
    if saved is not None:
        pod.annotation(LAST_CHECKPOINT, saved if isinstance(saved, str) else at(saved))
    for key, value in fields.items():
        pod.annotation(RESTART_SECONDS, str(value)) if key == "restart" else pod.label(key, value)
    return msgspec.structs.replace(pod.build(), started=START - age)


def come(world, kind, count, gpus=8):
    """Let a more important gang come, or as many single pods."""
    if kind == "gang":
        return world.add(a_gang("new", count), members("new", count, gpus=gpus, priority=10)).run()
    return world.add([a_pod(f"new-{k}").gpus(gpus).priority(10) for k in range(count)]).run()


def evicted_by(world, kind, count, gpus=8):
    """Let them come; return who goes for it."""
    come(world, kind, count, gpus)
    assert sum(name.startswith("new") for name in world.placed) == count
    return set(world.evicted)


@pytest.fixture(params=["gang", "pods"])
def evicted_for(request):
    """Return how to do the same for both kinds in turn."""
    return lambda world, count, gpus=8: evicted_by(world, request.param, count, gpus)


def test_of_equal_ones_the_freshest_checkpoint_goes(evicted_for):
    """Whoever saved last loses least, however long it has run."""
    pods = [old("long", "n0", 9000, saved=20), old("short", "n1", 60), old("saved", "n2", 9000, saved=30)]
    assert evicted_for(World(nodes(3), pods), 1) == {"long"}
    assert evicted_for(World(nodes(3), pods), 2) == {"long", "saved"}


def test_a_checkpoint_before_the_start_saves_nothing(evicted_for):
    """What a former run saved is where this one began."""
    pods = [old("again", "n0", 500, saved=5000), old("fresh", "n1", 400)]
    assert evicted_for(World(nodes(2), pods), 1) == {"fresh"}


def test_what_a_group_says_counts_for_its_members_and_a_pod_has_the_last_word(evicted_for):
    """Two gangs of one pod each, and one pod that knows better than its group."""

    def gang(name, node, group_saved, pod_saved=None):
        group = a_gang(name, 1).annotation(LAST_CHECKPOINT, at(group_saved))
        return [group, in_gang(old(name, node, 9000, saved=pod_saved), name)]

    world = World(nodes(3), gang("a", "n0", 100), gang("b", "n1", 50), gang("c", "n2", 10, pod_saved=700))
    assert evicted_for(world, 1) == {"b"}


def in_gang(pod, name):
    """Return a pod as a member of a gang."""
    member = running(pod.name, pod.node_name).gang(name).build()
    return msgspec.structs.replace(pod, labels={**pod.labels, **member.labels}, membership=member.membership)


@pytest.mark.parametrize(
    ("cheap", "dear"),
    [
        # each is cheaper by one criterion and dearer by every later one
        ({"priority": 1, "age": 9000, "gpus": 8, "restart": 900}, {"priority": 2, "age": 10, "gpus": 8, "restart": 0}),
        ({"age": 100, "saved": 10, "restart": 900}, {"age": 100, "saved": 11, "restart": 0}),
        ({"age": 100, "restart": 10}, {"age": 100, "restart": 11}),
    ],
)
def test_criteria_count_in_their_order(cheap, dear, evicted_for):
    """Priority, then the work since the last checkpoint, then what a restart costs."""
    for one, other in ((cheap, dear), (dear, cheap)):
        world = World(nodes(2), old("x", "n0", **one), old("y", "n1", **other))
        assert evicted_for(world, 1) == {"x" if one is cheap else "y"}


def test_a_budget_counts_before_priority(evicted_for):
    """Whoever is protected stays, though less important."""
    pods = [old("kept", "n0", priority=1, app="db"), old("free", "n1", priority=5)]
    assert evicted_for(World(nodes(2), budget("db", 0, app="db"), pods), 1) == {"free"}


def test_what_a_budget_still_allows_is_counted_over_all_nodes():
    """It allows one of two: the other room is made by somebody whom no budget protects, though it loses more."""
    pods = [old("a", "n0", 10, app="db"), old("b", "n1", 10, app="db"), old("c", "n2", 9000)]
    world = World(nodes(3), budget("db", 1, app="db"), pods)
    gone = evicted_by(world, "gang", 2)
    assert "c" in gone
    assert len(gone) == 2
    assert not any(victim.violates_budget for decision in world.decisions for victim in decision.victims)


def test_few_that_lose_as_much_go_before_many(evicted_for):
    """600 seconds of two GPUs, by two pods or by one: fewer pods go."""
    pods = [old("one", "n0", 600, gpus=1), old("two", "n0", 600, gpus=1), old("wide", "n1", 600, gpus=2)]
    pods += [running(f"top{k}", f"n{k}", gpus=6, priority=99) for k in range(2)]
    assert evicted_for(World(nodes(2), pods), 1, gpus=2) == {"wide"}


def test_a_gang_that_drags_others_along_goes_last_of_equals(evicted_for):
    """The same loss, but the rest of one gang stands where it is in nobody's way."""
    pair = [
        msgspec.structs.replace(pod.on(f"n{k}").build(), started=START - 300)
        for k, pod in enumerate(members("pair", 2, gpus=4))
    ]
    single = old("single", "n2", 300, gpus=8)
    tops = [running(f"top{k}", f"n{k}", gpus=4, priority=99) for k in range(2)]
    world = World(nodes(3), a_gang("pair", 2), pair, single, tops)
    assert evicted_for(world, 1, gpus=4) == {"single"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("yesterday", "is no time; allowed is one such as 2026-01-31T08:00:00Z"),
        ("2025-01-01", "is no time"),
        ("2025-13-01T00:00:00Z", "is no time"),
        ("", "is no time"),
        ("2999-01-01T00:00:00Z", "is in the future; allowed are times up to now"),
    ],
)
def test_a_checkpoint_that_makes_no_sense_is_told_and_counts_for_nothing(text, words, evicted_for):
    """At the pod, once; the pod loses what it did since its start."""
    world = World(nodes(2), old("odd", "n0", 500, saved=text or "x"), old("fresh", "n1", 400))
    if not text:
        world = World(nodes(2), running("odd", "n0").annotation(LAST_CHECKPOINT, ""), old("fresh", "n1", 400))
        world.change("odd", started=START - 500)
    world.run()
    [event] = world.events("InvalidCheckpoint")
    assert words in event.note
    assert LAST_CHECKPOINT in event.note
    assert event.regarding.name == "odd"
    assert evicted_for(world, 1) == {"fresh"}
    assert len(world.events("InvalidCheckpoint")) == 1


def test_a_restart_time_that_makes_no_sense_is_told_and_the_default_counts(evicted_for):
    """120 seconds are less than 130 and more than 110."""
    pods = [old("odd", "n0", 100, restart="-5"), old("more", "n1", 100, restart="130")]
    world = World(nodes(2), pods).run()
    [event] = world.events("InvalidCheckpoint")
    assert "allowed are seconds from 0 to 604800" in event.note
    assert evicted_for(world, 1) == {"odd"}


def test_a_group_is_told_of_a_checkpoint_that_makes_no_sense():
    """The event is at the group's object."""
    world = World(nodes(1), a_gang("job", 1).annotation(LAST_CHECKPOINT, "soon"), members("job", 1)).run()
    [event] = world.events("InvalidCheckpoint")
    assert (event.regarding.kind, event.regarding.name) == ("PodGroup", "job")


def test_a_new_checkpoint_of_a_group_is_no_news_to_others():
    """Nobody who waits is tried again for it."""
    world = World(nodes(1), a_gang("job", 1), members("job", 1, priority=5)).run()
    world.add(a_gang("late", 1), members("late", 1)).run().wait(5)
    decisions = len(world.decisions)
    world.add(msgspec.structs.replace(world.gangs[a_gang("job", 1).build().key], annotations={LAST_CHECKPOINT: at(1)}))
    world.wait(5)
    assert len(world.decisions) == decisions


@st.composite
def clusters(draw):
    """Return GPUs used on each node as (pods of so many GPUs, priority, age), and what the preemptor asks for."""
    held = [
        [
            (draw(st.integers(1, 4)), draw(st.sampled_from((0, 0, 1, 99))), draw(st.integers(0, 5)) * 100)
            for _ in range(draw(st.integers(0, 3)))
        ]
        for _ in range(draw(st.integers(2, 4)))
    ]
    return (
        held,
        draw(st.integers(1, 4)),
        draw(st.integers(1, 6)),
        draw(st.booleans()),
        draw(st.sampled_from(["gang", "pods"])),
    )


@settings(max_examples=120, deadline=None)
@given(clusters())
def test_no_victim_is_superfluous(case):
    """Without any one of the victims' units the preemptor would not fit: all pods are alike, so counting is exact."""
    held, count, gpus, in_pairs, kind = case
    count = count if kind == "gang" else 1
    world = World(nodes(len(held)))
    units: dict[str, set[str]] = {}
    for row, pods in enumerate(held):
        free = 8
        for number, (size, priority, age) in enumerate(pods):
            if size > free:
                continue
            free -= size
            name = f"p{row}-{number}"
            units[name] = {name}
            world.add(old(name, f"n{row}", age, gpus=size, priority=priority))
    if in_pairs:
        _pair_up(world, units)
    world.grace = None
    come(world, kind, count, gpus)
    victims = set(world.evicted)
    if victims:
        assert _fits(world, victims, count, gpus)
    for unit in {frozenset(units[name]) for name in victims}:
        assert unit <= victims
        assert not _fits(world, victims - unit, count, gpus), (victims, unit)
    if not victims:
        stays(world)


def _pair_up(world, units):
    """Make gangs of two of pods of the same priority on different nodes."""
    pods = sorted(world.pods.values(), key=lambda pod: pod.uid)
    for first in pods:
        for second in pods:
            is_free = len(units[first.name]) == len(units[second.name]) == 1
            if is_free and first.node_name < second.node_name and first.priority == second.priority:
                name = f"pair-{first.name}"
                world.add(a_gang(name, 2))
                for pod in (first, second):
                    world.add(in_gang(pod, name))
                    units[pod.name] = {first.name, second.name}


def _fits(world, gone, count, gpus):
    """Tell whether so many pods of so many GPUs have room once some pods are gone."""
    room = dict.fromkeys(world.nodes, 8)
    for pod in world.pods.values():
        if pod.node_name and pod.name not in gone:
            room[pod.node_name] -= pod.requests[GPU]
    return sum(free // gpus for free in room.values()) >= count


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 50), st.one_of(st.none(), st.integers(0, 60)), st.integers(1, 3)),
        min_size=1, max_size=6,
    ),
    st.integers(1, 4), st.sampled_from(["gang", "pods"]),
)  # fmt: skip
def test_of_one_pod_on_each_node_the_cheapest_go(pods, count, kind):
    """Where a node is one pod, the cheapest plan is known: those of the lowest priority that lose least, in this order."""
    world = World(nodes(len(pods)))
    worth = {}
    for row, (priority, age, saved, restart) in enumerate(pods):
        name = f"p{row}"
        world.add(old(name, f"n{row}", age, saved=saved, priority=priority, restart=restart))
        worth[name] = (priority, 8 * min(age, age if saved is None else saved), restart)
    if count > len(pods):
        return
    gone = evicted_by(world, kind, count)
    assert len(gone) == count
    highest = sorted(worth.values())[:count][-1][0]
    assert max(worth[name][0] for name in gone) == highest
    assert sorted(worth[name] for name in gone) == sorted(worth.values())[:count]


def test_plan_is_carried_out_once(evicted_for):
    """Nobody is evicted twice for it."""
    world = World(nodes(2), old("a", "n0", 10), old("b", "n1", 10))
    evicted_for(world, 2)
    assert sorted(effect.pod.name for effect in world.of(EvictPod)) == ["a", "b"]


@pytest.mark.parametrize("restartable", ["true", "false"])
def test_pods_of_another_scheduler_go_without_a_place_of_ours(restartable):
    """There is room for it on the other node, but where it comes back to is for its own scheduler to say: nobody moves it."""
    theirs = running("theirs", "n0", gpus=2).annotation(RESTARTABLE, restartable).build()
    theirs = msgspec.structs.replace(theirs, scheduler_name="default-scheduler")
    world = World(nodes(2), theirs, running("firm", "n1", gpus=6, priority=20))
    assert evicted_by(world, "gang", 1) == {"theirs"}
    assert [effect.moves_to for effect in world.of(EvictPod)] == [""]


def test_a_pod_has_one_evicted_that_loses_less_than_several_together(evicted_for):
    """Four GPUs: two pods lost 200 GPU-seconds each, one lost 300; bringing the dearest back first would leave the two."""
    pods = [old("wide", "n0", 75, gpus=4), old("a", "n0", 100, gpus=2), old("b", "n0", 100, gpus=2)]
    assert evicted_for(World(nodes(1), pods), 1, gpus=4) == {"wide"}


def test_a_pod_that_cares_for_its_neighbours_has_the_cheapest_evicted():
    """Filters are asked then, not sums: the same pods go."""
    pods = [old("wide", "n0", 75, gpus=4), old("a", "n0", 100, gpus=2), old("b", "n0", 100, gpus=2)]
    world = World(nodes(1), pods)
    world.add(a_pod("new").gpus(4).priority(10).anti_affinity("kubernetes.io/hostname", app="none")).run()
    assert world.evicted == ["wide"]


def test_the_cheapest_of_many_nodes_is_found():
    """More nodes than kube-scheduler would try: all are looked at."""
    pods = [old(f"p{k}", f"n{k}", 9000, saved=100 + (k * 37) % 150) for k in range(150)]
    [cheapest] = [pod.name for pod in pods if pod.annotations[LAST_CHECKPOINT] == at(100)]
    assert evicted_by(World(nodes(150), pods), "pods", 1) == {cheapest}


def test_who_becomes_the_cheaper_one_with_time_goes_then():
    """Eight GPUs lose faster than seven: what was found for a former pod holds no more."""
    pods = [old("eight", "n0", 100), old("seven", "n1", 110, gpus=7), running("one", "n1", gpus=1, priority=99)]
    for later, gone in ((0, "seven"), (9000, "seven")):
        assert evicted_by(World(nodes(2), pods).wait(later), "pods", 1, gpus=7) == {gone}
    pods = [old("eight", "n0", 100), old("seven", "n1", 120, gpus=7), running("one", "n1", gpus=1, priority=99)]
    for later, gone in ((0, "eight"), (9000, "seven")):
        assert evicted_by(World(nodes(2), pods).wait(later), "pods", 1, gpus=7) == {gone}


def test_pods_without_gpus_lose_the_time_that_they_ran():
    """Nobody has a GPU: who has run least goes, though kube-scheduler would say the same of the later start only."""
    pods = [a_pod(name).cpu(40).on(f"n{k}").build() for k, name in enumerate(("saved", "short"))]
    ages = {"saved": 500, "short": 100}
    pods = [msgspec.structs.replace(pod, started=START - ages[pod.name]) for pod in pods]
    pods[0] = msgspec.structs.replace(pods[0], annotations={LAST_CHECKPOINT: at(50)})
    world = World(nodes(2), pods)
    assert world.add(a_pod("new").cpu(40).priority(10)).run().evicted == ["saved"]


def test_the_parity_profile_knows_no_checkpoints():
    """kube-scheduler's rules: of equal priority the later start goes, though it saved nothing."""
    pods = [old("long", "n0", 9000, saved=20), old("short", "n1", 600)]
    for base, gone in (("kube-default", "short"), ("ai-scheduler", "long")):
        configuration = SchedulerConfiguration.model_validate({"profiles": [{"base": base}]})
        assert evicted_by(World(nodes(2), pods, configuration=configuration), "pods", 1) == {gone}


@pytest.mark.parametrize("kind", ["gang", "pods"])
def test_who_is_going_already_is_no_victim_of_the_plan_but_named(kind):
    """One of the two has to be evicted; the other one is being deleted."""
    world = World(nodes(1), old("a", "n0", 10, gpus=4), old("b", "n0", 10, gpus=4))
    world.grace = None
    world.change("b", is_terminating=True, deletes_at=START + 30)
    come(world, kind, 1)
    assert world.evicted == ["a"]
    [message] = {decision.message for decision in world.decisions if decision.victims}
    assert message.endswith("preempting 1 victims, besides default/b, which is going already")
