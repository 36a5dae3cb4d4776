"""ClusterState: assume, confirm, forget, nominations, and snapshots that follow."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from scheduler.model.label_tests import LabelTest
from scheduler.state.cluster import ClusterState
from scheduler.state.pod_index import Question
from scheduler.state.snapshot import NO_PRIORITY
from tests.builders import GPU, a_node, a_pod


def cluster_of(*things):
    """Return a state with nodes and pods."""
    state = ClusterState()
    for thing in things:
        built = thing.build()
        if hasattr(built, "allocatable"):
            state.set_node(built)
        else:
            state.set_pod(built)
    return state


def gpus(state, node="n0"):
    """Return how many GPUs a snapshot counts on a node."""
    snapshot = state.snapshot()
    return int(snapshot.nodes.requested(GPU)[snapshot.row_of[node]])


def test_assumed_pod_counts_until_it_is_forgotten():
    """`forget` is the exact inverse of `assume`."""
    state = cluster_of(a_node("n0").gpus(8), a_pod("p").gpus(2))
    before = state.view("n0").contents()
    state.assume("uid-p", "n0")
    assert gpus(state) == 2
    assert state.node_of("uid-p") == "n0"
    state.forget("uid-p")
    assert gpus(state) == 0
    assert state.view("n0").contents() == before
    assert state.node_of("uid-p") is None
    state.forget("uid-p")
    assert state.validate() == []


def test_confirmed_pod_counts_once():
    """The assigned view replaces the assumption; a late pending view changes nothing."""
    state = cluster_of(a_node("n0").gpus(8), a_pod("p").gpus(2))
    state.assume("uid-p", "n0")
    assert state.set_pod(a_pod("p").gpus(2).on("n0").build())
    assert (gpus(state), state.assumed) == (2, {})
    assert not state.set_pod(a_pod("p").gpus(2).build())
    assert state.node_of("uid-p") == "n0"


def test_pod_confirmed_elsewhere_moves():
    """Somebody else bound it to another node."""
    state = cluster_of(a_node("n0").gpus(8), a_node("n1").gpus(8), a_pod("p").gpus(2))
    state.assume("uid-p", "n0")
    state.set_pod(a_pod("p").gpus(2).on("n1").build())
    assert (gpus(state, "n0"), gpus(state, "n1")) == (0, 2)
    assert state.validate() == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pod_counts_nothing(phase):
    """It stays known, as a member of its gang."""
    state = cluster_of(a_node("n0").gpus(8), a_pod("p").gpus(2).gang("job").on("n0"))
    state.set_pod(a_pod("p").gpus(2).gang("job").on("n0").phase(phase).build())
    assert gpus(state) == 0
    assert len(state.members(next(iter(state.groups.named())))) == 1
    state.remove_pod("uid-p")
    assert not state.groups.named()
    assert state.remove_pod("uid-p") is None


def test_terminating_pod_counts():
    """Until it is gone."""
    state = cluster_of(a_node("n0").gpus(8), a_pod("p").gpus(2).on("n0").terminating())
    assert gpus(state) == 2
    state.remove_pod("uid-p")
    assert gpus(state) == 0


def test_pod_resized_in_place_keeps_its_turn():
    """Requests change, the order of assignment does not."""
    state = cluster_of(a_node("n0").gpus(8), *[a_pod(name).cpu(1).on("n0") for name in "abc"])
    state.set_pod(a_pod("b").cpu(3).on("n0").build())
    snapshot = state.snapshot()
    assert list(snapshot.all_rows[0].pods) == ["uid-a", "uid-b", "uid-c"]
    assert int(snapshot.nodes.requested("cpu")[0]) == 5000


def test_node_that_comes_back_has_its_pods():
    """A node's pods are known whether it is or not."""
    state = cluster_of(a_pod("p").gpus(2).on("n0"), a_node("n0").gpus(8))
    assert gpus(state) == 2
    assert state.remove_node("n0")
    assert not state.remove_node("n0")
    assert len(state.snapshot().nodes) == 0
    state.set_pod(a_pod("q").gpus(1).on("n0").build())
    state.set_node(a_node("n0").gpus(8).build())
    assert gpus(state) == 3


def test_nominations_follow_the_pod():
    """From its status, from the engine, and away once it is placed or gone; whoever waits for the room is told."""
    state = cluster_of(a_node("n0"), a_node("n1"), a_pod("p").priority(1).nominated("n0"), a_pod("q").priority(2))
    state.nominate("uid-q", "n0")
    assert [pod.name for pod in state.nominated_on("n0")] == ["q", "p"]
    state.assume("uid-q", "n1")
    assert [pod.name for pod in state.nominated_on("n0")] == ["p"]
    assert state.released == ["n0"]
    state.released.clear()
    state.forget("uid-q")
    state.assume("uid-q", "n0")
    state.set_pod(a_pod("q").priority(2).on("n0").build())
    assert state.released == []
    state.remove_pod("uid-p")
    assert (state.nominated_nodes(), state.released) == ([], ["n0"])


