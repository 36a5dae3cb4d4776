"""NVLinkTopology: which GPUs a pod gets, which node wins, what is remembered, and which domains gangs are tried in.

Expected sets and bandwidths come from the link tables: a V100 board joins GPUs (0,3) (0,4) (1,2) (1,5) (2,3) (4,7) (5,6) (6,7)
by two links and (0,1) (0,2) (1,3) (2,6) (3,7) (4,5) (4,6) (5,7) by one, of 25 GB/s each; eight H100 reach each other with 450 GB/s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import parse
from scheduler.engine.access import Access, Ties
from scheduler.engine.flights import Flights
from scheduler.framework.cycle_state import CycleState
from scheduler.model.device_api import ApiResourceSlice
from scheduler.model.devices import DeviceSlice, device_slice_from_api
from scheduler.model.node_topology import DeviceReport, Links, NodeTopology, ToldGpu, ToldMachine, ToldNic
from scheduler.plugins.nvlink_topology import NVLinkTopology, NVLinkTopologyArgs
from scheduler.plugins.nvlink_topology.occupancy import LEAST_REMEMBERED
from scheduler.state.cluster import ClusterState
from scheduler.topology import NODE_TOPOLOGY_ANNOTATION, known_machine, parse_gpus, read_machine
from tests.builders import GPU, a_gang, a_node, a_pod
from tests.engine.device_world import node_slice
from tests.engine.world import World
from tests.plugins.calling import scores, skips

if TYPE_CHECKING:
    from scheduler.model import Pod
    from tests.builders import NodeBuilder, PodBuilder

H100, V100, L4 = "NVIDIA-H100-80GB-HBM3", "Tesla-V100-SXM2-16GB", "NVIDIA-L4"
GPUS = "scheduling.ai-scheduler.io/gpus"
PLACEMENT = "scheduling.ai-scheduler.io/placement"
DOMAIN = "scheduling.ai-scheduler.io/domain"
CLIQUE = "accelerator.topograph.run/domain"
LEAF = "fabric.topograph.run/tier-0"
#: After the creation of all pods here, in seconds since the epoch.
LATER = 4e9


def machine(name: str, product: str = V100, gpus: int = 8) -> NodeBuilder:
    """Start a node whose labels tell its machine."""
    return a_node(name).gpus(gpus).label("nvidia.com/gpu.product", product).label("nvidia.com/gpu.count", str(gpus))


def holding(node: str, *gpus: int, name: str = "old") -> PodBuilder:
    """Start a pod that runs on a node and tells its GPUs."""
    listed = ",".join(map(str, gpus))
    return a_pod(f"{name}-{node}").gpus(len(gpus)).on(node).annotation(GPUS, f"{listed};basis=assumed")


def all_but(*free: int) -> list[int]:
    """Return the other ones of eight GPUs."""
    return [gpu for gpu in range(8) if gpu not in free]


class Desk:
    """The plugin with the engine's own handle, used as the engine uses it: assume, place, reserve."""

    def __init__(self, *things: NodeBuilder | PodBuilder, args: NVLinkTopologyArgs | None = None) -> None:
        """Bring things into an empty cluster."""
        self.cluster = ClusterState()
        self.access = Access(self.cluster, Flights(self.cluster, 0), lambda: 0.0, {}, Ties("name", 0))
        self.plugin = NVLinkTopology(args, self.access)
        self.state = CycleState()
        for thing in things:
            self.add(thing.build())

    def add(self, thing: Any) -> None:
        """Bring a node, a pod or a gang into the cluster."""
        if hasattr(thing, "allocatable"):
            self.cluster.set_node(thing)
        elif isinstance(thing, DeviceSlice):
            self.cluster.objects.put(thing)
            self.cluster.look_again(thing.where.node_name or "")
        elif isinstance(thing, NodeTopology):
            self.cluster.objects.put(thing)
            self.cluster.look_again(thing.name)
        elif hasattr(thing, "min_member"):
            self.cluster.groups.put(thing)
        else:
            self.cluster.set_pod(thing)
        self.access.snapshot = self.cluster.snapshot()

    def place(self, node: str, *pods: PodBuilder) -> list[Pod]:
        """Place pods on a node in the what-if."""
        built = [pod.build() for pod in pods]
        for pod in built:
            self.cluster.set_pod(pod)
            self.access.snapshot.place(pod, self.access.snapshot.row_of[node])
        return built

    def reserve(self, node: str, *pods: PodBuilder) -> list[Pod]:
        """Take pods through a cycle up to Reserve."""
        placed = self.place(node, *pods)
        for pod in placed:
            self.cluster.assume(pod.uid, node)
        for pod in placed:
            self.plugin.reserve(self.state, pod, node)
        for pod in reversed(placed):
            self.access.snapshot.remove(pod.uid, self.access.snapshot.row_of[node])
        self.access.snapshot = self.cluster.snapshot()
        return placed

    def annotations(self, pod: Pod) -> dict[str, str]:
        """Return what the Binding would publish."""
        return self.state.read(("annotations", pod.uid), {})

    def gpus(self, pod: Pod) -> str:
        """Return the GPUs that the Binding would publish."""
        return self.annotations(pod)[GPUS].removesuffix(";basis=assumed")

    def scores(self, gpus: int) -> list[int]:
        """Score all nodes for a pod of so many GPUs."""
        return self.plugin.score_all(
            self.state, a_pod("asking").gpus(gpus).build(), self.access.snapshot.nodes
        ).tolist()


