"""What plugins keep about rows equals what a new snapshot of the same rows gives, after whatever happened to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.cycle_state import CycleState
from scheduler.model.quantity import LARGEST
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.plugins.node_resources_fit.shares import EXACT, Shares, percent_at
from scheduler.state.cluster import ClusterState
from scheduler.state.snapshot import Snapshot
from tests.builders import GPU, a_node, a_pod

from .calling import make

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.model import Pod

STORAGE = "ephemeral-storage"
THREE = [{"name": name, "weight": weight} for name, weight in (("cpu", 3), (GPU, 1), (STORAGE, 2))]
SHAPE = {"shape": [{"utilization": 0, "score": 10}, {"utilization": 70, "score": 3}, {"utilization": 100, "score": 7}]}
PLUGINS = [
    make(NodePorts),
    make(NodeResourcesBalancedAllocation),
    make(NodeResourcesBalancedAllocation, {"resources": [{"name": name} for name in ("cpu", "memory", STORAGE, GPU)]}),
    make(NodeResourcesFit),
    *(
        make(NodeResourcesFit, {"scoringStrategy": {"type": kind, "resources": THREE, **more}})
        for kind, more in (
            ("LeastAllocated", {}),
            ("MostAllocated", {}),
            ("RequestedToCapacityRatio", {"requestedToCapacityRatio": SHAPE}),
        )
    ),
]
AMOUNTS = st.one_of(st.just(0), st.integers(1, 40), st.sampled_from((2**45, EXACT, EXACT + 1, 2**53 + 1, LARGEST)))


@st.composite
def nodes(draw: Any, name: str) -> Any:
    """Draw a node, at times with nothing of a resource and at times with absurdly much."""
    node = a_node(name).pods(draw(st.integers(0, 4)))
    for resource in ("cpu", "memory", GPU, STORAGE):
        if amount := draw(AMOUNTS):
            node.offer(resource, amount)
    return node.build()


@st.composite
def pods(draw: Any, name: str, node: str = "") -> Any:
    """Draw a pod with requests and ports."""
    pod = a_pod(name)
    for resource in ("cpu", "memory", GPU, STORAGE):
        if draw(st.booleans()):
            pod.request(resource, draw(AMOUNTS))
    for _ in range(draw(st.integers(0, 2))):
        pod.port(draw(st.integers(80, 82)), ip=draw(st.sampled_from(("", "10.0.0.1", "10.0.0.2"))))
    return (pod.on(node) if node else pod).build()


def said(plugin: Any, pod: Pod, snapshot: Snapshot, rows: Any) -> list[Any]:
    """Return all that a plugin says of all nodes and of some; what it says of one by one is the same."""
    result: list[Any] = []
    for some in (snapshot.nodes, snapshot.nodes.select(rows)):
        if hasattr(plugin, "filter_all"):
            verdicts = plugin.filter_all(CycleState(), pod, some)
            result.append([verdicts.status_at(position) for position in range(len(some))])
            if hasattr(plugin, "filter"):
                assert [plugin.filter(CycleState(), pod, node) for node in some] == result[-1]
        if hasattr(plugin, "score_all"):
            scores = plugin.score_all(CycleState(), pod, some)
            assert scores.dtype == np.int64
            result.append(scores.tolist())
            if hasattr(plugin, "score"):
                assert [plugin.score(CycleState(), pod, node) for node in some] == result[-1]
    return result


def anew(snapshot: Snapshot) -> Snapshot:
    """Return a new snapshot of the same rows."""
    other = Snapshot()
    other.replace_rows([row.copy() for row in snapshot.all_rows], nodes_changed=True)
    return other


class World:
    """Three nodes, pods on them, and what was tried since the snapshot was taken."""

    def __init__(self, data: st.DataObject) -> None:
        """Draw the nodes."""
        self.draw = data.draw
        self.state = ClusterState()
        for name in "abc":
            self.state.set_node(self.draw(nodes(name)))
        self.take_snapshot()

    def take_snapshot(self) -> None:
        """Start from what is known of the cluster."""
        self.snapshot = self.state.snapshot()
        self.mark = self.snapshot.mark()
        self.undos: list[Callable[[], None]] = []

    def what_if(self, step: int) -> None:
        """Place or remove a pod, or undo one of these, whichever."""
        placed = [(uid, i) for i, row in enumerate(self.snapshot.all_rows) for uid in row.pods if "trial" not in uid]
        match self.draw(st.sampled_from(("place", "remove", "undo"))):
            case "place":
                self.undos.append(self.snapshot.place(self.draw(pods(f"trial{step}")), self.draw(st.integers(0, 2))))
            case "remove" if placed:
                self.undos.append(self.snapshot.remove(*self.draw(st.sampled_from(placed))))
            case "undo" if self.undos:
                self.undos.pop(self.draw(st.integers(0, len(self.undos) - 1)))()

    def change(self, step: int) -> None:
        """Undo what was tried and change a pod or a node."""
        while self.undos:
            self.undos.pop()()
        self.snapshot.is_as_at(self.mark)
        match self.draw(st.sampled_from(("pod", "gone", "node", "nothing"))):
            case "pod":
                self.state.set_pod(self.draw(pods(f"p{step % 3}", self.draw(st.sampled_from("abc")))))
            case "gone" if self.state.pods:
                self.state.remove_pod(self.draw(st.sampled_from(sorted(self.state.pods))))
            case "node":
                self.state.set_node(self.draw(nodes("b")))
        self.take_snapshot()


@given(st.data())
def test_what_is_kept_is_what_a_new_snapshot_gives(data: st.DataObject) -> None:
    """Through what-ifs, undone in any order and then declared undone, and through changes of pods and nodes."""
    world = World(data)
    for step in range(data.draw(st.integers(1, 8))):
        (world.what_if if data.draw(st.booleans()) else world.change)(step)
        asking = data.draw(pods("asking"))
        rows = np.array(data.draw(st.lists(st.integers(0, 2), unique=True)), dtype=np.int64)
        for plugin in data.draw(st.sets(st.sampled_from(PLUGINS), max_size=len(PLUGINS))):
            assert said(plugin, asking, world.snapshot, rows) == said(plugin, asking, anew(world.snapshot), rows)


@given(
    st.lists(st.tuples(st.one_of(st.integers(1, 300), st.integers(1, EXACT)), st.integers(0, 300)), min_size=1),
    st.integers(-1, 1),
    st.booleans(),
)
def test_percentages_are_those_of_integers(draws: list[tuple[int, int]], off: int, is_absurd: bool) -> None:
    """Also right beside a whole percentage, where a rounded quotient would be next to it."""
    offers = [offered for offered, _ in draws] + [LARGEST] * is_absurd
    used = [max(0, offered * percent // 100 + off) for offered, percent in draws] + [LARGEST // 3] * is_absurd
    state = ClusterState()
    for number, (offered, count) in enumerate(zip(offers, used, strict=True)):
        state.set_node(a_node(f"n{number:03}").offer(GPU, offered).build())
        state.set_pod(a_pod(f"p{number}").gpus(count).on(f"n{number:03}").build())
    most = [min(u, o) * 100 // o for u, o in zip(used, offers, strict=True)]
    least = [max(o - u, 0) * 100 // o for u, o in zip(used, offers, strict=True)]
    snapshot = state.snapshot()
    assert Shares(GPU, snapshot.nodes, is_most=True).percent(0, snapshot.nodes).tolist() == most
    assert Shares(GPU, snapshot.nodes, is_most=False).percent(0, snapshot.nodes).tolist() == least
    assert [percent_at(GPU, 0, node, is_most=True) for node in snapshot.nodes] == most
    assert [percent_at(GPU, 0, node, is_most=False) for node in snapshot.nodes] == least