def test_change_of_the_gang_label_moves_a_member():
    """A pod is a member of the gang that it names now."""
    state = cluster_of(a_pod("p").gang("a"))
    state.set_pod(a_pod("p").gang("b").build())
    assert [key.name for key in state.groups.named()] == ["b"]
    assert state.validate() == []


def test_equal_objects_change_nothing():
    """A heartbeat costs no generation."""
    state = cluster_of(a_node("n0"), a_pod("p").on("n0"))
    generation = state.generation
    state.set_node(a_node("n0").build())
    assert not state.set_pod(a_pod("p").on("n0").build())
    assert state.generation == generation


def columns(snapshot):
    """Return all columns of a snapshot that plugins can ask for, as lists."""
    nodes = snapshot.nodes
    found = {"names": nodes.names, "pods": nodes.pod_counts().tolist(), "lowest": nodes.lowest_priority().tolist()}
    for resource in ("cpu", "memory", GPU):
        found[resource] = nodes.requested(resource).tolist()
        found[f"scored {resource}"] = nodes.scored_usage(resource).tolist()
        found[f"offered {resource}"] = nodes.allocatable(resource).tolist()
        for priority in (0, 5, 50):
            found[f"below {priority} {resource}"] = nodes.requested_below(priority, resource).tolist()
    found["order"] = [list(row.pods) for row in snapshot.all_rows]
    return found


def rebuilt(state):
    """Return the columns of a state made from scratch."""
    fresh = ClusterState()
    for node in state.nodes.values():
        fresh.set_node(node)
    for row in state._rows.values():
        for pod in row.pods.values():
            fresh.set_pod(msgspec.structs.replace(pod, node_name=row.node.name))
    return columns(fresh.snapshot())


def test_snapshot_follows_every_change():
    """Refreshed by what changed, it equals one that is built from scratch, column by column."""
    state = cluster_of(*[a_node(f"n{k}").gpus(8) for k in range(4)])
    columns(state.snapshot())
    steps = [
        lambda: state.set_pod(a_pod("a").gpus(2).cpu(1).priority(7).on("n1").build()),
        lambda: state.set_pod(a_pod("b").gpus(1).on("n1").build()),
        lambda: state.set_pod(a_pod("c").gpus(4).build()),
        lambda: state.assume("uid-c", "n3"),
        lambda: state.set_node(a_node("n1").gpus(4).build()),
        lambda: state.set_node(a_node("m").gpus(4).build()),
        lambda: state.forget("uid-c"),
        lambda: state.remove_node("n0"),
        lambda: state.set_pod(a_pod("a").gpus(2).cpu(1).priority(7).on("n1").terminating().build()),
        lambda: state.remove_pod("uid-b"),
        lambda: state.set_node(a_node("n0").gpus(1).build()),
    ]
    for step in steps:
        step()
        assert columns(state.snapshot()) == rebuilt(state)


def test_snapshot_is_not_the_live_state():
    """What happens after it was taken does not show."""
    state = cluster_of(a_node("n0").gpus(8))
    snapshot = state.snapshot()
    state.set_pod(a_pod("p").gpus(2).on("n0").build())
    assert int(snapshot.nodes.requested(GPU)[0]) == 0
    assert snapshot.view("n0").pods == []


def test_removals_undone_in_any_order_are_exact():
    """Also with pods placed in between: the pods are back in their old order, the guests gone."""
    state = cluster_of(
        a_node("n0").gpus(8), *[a_pod(name).gpus(1).priority(k).on("n0") for k, name in enumerate("abcd")]
    )
    snapshot = state.snapshot()
    before = columns(snapshot)
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1]):
        undo = [snapshot.remove(f"uid-{name}", 0) for name in "abc"]
        guest = snapshot.place(a_pod("guest").gpus(3).build(), 0)
        again = snapshot.remove("uid-d", 0)
        for index in order:
            undo[index]()
        again()
        guest()
        assert columns(snapshot) == before


def test_lowest_priority_of_an_empty_node_is_above_all():
    """So that nobody is looked for there."""
    state = cluster_of(a_node("n0"), a_node("n1"), a_pod("p").priority(-5).on("n1"))
    assert state.snapshot().nodes.lowest_priority().tolist() == [NO_PRIORITY, -5]


#: Whoever is meant: all pods, those with a label, and what is only tried.
QUESTIONS = [
    Question(((None, None),)),
    Question(((("default",), (LabelTest("app", "In", ("a",)),)),)),
    Question(((None, ()),), counts_trials_only=True),
]


