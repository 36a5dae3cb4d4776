"""VolumeZone: pods stay in the zones of their volumes."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.status import Code, Status
from scheduler.plugins.volume_zone import VolumeZone
from tests.builders import a_node, a_pod

from .calling import skips
from .storage_world import StorageWorld, bound, claim, mounts, storage_class, volume, with_volumes

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, OLD_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
NEVER = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
TEXT = "node(s) had no available volume zone"


@pytest.mark.parametrize(
    ("volume_labels", "node_labels", "fits"),
    [
        ({ZONE: "a"}, {}, True),
        ({ZONE: "a"}, {"other": "x"}, True),
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({ZONE: "a__c"}, {ZONE: "b"}, False),
        ({ZONE: " a __b"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {REGION: "r"}, False),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False),
        ({OLD_ZONE: "a"}, {ZONE: "a"}, True),
        ({OLD_ZONE: "a"}, {ZONE: "b"}, False),
        ({OLD_ZONE: "a"}, {OLD_ZONE: "a", ZONE: "b"}, True),
        ({OLD_REGION: "r"}, {REGION: "r"}, True),
        ({ZONE: "a"}, {OLD_ZONE: "a"}, False),
    ],
)
def test_labels_of_volumes_and_nodes(volume_labels: dict[str, str], node_labels: dict[str, str], *, fits: bool) -> None:
    """Old labels match new ones of nodes, not the other way round; nodes without any are everywhere."""
    node = a_node("n")
    for key, value in node_labels.items():
        node.label(key, value)
    world = StorageWorld([node], [bound("c", "v"), volume("v", meta={"labels": volume_labels})])
    assert world.look(VolumeZone, mounts(a_pod(), "c")) == ({} if fits else {"n": (NEVER, [TEXT])})


@pytest.mark.parametrize(
    "things",
    [
        [bound("c", "v"), volume("v")],
        [bound("c", "v"), volume("v", meta={"labels": {ZONE: "a__"}})],
        [claim("c"), storage_class()],
    ],
)
def test_pods_whose_volumes_name_no_zone_are_left_alone(things: list[Any]) -> None:
    """Labels that make no sense say nothing; claims that wait for the pod have no volume yet."""
    world = StorageWorld([a_node("n").label(ZONE, "a")], things)
    assert skips(world.look(VolumeZone, mounts(a_pod(), "c")))
    assert skips(world.look(VolumeZone, a_pod()))
    assert skips(world.look(VolumeZone, with_volumes(a_pod(), {"ephemeral": {}})))


@pytest.mark.parametrize(
    ("things", "text"),
    [
        ([], 'persistentvolumeclaim "c" not found'),
        ([bound("c", "v")], 'persistentvolume "v" not found'),
        ([claim("c", storageClassName="")], "PersistentVolumeClaim had no pv name and storageClass name"),
        ([claim("c")], 'storageclass.storage.k8s.io "fast" not found'),
        ([claim("c"), storage_class(waits=False)], "PersistentVolume had no name"),
    ],
)
def test_claims_that_are_not_in_order(things: list[Any], text: str) -> None:
    """PreFilter refuses the pod as a whole."""
    answer = StorageWorld([a_node("n")], things).look(VolumeZone, mounts(a_pod(), "c"))
    assert isinstance(answer, Status)
    assert (answer.code, answer.message) == (NEVER, text)


def test_two_volumes_refuse_a_node_once() -> None:
    """The reason is counted once per node."""
    labels = {"labels": {ZONE: "a"}}
    things = [bound("c", "v"), bound("d", "w"), volume("v", meta=labels), volume("w", meta=labels)]
    world = StorageWorld([a_node("n").label(ZONE, "b")], things)
    assert world.look(VolumeZone, mounts(a_pod(), "c", "d")) == {"n": (NEVER, [TEXT])}


def test_a_changed_object_changes_the_sign() -> None:
    """Verdicts of pods with claims last until an object changes, those of other pods for good."""
    world = StorageWorld([a_node("n")], [bound("c", "v"), volume("v")])
    plugin, pod = world.make(VolumeZone), mounts(a_pod(), "c").build()
    before = plugin.sign(pod)
    assert (plugin.sign(a_pod().build()), plugin.sign(pod)) == ((), before)
    world.put(volume("v", meta={"labels": {ZONE: "a"}}))
    assert plugin.sign(pod) != before
