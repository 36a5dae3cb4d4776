"""Themes of VolumeBinding and VolumeZone: claims bound, to be bound when a pod needs them, or broken."""

from .storage import (
    BIND_COMPLETED,
    DRIVER,
    NO_PROVISIONER,
    SELECTED_NODE,
    add_volume,
    claim,
    csi_driver,
    mount,
    reference,
    storage_class,
    tie,
    volume,
    volume_affinity,
)
from .world import REGION, ZONE, Object, World

SIZES = ("6Gi", "9Gi", "10Gi", "11Gi", "12Gi", "43Gi", "44Gi", "97Gi", "98Gi", "201Gi", "202Gi")
MODES = (("ReadWriteOnce",), ("ReadWriteOnce",), ("ReadOnlyMany",), ("ReadWriteMany", "ReadWriteOnce"))


def volumes_bound(world: World) -> None:
    """Lets the pod use claims that are bound to volumes of limited reach."""
    storage_class(world, "fast", mode=world.pick(("Immediate", "WaitForFirstConsumer")))
    for index in range(world.number(1, 2)):
        tie(claim(world, f"data{index}"), volume(world, f"pv{index}", affinity=volume_affinity(world)))
        mount(world.pending, f"data{index}")


def volumes_late(world: World) -> None:
    """Lets the pod wait with one to three claims for static volumes of many sizes, modes, classes and labels."""
    provisioner = NO_PROVISIONER if world.maybe(0.8) else DRIVER
    storage_class(world, "fast", provisioner)
    claims = []
    for index in range(world.pick((1, 1, 2, 3))):
        made = claim(world, f"late{index}", size=world.pick(("5Gi", "10Gi", "40Gi")), modes=world.pick(MODES))
        if world.maybe(0.15):
            made["spec"]["selector"] = world.pick(
                (
                    {"matchLabels": {"speed": "high"}},
                    {"matchExpressions": [{"key": "speed", "operator": "NotIn", "values": ["high"]}]},
                    {},
                )
            )
        if world.maybe(0.12):
            made["spec"]["volumeMode"] = "Block"
        if world.maybe(0.1):
            made["metadata"]["annotations"] = {SELECTED_NODE: world.pick(world.node_names)}
        claims.append(made)
        mount(world.pending, f"late{index}")
    referred: set[str] = set()
    for index, size in enumerate(world.some(SIZES, 2, 9)):
        _free_volume(world, f"free{index}", size, world.pick(claims), referred)


def _free_volume(world: World, name: str, size: str, wanted: Object, referred: set[str]) -> None:
    """Adds a volume that fits a claim, but for some odd property now and then.

    No two volumes are of one size or belong to one claim (`referred` collects these), since upstream takes the first of
    such a pair in map order.
    """
    made = volume(
        world,
        name,
        size=size,
        modes=tuple(wanted["spec"]["accessModes"]) if world.maybe(0.75) else world.pick(MODES),
        storage_class_name=world.pick(("fast", "fast", "fast", "fast", "fast", "slow", None)),
        labels=world.pick(({"speed": "high"}, {"speed": "low"}, None)),
        affinity=volume_affinity(world),
    )
    if wanted["spec"]["volumeMode"] == "Block" and world.maybe(0.7):
        made["spec"]["volumeMode"] = "Block"
    odd = world.rng.random()
    if odd < 0.08:
        made["status"]["phase"] = world.pick(("Pending", "Released", "Failed"))
    elif odd < 0.12:
        made["metadata"] |= {
            "deletionTimestamp": "2026-02-01T00:00:00Z",
            "deletionGracePeriodSeconds": 0,
            "finalizers": ["kubernetes.io/pv-protection"],
        }
    elif odd < 0.28:
        is_referred = wanted["metadata"]["name"] in referred
        made["spec"]["claimRef"] = _claim_reference(world, wanted, is_referred=is_referred)
        referred.add(wanted["metadata"]["name"])


def _claim_reference(world: World, wanted: Object, *, is_referred: bool) -> Object:
    """Draws a reference to the claim itself, with or without uid, or to another one."""
    full = reference(wanted)
    other = {**full, "name": "other", "uid": "00000000-0000-4000-8000-999999999999"}
    stale = {**full, "uid": "00000000-0000-4000-8000-999999999998"}
    unsure = {key: value for key, value in full.items() if key != "uid"}
    return world.pick((stale, other)) if is_referred else world.pick((full, unsure, unsure, stale, other))


