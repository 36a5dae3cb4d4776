"""Objects that are only read: what the engine keeps of them, and whom their changes and those of pods and nodes wake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from scheduler.config import parse
from scheduler.engine import inputs as i
from scheduler.engine.intake import node_difference
from scheduler.framework.effects import BindPod
from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Reason, Status
from scheduler.model import Namespace, Owner
from scheduler.model.node_topology import NodeTopology, ToldGpu, ToldMachine
from scheduler.model.storage import (
    Claim,
    CSIDriver,
    CSINode,
    PersistentVolume,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from tests.builders import a_node, a_pod

from .device_world import DeviceWorld, node_slice
from .world import World

if TYPE_CHECKING:
    from scheduler.framework.change import Change

CONFIGURATION = "profiles: [{plugins: {multiPoint: {enabled: [{name: 'tests.engine.test_objects:Waits'}]}}}]"
THINGS: list[tuple[Any, str, dict[str, Any]]] = [
    (Namespace(name="x"), "NAMESPACE_CHANGED", {"labels": {"a": "b"}}),
    (Claim(namespace="default", name="x"), "CLAIM_CHANGED", {"volume_name": "v"}),
    (PersistentVolume(name="x"), "VOLUME_CHANGED", {"phase": "Bound"}),
    (StorageClass(name="x"), "STORAGE_CLASS_CHANGED", {"provisioner": "p"}),
    (CSINode(name="x"), "CSI_NODE_CHANGED", {"drivers": {"d": 1}}),
    (CSIDriver(name="x"), "CSI_DRIVER_CHANGED", {"has_storage_capacity": True}),
    (StorageCapacity(namespace="default", name="x"), "STORAGE_CAPACITY_CHANGED", {"capacity_bytes": 1}),
    (VolumeAttachment(name="x"), "ATTACHMENT_CHANGED", {"node_name": "n"}),
    (NodeTopology(name="x", machine=ToldMachine((), (), None)), "NODE_TOPOLOGY_CHANGED", {"uid": "u"}),
]


class Waits(Plugin):
    """Refuses every pod until an event happens whose name is the pod's label."""

    NAME = "Waits"

    def filter(self, state: Any, pod: Any, node: Any) -> Any:  # noqa: ARG002 - the signature of the point
        return Status.unschedulable(Reason("Waits", "waits", ClusterEvent[pod.labels["until"]]))


class Waiting:
    """A world in which a pod waits for an event."""

    def __init__(self, event: str, *things: Any) -> None:
        self.world = World(a_node("n"), configuration=parse(CONFIGURATION))
        self.world.add(*things)
        self.world.add(a_pod("p").labels(until=event)).run()
        self.tried = len(self.world.decisions)

    def is_tried_after(self, *happened: i.Input) -> bool:
        """Tell whether the pod is tried again once inputs came and its backoff is over."""
        for item in happened:
            self.world.engine.handle(item)
        self.world.wait(20)
        before, self.tried = self.tried, len(self.world.decisions)
        return self.tried > before


@pytest.mark.parametrize(("thing", "event", "change"), THINGS)
def test_a_changed_object_wakes_who_waits_for_its_kind(thing: Any, event: str, change: dict[str, Any]) -> None:
    """When it comes, differs or goes; not when it is only told again, and nobody else."""
    waiting = Waiting(event)
    other = msgspec.structs.replace(thing, **change)
    assert waiting.is_tried_after(i.ObjectChanged(thing))
    assert waiting.world.engine.state.objects.get(type(thing), *thing.key) == thing
    assert not waiting.is_tried_after(i.ObjectChanged(msgspec.structs.replace(thing)))
    assert waiting.is_tried_after(i.ObjectChanged(other))
    assert waiting.is_tried_after(i.ObjectRemoved(type(thing), thing.key))
    assert not waiting.is_tried_after(i.ObjectRemoved(type(thing), thing.key))
    assert waiting.world.engine.state.objects.all(type(thing)) == {}
    assert not Waiting("GANG_CHANGED").is_tried_after(i.ObjectChanged(thing))


