"""The framework's points with third-party plugins, end to end."""

from __future__ import annotations

import pytest

from scheduler.engine import inputs as i
from scheduler.framework.effects import BindPod, PrepareBinding
from tests.builders import a_gang, a_node, a_pod

from . import plugins as p
from .shapes import members, nodes, profile, running, stays
from .world import World


def world_with(*classes, things=(), **points):
    """Return a world whose profile has these plugins too."""
    p.Recorder.calls.clear()
    return World(*things, configuration=profile(**p.named(*classes, **points)))


# Permit.


def test_permit_holds_a_pod_until_it_is_allowed():
    """A waiting pod holds its room, says so after two seconds, and goes when it is allowed."""
    world = world_with(p.Holder, things=[nodes(1), a_pod("p").gpus(8).label("hold", "60")]).run()
    access = world.engine._core.access
    assert [w.pod.name for w in access.waiting()] == ["p"]
    world.add(a_pod("other").gpus(8)).wait(3)
    assert world.placed == {}
    assert world.conditions("p") == [("SchedulingGated", "waits at Permit for Holder")]
    access.allow("uid-p", "Holder")
    world.run()
    assert world.placed == {"p": "n0"}
    stays(world)


def test_permit_refuses_and_the_pod_rests():
    """A refused pod gives its room back, backs off, and is not tried in a circle."""
    world = world_with(p.Holder, things=[nodes(1), a_pod("p").gpus(8).label("refuse"), a_pod("q").gpus(8)])
    world.run()
    assert world.placed == {"q": "n0"}
    world.wait(600)
    assert len([d for d in world.decisions if "/p:" in d.workload]) <= 4
    assert "the holder refuses" in world.conditions("p")[0][1]


def test_permit_times_out():
    """At the end of the patience the pod is refused by that plugin, and its room is free."""
    world = world_with(p.Holder, things=[nodes(1), a_pod("p").gpus(8).label("hold", "60")]).run()
    world.wait(59)
    assert world.engine.state.assumed == {"uid-p": "n0"}
    world.add(a_pod("q").gpus(8)).wait(1.5)
    assert world.placed == {"q": "n0"}
    assert any("rejected due to timeout after waiting at plugin Holder" in text for _, text in world.conditions("p"))


def test_patience_at_permit_is_capped():
    """PermitMaxSeconds counts when a plugin asks for more."""
    configuration = profile(**p.named(p.Holder)).model_copy(update={"permit_max_seconds": 20})
    world = World(nodes(1), a_pod("p").gpus(8).label("hold", "9999"), configuration=configuration).run()
    world.wait(19)
    assert world.engine.state.assumed
    world.wait(1.5)
    assert world.conditions("p")[-1][0] == "Unschedulable"


def test_timed_out_pods_do_not_chase_each_other():
    """Two pods that hold the same room in turn do so at the pace of their patience, not in a loop."""
    pods = [a_pod(name).gpus(8).label("hold", "10") for name in "ab"]
    world = world_with(p.Holder, things=[nodes(1), pods]).run().wait(300)
    assert len(world.decisions) <= 2 * 300 / 10 + 10
    assert world.placed == {}


def test_pod_deleted_while_it_waits_gives_its_room_back():
    """Unreserve is called, and others get the room at once."""
    held = a_pod("p").gpus(8).label("hold", "60")
    world = world_with(p.Holder, p.Recorder, things=[nodes(1), held]).run()
    world.add(a_pod("q").gpus(8)).remove("p").run()
    assert world.placed == {"q": "n0"}
    assert ("Recorder", "unreserve", "p") in p.Recorder.calls


def test_node_deleted_while_a_pod_waits():
    """The pod is placed elsewhere at once."""
    held = a_pod("p").gpus(8).label("hold", "60")
    world = world_with(p.Holder, things=[nodes(1), held]).run()
    world.add(a_node("z").gpus(8)).remove_node("n0").run()
    assert world.engine.state.assumed == {"uid-p": "z"}