def volumes_dynamic(world: World) -> None:
    """Lets the pod wait with claims for volumes to be provisioned, where topology and capacity allow."""
    fields: Object = {}
    if world.maybe(0.5):
        fields["allowedTopologies"] = _topologies(world)
    storage_class(world, "fast", **fields)
    if world.maybe(0.85):
        csi_driver(world, capacity=world.maybe(0.85))
    for index in range(world.pick((1, 1, 2))):
        made = claim(world, f"late{index}", size=world.pick(("5Gi", "10Gi", "40Gi")))
        if world.maybe(0.12):
            made["metadata"]["annotations"] = {SELECTED_NODE: world.pick(world.node_names)}
        mount(world.pending, f"late{index}")
    if world.maybe(0.6):
        for index, zone in enumerate(world.some(("z0", "z1", "z2"))):
            _capacity(world, f"cap{index}", {"matchLabels": {ZONE: zone}}, _space(world))
    else:
        space = _space(world)
        for index in range(world.number(0, 4)):
            _capacity(world, f"cap{index}", world.pick(OVERLAPPING), space)
    if world.maybe(0.25):
        volume(world, "static", size=world.pick(("12Gi", "50Gi")), affinity=volume_affinity(world))


def _topologies(world: World) -> list[Object]:
    expressions = [{"key": ZONE, "values": world.some(("z0", "z1", "z2"), 1, 2)}]
    if world.maybe(0.4):
        expressions.append({"key": REGION, "values": ["r0"]})
    topologies: list[Object] = [{"matchLabelExpressions": expressions}]
    if world.maybe(0.3):
        topologies.append({"matchLabelExpressions": [{"key": "disk", "values": ["ssd", "nvme"]}]})
    return topologies


OVERLAPPING: tuple[Object | None, ...] = (
    {"matchLabels": {ZONE: "z0"}},
    {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z0", "z1"]}]},
    {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd", "hdd"]}]},
    {},
    None,
)
"""Topologies that share nodes: their capacities are all equal, since upstream takes the first in map order."""


def _space(world: World) -> str | None:
    return None if world.maybe(0.08) else world.pick(("1000Gi", "100Gi", "30Gi", "8Gi", "0"))


def _capacity(world: World, name: str, reach: Object | None, space: str | None) -> None:
    fields: Object = {"storageClassName": world.pick(("fast", "fast", "fast", "slow"))}
    if reach is not None:
        fields["nodeTopology"] = reach
    if space is not None:
        fields["capacity"] = space
    if world.maybe(0.25):
        fields["maximumVolumeSize"] = world.pick(("8Gi", "20Gi", "500Gi"))
    world.add("storage.k8s.io/v1", "CSIStorageCapacity", name, "default", **fields)


def volume_scores(world: World) -> None:
    """Lets the space that would be left decide between nodes, at times by a shape of the configuration."""
    csi_driver(world, capacity=True)
    if world.maybe(0.5):
        storage_class(world, "fast")
        for index, zone in enumerate(("z0", "z1", "z2")):
            reach = {"matchLabels": {ZONE: zone}}
            capacity = world.pick(("20Gi", "100Gi", "333Gi", "45Gi"))
            fields: Object = {"storageClassName": "fast", "nodeTopology": reach, "capacity": capacity}
            world.add("storage.k8s.io/v1", "CSIStorageCapacity", f"cap{index}", "default", **fields)
    else:
        storage_class(world, "fast", NO_PROVISIONER)
        for index, name in enumerate(world.node_names):
            terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}]
            for spare, size in enumerate(world.some(("10Gi", "12Gi", "43Gi", "97Gi"), 1, 2)):
                volume(world, f"own{index}-{spare}", size=size, affinity={"nodeSelectorTerms": terms})
    for index in range(world.pick((1, 1, 2))):
        claim(world, f"late{index}", size=world.pick(("3Gi", "7Gi", "10Gi")))
        mount(world.pending, f"late{index}")
    if world.maybe(0.3):
        shape = [{"utilization": 0, "score": world.number(0, 4)}, {"utilization": 100, "score": world.number(5, 10)}]
        if world.maybe(0.4):
            shape.insert(1, {"utilization": 40, "score": world.number(0, 10)})
        world.configure("VolumeBinding", shape=shape)


