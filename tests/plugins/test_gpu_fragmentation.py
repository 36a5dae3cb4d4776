"""GPUFragmentation: what counts as a fragment, which node wins, which GPU a share gets, and what is remembered.

Expected fragments are sums over popular shapes, worked out by hand beside each case; a score is 100 / (1 + exp(growth / 1000))
of the fragment's growth in thousandths of GPUs, rounded down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.access import Access, Ties
from scheduler.engine.flights import Flights
from scheduler.framework.cycle_state import CycleState
from scheduler.plugins.gpu_fragmentation import GPUFragmentation
from scheduler.plugins.gpu_fragmentation.plugin import SHARES
from scheduler.plugins.gpu_fragmentation.popular import Popular
from scheduler.plugins.gpu_fragmentation.shares import LEAST_REMEMBERED, Remembered
from scheduler.state.cluster import ClusterState
from scheduler.topology import gpus_of_mask, parse_gpus
from tests.builders import GPU, a_gang, a_node, a_pod
from tests.engine.world import World
from tests.plugins.calling import skips

if TYPE_CHECKING:
    from tests.builders import NodeBuilder, PodBuilder

GPUS = "scheduling.ai-scheduler.io/gpus"


def sharing(name: str, gpus: int) -> NodeBuilder:
    """Start a node whose GPUs are counted in thousandths."""
    return a_node(name).offer(SHARES, gpus * 1000)


def share(name: str, milli: int) -> PodBuilder:
    """Start a pod that asks for thousandths of GPUs, and for no cores."""
    return a_pod(name).request(SHARES, milli)


class Desk:
    """The plugin with the engine's own handle."""

    def __init__(self, *things: Any) -> None:
        """Bring things into an empty cluster."""
        self.cluster = ClusterState()
        self.access = Access(self.cluster, Flights(self.cluster, 0), lambda: 0.0, {}, Ties("name", 0))
        self.plugin = GPUFragmentation(None, self.access)
        self.add(*things)

    def add(self, *things: Any) -> None:
        """Bring nodes and pods into the cluster."""
        for thing in things:
            built = thing.build()
            if hasattr(built, "allocatable"):
                self.cluster.set_node(built)
            else:
                self.cluster.set_pod(built)
        self.access.snapshot = self.cluster.snapshot()

    def scores(self, pod: PodBuilder) -> list[int]:
        """Score all nodes."""
        state, nodes = CycleState(), self.access.snapshot.nodes
        assert self.plugin.pre_score(state, pod.build(), nodes) is None
        return self.plugin.score_all(state, pod.build(), nodes).tolist()

    def refused(self, pod: PodBuilder) -> list[str]:
        """Return why each node is refused; the empty text if it is not."""
        nodes = self.access.snapshot.nodes
        verdicts = self.plugin.filter_all(CycleState(), pod.build(), nodes)
        return ["" if (s := verdicts.status_at(row)) is None else s.message for row in range(len(nodes))]


def popular(*pods: PodBuilder) -> Popular:
    """Learn from pods."""
    cluster = ClusterState()
    for number, pod in enumerate(pods):
        cluster.set_pod(pod.uid(f"popular-{number}").build())
    return Popular(cluster.demand, GPU, SHARES)


def fragment(shapes: Popular, cores: int, *left: int) -> float:
    """Return the expected fragment of one node."""
    return float(shapes.fragment(np.array([cores * 1000]), np.array([left]), None)[0])


# ---- what a fragment is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        # All shapes can use eight idle GPUs whole; a quarter of the pods, those with eight GPUs, can use no seven.
        ([1000] * 8, 0),
        ([1000] * 7 + [0], 0.25 * 7000),
        # Three quarters ask for one whole GPU: what is left of a shared GPU is of no use to any of them.
        ([400], 400),
        ([1000, 400], 0.75 * 400 + 0.25 * 1400),
        ([0], 0),
    ],
)
def test_fragment_is_what_the_popular_shapes_cannot_use(left, expected):
    """The mean over the shapes, weighted by pods."""
    shapes = popular(a_pod().gpus(1), a_pod().gpus(1), a_pod().gpus(1), a_pod().gpus(8))
    assert fragment(shapes, 64, *left) == pytest.approx(expected)


