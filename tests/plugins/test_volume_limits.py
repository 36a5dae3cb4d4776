"""NodeVolumeLimits: nodes take only so many volumes of a CSI driver."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.status import Code
from scheduler.plugins.node_volume_limits import NodeVolumeLimits
from tests.builders import a_node, a_pod

from .calling import skips
from .storage_world import (
    StorageWorld,
    attachment,
    bound,
    claim,
    csi_node,
    driver,
    mounts,
    storage_class,
    volume,
    with_volumes,
)

FULL = {"n": (Code.UNSCHEDULABLE, ["node(s) exceed max volume count"])}
EBS = "ebs.csi.aws.com"


def csi_volume(name: str, by: str = "csi.test") -> Any:
    """Return a volume of a driver."""
    return volume(name, csi={"driver": by, "volumeHandle": f"h-{name}"})


def world(limit: int | None, *more: Any, used: tuple[str, ...] = ("old",), by: str = "csi.test") -> StorageWorld:
    """Return a node with a limit, on which a pod uses some claims; `new` and `other` are further claims of the driver."""
    things = [csi_node("n", {by: limit}), storage_class(provisioner=by)]
    for name in ("old", "older", "new", "other"):
        things += [bound(name, f"v-{name}"), csi_volume(f"v-{name}", by)]
    return StorageWorld([a_node("n")], [*things, *more], [mounts(a_pod("old"), *used).on("n")])


@pytest.mark.parametrize(
    ("limit", "used", "new", "fits"),
    [
        (2, ("old",), ("new",), True), (1, ("old",), ("new",), False), (2, ("old",), ("new", "other"), False),
        (1, ("old",), ("old",), True), (2, ("old", "older"), ("old",), True), (2, ("old", "older"), ("new",), False),
        (None, ("old",), ("new",), True), (0, (), ("new",), False), (1, (), ("new", "new"), True),
    ],
)  # fmt: skip
def test_volumes_of_a_driver_are_counted(limit: int | None, used: Any, new: Any, *, fits: bool) -> None:
    """A volume that is there already costs nothing; a driver without a limit takes all."""
    assert world(limit, used=used).look(NodeVolumeLimits, mounts(a_pod(), *new)) == ({} if fits else FULL)


def test_other_drivers_do_not_count() -> None:
    """Each driver has its own limit."""
    things = [bound("far", "v-far"), csi_volume("v-far", "far.test")]
    assert world(1, *things).look(NodeVolumeLimits, mounts(a_pod(), "far")) == {}
    full = [*things, csi_node("n", {"csi.test": 1, "far.test": 0})]
    assert world(1, *full).look(NodeVolumeLimits, mounts(a_pod(), "far")) == FULL


def test_nodes_without_csi_node_take_all() -> None:
    """Nobody says what they can take."""
    things = [bound("new", "v"), csi_volume("v")]
    assert StorageWorld([a_node("n")], things).look(NodeVolumeLimits, mounts(a_pod(), "new")) == {}


@pytest.mark.parametrize(
    ("attached", "fits"),
    [
        ([attachment("a", "n", "v-older")], False), ([attachment("a", "n", "v-old")], True),
        ([attachment("a", "m", "v-older")], True), ([attachment("a", "n", "v-older", "far.test")], True),
        ([attachment("a", "n", "gone")], True), ([attachment("a", "n", "v-older", "")], True),
    ],
)  # fmt: skip
def test_attachments_count(attached: list[Any], *, fits: bool) -> None:
    """A volume that is still attached takes room, once, whether a pod uses it or not."""
    assert world(2, *attached).look(NodeVolumeLimits, mounts(a_pod(), "new")) == ({} if fits else FULL)


@pytest.mark.parametrize(
    ("pending", "fits"),
    [
        (claim("p"), False),
        (claim("p", volumeName="gone"), False),
        (claim("p", storageClassName="none"), True),
        (claim("p", storageClassName=None), True),
    ],
)
def test_volumes_to_be_made_count_for_the_driver_of_their_class(pending: Any, *, fits: bool) -> None:
    """So do those whose volume is not known; without a class nothing can be said."""
    assert world(1, pending).look(NodeVolumeLimits, mounts(a_pod(), "p")) == ({} if fits else FULL)
    assert world(1, pending, used=("p",)).look(NodeVolumeLimits, mounts(a_pod(), "new")) == ({} if fits else FULL)


def test_a_missing_claim_of_the_pod_cannot_be_cured_by_evictions() -> None:
    """Missing claims of others do not count."""
    text = 'looking up PVC default/gone: persistentvolumeclaim "gone" not found'
    refused = {"n": (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, [text])}
    assert world(1).look(NodeVolumeLimits, mounts(a_pod(), "gone")) == refused
    assert world(1, used=("gone",)).look(NodeVolumeLimits, mounts(a_pod(), "new")) == {}


def ephemeral(owner: str) -> Any:
    """Return the claim of the ephemeral volume v0 of the pod `pod`."""
    return claim("pod-v0", meta={"ownerReferences": [{"uid": owner, "controller": True}]})


def test_ephemeral_volumes_count() -> None:
    """Their claims must have been made for the pod."""
    pod = with_volumes(a_pod("pod"), {"ephemeral": {}})
    assert world(1, ephemeral("uid-pod")).look(NodeVolumeLimits, pod) == FULL
    assert world(2, ephemeral("uid-pod")).look(NodeVolumeLimits, pod) == {}
    text = "PVC default/pod-v0 was not created for pod default/pod (pod is not owner)"
    assert world(2, ephemeral("uid-other")).look(NodeVolumeLimits, pod) == {"n": (Code.ERROR, [text])}


@pytest.mark.parametrize(
    ("source", "fits"),
    [
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, False),
        ({"awsElasticBlockStore": {"volumeID": "aws://zone/vol-1"}}, False),
        ({"gcePersistentDisk": {"pdName": "d"}}, True),
        ({"azureFile": {"shareName": "s"}}, True),
    ],
)
def test_disks_that_pods_name_themselves_count_for_their_drivers(source: dict[str, Any], *, fits: bool) -> None:
    """Azure's files and vSphere's disks are looked at and never counted."""
    made = world(1, by=EBS)
    assert made.look(NodeVolumeLimits, with_volumes(a_pod(), source)) == ({} if fits else FULL)


def test_in_tree_volumes_count_for_their_drivers() -> None:
    """Bound ones, and those of a class that an in-tree plugin serves."""
    old = [bound("disk", "pv"), volume("pv", awsElasticBlockStore={"volumeID": "vol-1"})]
    assert world(1, *old, by=EBS).look(NodeVolumeLimits, mounts(a_pod(), "disk")) == FULL
    late = [claim("late", storageClassName="old"), storage_class("old", "kubernetes.io/aws-ebs")]
    assert world(1, *late, by=EBS).look(NodeVolumeLimits, mounts(a_pod(), "late")) == FULL
    files = [claim("late", storageClassName="old"), storage_class("old", "kubernetes.io/azure-file")]
    assert world(1, *files, by="file.csi.azure.com").look(NodeVolumeLimits, mounts(a_pod(), "late")) == {}


@pytest.mark.parametrize(
    ("known", "drivers", "fits"),
    [
        (driver(preventPodSchedulingIfMissing=True), {"far.test": 9}, False),
        (driver(preventPodSchedulingIfMissing=True), {"csi.test": None}, True),
        (driver(preventPodSchedulingIfMissing=False), {"far.test": 9}, True),
        (driver("far.test", preventPodSchedulingIfMissing=True), {}, True),
    ],
)
def test_a_driver_may_demand_to_be_on_the_node(known: Any, drivers: dict[str, Any], *, fits: bool) -> None:
    """Then nodes without it are refused."""
    things = [bound("c", "v"), csi_volume("v"), known]
    refused = {"n": (Code.UNSCHEDULABLE, ["csi.test CSI driver is not installed on the node"])}
    with_node = StorageWorld([a_node("n")], [*things, csi_node("n", drivers)])
    assert with_node.look(NodeVolumeLimits, mounts(a_pod(), "c")) == ({} if fits else refused)
    if not fits:
        assert StorageWorld([a_node("n")], things).look(NodeVolumeLimits, mounts(a_pod(), "c")) == refused


def test_pods_without_attachable_volumes_are_left_alone() -> None:
    """Also those with disks that no CSI driver serves."""
    made = world(1)
    for pod in (a_pod(), with_volumes(a_pod(), {"emptyDir": {}}, {"rbd": {"image": "i"}}, {"iscsi": {"iqn": "q"}})):
        assert skips(made.look(NodeVolumeLimits, pod))


def test_what_is_remembered_of_claims_follows_the_objects() -> None:
    """A claim that gets its volume is the volume that is attached already."""
    made = world(1, claim("late"))
    plugin, pod = made.make(NodeVolumeLimits), mounts(a_pod(), "late").build()
    assert plugin.filter_all(None, pod, made.snapshot.nodes).codes().tolist() == [Code.UNSCHEDULABLE]
    made.put(bound("late", "v-old"))
    assert plugin.filter_all(None, pod, made.snapshot.nodes).codes().tolist() == [Code.SUCCESS]
