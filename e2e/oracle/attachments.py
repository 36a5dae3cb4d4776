"""Themes of VolumeRestrictions and NodeVolumeLimits: disks that exclude each other, and how many a node can hold."""

from .pods import add_bound
from .storage import DRIVER, OTHER_DRIVER, add_volume, claim, csi_driver, mount, storage_class, tie, volume
from .world import Object, World


def disk(world: World) -> Object:
    """Draws an in-tree disk as a volume source; few names, so that pods meet at the same disk."""
    kind = world.pick(("gce", "gce", "aws", "rbd", "iscsi"))
    read_only = {"readOnly": True} if world.maybe(0.4) else {}
    number = world.number(1, 2)
    if kind == "gce":
        return {"gcePersistentDisk": {"pdName": f"d{number}", **read_only}}
    if kind == "aws":
        return {"awsElasticBlockStore": {"volumeID": f"vol-{number}", **read_only}}
    if kind == "rbd":
        monitors = world.some(("m1", "m2", "m3"), 1, 2)
        defaults = {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}
        pool = {"pool": "fast"} if world.maybe(0.2) else {}
        return {"rbd": {"image": f"i{number}", "monitors": monitors, **defaults, **pool, **read_only}}
    return {
        "iscsi": {
            "targetPortal": f"10.0.2.{world.number(1, 2)}:3260",
            "iqn": f"iqn.2026-01.test.example:s{number}",
            "lun": world.number(0, 1),
            "iscsiInterface": "default",
            **read_only,
        }
    }


def disks(world: World) -> None:
    """Lets the pod and its peers use in-tree disks directly."""
    for _ in range(world.number(1, 3)):
        add_volume(world.pending, disk(world))
    for manifest in world.bound():
        if world.maybe(0.35):
            add_volume(manifest, disk(world))
    for index, name in enumerate(world.node_names):
        if world.maybe(0.3) and (peer := add_bound(world, f"disk{index}", name)) is not None:
            source = {key: value for key, value in world.pick(world.spec["volumes"]).items() if key != "name"}
            add_volume(peer, source)


def rwop(world: World) -> None:
    """Lets the pod use a claim that only one pod may, while another pod may use it already."""
    storage_class(world, "fast")
    tie(
        claim(world, "only", modes=("ReadWriteOncePod",)),
        volume(world, "only", modes=("ReadWriteOncePod",)),
    )
    mount(world.pending, "only")
    if world.maybe(0.75):
        peer = add_bound(world, "holder")
        if peer is not None:
            if world.maybe(0.85):
                peer["metadata"]["namespace"] = world.namespace
            elif peer["metadata"]["namespace"] != world.namespace:
                claim(world, "only", namespace=peer["metadata"]["namespace"])
            mount(peer, "only")


def csi_limits(world: World) -> None:
    """Limits the volumes of a driver per node, while pods and attachments hold some, shared ones among them."""
    storage_class(world, "fast", world.pick((DRIVER, DRIVER, OTHER_DRIVER)))
    csi_driver(world, DRIVER, prevent=world.maybe(0.4))
    for name in world.node_names:
        if world.maybe(0.88):
            _csi_node(world, name)
    shared = [_claimed(world, f"shared{index}", world.namespace) for index in range(2)]
    for index, manifest in enumerate(world.bound()):
        if not world.maybe(0.5):
            continue
        if manifest["metadata"]["namespace"] == world.namespace and world.maybe(0.3):
            mount(manifest, world.pick(shared))
        else:
            for extra in range(world.number(1, 2)):
                mount(manifest, _claimed(world, f"held{index}-{extra}", manifest["metadata"]["namespace"]))
    _attach(world)
    _use(world, shared)


def _use(world: World, shared: list[str]) -> None:
    """Lets the pending pod use claims of its own, shared ones, and ones that are still to be bound."""
    for index in range(world.pick((1, 1, 2, 3))):
        if world.maybe(0.35):
            mount(world.pending, world.pick(shared))
        elif world.maybe(0.3):
            mount(world.pending, claim(world, f"late{index}")["metadata"]["name"])
        else:
            mount(world.pending, _claimed(world, f"mine{index}", world.namespace))
    if world.maybe(0.15):
        add_volume(world.pending, {"gcePersistentDisk": {"pdName": "d1"}})


def _csi_node(world: World, name: str) -> None:
    drivers: list[Object] = []
    for driver, chance in ((DRIVER, 0.8), (OTHER_DRIVER, 0.4), ("pd.csi.storage.gke.io", 0.3)):
        if world.maybe(chance):
            made: Object = {"name": driver, "nodeID": name, "topologyKeys": None}
            if world.maybe(0.9):
                made["allocatable"] = {"count": world.pick((0, 1, 1, 2, 2, 3, 5))}
            drivers.append(made)
    world.add("storage.k8s.io/v1", "CSINode", name, spec={"drivers": drivers or None})


def _claimed(world: World, name: str, namespace: str) -> str:
    """Adds a claim bound to a volume of one of the drivers; several volumes may be one and the same disk."""
    handle = name if world.maybe(0.9) else "twin"
    source = {"csi": {"driver": DRIVER if world.maybe(0.85) else OTHER_DRIVER, "volumeHandle": handle}}
    tie(claim(world, name, namespace=namespace), volume(world, f"pv-{name}", source=source))
    return name


def _attach(world: World) -> None:
    """Attaches volumes to nodes, some of which pods use there too and some of which nobody does any more."""
    volumes = [one for one in world.others if one["kind"] == "PersistentVolume"]
    for index in range(world.number(0, 4)):
        if volumes and world.maybe(0.5):
            name = world.pick(volumes)["metadata"]["name"]
        else:
            name = volume(world, f"left{index}")["metadata"]["name"]
        spec = {
            "attacher": DRIVER,
            "nodeName": world.pick(world.node_names),
            "source": {"persistentVolumeName": name},
        }
        world.add("storage.k8s.io/v1", "VolumeAttachment", f"att{index}", spec=spec, status={"attached": True})