def test_idle_gpus_without_the_cores_that_pods_ask_for_are_a_fragment():
    """A GPU pod asks for ten cores: with nine nothing can be used; with 25, two of four GPUs and a half, so 1.5 will starve."""
    shapes = popular(a_pod().gpus(1).cpu(10))
    assert fragment(shapes, 9, 1000) == pytest.approx(1000 + (1000 - 900))
    assert fragment(shapes, 25, 1000, 1000, 1000, 1000) == pytest.approx(1500)
    assert fragment(shapes, 40, 1000, 1000, 1000, 1000) == 0


def test_rare_shapes_do_not_count():
    """Of 40 pods one is 2.5 %: the others are 95 % already, and its GPUs are no reason to keep anything free."""
    shapes = popular(*[a_pod().gpus(1)] * 39, a_pod().gpus(8))
    assert len(shapes) == 1
    assert fragment(shapes, 64, 1000, 0) == 0


def test_nodes_where_a_popular_shape_may_not_go_are_fragments_to_it():
    """Half of the pods select H100s; on another node these can use nothing."""
    shapes = popular(a_pod().gpus(1), a_pod().gpus(1).select("gpu", "h100"))
    desk = Desk(a_node("a").gpus(1).label("gpu", "h100"), a_node("b").gpus(1).label("gpu", "l4"))
    suited = shapes.suits(desk.access.snapshot.nodes)
    found = shapes.fragment(np.array([64_000, 64_000]), np.array([[1000], [1000]]), suited)
    assert found.tolist() == [0, 500]


def test_it_learns_anew_when_many_pods_came_or_went():
    """A quarter of what there was, and never fewer than eight."""
    cluster = ClusterState()
    for number in range(100):
        cluster.set_pod(a_pod(f"p{number}").gpus(1).build())
    shapes = Popular(cluster.demand, GPU, SHARES)
    for number in range(24):
        cluster.set_pod(a_pod(f"q{number}").gpus(8).build())
    assert not shapes.is_stale(cluster.demand)
    cluster.remove_pod("uid-p0")
    assert shapes.is_stale(cluster.demand)
    assert len(Popular(cluster.demand, GPU, SHARES)) == 2


# ---- which node wins --------------------------------------------------------------------------------------------------


def test_whole_nodes_stay_whole_for_those_who_need_them():
    """A quarter of the pods ask for eight GPUs.

    On the empty node one more GPU in use makes seven useless to these: +1750, score 14.  On the other one it saves 250: 56.
    """
    wanted = [a_pod(f"w{n}").gpus(1) for n in range(3)]
    desk = Desk(
        a_node("a").gpus(8), a_node("b").gpus(8), a_pod("old").gpus(1).on("b"), *wanted[:2], a_pod("big").gpus(8)
    )
    assert desk.scores(a_pod("asking").gpus(1)) == [14, 56]


def test_nothing_is_scored_while_no_pod_asks_for_gpus():
    """PreScore leaves it out; as soon as there is one, it takes part."""
    desk = Desk(a_node("a").gpus(8), a_pod("plain").cpu(1))
    state = CycleState()
    assert skips(desk.plugin.pre_score(state, a_pod().build(), desk.access.snapshot.nodes))
    assert desk.plugin.is_settled(state, a_pod().build(), "score")
    desk.add(a_pod("first").gpus(1))
    assert not desk.plugin.is_settled(state, a_pod().build(), "score")
    assert desk.plugin.pre_score(state, a_pod().build(), desk.access.snapshot.nodes) is None


def test_pods_without_gpus_keep_off_cores_that_idle_gpus_need():
    """The one popular shape asks for a GPU and ten cores.

    Twenty cores leave 44: on a node with six idle GPUs 60 would be needed where 64 were enough, so 1600 starve: score 16.  With two
    idle GPUs, or none, nothing is lost: 50.
    """
    desk = Desk(
        a_node("a").cpu(64).gpus(6), a_node("b").cpu(64).gpus(2), a_node("c").cpu(64), a_pod("popular").gpus(1).cpu(10)
    )
    assert desk.scores(a_pod("plain").cpu(20)) == [16, 50, 50]


