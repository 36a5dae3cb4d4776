"""Classes, claims, volumes and drivers as building blocks of the volume themes."""

from typing import Any

from .world import HOSTNAME, ZONE, Object, World

DRIVER = "csi.example.test"
OTHER_DRIVER = "other.example.test"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
BIND_COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED_NODE = "volume.kubernetes.io/selected-node"


def storage_class(
    world: World, name: str, provisioner: str = DRIVER, mode: str = "WaitForFirstConsumer", **fields: Any
) -> Object:
    """Adds a storage class, or returns the one of that name."""
    return world.find("StorageClass", name) or world.add(
        "storage.k8s.io/v1",
        "StorageClass",
        name,
        provisioner=provisioner,
        reclaimPolicy="Delete",
        volumeBindingMode=mode,
        **fields,
    )


def csi_driver(world: World, name: str = DRIVER, *, capacity: bool = False, prevent: bool = False) -> Object:
    """Adds a CSI driver, or returns the one of that name."""
    return world.find("CSIDriver", name) or world.add(
        "storage.k8s.io/v1",
        "CSIDriver",
        name,
        spec={
            "attachRequired": True,
            "fsGroupPolicy": "ReadWriteOnceWithFSType",
            "podInfoOnMount": False,
            "preventPodSchedulingIfMissing": prevent,
            "requiresRepublish": False,
            "seLinuxMount": False,
            "storageCapacity": capacity,
            "volumeLifecycleModes": ["Persistent"],
        },
    )


def claim(
    world: World,
    name: str,
    *,
    namespace: str | None = None,
    storage_class_name: str | None = "fast",
    size: str = "10Gi",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    """Adds an unbound claim."""
    body: Object = {
        "accessModes": list(modes),
        "resources": {"requests": {"storage": size}},
        "volumeMode": "Filesystem",
        **spec,
    }
    if storage_class_name is not None:
        body["storageClassName"] = storage_class_name
    kind = "PersistentVolumeClaim"
    place = namespace or world.namespace
    return world.add("v1", kind, name, place, annotations=annotations, spec=body, status={"phase": "Pending"})


def volume(
    world: World,
    name: str,
    *,
    size: str = "10Gi",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    storage_class_name: str | None = "fast",
    labels: dict[str, str] | None = None,
    affinity: Object | None = None,
    source: Object | None = None,
    **spec: Any,
) -> Object:
    """Adds an available volume."""
    body: Object = {
        "accessModes": list(modes),
        "capacity": {"storage": size},
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Filesystem",
        **(source or {"csi": {"driver": DRIVER, "volumeHandle": f"h-{name}"}}),
        **spec,
    }
    if storage_class_name:
        body["storageClassName"] = storage_class_name
    if affinity:
        body["nodeAffinity"] = {"required": affinity}
    return world.add("v1", "PersistentVolume", name, labels=labels, spec=body, status={"phase": "Available"})


def tie(claimed: Object, bound: Object) -> None:
    """Binds a claim and a volume to each other, completely."""
    claimed["spec"]["volumeName"] = bound["metadata"]["name"]
    claimed["metadata"].setdefault("annotations", {}).update(BIND_COMPLETED)
    claimed["status"] = {
        "phase": "Bound",
        "accessModes": bound["spec"]["accessModes"],
        "capacity": dict(bound["spec"]["capacity"]),
    }
    bound["spec"]["claimRef"] = reference(claimed)
    bound["status"]["phase"] = "Bound"


def reference(claimed: Object) -> Object:
    """Returns what a volume says of its claim."""
    metadata = claimed["metadata"]
    names = {key: metadata[key] for key in ("name", "namespace", "uid")}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **names}


def mount(manifest: Object, claim_name: str, *, read_only: bool = False) -> None:
    """Lets a pod use a claim."""
    source: Object = {"claimName": claim_name}
    if read_only:
        source["readOnly"] = True
    add_volume(manifest, {"persistentVolumeClaim": source})


def add_volume(manifest: Object, source: Object) -> None:
    """Adds a volume of any source to a pod."""
    volumes = manifest["spec"].setdefault("volumes", [])
    volumes.append({"name": f"v{len(volumes)}", **source})


def volume_affinity(world: World) -> Object | None:
    """Draws where a volume can be reached: a host, zones, anything else that node affinity can say, or anywhere."""
    kind = world.rng.random()
    if kind < 0.12:
        return None
    if kind < 0.45:
        names = world.some(world.node_names, 1, 3)
        return _terms([{"key": HOSTNAME, "operator": "In", "values": names}])
    if kind < 0.8:
        return _terms(
            [
                {
                    "key": ZONE,
                    "operator": world.pick(("In", "In", "NotIn")),
                    "values": world.some(("z0", "z1", "z2"), 1, 2),
                }
            ]
        )
    if kind < 0.9:
        return _terms([{"key": "disk", "operator": world.pick(("Exists", "DoesNotExist"))}])
    return {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["4"]}]},
            {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [world.pick(world.node_names)]}]},
        ]
    }


def _terms(expressions: list[Object]) -> Object:
    return {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