@pytest.mark.parametrize("preemptor", ["pod", "gang"])
def test_victim_at_permit_is_sent_back_and_not_evicted(preemptor):
    """Nobody deletes a pod that is only reserved."""
    world = world_with(p.Holder, things=[nodes(1), a_pod("p").gpus(8).label("hold", "60")]).run()
    if preemptor == "pod":
        world.add(a_pod("urgent").gpus(8).priority(10))
    else:
        world.add(a_gang("urgent", 1), members("urgent", 1, priority=10))
    world.run()
    assert world.evicted == []
    assert list(world.placed.values()) == ["n0"]
    assert world.waiting == {"p"}
    stays(world)


def test_gang_waits_at_permit_as_a_whole():
    """One held member holds all; its patience ends for all; the schedule timeout of the group ends sooner."""
    pods = members("job", 3)
    pods[1].label("hold", "600")
    world = world_with(p.Holder, things=[nodes(3), a_gang("job", 3).timeout(30), pods]).run()
    assert len(world.engine.state.assumed) == 3
    assert world.placed == {}
    world.wait(29)
    assert len(world.engine.state.assumed) == 3
    world.wait(1.1)
    assert "scheduleTimeoutSeconds" in world.conditions("job-0")[-1][1]


# Reserve, PreBind, Bind, PostBind.


@pytest.mark.parametrize("label", ["no-reserve", "refuse", "no-bind"])
def test_unreserve_runs_for_all_in_reverse(label):
    """Whatever refuses after Reserve: all plugins' Unreserve run, the last first, and nothing stays assumed."""
    pod = a_pod("p").gpus(8).label(label)
    world = world_with(
        p.Recorder, p.SecondRecorder, p.FailsReserve, p.Holder, p.FailsBind, things=[nodes(1), pod]
    ).run()
    undone = [name for name, point, _ in p.Recorder.calls if point == "unreserve"]
    assert undone[:2] == ["SecondRecorder", "Recorder"]
    assert world.engine.state.assumed == {}
    assert world.placed == {}
    world.add(a_pod("q").gpus(8)).run()
    assert world.placed == {"q": "n0"}


def test_reserve_refusal_of_one_member_releases_the_gang():
    """All or none, also here."""
    pods = members("job", 3)
    pods[2].label("no-reserve")
    world = world_with(p.Recorder, p.FailsReserve, things=[nodes(3), a_gang("job", 3), pods]).run()
    assert world.placed == {}
    assert world.engine.state.assumed == {}
    assert sorted({name for _, point, name in p.Recorder.calls if point == "unreserve"}) == ["job-0", "job-1", "job-2"]


def test_pre_bind_awaits_what_it_asked_for():
    """The binding goes out when the edge reports it done."""
    world = world_with(p.Preparer, things=[nodes(1), a_pod("p").gpus(8).label("prepare")]).run()
    assert world.placed == {}
    assert [(e.pod.name, e.key, e.effects) for e in world.of(PrepareBinding)] == [("p", "prepared", ())]
    world.wait(20)
    world.engine.handle(i.AwaitedDone("uid-p", "prepared"))
    world.run()
    assert world.placed == {"p": "n0"}


@pytest.mark.parametrize("how", ["failed", "late"])
def test_pre_bind_that_comes_to_nothing(how):
    """Failed or late: everything is given back, with the reason, and the pod is tried again after its backoff."""
    world = world_with(p.Preparer, things=[nodes(1), a_pod("p").gpus(8).label("prepare")]).run()
    if how == "failed":
        world.engine.handle(i.AwaitedDone("uid-p", "prepared", failure="the volume does not attach"))
        world.run()
        text = "the volume does not attach"
    else:
        world.wait(30.1)
        text = "waited too long for prepared"
    assert text in world.conditions("p")[-1][1]
    assert world.engine.state.assumed == {}
    world.engine.handle(i.AwaitedDone("uid-p", "prepared"))
    world.run()
    assert world.placed == {}


def test_first_bind_plugin_that_does_not_skip_wins():
    """Others go on to the next."""
    pods = [a_pod("a").gpus(4).label("special"), a_pod("b").gpus(4)]
    world = world_with(p.SkipBinder, things=[nodes(1), pods]).run()
    annotations = {e.pod.name: e.annotations for e in world.of(BindPod)}
    assert annotations["a"] == {"bound-by": "special"}
    assert "bound-by" not in annotations["b"]


