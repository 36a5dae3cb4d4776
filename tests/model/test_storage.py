"""Storage objects as views: what is read, what counts instead of nonsense, and in-tree volumes as their drivers'."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import storage as views
from scheduler.model import storage_api as wire
from scheduler.model.csi_migration import MigrationError, handle_of, is_migratable, migrated
from scheduler.model.pod_claims import claim_uses, not_owned
from scheduler.model.storage import InTreeSource, NodeTest, Reach, in_tree_of
from tests.builders import a_pod
from tests.plugins.storage_world import BIND_COMPLETED, GI, capacity, claim, csi_node, driver, storage_class, volume

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, OLD_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"


def test_a_claim_says_what_it_asks_and_how_far_its_binding_is() -> None:
    """Sizes are bytes; bound means a volume and the annotation; the old class annotation counts first."""
    made = claim("c", meta={"annotations": {views.CLASS_ANNOTATION: "old", views.SELECTED_NODE_ANNOTATION: "n"}})
    assert (made.key, made.class_name, made.selected_node, made.requested_bytes) == (
        ("default", "c"),
        "old",
        "n",
        10 * GI,
    )
    assert claim("c", storageClassName=None).class_name == ""
    assert not claim("c", volumeName="v").is_bound
    assert claim("c", volumeName="v", meta={"annotations": BIND_COMPLETED}).is_bound
    owners = [{"uid": "a"}, {"uid": "b", "controller": True}, {"uid": "c", "controller": True}]
    assert claim("c", meta={"ownerReferences": owners}).controller_uid == "b"
    assert claim("c", size=None).requested_bytes is None


@pytest.mark.parametrize("quantity", ["lots", "", "1GiB"])
def test_impossible_quantities_count_as_zero(quantity: str) -> None:
    """The object stays usable, and says what is wrong."""
    made = claim("c", size=quantity), volume("v", size=quantity), capacity("x", quantity)
    assert (made[0].requested_bytes, made[1].capacity_bytes, made[2].capacity_bytes) == (0, 0, 0)
    assert [len(each.problems) for each in made] == [1, 1, 1]


def test_selectors_that_make_no_sense_match_nothing() -> None:
    """Absent is everything for a claim and nothing for a capacity."""
    bad = {"matchExpressions": [{"key": "k", "operator": "Near", "values": ["v"]}]}
    assert (claim("c").selector, claim("c", selector={}).selector, claim("c", selector=bad).selector) == ((), (), None)
    assert capacity("x", "1Gi", nodeTopology=None).topology is None
    assert capacity("x", "1Gi", nodeTopology=bad).topology is None
    assert capacity("x", "1Gi", nodeTopology={}).topology == ()


@pytest.mark.parametrize(
    ("size", "most", "limit"), [("1Gi", None, GI), ("1Gi", "2Gi", 2 * GI), (None, "2Gi", 2 * GI), (None, None, None)]
)
def test_the_largest_volume_counts_before_the_capacity(size: str | None, most: str | None, limit: int | None) -> None:
    """As in kube-scheduler's volumeLimit."""
    fields = {} if most is None else {"maximumVolumeSize": most}
    assert capacity("x", size, **fields).limit_bytes == limit


def test_classes_drivers_and_nodes() -> None:
    """What is not said is the API server's default."""
    topologies = [{"matchLabelExpressions": [{"key": "z", "values": ["a", "b"]}]}, {}]
    made = storage_class(allowedTopologies=topologies)
    assert made.waits
    assert made.allowed == Reach(((NodeTest("z", "In", ("a", "b")),),))
    assert views.storage_class_from_api(wire.ApiStorageClass()).binding_mode == "Immediate"
    assert (driver().has_storage_capacity, driver(storageCapacity=True).has_storage_capacity) == (False, True)
    assert driver(preventPodSchedulingIfMissing=True).is_needed_on_node
    node = csi_node("n", {"a": 3, "b": None}, migrated="x,y")
    assert (node.drivers, node.migrated_plugins) == ({"a": 3, "b": None}, {"x", "y"})
    assert csi_node("n", {}).migrated_plugins == frozenset()