def volumes_broken(world: World) -> None:
    """Lets the pod use a claim of which something is missing, contradictory or on its way out."""
    world.pick(BREAKAGES)(world)
    if world.maybe(0.3):
        storage_class(world, "good")
        tie(claim(world, "good", storage_class_name="good"), volume(world, "good", affinity=volume_affinity(world)))
        mount(world.pending, "good")


def _no_claim(world: World) -> None:
    mount(world.pending, "nowhere")


def _immediate(world: World) -> None:
    storage_class(world, "fast", mode="Immediate")
    claim(world, "data")
    mount(world.pending, "data")


def _no_class(world: World) -> None:
    claim(world, "data", storage_class_name=world.pick(("gone", "", None)))
    mount(world.pending, "data")


def _no_volume(world: World) -> None:
    storage_class(world, "fast")
    claim(world, "data", volumeName="gone", annotations=dict(BIND_COMPLETED))["status"]["phase"] = "Bound"
    mount(world.pending, "data")


def _lost(world: World) -> None:
    storage_class(world, "fast")
    claim(world, "data", volumeName="gone", annotations=dict(BIND_COMPLETED))["status"]["phase"] = "Lost"
    mount(world.pending, "data")


def _deleting(world: World) -> None:
    storage_class(world, "fast")
    made = claim(world, "data")
    tie(made, volume(world, "pv", affinity=volume_affinity(world)))
    made["metadata"] |= {
        "deletionTimestamp": "2026-02-01T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
        "finalizers": ["kubernetes.io/pvc-protection"],
    }
    mount(world.pending, "data")


def _half_bound(world: World) -> None:
    """Names a volume without the annotation that completes the binding, or a volume that belongs to another claim."""
    storage_class(world, "fast")
    made = claim(world, "data")
    other = claim(world, "other")
    bound = volume(world, "pv", affinity=volume_affinity(world))
    tie(made, bound)
    if world.maybe(0.5):
        del made["metadata"]["annotations"]
    if world.maybe(0.5):
        bound["spec"]["claimRef"] = reference(other)
    mount(world.pending, "data")


BREAKAGES = (_no_claim, _immediate, _no_class, _no_volume, _lost, _deleting, _half_bound, _half_bound)


def ephemeral(world: World) -> None:
    """Gives the pod generic ephemeral volumes, whose claims are its own, another's, late or missing."""
    storage_class(world, "fast", mode=world.pick(("WaitForFirstConsumer", "Immediate")))
    for index in range(world.number(1, 2)):
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}},
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
        }
        add_volume(world.pending, {"ephemeral": {"volumeClaimTemplate": {"metadata": {}, "spec": spec}}})
        name = world.spec["volumes"][-1]["name"]
        if world.maybe(0.06):
            continue
        made = claim(world, f"pending-{name}")
        if world.maybe(0.92):
            metadata = world.pending["metadata"]
            uid = metadata["uid"] if world.maybe(0.93) else world.uid()
            made["metadata"]["ownerReferences"] = [
                {
                    "apiVersion": "v1",
                    "blockOwnerDeletion": True,
                    "controller": True,
                    "kind": "Pod",
                    "name": metadata["name"],
                    "uid": uid,
                }
            ]
        if world.maybe(0.75):
            tie(made, volume(world, f"scratch{index}", affinity=volume_affinity(world)))


def volume_zone(world: World) -> None:
    """Lets the pod use volumes with zone and region labels, old and new, of one place or several."""
    storage_class(world, "fast")
    zones = ("z0", "z1", "z2", "z0__z1", "z1__z2", "z9")
    for index in range(world.number(1, 2)):
        labels: dict[str, str] = {}
        if world.maybe(0.85):
            labels[world.pick((ZONE, ZONE, "failure-domain.beta.kubernetes.io/zone"))] = world.pick(zones)
        if world.maybe(0.4) or not labels:
            labels[world.pick((REGION, "failure-domain.beta.kubernetes.io/region"))] = world.pick(
                ("r0", "r1", "r0__r1")
            )
        if world.maybe(0.85):
            tie(claim(world, f"data{index}"), volume(world, f"pv{index}", labels=labels))
        else:
            claim(world, f"data{index}")
        mount(world.pending, f"data{index}")
    for one in world.nodes:
        node_labels = one["metadata"]["labels"]
        for key, old in ((ZONE, "zone"), (REGION, "region")):
            if key in node_labels and world.maybe(0.15):
                node_labels[f"failure-domain.beta.kubernetes.io/{old}"] = node_labels[key]
                if world.maybe(0.5):
                    del node_labels[key]