def test_post_bind_is_called_once_per_bound_pod():
    """Whether the answer or the view comes first."""
    world = world_with(p.Recorder, things=[nodes(2), a_gang("job", 2), members("job", 2)]).run()
    assert [c for c in p.Recorder.calls if c[1] == "post_bind"] == [
        ("Recorder", "post_bind", "job-0"),
        ("Recorder", "post_bind", "job-1"),
    ]
    assert world.bound_members("job") == 2


# PreFilter, Filter, Score.


def test_pre_filter_narrows_and_skips():
    """Narrowed nodes are named as kube-scheduler names them; Skip leaves Filter out."""
    pods = [a_pod("a").gpus(8).label("only", "n1.n7"), a_pod("b").gpus(8).label("only", "n9"), a_pod("c").gpus(1)]
    world = world_with(p.Narrower, things=[nodes(3), pods]).run()
    assert world.node_of("a") == "n1"
    assert world.node_of("c")
    assert "3 node(s) didn't satisfy plugin(s) [Narrower]" in world.conditions("b")[0][1]


@pytest.mark.parametrize("plugin", [p.NarrowFilter, p.WideFilter])
def test_narrow_and_wide_filters_decide_alike(plugin):
    """One node at a time or all at once, with labels that the shape does not cover."""
    pods = [a_pod("a").gpus(4).label("not", "0"), a_pod("b").gpus(4).label("not", "1"), a_pod("c").label("not", "")]
    world = world_with(plugin, things=[nodes(2), pods]).run()
    assert (world.node_of("a"), world.node_of("b")) == ("n1", "n0")
    assert "2 node(s) had the wrong name" in world.conditions("c")[0][1]