@pytest.mark.parametrize(
    ("term", "labels", "covers"),
    [
        ({"matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}]}, {"z": "a"}, True),
        ({"matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}]}, {}, False),
        ({"matchExpressions": [{"key": "z", "operator": "NotIn", "values": ["a"]}]}, {}, True),
        ({"matchExpressions": [{"key": "z", "operator": "Gt", "values": ["3"]}]}, {"z": "4"}, True),
        ({"matchExpressions": [{"key": "z", "operator": "Gt", "values": ["3"]}]}, {"z": "3"}, False),
        # kube-scheduler compares volumes with a node that has labels and no name
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}, {}, True),
        ({}, {}, False),
    ],
)
def test_reach_of_a_volume(term: dict[str, Any], labels: dict[str, str], *, covers: bool) -> None:
    """Terms are alternatives; an empty one covers nothing."""
    reach = volume("v", nodeAffinity={"required": {"nodeSelectorTerms": [term]}}).reach
    assert reach is not None
    assert reach.covers(labels) is covers


def test_a_volume_is_for_the_claim_that_it_names() -> None:
    """Without a uid a person has named it."""
    mine = claim("c")
    reference = {"namespace": "default", "name": "c"}
    assert not volume("v").is_for(mine)
    assert volume("v", claimRef=reference).is_for(mine)
    assert volume("v", claimRef=reference | {"uid": "uid-c"}).is_for(mine)
    assert not volume("v", claimRef=reference | {"uid": "other"}).is_for(mine)
    assert not volume("v", claimRef=reference | {"namespace": "other"}).is_for(mine)


def test_claims_of_a_pod() -> None:
    """Ephemeral volumes have claims named after pod and volume; other volumes are left out."""
    listed = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "x"}},
        {"name": "b", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "c", "emptyDir": {}},
        {"name": "d", "rbd": {"image": "i", "monitors": ["m"]}},
    ]
    pod = a_pod("p").patch_spec(volumes=listed).build()
    assert claim_uses(pod) == [("x", False), ("p-b", True)]
    assert [volume.name for volume in pod.volumes] == ["a", "b", "d"]
    assert not_owned(pod, claim("p-b", meta={"ownerReferences": [{"uid": "uid-p", "controller": True}]})) == ""
    text = "PVC default/p-b was not created for pod default/p (pod is not owner)"
    assert not_owned(pod, claim("p-b", meta={"ownerReferences": [{"uid": "uid-p"}]})) == text


@pytest.mark.parametrize(
    ("source", "is_disk"),
    [
        ({"gcePersistentDisk": {"pdName": "d"}}, True), ({"awsElasticBlockStore": {"volumeID": "v"}}, True),
        ({"azureDisk": {"diskURI": "u"}}, True), ({"cinder": {"volumeID": "v"}}, True),
        ({"portworxVolume": {"volumeID": "v"}}, True), ({"azureFile": {"shareName": "s"}}, False),
        ({"vsphereVolume": {"volumePath": "p"}}, False),
    ],
)  # fmt: skip
def test_in_tree_volumes_of_a_pod(source: dict[str, Any], *, is_disk: bool) -> None:
    """All are migratable; those that no limit counts are no disks."""
    pod = a_pod().patch_spec(volumes=[{"name": "v"} | source]).build()
    assert is_migratable(pod.volumes[0])
    assert (in_tree_of(pod.volumes[0]) is not None) is is_disk


@pytest.mark.parametrize(
    ("text", "handle"),
    [("vol-02399794d890f9375", None), ("aws:///vol-02399794d890f9375", "vol-02399794d890f9375"),
     ("aws://us-west-2a/vol-02399794d890f9375", "vol-02399794d890f9375"), ("odd", None)],
)  # fmt: skip
def test_handles_of_amazon(text: str, handle: str | None) -> None:
    """The table of csi-translation-lib."""
    assert handle_of(InTreeSource("kubernetes.io/aws-ebs", text)) == (handle or text)