def test_scores_follow_what_changes_on_nodes():
    """Kept scores equal those of a plugin that sees the cluster for the first time."""
    desk = Desk(a_node("a").gpus(8), sharing("b", 2), a_pod("w").gpus(8), share("s", 300))
    asking = [a_pod("x").gpus(2).cpu(3), share("y", 500), a_pod("z").cpu(30), share("v", 2000)]
    for step in (a_pod("o1").gpus(3).on("a"), share("o2", 700).on("b"), a_pod("o3").cpu(50).on("a")):
        before = [desk.scores(pod) for pod in asking]
        desk.add(step)
        fresh = GPUFragmentation(None, desk.access)
        kept, desk.plugin = desk.plugin, fresh
        fresh._popular = kept._popular
        expected = [desk.scores(pod) for pod in asking]
        desk.plugin = kept
        assert [desk.scores(pod) for pod in asking] == expected
        assert before != expected


def test_in_the_default_profile_small_pods_leave_whole_nodes_to_large_ones():
    """Ten nodes of eight GPUs: eight pods of one GPU end on one node, and nine pods of eight GPUs find room after them."""
    world = World(*[a_node(f"n{n}").gpus(8) for n in range(10)])
    for number in range(8):
        world.add(a_pod(f"s{number}").gpus(1).cpu(1)).run()
    world.add(*[a_pod(f"l{number}").gpus(8).cpu(8) for number in range(9)]).run()
    assert len({world.node_of(f"s{number}") for number in range(8)}) == 1
    assert world.waiting == set()


# ---- shares -----------------------------------------------------------------------------------------------------------


def test_share_needs_one_gpu_with_enough_left():
    """Two GPUs with 400 each have 800 left together, but nothing for a pod of 500; nodes without shares are not its concern."""
    desk = Desk(sharing("a", 2), a_node("b").gpus(8), share("o1", 600).on("a"), share("o2", 600).on("a"))
    assert desk.refused(share("x", 500)) == ["no GPU has 500 thousandths left", ""]
    assert desk.refused(share("x", 400)) == ["", ""]
    assert desk.refused(share("x", 1000)) == ["no GPU has 1000 thousandths left", ""]


def test_share_of_more_than_one_gpu_is_refused_for_ever_with_what_is_allowed():
    """1500 thousandths are neither a share of one GPU nor whole GPUs; 2000 are two."""
    desk = Desk(sharing("a", 2))
    status: Any = desk.plugin.pre_filter(CycleState(), share("x", 1500).build(), desk.access.snapshot.nodes)
    assert status.message == f"requests 1500 of {SHARES}; allowed are 1 to 999, or multiples of 1000"
    assert desk.plugin.pre_filter(CycleState(), share("x", 2000).build(), desk.access.snapshot.nodes) is None
    assert skips(desk.plugin.pre_filter(CycleState(), a_pod().gpus(1).build(), desk.access.snapshot.nodes))
    world = World(sharing("a", 2), share("x", 1500)).run()
    assert world.waiting == {"x"}


def test_share_gets_the_fullest_gpu_that_suffices_and_publishes_it():
    """GPU 1 has 300 left, GPU 0 has 700, GPU 2 all: 300 go to the first of them, 600 to the second, whole ones to the third."""
    told = [share("o0", 300).on("a").annotation(GPUS, "0;basis=assumed")]
    told.append(share("o1", 700).on("a").annotation(GPUS, "1;basis=assumed"))
    world = World(sharing("a", 3), *told)
    for name, milli in (("x", 300), ("y", 600), ("z", 1000)):
        world.add(share(name, milli)).run()
    assert [world.pod(name).annotations[GPUS] for name in "xyz"] == [f"{gpu};basis=assumed" for gpu in (1, 0, 2)]


def test_members_of_a_gang_do_not_get_one_gpu_twice():
    """Four members of 600 on four GPUs: one each, decided in one cycle."""
    members = [share(f"m{n}", 600).gang("job", 4) for n in range(4)]
    world = World(sharing("a", 4), a_gang("job", 4), *members).run()
    assert sorted(world.pod(f"m{n}").annotations[GPUS] for n in range(4)) == [f"{n};basis=assumed" for n in range(4)]