# ---- which GPUs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "count", "chosen", "placement"),
    [
        # Two links join 0-3, 1-2 and 2-3. Taking 2-3 leaves a pair of one link; of the other two the lower indices win.
        ((0, 1, 2, 3), 2, "0,3", "quality=100;bandwidth-gbps=50;lost=40"),
        # Only one link joins 0-1, and 7 reaches neither.
        ((0, 1, 7), 2, "0,1", "quality=50;bandwidth-gbps=25;lost=37"),
        # 0-4 and 1-5 have two links, 0-1 and 4-5 one: six of the nine that 0,1,2,3 have.
        ((0, 1, 4, 5), 4, "0,1,4,5", "quality=66;bandwidth-gbps=150;lost=50"),
        # A single GPU is taken where it breaks no pair.
        ((0, 1, 7), 1, "7", "quality=100;bandwidth-gbps=0;lost=0"),
    ],
)
def test_pod_gets_the_best_of_the_free_gpus(free, count, chosen, placement):
    """The set has the most bandwidth, and says how good it is, and what it costs later pods.

    The heaviest sets of 2 and 4 have 50 + 225 of 275 GB/s before and 50 after, 25 and 0, 50 + 150 and 0, 25 and 25; by free of 8.
    """
    desk = Desk(machine("n"), holding("n", *all_but(*free)))
    (pod,) = desk.reserve("n", a_pod("p").gpus(count))
    assert desk.annotations(pod) == {GPUS: f"{chosen};basis=assumed", PLACEMENT: placement}


def test_two_pods_of_one_gang_get_disjoint_sets():
    """The second member is given what the first leaves: of 0,1,2,3 the pairs 0-3 and 1-2 have two links each."""
    desk = Desk(machine("n"), holding("n", 4, 5, 6, 7))
    first, second = desk.reserve("n", *a_pod("p").gpus(2).gang("job", 2).times(2))
    assert (desk.gpus(first), desk.gpus(second)) == ("0,3", "1,2")


def test_sets_stay_disjoint_when_members_are_reserved_in_another_order():
    """Reserve may run in another order than placement."""
    desk = Desk(machine("n"), holding("n", 4, 5, 6, 7))
    one, other = desk.place("n", *a_pod("p").gpus(2).times(2))
    desk.plugin.reserve(desk.state, other, "n")
    desk.plugin.reserve(desk.state, one, "n")
    assert {desk.gpus(one), desk.gpus(other)} == {"0,3", "1,2"}


