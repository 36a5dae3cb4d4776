"""A cluster with storage for tests of volume plugins: nodes, pods and storage objects, behind a handle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from scheduler.framework.cycle_state import CycleState
from scheduler.model import storage as views
from scheduler.model import storage_api as wire
from scheduler.state.cluster import ClusterState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.framework.status import Code, Status
    from scheduler.model import Pod
    from scheduler.state.snapshot import Snapshot
    from tests.builders import NodeBuilder, PodBuilder

BIND_COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED_NODE = "volume.kubernetes.io/selected-node"
GI = 2**30


def claim(name: str, **fields: Any) -> views.Claim:
    """Return a claim of 10Gi in class `fast`; `meta` and further keywords are fields of metadata and spec."""
    meta = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        **fields.pop("meta", {}),
    }
    status = {"phase": fields.pop("phase", "Pending")}
    size = fields.pop("size", "10Gi")
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"} | fields
    if size is not None:
        spec["resources"] = {"requests": {"storage": size}}
    return views.claim_from_api(msgspec.convert({"metadata": meta, "spec": spec, "status": status}, wire.ApiClaim))


def bound(name: str, to: str, **fields: Any) -> views.Claim:
    """Return a claim that is bound to a volume."""
    return claim(name, volumeName=to, phase="Bound", meta={"annotations": BIND_COMPLETED}, **fields)


def volume(name: str, **fields: Any) -> views.PersistentVolume:
    """Return an available volume of 10Gi in class `fast`; `on` and `zone` limit its reach."""
    meta = {"name": name, "resourceVersion": "1", **fields.pop("meta", {})}
    status = {"phase": fields.pop("phase", "Available")}
    size, on, zone = fields.pop("size", "10Gi"), fields.pop("on", None), fields.pop("zone", None)
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "capacity": {"storage": size}} | fields
    for key, value in (("kubernetes.io/hostname", on), ("zone", zone)):
        if value is not None:
            terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    api = msgspec.convert({"metadata": meta, "spec": spec, "status": status}, wire.ApiPersistentVolume)
    return views.persistent_volume_from_api(api)


def storage_class(name: str = "fast", provisioner: str = "csi.test", *, waits: bool = True, **fields: Any) -> Any:
    """Return a class, by default one that waits for the first consumer."""
    mode = {"volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate"}
    manifest = {"metadata": {"name": name}, "provisioner": provisioner} | mode | fields
    return views.storage_class_from_api(msgspec.convert(manifest, wire.ApiStorageClass))


def driver(name: str = "csi.test", **spec: Any) -> Any:
    """Return a CSIDriver."""
    return views.csi_driver_from_api(msgspec.convert({"metadata": {"name": name}, "spec": spec}, wire.ApiCSIDriver))


def csi_node(name: str, drivers: dict[str, int | None], migrated: str = "") -> Any:
    """Return a CSINode with the limits of its drivers."""
    listed = [
        {"name": d, "nodeID": name} | ({} if n is None else {"allocatable": {"count": n}}) for d, n in drivers.items()
    ]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated} if migrated else {}
    manifest = {"metadata": {"name": name, "annotations": annotations}, "spec": {"drivers": listed}}
    return views.csi_node_from_api(msgspec.convert(manifest, wire.ApiCSINode))


def capacity(name: str, size: str | None, class_name: str = "fast", **fields: Any) -> Any:
    """Return a CSIStorageCapacity; it reaches every node unless `nodeTopology` says otherwise."""
    manifest = {"metadata": {"name": name, "namespace": "kube-system"}, "storageClassName": class_name}
    manifest |= {"nodeTopology": {}} | ({} if size is None else {"capacity": size}) | fields
    return views.storage_capacity_from_api(msgspec.convert(manifest, wire.ApiStorageCapacity))


def attachment(name: str, node_name: str, volume_name: str, attacher: str = "csi.test") -> Any:
    """Return a VolumeAttachment."""
    spec = {"attacher": attacher, "nodeName": node_name, "source": {"persistentVolumeName": volume_name}}
    manifest = {"metadata": {"name": name}, "spec": spec}
    return views.volume_attachment_from_api(msgspec.convert(manifest, wire.ApiVolumeAttachment))


def mounts(pod: PodBuilder, *claims: str) -> PodBuilder:
    """Let a pod use claims."""
    return with_volumes(pod, *[{"persistentVolumeClaim": {"claimName": name}} for name in claims])


def with_volumes(pod: PodBuilder, *volumes: dict[str, Any]) -> PodBuilder:
    """Give a pod volumes named v0, v1 and so on."""
    return pod.patch_spec(volumes=[{"name": f"v{index}"} | each for index, each in enumerate(volumes)])


class StorageWorld:
    """A cluster; also the handle that plugins get."""

    def __init__(
        self, nodes: Iterable[NodeBuilder], things: Iterable[Any] = (), pods: Iterable[PodBuilder] = ()
    ) -> None:
        """Fill the cluster; each node has its name as `kubernetes.io/hostname`."""
        self.cluster = ClusterState()
        self.gates: dict[str, bool] = {}
        for node in nodes:
            self.cluster.set_node(node.label("kubernetes.io/hostname", node.manifest()["metadata"]["name"]).build())
        for pod in pods:
            self.cluster.set_pod(pod.build())
        self.put(*things)

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of the cluster as it is now."""
        return self.cluster.snapshot()

    def put(self, *things: Any) -> None:
        """Add or change storage objects."""
        for thing in things:
            self.cluster.objects.put(thing)

    def make(self, cls: Any, args: dict[str, Any] | None = None) -> Any:
        """Return a plugin in this world."""
        return cls(None if args is None else cls.Args.model_validate(args), self)

    def look(self, cls: Any, pod: PodBuilder) -> Status | dict[str, tuple[Code, list[str]]]:
        """Return what PreFilter refuses or skips, else code and reasons of every node that Filter refuses."""
        plugin, state, built = self.make(cls), CycleState(), pod.build()
        answer: Status | None = plugin.pre_filter(state, built, self.snapshot.nodes)
        return answer if answer is not None else self.refusals(plugin, state, built)

    def refusals(self, plugin: Any, state: CycleState, pod: Pod) -> dict[str, tuple[Code, list[str]]]:
        """Return code and reasons of every node that Filter refuses."""
        snapshot = self.snapshot
        verdicts = plugin.filter_all(state, pod, snapshot.nodes)
        statuses = {name: verdicts.status_at(row) for name, row in snapshot.row_of.items()}
        return {name: (s.code, [r.text for r in s.reasons]) for name, s in statuses.items() if s is not None}