def test_an_owner_of_pods_wakes_nobody() -> None:
    """It matters to scores only."""
    owner = Owner(kind="Service", namespace="default", name="s", selector=())
    waiting = Waiting("ANY")
    assert not waiting.is_tried_after(i.ObjectChanged(owner), i.ObjectRemoved(Owner, owner.key))


def test_a_node_that_goes_wakes_who_waits_for_that() -> None:
    """There may be fewer domains than before."""
    waiting = Waiting("NODE_REMOVED", a_node("other"))
    assert waiting.is_tried_after(i.NodeRemoved("other"))
    assert not waiting.is_tried_after(i.NodeRemoved("other"))


def test_features_of_a_node_are_a_difference() -> None:
    """The kubelet says which it has."""
    node = a_node("n").build()
    other = msgspec.structs.replace(node, declared_features=frozenset(("F",)))
    assert node_difference(node, other) == ClusterEvent.NODE_FEATURES
    assert Waiting("NODE_FEATURES").is_tried_after(i.NodeChanged(other))


def test_an_assigned_pod_with_other_labels_wakes_who_waits_for_that() -> None:
    """With the pod and its node; other changes do not."""
    waiting = Waiting("POD_LABELS", a_pod("old").on("n"))
    assert not waiting.is_tried_after(i.PodChanged(a_pod("old").on("n").annotation("a", "b").build()))
    changes: list[Change] = []
    core = waiting.world.engine._core
    waiting.world.engine.handle(i.PodChanged(a_pod("old").on("n").labels(a="b").build()))
    changes += core.changes
    assert [(change.event, change.node_name, change.pod_uid) for change in changes] == [
        (ClusterEvent.POD_LABELS, "n", "uid-old")
    ]
    assert waiting.is_tried_after()


def test_product_that_nobody_knows_is_said_once_however_many_nodes_have_it() -> None:
    """And once for each further kind."""
    unknown = [
        a_node(f"n{k}").gpus(8).label("nvidia.com/gpu.product", f"NVIDIA-Z{k % 2}").label("nvidia.com/gpu.count", "8")
        for k in range(6)
    ]
    world = World(*unknown).run()
    assert [(event.regarding.kind, event.regarding.name) for event in world.events("UnknownMachine")] == [
        ("Node", "n0"), ("Node", "n1"),
    ]  # fmt: skip


def test_slices_that_name_a_product_make_an_unknown_label_no_fault() -> None:
    """They are trusted more; pods on the node are placed by what they tell as soon as they are there."""
    node = a_node("n").gpus(2).cpu(8).label("nvidia.com/gpu.product", "NVIDIA-Z").label("nvidia.com/gpu.count", "2")
    product = {"productName": {"string": "NVIDIA H100 80GB HBM3"}}
    devices = [{"name": f"g{i}", "attributes": {"index": {"int": i}, **product}} for i in range(2)]
    made = DeviceWorld(slices=[node_slice("n", *devices)])
    made.add(node).run()
    assert made.events("UnknownMachine") == []
    made.add(a_pod("p").gpus(2)).run()
    (bound,) = [effect for effect in made.effects if isinstance(effect, BindPod)]
    assert "bandwidth-gbps=450" in bound.annotations["scheduling.ai-scheduler.io/placement"]


def test_topology_of_other_gpus_than_the_node_has_is_said_at_the_object_and_blocks_nobody() -> None:
    """Four GPUs are told of a node that has eight; the pod gets its place."""
    told = tuple(ToldGpu(gpu, None, (), None, ()) for gpu in range(4))
    world = World(a_node("n").gpus(8))
    topology = NodeTopology(name="n", uid="u", machine=ToldMachine(told, (), None))
    world.engine.handle(i.ObjectChanged(topology))
    world.add(a_pod("p").gpus(8)).run()
    assert world.node_of("p") == "n"
    (event,) = world.events("InvalidNodeTopology")
    assert (event.regarding.kind, event.regarding.name, event.regarding.uid) == ("NodeTopology", "n", "u")
    assert event.note == "spec.gpus: 4 GPUs where the node has 8; allowed are those of the node"
