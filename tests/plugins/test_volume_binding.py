"""VolumeBinding at PreFilter, Filter and Score: which nodes can serve a pod's claims, and how well."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import Code, Status
from scheduler.plugins.volume_binding import VolumeBinding, VolumeBindingArgs
from tests.builders import a_node, a_pod

from .calling import skips
from .storage_world import (
    SELECTED_NODE,
    StorageWorld,
    bound,
    capacity,
    claim,
    csi_node,
    driver,
    mounts,
    storage_class,
    volume,
    with_volumes,
)

NEVER = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
REACH = "node(s) didn't match PersistentVolume's node affinity"
MATCH = "node(s) didn't find available persistent volumes to bind"
ROOM = "node(s) did not have enough free storage"
LOST = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
MANUAL = storage_class(provisioner="kubernetes.io/no-provisioner")
CAPACITY = driver(storageCapacity=True)


def world(*things: Any) -> StorageWorld:
    """Return the nodes `a` and `b` in zones of the same names, with storage."""
    return StorageWorld([a_node("a").label("zone", "a"), a_node("b").label("zone", "b")], things)


def refused(made: StorageWorld, *claims: str) -> dict[str, list[str]]:
    """Return the reasons of the nodes that are refused; all of them evictions cannot cure."""
    found = made.look(VolumeBinding, mounts(a_pod(), *claims))
    assert isinstance(found, dict)
    assert {code for code, _ in found.values()} <= {NEVER}
    return {name: reasons for name, (_, reasons) in found.items()}


def scored(made: StorageWorld, *claims: str, shape: list[dict[str, int]] | None = None) -> dict[str, int]:
    """Return the score of every node."""
    plugin = made.make(VolumeBinding, {"shape": shape} if shape else None)
    snapshot = made.snapshot
    raw = plugin.score_all(CycleState(), mounts(a_pod(), *claims).build(), snapshot.nodes)
    return dict(zip(snapshot.nodes.names, raw.tolist(), strict=True))


@pytest.mark.parametrize(
    ("things", "text"),
    [
        ([], 'persistentvolumeclaim "c" not found'),
        (
            [claim("c", volumeName="v", phase="Lost")],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        (
            [claim("c", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            'persistentvolumeclaim "c" is being deleted',
        ),
        ([claim("c"), storage_class(waits=False)], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("c")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("c", storageClassName=""), storage_class()], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("c", volumeName="v"), storage_class()], "pod has unbound immediate PersistentVolumeClaims"),
    ],
)
def test_claims_that_are_not_in_order(things: list[Any], text: str) -> None:
    """PreFilter refuses the pod as a whole; a missing class counts as an immediate one."""
    answer = world(*things).look(VolumeBinding, mounts(a_pod(), "c"))
    assert isinstance(answer, Status)
    assert (answer.code, answer.message) == (NEVER, text)


def test_pods_without_claims_are_left_alone() -> None:
    """They score 0 everywhere."""
    assert skips(world().look(VolumeBinding, a_pod()))
    assert skips(world().look(VolumeBinding, with_volumes(a_pod(), {"iscsi": {"iqn": "q"}})))
    assert scored(world()) == {"a": 0, "b": 0}


@pytest.mark.parametrize(
    ("owner", "text"),
    [
        (None, 'waiting for ephemeral volume controller to create the persistentvolumeclaim "pod-v0"'),
        ("uid-other", "PVC default/pod-v0 was not created for pod default/pod (pod is not owner)"),
    ],
)
def test_claims_of_ephemeral_volumes(owner: str | None, text: str) -> None:
    """They must be there and made for the pod."""
    things = [claim("pod-v0", meta={"ownerReferences": [{"uid": owner, "controller": True}]})] if owner else []
    answer = world(*things, storage_class()).look(VolumeBinding, with_volumes(a_pod("pod"), {"ephemeral": {}}))
    assert isinstance(answer, Status)
    assert (answer.code, answer.message) == (NEVER, text)


def test_bound_volumes_must_be_within_reach() -> None:
    """A volume that is gone refuses all nodes; the first claim in the way is the reason."""
    assert refused(world(bound("c", "v"), volume("v")), "c") == {}
    assert refused(world(bound("c", "v"), volume("v", on="a")), "c") == {"b": [REACH]}
    assert refused(world(bound("c", "v")), "c") == {"a": [LOST], "b": [LOST]}
    two = world(bound("c", "v"), volume("v", on="a"), bound("d", "w"))
    assert refused(two, "c", "d") == {"a": [LOST], "b": [REACH]}


def test_reasons_of_bound_and_waiting_claims_add_up() -> None:
    """As in kube-scheduler, in its order."""
    taken = volume("v", on="a", claimRef={"namespace": "default", "name": "c", "uid": "uid-c"})
    made = world(bound("c", "v"), taken, claim("d"), MANUAL)
    assert refused(made, "c", "d") == {"a": [MATCH], "b": [REACH, MATCH]}


def test_in_tree_volumes_are_judged_by_the_labels_of_their_driver() -> None:
    """On nodes that have moved to the driver; elsewhere by their own."""
    terms = [{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z"]}]}]
    disk = volume(
        "v", awsElasticBlockStore={"volumeID": "vol-1"}, nodeAffinity={"required": {"nodeSelectorTerms": terms}}
    )
    nodes = [
        a_node("plain").label("topology.kubernetes.io/zone", "z"),
        a_node("moved").label("topology.ebs.csi.aws.com/zone", "z"),
        a_node("behind").label("topology.kubernetes.io/zone", "z"),
    ]
    moved = [csi_node(name, {}, "kubernetes.io/aws-ebs") for name in ("moved", "behind")]
    made = StorageWorld(nodes, [bound("c", "v"), disk, *moved])
    assert refused(made, "c") == {"behind": [REACH]}
    broken = volume("v", awsElasticBlockStore={"volumeID": "aws://z/odd"})
    found = StorageWorld([a_node("moved"), a_node("plain")], [bound("c", "v"), broken, *moved]).look(
        VolumeBinding, mounts(a_pod(), "c")
    )
    assert isinstance(found, dict)
    assert {name: code for name, (code, _) in found.items()} == {"moved": Code.ERROR}


@pytest.mark.parametrize(
    ("fields", "fits"),
    [
        ({}, True), ({"size": "5Gi"}, False), ({"size": "10241Mi"}, True), ({"storageClassName": "slow"}, False),
        ({"phase": "Released"}, False), ({"accessModes": ["ReadOnlyMany"]}, False),
        ({"accessModes": ["ReadOnlyMany", "ReadWriteOnce"]}, True), ({"volumeMode": "Block"}, False),
        ({"volumeAttributesClassName": "gold"}, False), ({"meta": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, False),
        ({"claimRef": {"namespace": "default", "name": "other"}}, False),
        ({"claimRef": {"namespace": "default", "name": "c", "uid": "stale"}}, False),
        ({"claimRef": {"namespace": "default", "name": "c"}}, True),
        ({"claimRef": {"namespace": "default", "name": "c"}, "phase": "Pending", "accessModes": []}, True),
        ({"claimRef": {"namespace": "default", "name": "c"}, "size": "5Gi"}, False),
    ],
)  # fmt: skip
def test_which_volumes_a_claim_can_get(fields: dict[str, Any], *, fits: bool) -> None:
    """One that is meant for it needs neither the phase nor the access modes."""
    expected = {} if fits else {"a": [MATCH], "b": [MATCH]}
    assert refused(world(claim("c"), MANUAL, volume("v", **fields)), "c") == expected


@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        ({"matchLabels": {"k": "v"}}, True), ({"matchLabels": {"k": "w"}}, False), ({}, True),
        ({"matchExpressions": [{"key": "k", "operator": "DoesNotExist"}]}, False),
    ],
)  # fmt: skip
def test_a_claim_may_select_its_volume(selector: dict[str, Any], *, fits: bool) -> None:
    """By labels."""
    made = world(claim("c", selector=selector), MANUAL, volume("v", meta={"labels": {"k": "v"}}))
    assert refused(made, "c") == ({} if fits else {"a": [MATCH], "b": [MATCH]})


def test_a_volume_serves_one_claim_of_a_pod() -> None:
    """The smallest claim chooses first, and takes the smallest that fits."""
    things = [claim("big", size="20Gi"), claim("small", size="5Gi"), MANUAL]
    enough = [volume("v", size="20Gi", on="a"), volume("w", size="6Gi", on="a"), volume("x", size="20Gi", on="b")]
    assert refused(world(*things, *enough), "big", "small") == {"b": [MATCH]}
    assert refused(world(*things, volume("v", size="20Gi")), "big", "small") == {"a": [MATCH], "b": [MATCH]}


def test_a_volume_that_is_meant_for_the_claim_is_the_only_one() -> None:
    """Where it cannot be used nothing else is taken, but one can be made."""
    mine = volume("v", on="a", claimRef={"namespace": "default", "name": "c"})
    assert refused(world(claim("c"), MANUAL, mine, volume("w")), "c") == {"b": [MATCH]}
    assert refused(world(claim("c"), storage_class(), mine), "c") == {}


def test_a_chosen_node_is_the_only_one() -> None:
    """Somebody has asked for the volume to be made there."""
    chosen = claim("c", meta={"annotations": {SELECTED_NODE: "b"}})
    assert refused(world(chosen, storage_class(), volume("v")), "c") == {"a": [MATCH]}
    assert refused(world(chosen, claim("d"), storage_class()), "c", "d") == {"a": [MATCH]}


def test_volumes_are_made_where_the_class_allows() -> None:
    """Terms are alternatives; an empty one allows nothing."""

    def allowed(*terms: list[dict[str, Any]]) -> dict[str, list[str]]:
        topologies = [{"matchLabelExpressions": term} for term in terms]
        return refused(world(claim("c"), storage_class(allowedTopologies=topologies)), "c")

    zone_a, zone_b = {"key": "zone", "values": ["a"]}, {"key": "zone", "values": ["b", "c"]}
    assert allowed([zone_a]) == {"b": [MATCH]}
    assert allowed([zone_a], [zone_b]) == {}
    assert allowed([zone_a, zone_b]) == {"a": [MATCH], "b": [MATCH]}
    assert allowed([]) == {"a": [MATCH], "b": [MATCH]}


@pytest.mark.parametrize(
    ("rooms", "known", "full"),
    [
        ([], CAPACITY, ["a", "b"]),
        ([], driver(), []),
        ([], driver("other", storageCapacity=True), []),
        ([capacity("x", "10Gi")], CAPACITY, []),
        ([capacity("x", "9Gi")], CAPACITY, ["a", "b"]),
        ([capacity("x", "10Gi", "slow")], CAPACITY, ["a", "b"]),
        ([capacity("x", "10Gi", nodeTopology={"matchLabels": {"zone": "a"}})], CAPACITY, ["b"]),
        ([capacity("x", "10Gi", nodeTopology=None)], CAPACITY, ["a", "b"]),
        ([capacity("x", "100Gi", maximumVolumeSize="9Gi")], CAPACITY, ["a", "b"]),
        ([capacity("x", None, maximumVolumeSize="10Gi")], CAPACITY, []),
        ([capacity("x", None)], CAPACITY, ["a", "b"]),
        ([capacity("x", "1Gi"), capacity("y", "10Gi")], CAPACITY, []),
    ],
)
def test_volumes_are_made_where_there_is_room(rooms: list[Any], known: Any, full: list[str]) -> None:
    """If the driver says how much there is; the largest volume counts before the capacity."""
    made = world(claim("c"), storage_class(), known, *rooms)
    assert refused(made, "c") == {name: [ROOM] for name in full}


def test_a_claim_without_a_size_needs_no_room() -> None:
    """There is nothing to compare."""
    assert refused(world(claim("c", size=None), storage_class(), CAPACITY), "c") == {}


def test_filter_of_some_nodes_equals_filter_of_all() -> None:
    """Rows keep their verdicts in any selection."""
    made = world(claim("c"), MANUAL, volume("v", zone="b"))
    plugin, pod, nodes = made.make(VolumeBinding), mounts(a_pod(), "c").build(), made.snapshot.nodes
    some = nodes.select(nodes.rows[::-1])
    assert plugin.filter_all(CycleState(), pod, some).codes().tolist() == [Code.SUCCESS, NEVER]


def test_volumes_that_are_there_score_by_how_full_they_get() -> None:
    """10 of 50 and of 100 are 20 and 10 percent: 80 and 90; the sizes of one class add up."""
    one = [claim("c"), MANUAL, volume("v", size="50Gi", on="a"), volume("w", size="100Gi", on="b")]
    assert scored(world(*one), "c") == {"a": 80, "b": 90}
    more = [claim("d", size="50Gi"), volume("x", size="50Gi", on="a"), volume("y", size="100Gi", on="b")]
    assert scored(world(*one, *more), "c", "d") == {"a": 40, "b": 70}


def test_classes_count_alike() -> None:
    """80 and 50 are 65; a volume to be made counts only where none is there."""
    slow = [claim("d", storageClassName="slow"), storage_class("slow", "kubernetes.io/no-provisioner")]
    disks = [volume("v", size="50Gi"), volume("w", size="20Gi", storageClassName="slow")]
    assert scored(world(claim("c"), MANUAL, *slow, *disks), "c", "d") == {"a": 65, "b": 65}
    late = [claim("e", storageClassName="late"), storage_class("late"), CAPACITY, capacity("x", "1000Gi", "late")]
    made = world(claim("c"), storage_class(provisioner="other"), volume("v", size="50Gi", on="a"), *late)
    assert scored(made, "c", "e") == {"a": 80, "b": 99}


def test_volumes_to_be_made_share_the_room_of_their_class() -> None:
    """10 and 40 of 100 are 50; without a word about room there is no score."""
    claims = [claim("c"), claim("d", size="40Gi"), storage_class()]
    rooms = [capacity("x", "100Gi", nodeTopology={"matchLabels": {"zone": "a"}}), capacity("y", "200Gi")]
    assert scored(world(*claims, CAPACITY, *rooms), "c", "d") == {"a": 50, "b": 75}
    assert scored(world(*claims), "c", "d") == {"a": 0, "b": 0}


SHAPE = [{"utilization": 50, "score": 0}, {"utilization": 80, "score": 3}, {"utilization": 100, "score": 5}]


@pytest.mark.parametrize(("size", "score"), [("10Gi", 0), ("50Gi", 0), ("60Gi", 10), ("90Gi", 40), ("100Gi", 50)])
def test_a_shape_says_how_full_storage_is_liked(size: str, score: int) -> None:
    """The points of kube-scheduler's own table."""
    made = world(claim("c", size=size), storage_class(), CAPACITY, capacity("x", "100Gi"))
    assert scored(made, "c", shape=SHAPE) == {"a": score, "b": score}


def test_arguments() -> None:
    """Defaults are kube-scheduler's; an empty shape is the default one."""
    args = VolumeBindingArgs.model_validate({"shape": []})
    assert args == VolumeBindingArgs()
    assert args.bind_timeout_seconds == 600
    with pytest.raises(ValidationError, match="rise"):
        VolumeBindingArgs.model_validate({"shape": SHAPE[::-1]})
    with pytest.raises(ValidationError):
        VolumeBindingArgs.model_validate({"bindTimeoutSeconds": -1})