def test_filter_that_looks_at_other_nodes_sees_siblings():
    """A gang of three with at most one pod per rack: placements so far count, on every node."""
    racks = [a_node(f"n{k}").gpus(8).label("rack", f"r{k // 2}") for k in range(6)]
    pods = [pod.label("team", "x") for pod in members("job", 3)]
    world = world_with(p.OnePerRack, things=[racks, a_gang("job", 3), pods]).run()
    assert sorted(int(name[1:]) // 2 for name in world.placed.values()) == [0, 1, 2]
    few = world_with(p.OnePerRack, things=[racks[:4], a_gang("job", 3), pods]).run()
    assert few.placed == {}


def test_wide_gang_with_a_plugin_that_reads_labels_is_not_slow():
    """Pods that do not share a shape cost two looks at all nodes each: at the beginning, and when it is their turn."""
    pods = [pod.label("not", "x") for pod in members("job", 40, gpus=1)]
    world = world_with(p.WideFilter, things=[nodes(40), a_gang("job", 40), pods]).run()
    assert world.bound_members("job") == 40
    assert world.decisions[-1].evaluations <= 2 * 40 * 40


def test_score_decides():
    """A plugin's weight moves a pod to another node."""
    points = {"score": {"enabled": [{"name": f"{p.HERE}:Favourite", "weight": 100}]}}
    for favourite in ("n0", "n2"):
        pod = a_pod("p").gpus(1).label("favourite", favourite)
        world = world_with(p.Favourite, things=[nodes(3), pod], **points).run()
        assert world.node_of("p") == favourite


def test_score_out_of_range_fails_only_its_pod():
    """101 is an Error that names the plugin; pods without it are bound."""
    pods = [a_pod("bad").gpus(1).label("high"), a_pod("good").gpus(1)]
    world = world_with(p.TooHigh, things=[nodes(2), pods]).run()
    assert world.placed.keys() == {"good"}
    reason, message = world.conditions("bad")[0]
    assert reason == "SchedulerError"
    assert "TooHigh" in message
    assert "outside 0 to 100" in message


# The queue.


def test_queueing_hint_decides_what_wakes():
    """Only a change that the plugin calls good costs an attempt."""
    world = world_with(p.Picky, things=[nodes(1), a_pod("p").gpus(1)]).run()
    for k in range(5):
        world.add(a_node(f"bad{k}").gpus(8)).run()
    assert len(world.decisions) == 1
    world.add(a_node("fine").gpus(8).label("good", "yes")).run()
    assert world.node_of("p") == "fine"
    assert len(world.decisions) == 2


def test_activate_lets_a_refused_pod_be_tried():
    """Rested or not."""
    world = world_with(p.Activator, things=[nodes(1), a_pod("big").gpus(16)]).run()
    before = len(world.decisions)
    world.add(a_pod("p").gpus(1).label("activates", "uid-big")).run()
    assert [d.workload.split(":")[1] for d in world.decisions[before:]] == ["default/p", "default/big"]
    stays(world)


def test_pre_enqueue_is_asked_again_after_its_events():
    """A gate that names a cure is looked at again when that happens, and only then."""
    world = world_with(p.Turnstile, things=[nodes(1), a_pod("p").gpus(1).label("turnstile")]).run()
    assert world.placed == {}
    world.add(a_pod("q").gpus(1)).run()
    assert world.waiting == {"p"}
    world.add(a_node("open")).run()
    assert world.node_of("p") == "n0"


# Accidents.

POINTS = (
    "pre_enqueue", "pre_filter", "filter", "post_filter", "pre_score", "score", "normalize", "reserve", "permit",
    "pre_bind", "bind",
)  # fmt: skip


@pytest.fixture
def _broken():
    p.Raises.is_broken = p.BrokenSort.is_broken = True
    yield
    p.Raises.is_broken = p.BrokenSort.is_broken = True


@pytest.mark.usefixtures("_broken")
@pytest.mark.parametrize("point", POINTS)
def test_plugin_that_raises_costs_only_its_pod(point):
    """At every point: Error with the plugin's name, backoff, others bound, and bound itself once the plugin is well."""
    size = 16 if point == "post_filter" else 1
    world = world_with(p.Raises, things=[nodes(2), a_pod("bad").gpus(size).priority(9).label("raise", point)])
    world.add(a_pod("good").gpus(1), a_gang("job", 2), members("job", 2, gpus=2)).run()
    assert world.waiting == {"bad"}
    reason, message = world.conditions("bad")[0]
    assert reason == "SchedulerError"
    assert "plugin Raises failed" in message
    assert world.engine.state.assumed.keys() == set()
    attempts = len([d for d in world.decisions if "/bad:" in d.workload and d.result == "error"])
    world.wait(60)
    assert world.waiting == {"bad"}
    assert len([d for d in world.decisions if "/bad:" in d.workload]) <= attempts + 10
    assert len(world.conditions("bad")) == 1
    p.Raises.is_broken = False
    world.wait(11)
    assert world.waiting == (set() if size == 1 else {"bad"})


@pytest.mark.usefixtures("_broken")
@pytest.mark.parametrize("point", ["post_filter_gang", "generate_domains", "reserve", "permit", "bind"])
def test_plugin_that_raises_costs_only_its_gang(point):
    """The whole gang waits; nobody else does."""
    size = 16 if point == "post_filter_gang" else 2
    pods = [pod.label("raise", point) for pod in members("bad", 2, gpus=size, priority=9)]
    world = world_with(
        p.Raises,
        things=[nodes(2, gpus=16), [running("x", "n0", priority=100)], a_gang("bad", 2), pods, a_pod("good").gpus(1)],
    )
    world.run()
    assert world.waiting == {"bad-0", "bad-1"}
    assert world.conditions("bad-0")[0][0] == "SchedulerError"


@pytest.mark.usefixtures("_broken")
@pytest.mark.parametrize("point", ["unreserve", "post_bind"])
def test_plugin_that_raises_where_nothing_can_be_refused(point):
    """It is told as an event at the pod; the pod is bound all the same."""
    pod = a_pod("bad").gpus(8).label("raise", point)
    if point == "unreserve":
        pod.label("hold", "5")
    world = world_with(p.Raises, p.Holder, p.Recorder, things=[nodes(1), pod]).run().wait(5.5)
    assert len(world.events("PluginFailed")) == 1
    assert world.engine.state.assumed == {}
    if point == "post_bind":
        assert world.node_of("bad") == "n0"
    else:
        assert ("Recorder", "unreserve", "bad") in p.Recorder.calls


@pytest.mark.usefixtures("_broken")
def test_hint_that_raises_counts_as_a_cure():
    """Better one attempt too many than none."""
    world = world_with(
        p.Raises, things=[nodes(1), running("x", "n0"), a_pod("p").gpus(8).label("raise", "queueing_hint")]
    )
    world.run().remove("x").run()
    assert world.node_of("p") == "n0"


@pytest.mark.usefixtures("_broken")
def test_sort_that_raises_costs_only_its_workload():
    """The others are sorted and bound; the pod backs off and goes once it can be sorted."""
    points = {"queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": f"{p.HERE}:BrokenSort"}]}}
    world = World(
        nodes(1), a_pod("bad").gpus(1).label("raise"), a_pod("good").gpus(1), configuration=profile(plugins=points)
    )
    world.run()
    assert world.waiting == {"bad"}
    assert world.conditions("bad")[0][0] == "SchedulerError"
    p.BrokenSort.is_broken = False
    world.wait(2)
    assert world.waiting == set()