@pytest.mark.parametrize(
    ("source", "zones"),
    [
        (InTreeSource("kubernetes.io/aws-ebs", "aws://us-west-2a/bad"), ""),
        (InTreeSource("kubernetes.io/azure-disk", "u", "Shared"), ""),
        (InTreeSource("kubernetes.io/gce-pd", "d"), "us-east1-a__us-west2-b"),
        (InTreeSource("kubernetes.io/gce-pd", "d"), "a__b"),
    ],
)
def test_disks_that_no_driver_serves(source: InTreeSource, zones: str) -> None:
    """They cannot be translated."""
    with pytest.raises(MigrationError):
        handle_of(source, zones)


@pytest.mark.parametrize(
    ("zones", "place"),
    [("", "zones/UNSPECIFIED"), ("us-east1-a", "zones/us-east1-a"), ("us-east1-a__us-east1-c", "regions/us-east1")],
)
def test_handles_of_google(zones: str, place: str) -> None:
    """Disks of several zones are those of their region."""
    assert handle_of(InTreeSource("kubernetes.io/gce-pd", "d"), zones) == f"projects/UNSPECIFIED/{place}/disks/d"


def in_tree(labels: dict[str, str], tests: list[tuple[str, str]]) -> views.PersistentVolume:
    """Return a volume of Amazon's with labels and In requirements."""
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in tests]
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}} if tests else None
    return volume("v", meta={"labels": labels}, awsElasticBlockStore={"volumeID": "vol-1"}, nodeAffinity=affinity)


@pytest.mark.parametrize(
    ("labels", "tests", "translated"),
    [
        ({}, [], None),
        ({ZONE: "a"}, [], [(EBS_ZONE, ("a",))]),
        ({OLD_ZONE: "b__a"}, [], [(EBS_ZONE, ("a", "b"))]),
        ({}, [(ZONE, "a"), (REGION, "r")], [(EBS_ZONE, ("a",)), (REGION, ("r",))]),
        ({ZONE: "x"}, [(OLD_ZONE, "a"), (OLD_REGION, "r")], [(EBS_ZONE, ("a",)), (REGION, ("r",))]),
        ({ZONE: "a"}, [("disk", "ssd")], [("disk", ("ssd",)), (EBS_ZONE, ("a",))]),
        ({}, [("disk", "ssd")], [("disk", ("ssd",))]),
    ],
)
def test_zones_move_to_the_label_of_the_driver(
    labels: dict[str, str], tests: list[tuple[str, str]], translated: list[tuple[str, tuple[str, ...]]] | None
) -> None:
    """The affinity counts before the labels, which stand in where it names no zone; old regions get their new name."""
    moved = migrated(in_tree(labels, tests))
    assert (moved.driver, moved.handle, moved.in_tree) == ("ebs.csi.aws.com", "vol-1", None)
    expected = None if translated is None else Reach((tuple(NodeTest(k, "In", v) for k, v in translated),))
    assert moved.reach == expected


def test_labels_without_values_keep_their_names() -> None:
    """A test that names none is not translated."""
    tests = [{"key": OLD_ZONE, "operator": "In", "values": ["a"]}, {"key": OLD_REGION, "operator": "DoesNotExist"}]
    terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": tests}]}}
    moved = migrated(volume("v", awsElasticBlockStore={"volumeID": "v"}, nodeAffinity=terms))
    assert moved.reach == Reach(((NodeTest(EBS_ZONE, "In", ("a",)), NodeTest(OLD_REGION, "DoesNotExist")),))


def test_an_empty_term_gets_the_zone_too() -> None:
    """It matched nothing before; so does csi-translation-lib."""
    terms = {"required": {"nodeSelectorTerms": [{}]}}
    moved = migrated(
        volume("v", meta={"labels": {ZONE: "a"}}, awsElasticBlockStore={"volumeID": "v"}, nodeAffinity=terms)
    )
    assert moved.reach == Reach(((NodeTest(EBS_ZONE, "In", ("a",)),),))


def test_volumes_of_drivers_stay_as_they_are() -> None:
    """There is nothing to translate."""
    plain = volume("v", csi={"driver": "csi.test", "volumeHandle": "h"})
    assert migrated(plain) is plain