def test_shares_stay_where_they_are_when_others_leave():
    """One pod of 600 has GPU 0, another GPU 1; when the first is gone, z (500) must not be told that GPU 1 is idle, after a restart neither."""
    world = World(sharing("a", 2))
    for name in ("x", "y"):
        world.add(share(name, 600)).run()
    world.remove("x").run()
    world.restart().run()
    world.add(share("w", 1000)).run()
    assert world.pod("w").annotations[GPUS] == "0;basis=assumed"
    world.add(share("z", 500)).run()
    assert world.waiting == {"z"}


def test_nonsense_in_an_annotation_costs_nobody_else():
    """A pod whose annotation cannot be read counts as the best fit; one that names a GPU that is not there, too."""
    odd = [
        share("o0", 600).on("a").annotation(GPUS, "first one"),
        share("o1", 600).on("a").annotation(GPUS, "9;basis=assumed"),
    ]
    world = World(sharing("a", 3), *odd, share("x", 1000)).run()
    assert world.pod("x").annotations[GPUS] == "2;basis=assumed"


def test_pods_that_left_are_not_remembered_for_ever():
    """What is remembered of pods that nobody knows any more is dropped when there is much of it."""
    remembered, gone = Remembered(), a_pod("p").build()
    for number in range(LEAST_REMEMBERED + 1):
        remembered.keep(f"u{number}", 1, {gone.uid: gone})
    assert list(remembered.masks) == [f"u{LEAST_REMEMBERED}"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.sampled_from([100, 300, 400, 500, 700, 1000, 2000])),
            st.tuples(st.just("drop"), st.integers(0, 20)),
        ),
        max_size=25,
    )
)
def test_no_gpu_is_ever_given_beyond_what_it_has(steps):
    """Pods come and go; what their annotations say never sums up to more than 1000 on any GPU."""
    world = World(sharing("a", 2), sharing("b", 3))
    for number, (what, value) in enumerate(steps):
        placed = sorted(world.placed)
        if what == "add":
            world.add(share(f"p{number}", value)).run()
        elif placed:
            world.remove(placed[value % len(placed)]).run()
        used: dict[tuple[str, int], int] = {}
        for name, node in world.placed.items():
            pod = world.pod(name)
            gpus = gpus_of_mask(parse_gpus(pod.annotations[GPUS])[0])
            assert len(gpus) == max(pod.requests[SHARES] // 1000, 1)
            for gpu in gpus:
                used[node, gpu] = used.get((node, gpu), 0) + min(pod.requests[SHARES], 1000)
        assert all(milli <= 1000 for milli in used.values())
        assert all(gpu < {"a": 2, "b": 3}[node] for node, gpu in used)


def test_a_failed_binding_gives_the_gpu_back():
    """The pod is bound on its next try, with the same GPU."""
    world = World(sharing("a", 1), share("x", 600))
    world.failing["x"] = ["no"]
    world.run()
    assert world.waiting == {"x"}
    world.wait(60)
    assert world.pod("x").annotations[GPUS] == "0;basis=assumed"


def test_many_nodes_are_scored_as_each_by_itself():
    """A hundred nodes in 35 different states; expected is the growth of each one's fragment."""
    busy = [a_pod(f"o{n}").gpus(n % 7).cpu(n % 5 * 10).on(f"n{n:03}") for n in range(100)]
    desk = Desk(*[a_node(f"n{n:03}").cpu(64).gpus(8) for n in range(100)], *busy)
    found = desk.scores(a_pod("asking").gpus(1).cpu(10))
    shapes = Popular(desk.cluster.demand, GPU, SHARES)
    for n in range(100):
        idle, cores = 8 - n % 7, 64 - n % 5 * 10
        before, after = (fragment(shapes, cores - used * 10, *[1000] * (idle - used)) for used in (0, 1))
        assert found[n] == int(100 / (1 + np.exp((after - before) / 1000)))