@given(data=st.data())
def test_chosen_sets_are_disjoint_and_within_the_machine(data):
    """Whatever runs there already, and however pods come and go, no GPU is given twice."""
    product, size = data.draw(st.sampled_from([(V100, 8), (H100, 8), (L4, 4), ("NVIDIA-A100-SXM4-80GB", 16)]))
    taken = data.draw(st.sets(st.integers(0, size - 1), max_size=size // 2))
    desk = Desk(machine("n", product, size), *([holding("n", *sorted(taken))] if taken else []))
    alive: dict[str, Pod] = {}
    for number in range(data.draw(st.integers(1, 6))):
        used = taken.union(*(gpus_of(desk, pod) for pod in alive.values()))
        if alive and (len(used) == size or data.draw(st.booleans())):
            pod = alive.pop(data.draw(st.sampled_from(sorted(alive))))
            desk.plugin.unreserve(desk.state, pod, "n")
            desk.cluster.remove_pod(pod.uid)
            desk.access.snapshot = desk.cluster.snapshot()
        elif len(used) < size:
            wanted = data.draw(st.lists(st.integers(1, size - len(used)), min_size=1, max_size=3))
            while sum(wanted) > size - len(used):
                wanted.pop()
            pods = desk.reserve("n", *(a_pod(f"p{number}-{i}").gpus(count) for i, count in enumerate(wanted)))
            for pod, count in zip(pods, wanted, strict=True):
                gpus = gpus_of(desk, pod)
                assert len(gpus) == count
                assert gpus <= set(range(size)) - used
                used |= gpus
                alive[pod.uid] = pod


def gpus_of(desk: Desk, pod: Pod) -> set[int]:
    """Return the GPUs that the Binding would publish."""
    return {int(gpu) for gpu in desk.gpus(pod).split(",")}


# ---- which node -------------------------------------------------------------------------------------------------------


def test_pods_without_gpus_are_left_alone():
    """PreScore skips them, and Reserve publishes nothing."""
    desk = Desk(machine("n"))
    pod = a_pod("p").cpu(1).build()
    assert skips(desk.plugin.pre_score(desk.state, pod, desk.access.snapshot.nodes))
    assert desk.plugin.pre_score(desk.state, a_pod("q").gpus(1).build(), desk.access.snapshot.nodes) is None
    desk.plugin.reserve(desk.state, pod, "n")
    assert desk.annotations(pod) == {}


@pytest.mark.parametrize(
    ("free", "count", "winners"),
    [
        # One link of two against a full crossbar.
        ((0, 1, 7), 2, {"h100"}),
        # A pair with both links, left over, is taken before an empty machine is broken: 75 % of a half is less than 80 %.
        ((0, 1, 4, 5), 2, {"v100"}),
        # Six links of nine against a full crossbar.
        ((0, 1, 4, 5), 4, {"h100"}),
        # Only eight free GPUs hold eight, and NVLink beats none.
        ((0, 1, 4, 5), 8, {"h100"}),
        # A single GPU goes where nothing that is connected is lost: to PCIe boards, or to an odd one like 7.
        ((0, 1, 4, 5), 1, {"l4"}),
        ((0, 1, 7), 1, {"l4", "v100"}),
    ],
)
def test_mixed_nodes(free, count, winners):
    """A fragmented V100 mesh, an empty NVSwitch machine and an empty PCIe machine compete."""
    nodes = [machine("v100"), machine("h100", H100), machine("l4", L4)]
    found = scores(NVLinkTopology(None, None), a_pod("p").gpus(count), nodes, [holding("v100", *all_but(*free))])
    assert {name for name, value in found.items() if value == max(found.values())} == winners


def test_scores_by_arithmetic():
    """Nine tenths are quality; several GPUs without NVLink have none; what cannot hold the pod has nothing."""
    nodes = [machine("full"), machine("l4", L4), machine("odd", H100), a_node("unlabelled").gpus(8)]
    running = [holding("full", *range(7)), holding("odd", *range(6))]
    # odd: quality 100, and all that was connected there is lost, which is a quarter of the machine.
    found = scores(NVLinkTopology(None, None), a_pod("p").gpus(2), nodes, running)
    assert found == {"full": 0, "l4": 10, "odd": (9 * 100 + 75) // 10, "unlabelled": 10}


def test_shared_gpus_have_no_sets():
    """Where the resource counts shares, no set is published and no bandwidth is claimed."""
    desk = Desk(machine("n", f"{H100}-SHARED"))
    assert desk.scores(2) == [10]
    (pod,) = desk.reserve("n", a_pod("p").gpus(2))
    assert desk.annotations(pod) == {}


def test_what_if_counts_as_the_engine_rates_a_row_again():
    """After each placement the row is worth what is left, and after undo what it was."""
    desk = Desk(machine("n"), holding("n", 4, 5, 6, 7))
    before = desk.scores(2)
    undo = desk.access.snapshot.place(a_pod("guest").gpus(1).build(), 0)
    with_guest = desk.scores(4)
    undo()
    assert with_guest == [0]
    assert desk.scores(2) == before


def test_victims_of_the_same_size_are_told_apart():
    """Two what-ifs leave the same number of GPUs, but not the same ones: 0-3 have two links, 0-1 one."""
    desk = Desk(
        machine("n"),
        holding("n", 4, 5, 6, 7),
        holding("n", 3, name="a"),
        holding("n", 1, name="b"),
        holding("n", 2, name="c"),
    )
    undo = desk.access.snapshot.remove("uid-a-n", 0)
    assert desk.scores(2)[0] > 90
    undo()
    desk.access.snapshot.remove("uid-b-n", 0)
    assert 45 <= desk.scores(2)[0] < 60


def test_wide_scores_equal_those_of_single_rows():
    """Any selection of rows has the scores of the whole."""
    nodes = [machine(f"n{i}", (V100, H100, L4)[i % 3]) for i in range(6)]
    desk = Desk(*nodes, holding("n0", 2, 3, 6), holding("n4", 0))
    whole = desk.scores(2)
    pod = a_pod("asking").gpus(2).build()
    rows = [4, 0, 5]
    some = desk.access.snapshot.nodes.select(np.array(rows))
    assert desk.plugin.score_all(desk.state, pod, some).tolist() == [whole[row] for row in rows]


# ---- memory -----------------------------------------------------------------------------------------------------------


def test_assumed_pods_keep_their_set():
    """The set chosen at Reserve counts until the annotation is known, also when better GPUs have come free since."""
    desk = Desk(machine("n"), holding("n", *all_but(0, 1, 7)))
    (first,) = desk.reserve("n", a_pod("first").gpus(2))
    desk.cluster.remove_pod("uid-old-n")
    desk.access.snapshot = desk.cluster.snapshot()
    (second,) = desk.reserve("n", a_pod("second").gpus(6))
    assert (desk.gpus(first), desk.gpus(second)) == ("0,1", "2,3,4,5,6,7")


def test_annotation_takes_over_from_memory():
    """Once the pod is seen with its annotation, that counts; the scores stay the same."""
    desk = Desk(machine("n"), holding("n", 4, 5, 6, 7))
    (pod,) = desk.reserve("n", a_pod("p").gpus(2))
    assumed = desk.scores(2)
    desk.add(msgspec.structs.replace(pod, node_name="n", annotations={GPUS: "0,3;basis=assumed"}))
    assert desk.scores(2) == assumed
    desk.add(msgspec.structs.replace(pod, node_name="n", annotations={GPUS: "0,2;basis=reported"}))
    # Now 1 and 3 are left, joined by one link of two.
    assert desk.scores(2)[0] < assumed[0]


def test_annotation_of_a_pending_pod_is_not_believed():
    """What a user writes on a pod before it is bound chooses nothing."""
    desk = Desk(machine("n"), holding("n", 4, 5, 6, 7))
    (pod,) = desk.reserve("n", a_pod("p").gpus(2).annotation(GPUS, "1,2;basis=reported"))
    assert desk.gpus(pod) == "0,3"


def test_unreserve_is_the_inverse_of_reserve():
    """Scores and annotations are as before, those of others stay, and it may be called again or without Reserve."""
    desk = Desk(machine("n").label(CLIQUE, "rack-1"))
    pod = a_pod("p").gpus(4).build()
    desk.plugin.unreserve(desk.state, pod, "n")
    before = desk.scores(4)
    desk.state.write(("annotations", pod.uid), {"example.com/rank": "3"})
    (pod,) = desk.reserve("n", a_pod("p").gpus(4))
    assert set(desk.annotations(pod)) == {"example.com/rank", GPUS, PLACEMENT, DOMAIN}
    for _ in range(2):
        desk.plugin.unreserve(desk.state, pod, "n")
        assert desk.annotations(pod) == {"example.com/rank": "3"}
    desk.cluster.forget(pod.uid)
    desk.access.snapshot = desk.cluster.snapshot()
    assert desk.scores(4) == before
    (again,) = desk.reserve("n", a_pod("p").gpus(4))
    assert desk.gpus(again) == "0,1,2,3"


def test_annotations_of_others_win():
    """What another plugin already published, such as devices that DRA allocated, stays, also after Unreserve."""
    desk = Desk(machine("n"))
    pod = a_pod("p").gpus(1).build()
    desk.state.write(("annotations", pod.uid), {GPUS: "5;basis=allocated"})
    desk.reserve("n", a_pod("p").gpus(1))
    assert desk.annotations(pod)[GPUS] == "5;basis=allocated"
    desk.plugin.unreserve(desk.state, pod, "n")
    assert desk.annotations(pod) == {GPUS: "5;basis=allocated"}


def test_memory_does_not_grow_for_ever():
    """Sets of pods that are bound with their annotation, or gone, are dropped in time."""
    desk = Desk(machine("n"))
    for number in range(3 * LEAST_REMEMBERED):
        (pod,) = desk.reserve("n", a_pod(f"p{number}").gpus(1))
        if number % 2:
            desk.add(msgspec.structs.replace(pod, node_name="n", annotations=desk.annotations(pod)))
        desk.cluster.remove_pod(pod.uid)
        desk.access.snapshot = desk.cluster.snapshot()
    assert len(desk.plugin._occupancy.remembered) <= LEAST_REMEMBERED


# ---- NICs -------------------------------------------------------------------------------------------------------------

SCOPE = "scheduling.ai-scheduler.io/nic-scope"
NICS = "scheduling.ai-scheduler.io/nics"


def railed(name: str, *, report: Any = None) -> NodeTopology:
    """Return four GPUs behind NVSwitches, each on a PCIe switch with its NIC, two switches to a NUMA node; NIC 3 is far off."""
    path = [("r", "p", f"up{n}") if n < 2 else ("s", "q", f"up{n}") for n in range(4)]
    path = [(f"{root}{n}", f"{port}{n}", up) for n, (root, port, up) in enumerate(path)]
    gpus = tuple(ToldGpu(n, n // 2, (), Links(18, 450), (*path[n], "g")) for n in range(4))
    nics = [ToldNic(f"mlx5_{n}", n // 2, n, (*path[n], "n")) for n in range(3)]
    far = ToldNic("mlx5_3", 7, 3, ("x", "y", "z"))
    return NodeTopology(name=name, machine=ToldMachine(gpus, (*nics, far), None), report=report)


def with_nics(name: str, gpus: int, nics: int, scope: str | None = None) -> PodBuilder:
    """Start a pod that asks for GPUs and NICs."""
    pod = a_pod(name).gpus(gpus).request("rdma/hca", nics)
    return pod if scope is None else pod.annotation(SCOPE, scope)


def nic_node(name: str = "n", nics: int = 4) -> NodeBuilder:
    """Start a node that offers NICs."""
    return machine(name, H100, 4).offer("rdma/hca", nics)


def nic_desk(*things: Any, args: NVLinkTopologyArgs | None = None) -> Desk:
    """Return a desk with one node whose NICs are known."""
    desk = Desk(nic_node(), *things, args=args)
    desk.add(railed("n"))
    return desk


@pytest.mark.parametrize(
    ("taken", "gpus", "nics", "chosen", "names", "parts"),
    [
        # A GPU and its own NIC; two GPUs that both have one; GPU 3 has none on its switch, but NIC 2 on its NUMA node.
        ((), 1, 1, "0", "mlx5_0", "nics=switch;nic-quality=100"),
        ((0, 1), 1, 1, "2", "mlx5_2", "nics=switch;nic-quality=100"),
        ((), 2, 2, "0,1", "mlx5_0,mlx5_1", "nics=switch;nic-quality=100"),
        ((0, 1, 2), 1, 1, "3", "mlx5_2", "nics=numa;nic-quality=50"),
        ((0, 1), 2, 2, "2,3", "mlx5_0,mlx5_2", "nics=node;nic-quality=50"),
        ((), 1, 5, "0", "mlx5_0,mlx5_1,mlx5_2,mlx5_3", "nics=unknown;nic-quality=30"),
    ],
)
def test_nics_are_on_the_switches_of_the_gpus_where_that_can_be(taken, gpus, nics, chosen, names, parts):
    """Else on their NUMA node, else anywhere; the parts tell how near: 100, 50 or 0 for each NIC."""
    desk = nic_desk(*([holding("n", *taken)] if taken else []))
    (pod,) = desk.reserve("n", with_nics("p", gpus, nics))
    found = desk.annotations(pod)
    assert (desk.gpus(pod), found[NICS]) == (chosen, f"{names};basis=assumed")
    assert parts in found[PLACEMENT]


def test_nics_that_a_pod_has_for_itself_are_gone_for_the_next():
    """The node offers as many NICs as it has: the second pod of one GPU and one NIC gets the second pair."""
    desk = nic_desk()
    first, second = desk.reserve("n", with_nics("a", 1, 1), with_nics("b", 1, 1))
    assert [desk.annotations(pod)[NICS] for pod in (first, second)] == ["mlx5_0;basis=assumed", "mlx5_1;basis=assumed"]
    (third,) = desk.reserve("n", with_nics("c", 1, 1))
    assert desk.annotations(third)[NICS] == "mlx5_2;basis=assumed"


def test_shared_nics_serve_any_number_of_pods():
    """The node offers a thousand of four."""
    desk = Desk(nic_node(nics=1000))
    desk.add(railed("n"))
    (first,) = desk.reserve("n", with_nics("a", 1, 4))
    (second,) = desk.reserve("n", with_nics("b", 1, 4))
    assert desk.annotations(first)[NICS] == desk.annotations(second)[NICS]


@pytest.mark.parametrize(
    ("taken", "scope", "passes"),
    [
        ((), "switch", True),
        ((0, 1, 2), "switch", False),
        ((0, 1, 2), "numa", True),
        ((0, 1, 2), "node", True),
        ((0, 1, 2), None, True),
    ],
)
def test_required_scope_rejects_where_nics_are_too_far(taken, scope, passes):
    """GPU 3 has no NIC on its switch."""
    desk = nic_desk(*([holding("n", *taken)] if taken else []))
    pod, nodes = with_nics("p", 1, 1, scope).build(), desk.access.snapshot.nodes
    verdicts = desk.plugin.filter_all(desk.state, pod, nodes)
    assert verdicts.passes().tolist() == [passes]
    assert skips(desk.plugin.pre_filter(desk.state, pod, nodes)) is (scope is None)
    if not passes:
        assert verdicts.status_at(0).reasons[0].code == "NicsTooFar"
        assert desk.plugin.score_all(desk.state, pod, nodes).tolist() == [0]


def test_scope_of_the_arguments_counts_where_the_pod_names_none():
    """A cluster may ask it of all."""
    desk = nic_desk(holding("n", 0, 1, 2), args=NVLinkTopologyArgs(required_nic_scope="switch"))
    for scope, passes in ((None, False), ("numa", True)):
        pod = with_nics("p", 1, 1, scope).build()
        assert desk.plugin.filter_all(desk.state, pod, desk.access.snapshot.nodes).passes().tolist() == [passes]


def test_node_whose_nics_nobody_knows_never_has_them_near():
    """What is required and cannot be told is refused, and no eviction helps."""
    desk = Desk(nic_node())
    pod = with_nics("p", 1, 1, "node").build()
    status = desk.plugin.filter_all(desk.state, pod, desk.access.snapshot.nodes).status_at(0)
    assert (status.reasons[0].code, status.code.name) == ("NicsNeverNear", "UNSCHEDULABLE_AND_UNRESOLVABLE")


def test_scope_that_nobody_knows_is_refused_with_what_is_allowed():
    """The pod is told, and no other is held up."""
    desk = nic_desk()
    status = desk.plugin.pre_filter(desk.state, with_nics("p", 1, 1, "rack").build(), desk.access.snapshot.nodes)
    assert status.reasons[0].code == "InvalidNicScope"
    assert "'rack' is unknown; allowed: node, numa, switch" in status.message


def test_node_with_near_nics_comes_before_one_with_far_ones():
    """Both have one free GPU: GPU 2 has a NIC on its switch, GPU 3 has none; by a tenth of half the quality."""
    desk = Desk(nic_node("near"), nic_node("off"), holding("near", 0, 1, 3), holding("off", 0, 1, 2))
    desk.add(railed("near"))
    desk.add(railed("off"))
    pod = with_nics("p", 1, 1).build()
    near, off = desk.plugin.score_all(desk.state, pod, desk.access.snapshot.nodes).tolist()
    assert near - off == 5


def test_members_of_a_gang_get_the_same_gpus_on_each_node():
    """On `m` GPUs 0 and 1 are taken and on `n` none is: 2 and 3 were chosen first, so they are chosen again."""
    desk = Desk(machine("m", H100, 4), machine("n", H100, 4), holding("m", 0, 1))
    (first,) = desk.reserve("m", a_pod("a").gpus(2).gang("job", 2))
    (second,) = desk.reserve("n", a_pod("b").gpus(2).gang("job", 2))
    (other,) = desk.reserve("n", a_pod("c").gpus(2))
    assert [desk.gpus(pod) for pod in (first, second, other)] == ["2,3", "2,3", "0,1"]


def test_same_gpus_never_cost_bandwidth():
    """On the V100 board 0 and 3 have two links; where 3 is taken, a member gets another pair of two, not 0 with anything."""
    desk = Desk(machine("m"), machine("n"), holding("m", 1, 2, 4, 5, 6, 7), holding("n", 3))
    (first,) = desk.reserve("m", a_pod("a").gpus(2).gang("job", 2))
    (second,) = desk.reserve("n", a_pod("b").gpus(2).gang("job", 2))
    assert desk.gpus(first) == "0,3"
    assert "bandwidth-gbps=50" in desk.annotations(second)[PLACEMENT]


# ---- what the node agent tells ----------------------------------------------------------------------------------------


def a_topology(name: str, pairs: dict[tuple[int, int], int], gpus: int = 4, report: Any = None) -> NodeTopology:
    """Return what an agent tells of a node: NVLinks by pair, and perhaps what is free."""
    told = tuple(
        ToldGpu(gpu, 0, tuple((b, Links(n, 25 * n)) for (a, b), n in pairs.items() if a == gpu), None, ())
        for gpu in range(gpus)
    )
    return NodeTopology(name=name, machine=ToldMachine(told, (), None), report=report)


def test_object_goes_before_labels_as_soon_as_it_is_there():
    """The label says no links; the object says that 1 and 3 are bridged."""
    desk = Desk(machine("n", L4, 4))
    assert desk.scores(2) == [10]
    desk.add(a_topology("n", {(1, 3): 4}))
    assert desk.scores(2) == [90]  # the best there is, after which nothing is left
    (pod,) = desk.reserve("n", a_pod("p").gpus(2))
    assert desk.gpus(pod) == "1,3"


def a_slice(node: str, product: str = "NVIDIA H100 80GB HBM3", gpus: int = 4) -> DeviceSlice:
    """Return what a driver publishes of a node: GPUs of a product."""
    attributes = {"productName": {"string": product}}
    devices = [{"name": f"g{i}", "attributes": {"index": {"int": i}, **attributes}} for i in range(gpus)]
    return device_slice_from_api(msgspec.convert(node_slice(node, *devices), ApiResourceSlice))


def test_slices_go_before_the_object_and_labels_as_soon_as_they_are_there():
    """The label and the object know of no links or of one; four H100 of one board are joined in pairs by 6 of their 18 links."""
    desk = Desk(machine("n", L4, 4))
    assert desk.scores(2) == [10]
    desk.add(a_topology("n", {(1, 3): 4}))
    desk.add(a_slice("n"))
    (pod,) = desk.reserve("n", a_pod("p").gpus(2))
    assert desk.annotations(pod)[PLACEMENT].startswith("quality=100;bandwidth-gbps=150;")


def test_slices_tell_links_and_the_object_nics():
    """The object says that NVSwitches join all GPUs, and which NIC is near whom: of that, the NICs stay."""
    told = railed("n")
    found = read_machine({}, {}, told, gpu_count=4, of_slices=known_machine(H100, 4)).machine
    assert found is not None
    assert [nic.name for nic in found.nics] == ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]
    alone = read_machine({}, {}, told, gpu_count=4).machine
    assert alone is not None
    assert np.array_equal(found.nic_pcie, alone.nic_pcie)
    assert np.array_equal(found.nvlink_gbps, known_machine(H100, 4).nvlink_gbps)
    assert not np.array_equal(found.nvlink_gbps, alone.nvlink_gbps)


def test_slices_of_other_gpus_than_the_device_plugin_offers_change_nothing():
    """They speak of those that are allocated by claims."""
    desk = Desk(machine("n", L4, 4))
    desk.add(a_slice("n", gpus=2))
    assert desk.scores(2) == [10]


def test_reported_gpus_are_chosen_from_and_published_as_such():
    """`old` says 0 and 1; the kubelet gave it 1 and 3, so the bridge is taken and the set is 0 and 2."""
    report = DeviceReport(LATER, (0, 2), {"default/old-n": (1, 3)})
    desk = Desk(machine("n", L4, 4), holding("n", 0, 1))
    desk.add(a_topology("n", {(1, 3): 4, (0, 2): 2}, report=report))
    (pod,) = desk.reserve("n", a_pod("p").gpus(2))
    assert desk.annotations(pod)[GPUS] == "0,2;basis=reported"


def test_new_report_is_seen_though_the_pods_are_the_same():
    """GPU 3 works again."""
    desk = Desk(machine("n", L4, 4))
    desk.add(a_topology("n", {(1, 3): 4}, report=DeviceReport(LATER, (0, 1, 2), {})))
    (before,) = desk.scores(2)
    desk.add(a_topology("n", {(1, 3): 4}, report=DeviceReport(LATER, (0, 1, 2, 3), {})))
    assert (before < 10, desk.scores(2)) == (True, [90])


def test_object_of_other_gpus_than_the_node_has_changes_nothing():
    """It is told as a problem of the node, and its report does not count either."""
    desk = Desk(machine("n"), machine("m"))
    desk.add(a_topology("n", {(1, 3): 4}, gpus=4, report=DeviceReport(LATER, (), {})))
    known, same = desk.scores(2)
    assert known == same > 90
    assert "4 GPUs where the node has 8" in desk.plugin.problems["n"]


# ---- what cannot be read ----------------------------------------------------------------------------------------------


def test_malformed_node_annotation_gives_way_to_labels():
    """The labels tell the machine, the problem is told by node, and it is gone when the node is mended."""
    desk = Desk(machine("bad").annotation(NODE_TOPOLOGY_ANNOTATION, '{"gpus": 0}'), machine("good"))
    bad, good = desk.scores(2)
    assert bad == good
    assert list(desk.plugin.problems) == ["bad"]
    assert NODE_TOPOLOGY_ANNOTATION in desk.plugin.problems["bad"]
    desk.add(machine("bad").build())
    desk.scores(2)
    assert desk.plugin.problems == {}


def test_malformed_labels_make_a_node_unknown():
    """A node about which nothing can be read is worth what one without NVLink is."""
    desk = Desk(machine("n").label("nvidia.com/gpu.count", "many"))
    assert desk.scores(2) == [10]
    assert "nvidia.com/gpu.count" in desk.plugin.problems["n"]


@pytest.mark.parametrize(
    "text", ["", "0,0;basis=assumed", "9;basis=assumed", "0;basis=assumed", "0,1;basis=magic", "\x00"]
)
def test_malformed_pod_annotations_count_as_none(text):
    """A pod that tells nonsense holds what the device plugin's policy would have given it."""
    spoilt = Desk(machine("n", H100), a_pod("old").gpus(2).on("n").annotation(GPUS, text))
    plain = Desk(machine("n", H100), a_pod("old").gpus(2).on("n"))
    assert spoilt.scores(4) == plain.scores(4)


def test_unknown_node_is_no_accident():
    """Reserve on a node that is gone from the snapshot does nothing."""
    desk = Desk(machine("n"))
    pod = a_pod("p").gpus(1).build()
    desk.plugin.reserve(desk.state, pod, "gone")
    desk.plugin.unreserve(desk.state, pod, "gone")
    assert desk.annotations(pod) == {}


# ---- arguments --------------------------------------------------------------------------------------------------------


def test_arguments_choose_the_resource():
    """Another resource is counted."""
    args = NVLinkTopologyArgs.model_validate({"resourceName": "example.com/gpu"})
    desk = Desk(machine("e0"), args=args)
    assert skips(desk.plugin.pre_score(desk.state, a_pod("q").gpus(1, GPU).build(), desk.access.snapshot.nodes))


# ---- with the engine --------------------------------------------------------------------------------------------------


def rack(count: int = 2) -> list[NodeBuilder]:
    """Return trays of two cliques on one leaf, of one without clique on another, and one without any label."""
    trays = [
        machine(f"{c}{i}", "NVIDIA-GB200", 4).label(CLIQUE, c).label(LEAF, "leaf-1") for c in "ab" for i in range(count)
    ]
    return [*trays, machine("c0").label(LEAF, "leaf-2"), machine("d0")]


CONFIGURATION = parse(
    """
    profiles:
      - base: kube-default
        plugins:
          multiPoint:
            enabled:
              - name: NVLinkTopology
                weight: 100
              - name: FabricTopology
    """
)


def test_gang_stays_in_one_clique_and_publishes_its_gpus():
    """Four members fill two trays of one clique; each GPU is given once, and the pods carry it after their binding."""
    nodes = [node.cpu(64) for node in rack()[:4]]
    members = [a_pod(f"job-{i}").gpus(2).cpu(1).gang("job") for i in range(4)]
    world = World(nodes, a_gang("job", 4), members, configuration=CONFIGURATION).run()
    told: dict[str, int] = {}
    for pod in world.pods.values():
        mask = parse_gpus(pod.annotations[GPUS], 4)[0]
        assert not mask & told.get(pod.node_name, 0)
        told[pod.node_name] = told.get(pod.node_name, 0) | mask
        assert pod.annotations[DOMAIN].split("/")[-1] == pod.node_name[0]
    assert {name[0] for name in told} in ({"a"}, {"b"})
    assert set(told.values()) == {0b1111}


def test_failed_binding_gives_the_set_back():
    """A pod whose binding failed is placed again on a pair of two links, as nothing holds one."""
    world = World(machine("n"), a_pod("p").gpus(2), configuration=CONFIGURATION)
    world.failing["p"] = ["conflict"]
    world.wait(10)
    assert world.node_of("p") == "n"
    assert world.pod("p").annotations[PLACEMENT] == "quality=100;bandwidth-gbps=50;lost=68"
