"""VolumeRestrictions: disks and ReadWriteOncePod claims that cannot be shared."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import Code, Status
from scheduler.plugins.volume_restrictions import VolumeRestrictions
from tests.builders import a_node, a_pod

from .calling import skips
from .storage_world import StorageWorld, claim, mounts, with_volumes

NOT_NOW = Code.UNSCHEDULABLE
DISK = "node(s) had no available disk"
CLAIM = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
RWOP = {"accessModes": ["ReadWriteOncePod"]}


def gce(name: str, *, ro: bool = False) -> dict[str, Any]:
    """Return a disk of Google's."""
    return {"gcePersistentDisk": {"pdName": name, "readOnly": ro}}


def ebs(name: str, *, ro: bool = False) -> dict[str, Any]:
    """Return a disk of Amazon's."""
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": ro}}


def iscsi(name: str, *, ro: bool = False) -> dict[str, Any]:
    """Return a disk behind iSCSI."""
    return {"iscsi": {"iqn": name, "readOnly": ro}}


def rbd(image: str, *monitors: str, pool: str = "p", ro: bool = False) -> dict[str, Any]:
    """Return a Ceph image."""
    return {"rbd": {"monitors": list(monitors), "pool": pool, "image": image, "readOnly": ro}}


@pytest.mark.parametrize(
    ("mine", "theirs", "clashes"),
    [
        (gce("a"), gce("a"), True), (gce("a"), gce("b"), False), (gce("a", ro=True), gce("a", ro=True), False),
        (gce("a", ro=True), gce("a"), True), (ebs("a"), ebs("a"), True), (ebs("a"), ebs("b"), False),
        (ebs("a", ro=True), ebs("a", ro=True), True), (iscsi("a"), iscsi("a"), True), (iscsi("a"), iscsi("b"), False),
        (iscsi("a", ro=True), iscsi("a", ro=True), False), (iscsi("a", ro=True), iscsi("a"), True),
        (rbd("i", "a", "b"), rbd("i", "b", "c"), True), (rbd("i", "a"), rbd("i", "c"), False),
        (rbd("i", "a"), rbd("j", "a"), False), (rbd("i", "a"), rbd("i", "a", pool="q"), False),
        (rbd("i", "a", ro=True), rbd("i", "a", ro=True), False), (rbd("i", "a"), rbd("i", "a", ro=True), True),
        (gce("a"), ebs("a"), False),
    ],
)  # fmt: skip
def test_disks(mine: dict[str, Any], theirs: dict[str, Any], *, clashes: bool) -> None:
    """One disk serves one pod of a node, or several that only read; Amazon's only one."""
    world = StorageWorld([a_node("a"), a_node("b")], [], [with_volumes(a_pod("old"), theirs).on("a")])
    assert world.look(VolumeRestrictions, with_volumes(a_pod(), mine)) == ({"a": (NOT_NOW, [DISK])} if clashes else {})


def test_pods_without_such_volumes_are_left_alone() -> None:
    """Other volumes, ordinary claims and free exclusive claims."""
    world = StorageWorld([a_node("a")], [claim("c"), claim("x", **RWOP)], [mounts(a_pod("old"), "c").on("a")])
    for pod in (
        a_pod(),
        mounts(a_pod(), "c"),
        mounts(a_pod(), "x"),
        with_volumes(a_pod(), {"cinder": {"volumeID": "v"}}),
    ):
        assert skips(world.look(VolumeRestrictions, pod))


def test_an_exclusive_claim_serves_one_pod_of_the_cluster() -> None:
    """All nodes are refused while it is in use; pods of other namespaces use other claims."""
    users = [mounts(a_pod("old"), "x").on("a")]
    world = StorageWorld([a_node("a"), a_node("b")], [claim("x", **RWOP)], users)
    refused = {"a": (NOT_NOW, [CLAIM]), "b": (NOT_NOW, [CLAIM])}
    assert world.look(VolumeRestrictions, mounts(a_pod(), "x")) == refused
    elsewhere = [mounts(a_pod("old").namespace("other"), "x").on("a")]
    assert skips(
        StorageWorld([a_node("a")], [claim("x", **RWOP)], elsewhere).look(VolumeRestrictions, mounts(a_pod(), "x"))
    )


def test_a_disk_is_named_before_a_claim() -> None:
    """Where both are taken the disk is the reason."""
    old = with_volumes(a_pod("old"), gce("d"), {"persistentVolumeClaim": {"claimName": "x"}}).on("a")
    world = StorageWorld([a_node("a"), a_node("b")], [claim("x", **RWOP)], [old])
    pod = with_volumes(a_pod(), gce("d"), {"persistentVolumeClaim": {"claimName": "x"}})
    assert world.look(VolumeRestrictions, pod) == {"a": (NOT_NOW, [DISK]), "b": (NOT_NOW, [CLAIM])}


def test_evicting_the_user_frees_the_claim() -> None:
    """Filter sees the snapshot as it is, also where PreFilter had seen it otherwise."""
    world = StorageWorld([a_node("a"), a_node("b")], [claim("x", **RWOP)], [mounts(a_pod("old"), "x").on("a")])
    plugin, state, pod, snapshot = (
        world.make(VolumeRestrictions),
        CycleState(),
        mounts(a_pod(), "x").build(),
        world.snapshot,
    )
    assert plugin.pre_filter(state, pod, snapshot.nodes) is None
    assert not plugin.is_settled(state, pod, "filter")
    undo = snapshot.remove("uid-old", snapshot.row_of["a"])
    assert plugin.filter_all(state, pod, snapshot.nodes).rejections == []
    undo()
    assert len(plugin.filter_all(state, pod, snapshot.nodes).codes().nonzero()[0]) == len(snapshot.nodes)


def test_a_sibling_placed_meanwhile_takes_the_claim() -> None:
    """What-ifs count; members of a gang that are alike are asked about with the first of them, so it counts, too."""
    world = StorageWorld([a_node("a")], [claim("x", **RWOP)])
    plugin, state, pod, snapshot = (
        world.make(VolumeRestrictions),
        CycleState(),
        mounts(a_pod(), "x").build(),
        world.snapshot,
    )
    assert skips(plugin.pre_filter(state, pod, snapshot.nodes))
    undo = snapshot.place(mounts(a_pod("sibling"), "x").build(), 0)
    assert plugin.filter_all(state, pod, snapshot.nodes).codes().tolist() == [NOT_NOW]
    undo()
    assert plugin.filter_all(state, pod, snapshot.nodes).rejections == []
    snapshot.place(pod, 0)
    assert plugin.filter_all(state, pod, snapshot.nodes).codes().tolist() == [NOT_NOW]


def test_a_missing_claim_refuses_the_pod() -> None:
    """Its access modes are not known."""
    answer = StorageWorld([a_node("a")]).look(VolumeRestrictions, mounts(a_pod(), "c"))
    assert isinstance(answer, Status)
    assert (answer.code, answer.message) == (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE, 'persistentvolumeclaim "c" not found',
    )  # fmt: skip