@pytest.mark.parametrize("point", ["pre_filter", "filter", "score", "permit", "pre_bind", "bind"])
def test_answer_that_is_none_costs_only_its_pod(point):
    """A string for a status, or an array of the wrong length, is an Error with the plugin's name."""
    world = world_with(
        p.Nonsense, things=[nodes(1), a_pod("bad").gpus(1).label("nonsense", point), a_pod("good").gpus(1)]
    )
    world.run()
    assert world.waiting == {"bad"}
    assert "Nonsense" in world.conditions("bad")[0][1]


# Together.


def test_two_profiles_choose_differently_on_one_cluster():
    """Ours packs GPUs and keeps pods without them off GPU nodes; kube-default spreads."""
    configuration = profile().model_validate(
        {
            "profiles": [
                {"schedulerName": "ai-scheduler", "base": "ai-scheduler"},
                {"schedulerName": "kube-default", "base": "kube-default"},
            ]
        }
    )

    def chosen(scheduler, pod):
        world = World(
            a_node("used").gpus(8), a_node("empty").gpus(8), running("x", "used", gpus=4), configuration=configuration
        )
        return world.add(pod.scheduler(scheduler)).run().node_of("p")

    gpu = [chosen(name, a_pod("p").gpus(4).cpu(4)) for name in ("ai-scheduler", "kube-default")]
    assert gpu == ["used", "empty"]

    def chosen_without(scheduler):
        world = World(a_node("gpu").gpus(8).cpu(64), a_node("cpu").cpu(16), configuration=configuration)
        return world.add(a_pod("p").cpu(4).scheduler(scheduler)).run().node_of("p")

    assert [chosen_without(name) for name in ("ai-scheduler", "kube-default")] == ["cpu", "gpu"]


CLASSIC = "examples.plugins.classic_gang:ClassicGang"


def classic(name, count, size):
    """Return plain pods with the labels of the tutorial's plugin."""
    return [
        a_pod(f"{name}-{k}").gpus(8).label("classic-gang/name", name).label("classic-gang/size", str(size))
        for k in range(count)
    ]


def test_classic_permit_gang_plugin_works():
    """Twenty lines at Permit: pods wait for their siblings, and go together; too few are released in time."""
    configuration = profile(plugins={"multiPoint": {"enabled": [{"name": CLASSIC}]}})
    world = World(nodes(4), classic("job", 2, 3), configuration=configuration).run()
    assert world.placed == {}
    assert len(world.engine.state.assumed) == 2
    world.add(classic("job", 3, 3)[2]).run()
    assert len(world.placed) == 3
    stays(world)

    world = World(nodes(4), classic("job", 2, 3), configuration=configuration).run().wait(61)
    assert world.engine.state.assumed.keys() <= {"uid-job-0", "uid-job-1"}
    world.add(classic("job", 3, 3)[2]).wait(120)
    assert len(world.placed) == 3


def test_plugin_that_calls_exit_costs_its_workload_an_error_and_nobody_else():
    """Like any other accident; it does not end the process."""
    pods = [a_pod("bad").gpus(1).label("exit"), a_pod("good").gpus(1)]
    world = world_with(p.ExitsAtFilter, things=[nodes(1), *pods]).run()
    assert world.placed == {"good": "n0"}
    assert world.conditions("bad")[0][0] == "SchedulerError"
