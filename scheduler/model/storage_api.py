"""Storage objects as they come over the wire: claims, volumes, classes, and what CSI drivers say of nodes.

For the edges, which decode them, and for `storage`, which turns them into views.  Like `api`: only the fields that
scheduling reads, under the names of the Kubernetes API.
"""

from __future__ import annotations

from .api import LabelSelector, NodeSelector, ObjectMeta, Quantity, ResourceList, Resources
from .volume_api import ApiStruct, AWSDisk, AzureDisk, GCEDisk, NamedDisk


class ClaimSpec(ApiStruct, frozen=True):
    """The spec of a PersistentVolumeClaim."""

    access_modes: list[str] | None = None
    resources: Resources | None = None
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    volume_name: str = ""


class ClaimStatus(ApiStruct, frozen=True):
    """The status of a PersistentVolumeClaim."""

    phase: str = ""


class ApiClaim(ApiStruct, frozen=True):
    """A PersistentVolumeClaim (v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class ObjectReference(ApiStruct, frozen=True):
    """Which object is meant."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeReach(ApiStruct, frozen=True):
    """Which nodes can use a volume."""

    required: NodeSelector | None = None


class CSISource(ApiStruct, frozen=True):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(ApiStruct, frozen=True):
    """The spec of a PersistentVolume."""

    access_modes: list[str] | None = None
    capacity: ResourceList | None = None
    claim_ref: ObjectReference | None = None
    node_affinity: VolumeReach | None = None
    storage_class_name: str = ""
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    csi: CSISource | None = None
    gce_persistent_disk: GCEDisk | None = None
    aws_elastic_block_store: AWSDisk | None = None
    azure_disk: AzureDisk | None = None
    cinder: NamedDisk | None = None
    portworx_volume: NamedDisk | None = None


class VolumeStatus(ApiStruct, frozen=True):
    """The status of a PersistentVolume."""

    phase: str = ""


class ApiPersistentVolume(ApiStruct, frozen=True):
    """A PersistentVolume (v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class TopologyRequirement(ApiStruct, frozen=True):
    """A label of nodes, and the values that are allowed."""

    key: str = ""
    values: list[str] | None = None


class TopologyTerm(ApiStruct, frozen=True):
    """All of its requirements must hold; an empty term matches nothing."""

    match_label_expressions: list[TopologyRequirement] | None = None


class ApiStorageClass(ApiStruct, frozen=True):
    """A StorageClass (storage.k8s.io/v1)."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class VolumeLimit(ApiStruct, frozen=True):
    """How many volumes of a driver a node takes."""

    count: int | None = None


class CSINodeDriver(ApiStruct, frozen=True):
    """A driver on a node."""

    name: str = ""
    allocatable: VolumeLimit | None = None


class CSINodeSpec(ApiStruct, frozen=True):
    """The spec of a CSINode."""

    drivers: list[CSINodeDriver] | None = None


class ApiCSINode(ApiStruct, frozen=True):
    """A CSINode (storage.k8s.io/v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(ApiStruct, frozen=True):
    """The spec of a CSIDriver."""

    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class ApiCSIDriver(ApiStruct, frozen=True):
    """A CSIDriver (storage.k8s.io/v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class ApiStorageCapacity(ApiStruct, frozen=True):
    """A CSIStorageCapacity (storage.k8s.io/v1)."""

    metadata: ObjectMeta = ObjectMeta()
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class AttachmentSource(ApiStruct, frozen=True):
    """What is attached."""

    persistent_volume_name: str | None = None


class AttachmentSpec(ApiStruct, frozen=True):
    """The spec of a VolumeAttachment."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class ApiVolumeAttachment(ApiStruct, frozen=True):
    """A VolumeAttachment (storage.k8s.io/v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AttachmentSpec = AttachmentSpec()