def shown(state):
    """Return what a snapshot shows, and what its index of pods counts."""
    snapshot = state.snapshot()
    index = snapshot.pods
    counts = [index.by_rows(index.count(question).column).tolist() for question in QUESTIONS]
    rows = [(list(row.pods), *row.contents()) for row in snapshot.all_rows]
    carriers = np.zeros(index.capacity, dtype=np.int64)
    for carried in index.all_carried("anti_affinity"):
        carried.tally.add_to(carriers)
    return columns(snapshot), counts, rows, index.by_rows(carriers).tolist()


def placed_and_assumed(*, is_counting):
    """Return a state with a pod that was placed on its snapshot, then assumed there, and the pod."""
    lone = a_pod("lone").gpus(2).label("app", "a").anti_affinity("kubernetes.io/hostname", app="a")
    state = cluster_of(a_node("n0").gpus(8), a_node("n1").gpus(8), a_pod("old").gpus(1).on("n1"), lone)
    if is_counting:
        shown(state)
    pod = state.pods["uid-lone"]
    state.snapshot().place(pod, 1)
    state.assume("uid-lone", "n1")
    return state, pod


@pytest.mark.parametrize("is_counting", [True, False])
def test_pod_that_stays_where_it_was_placed_is_as_if_it_were_read_again(is_counting):
    """The snapshot is that of a state which never tried anything, now, when the pod is bound, and when it is gone."""
    state, pod = placed_and_assumed(is_counting=is_counting)
    assert state.keep(pod)
    fresh = cluster_of(a_node("n0").gpus(8), a_node("n1").gpus(8), a_pod("old").gpus(1).on("n1"))
    fresh.set_pod(pod)
    fresh.assume(pod.uid, "n1")
    assert shown(state) == shown(fresh)
    bound = msgspec.structs.replace(pod, node_name="n1")
    for each in (state, fresh):
        each.set_pod(bound)
    assert shown(state) == shown(fresh)
    for each in (state, fresh):
        each.remove_pod(pod.uid)
    assert shown(state) == shown(fresh)
    assert not state.keep(pod)


@pytest.mark.parametrize("happens", ["another pod", "a node", "the pod differs", "the pod is going", "nothing assumed"])
def test_pod_does_not_stay_if_anything_else_happened(happens):
    """Then it is taken back, and the snapshot read again."""
    state, pod = placed_and_assumed(is_counting=True)
    match happens:
        case "another pod":
            state.set_pod(a_pod("other").gpus(1).on("n0").build())
        case "a node":
            state.set_node(a_node("n2").build())
        case "the pod differs":
            state.set_pod(msgspec.structs.replace(pod, annotations={"a": "b"}))
        case "the pod is going":
            pod = msgspec.structs.replace(pod, is_terminating=True)
            state.set_pod(pod)
        case "nothing assumed":
            state.forget(pod.uid)
    assert not state.keep(pod)


def test_changed_rows_are_listed_until_the_list_starts_anew():
    """Who reads the list sees each change once; what-ifs that were undone can be struck off."""
    state = cluster_of(a_node("n0"), a_node("n1"))
    snapshot = state.snapshot()
    epoch, mark = snapshot.epoch, snapshot.mark()
    undo = snapshot.place(a_pod("p").build(), 1)
    assert snapshot.changed_rows == [1]
    undo()
    snapshot.is_as_at(mark)
    assert snapshot.changed_rows == []
    state.set_pod(a_pod("q").on("n0").build())
    state.snapshot()
    assert (snapshot.changed_rows, snapshot.epoch) == ([0], epoch)
    state.set_node(a_node("n2").build())
    state.snapshot()
    assert (snapshot.changed_rows, snapshot.epoch) == ([], epoch + 1)
    assert np.array_equal(snapshot.nodes.rows, [0, 1, 2])


def sizes(state):
    """Return the image sizes of a snapshot."""
    return state.snapshot().image_sizes


def test_an_image_keeps_the_size_of_the_node_that_told_of_it_first():
    """Until no node has it; a node that changes, or is only told again, goes and comes again."""
    state = cluster_of(a_node("b").image("i", 5), a_node("a").image("i", 9).image("j", 1))
    assert sizes(state) == {"i": 5, "j": 1}
    state.set_node(a_node("b").image("i", 6).build())
    assert sizes(state) == {"i": 5, "j": 1}
    state.remove_node("b")
    assert sizes(state) == {"i": 5, "j": 1}
    before = state.generation
    assert state.set_node(state.nodes["a"]) is state.nodes["a"]
    assert (sizes(state), state.generation > before) == ({"i": 9, "j": 1}, True)
    state.set_node(a_node("a").build())
    assert sizes(state) == {}
    state.set_node(a_node("c").image("i", 7).image("i", 8).build())
    assert sizes(state) == {"i": 7}
