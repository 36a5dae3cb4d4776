"""Storage as plugins see it: claims, volumes, classes, and what CSI drivers say of nodes; quantities are bytes.

For the volume plugins.  The edges make the views from API objects once; an impossible value becomes a problem and counts
as nothing, never an exception.  Everything is kept at its `key`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .api import Requirement
from .label_tests import Selector, SelectorError, selector_of
from .quantity import QuantityError, to_units
from .selectors import matches_requirement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .api import LabelSelector, NodeSelector, ObjectMeta, Quantity, ResourceList
    from .storage_api import (
        ApiClaim,
        ApiCSIDriver,
        ApiCSINode,
        ApiPersistentVolume,
        ApiStorageCapacity,
        ApiStorageClass,
        ApiVolumeAttachment,
        VolumeSpec,
    )
    from .volume_api import Volume

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED_ANNOTATION = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER_ANNOTATION = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node"
MIGRATED_PLUGINS_ANNOTATION = "storage.alpha.kubernetes.io/migrated-plugins"
#: Provisioner of classes that only group volumes made by hand.
NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
FILESYSTEM = "Filesystem"
_STORAGE = "storage"


class ClusterScoped(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What is in no namespace."""

    name: str

    @property
    def key(self) -> tuple[str, str]:
        """Where it is kept: no namespace, and the name."""
        return "", self.name


class NodeTest(msgspec.Struct, frozen=True, gc=False):
    """One requirement on the labels of a node: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Tell whether labels satisfy it."""
        if self.operator == "In":
            return labels.get(self.key) in self.values
        return matches_requirement(Requirement(key=self.key, operator=self.operator, values=list(self.values)), labels)


#: A test that holds nowhere: what stands for an empty term.
NOWHERE = NodeTest("", "In")


class Reach(msgspec.Struct, frozen=True, gc=False):
    """Which nodes something can be used on: those whose labels satisfy all tests of some term."""

    terms: tuple[tuple[NodeTest, ...], ...]

    def covers(self, labels: Mapping[str, str]) -> bool:
        """Tell whether a node with these labels is within reach; an empty term covers all, no term nothing."""
        return any(all(test.holds(labels) for test in term) for term in self.terms)


class ClaimReference(msgspec.Struct, frozen=True, gc=False):
    """The claim that a volume is meant for; without a uid it was named by a person."""

    namespace: str
    name: str
    uid: str = ""


class InTreeSource(msgspec.Struct, frozen=True, gc=False):
    """A volume of a plugin that once was part of Kubernetes, and that a CSI driver serves now."""

    #: Such as kubernetes.io/aws-ebs.
    plugin: str
    id: str
    #: Azure's Managed, Shared or Dedicated; None if not said.
    kind: str | None = None


class Claim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PersistentVolumeClaim."""

    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    #: Empty if it names none.
    class_name: str = ""
    #: The volume it is bound to, or has to be bound to.
    volume_name: str = ""
    #: The volume controller has finished the binding.
    is_bind_completed: bool = False
    #: Where its volume is to be made; None if nobody has chosen.
    selected_node: str | None = None
    #: None if it does not say.
    requested_bytes: int | None = None
    access_modes: tuple[str, ...] = ()
    volume_mode: str = FILESYSTEM
    attributes_class: str = ""
    #: Labels that its volume must have; the empty one takes every volume, None (which makes no sense) takes none.
    selector: Selector | None = ()
    phase: str = ""
    is_terminating: bool = False
    #: Uid of the object that controls it, such as the pod of an ephemeral volume.
    controller_uid: str | None = None
    problems: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Where it is kept: namespace and name."""
        return self.namespace, self.name

    @property
    def is_bound(self) -> bool:
        """It has a volume, and the binding is complete."""
        return bool(self.volume_name) and self.is_bind_completed


class PersistentVolume(ClusterScoped, frozen=True, gc=False, kw_only=True):
    """A PersistentVolume."""

    resource_version: str = ""
    labels: dict[str, str] = {}
    class_name: str = ""
    capacity_bytes: int = 0
    access_modes: tuple[str, ...] = ()
    volume_mode: str = FILESYSTEM
    attributes_class: str = ""
    claim: ClaimReference | None = None
    #: None: every node.
    reach: Reach | None = None
    phase: str = ""
    is_terminating: bool = False
    #: Driver and handle of a CSI volume, else empty.
    driver: str = ""
    handle: str = ""
    in_tree: InTreeSource | None = None
    problems: tuple[str, ...] = ()

    def is_for(self, claim: Claim) -> bool:
        """Tell whether it is meant for a claim, by a person or by a controller."""
        mine = self.claim
        return mine is not None and (mine.namespace, mine.name) == claim.key and mine.uid in ("", claim.uid)


class StorageClass(ClusterScoped, frozen=True, gc=False, kw_only=True):
    """A StorageClass."""

    provisioner: str = ""
    #: Immediate or WaitForFirstConsumer.
    binding_mode: str = "Immediate"
    #: Where its volumes can be made; None: on every node.
    allowed: Reach | None = None

    @property
    def waits(self) -> bool:
        """Claims are bound when a pod that needs them is placed, not at once."""
        return self.binding_mode == WAIT_FOR_FIRST_CONSUMER


class CSINode(ClusterScoped, frozen=True, gc=False, kw_only=True):
    """A CSINode: which drivers a node has."""

    #: Driver to the number of volumes that it takes there; None if that is not limited.
    drivers: dict[str, int | None] = {}
    #: In-tree plugins whose volumes a driver serves on the node.
    migrated_plugins: frozenset[str] = frozenset()


class CSIDriver(ClusterScoped, frozen=True, gc=False, kw_only=True):
    """A CSIDriver."""

    #: It publishes how much room there is, and wants that to be looked at.
    has_storage_capacity: bool = False
    #: Nodes without it are no place for pods that use its volumes.
    is_needed_on_node: bool = False


class StorageCapacity(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A CSIStorageCapacity: how much room a class has for some nodes."""

    namespace: str
    name: str
    class_name: str = ""
    capacity_bytes: int | None = None
    maximum_volume_bytes: int | None = None
    #: Labels of the nodes that can use it; None matches no node.
    topology: Selector | None = None
    problems: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Where it is kept: namespace and name."""
        return self.namespace, self.name

    @property
    def limit_bytes(self) -> int | None:
        """The largest volume that can be made; None if it does not say."""
        return self.capacity_bytes if self.maximum_volume_bytes is None else self.maximum_volume_bytes


class VolumeAttachment(ClusterScoped, frozen=True, gc=False, kw_only=True):
    """A VolumeAttachment: a volume that is, or is to be, attached to a node."""

    attacher: str = ""
    node_name: str = ""
    #: Empty for a volume that is no PersistentVolume.
    volume_name: str = ""


def claim_from_api(api: ApiClaim) -> Claim:
    """Return the view of a PersistentVolumeClaim."""
    meta, spec, problems = api.metadata, api.spec, list[str]()
    annotations = meta.annotations or {}
    requests = spec.resources.requests if spec.resources else None
    controllers = [owner.uid for owner in meta.owner_references or () if owner.controller]
    return Claim(
        namespace=meta.namespace or "default",
        name=meta.name,
        uid=meta.uid or f"{meta.namespace or 'default'}/{meta.name}",
        resource_version=meta.resource_version,
        class_name=_class_of(meta, spec.storage_class_name),
        volume_name=spec.volume_name,
        is_bind_completed=BIND_COMPLETED_ANNOTATION in annotations,
        selected_node=annotations.get(SELECTED_NODE_ANNOTATION),
        requested_bytes=_storage(requests, "spec.resources.requests", problems),
        access_modes=tuple(spec.access_modes or ()),
        volume_mode=spec.volume_mode or FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        selector=() if spec.selector is None else _selector(spec.selector, "spec.selector", problems),
        phase=api.status.phase,
        is_terminating=meta.deletion_timestamp is not None,
        controller_uid=controllers[0] if controllers else None,
        problems=tuple(problems),
    )


def persistent_volume_from_api(api: ApiPersistentVolume) -> PersistentVolume:
    """Return the view of a PersistentVolume."""
    meta, spec, problems = api.metadata, api.spec, list[str]()
    reference = spec.claim_ref
    return PersistentVolume(
        name=meta.name,
        resource_version=meta.resource_version,
        labels=meta.labels or {},
        class_name=_class_of(meta, spec.storage_class_name),
        capacity_bytes=_storage(spec.capacity, "spec.capacity", problems) or 0,
        access_modes=tuple(spec.access_modes or ()),
        volume_mode=spec.volume_mode or FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        claim=ClaimReference(reference.namespace, reference.name, reference.uid) if reference else None,
        reach=_reach(spec.node_affinity.required) if spec.node_affinity and spec.node_affinity.required else None,
        phase=api.status.phase,
        is_terminating=meta.deletion_timestamp is not None,
        driver=spec.csi.driver if spec.csi else "",
        handle=spec.csi.volume_handle if spec.csi else "",
        in_tree=in_tree_of(spec),
        problems=tuple(problems),
    )


def storage_class_from_api(api: ApiStorageClass) -> StorageClass:
    """Return the view of a StorageClass; a binding mode that is not said is the API server's default."""
    allowed = None
    if api.allowed_topologies:
        lines = [term.match_label_expressions for term in api.allowed_topologies if term.match_label_expressions]
        allowed = Reach(tuple([tuple([NodeTest(r.key, "In", tuple(r.values or ())) for r in each]) for each in lines]))
    return StorageClass(
        name=api.metadata.name,
        provisioner=api.provisioner,
        binding_mode=api.volume_binding_mode or "Immediate",
        allowed=allowed,
    )


def csi_node_from_api(api: ApiCSINode) -> CSINode:
    """Return the view of a CSINode."""
    plugins = (api.metadata.annotations or {}).get(MIGRATED_PLUGINS_ANNOTATION, "")
    return CSINode(
        name=api.metadata.name,
        drivers={d.name: d.allocatable.count if d.allocatable else None for d in api.spec.drivers or ()},
        migrated_plugins=frozenset(plugins.split(",")) if plugins else frozenset(),
    )


def csi_driver_from_api(api: ApiCSIDriver) -> CSIDriver:
    """Return the view of a CSIDriver."""
    return CSIDriver(
        name=api.metadata.name,
        has_storage_capacity=bool(api.spec.storage_capacity),
        is_needed_on_node=bool(api.spec.prevent_pod_scheduling_if_missing),
    )


def storage_capacity_from_api(api: ApiStorageCapacity) -> StorageCapacity:
    """Return the view of a CSIStorageCapacity."""
    problems = list[str]()
    return StorageCapacity(
        namespace=api.metadata.namespace or "default",
        name=api.metadata.name,
        class_name=api.storage_class_name,
        capacity_bytes=_bytes(api.capacity, "capacity", problems),
        maximum_volume_bytes=_bytes(api.maximum_volume_size, "maximumVolumeSize", problems),
        topology=_selector(api.node_topology, "nodeTopology", problems),
        problems=tuple(problems),
    )


def volume_attachment_from_api(api: ApiVolumeAttachment) -> VolumeAttachment:
    """Return the view of a VolumeAttachment."""
    spec = api.spec
    return VolumeAttachment(
        name=api.metadata.name,
        attacher=spec.attacher,
        node_name=spec.node_name,
        volume_name=spec.source.persistent_volume_name or "",
    )


def _class_of(meta: ObjectMeta, name: str | None) -> str:
    """Return the class that an object names; the old annotation counts first."""
    return (meta.annotations or {}).get(CLASS_ANNOTATION, name or "")


def _reach(selector: NodeSelector) -> Reach:
    """Return a selector as a value.

    As in kube-scheduler, which looks at labels alone here: field requirements hold everywhere, empty terms nowhere.
    """
    terms = []
    for term in selector.node_selector_terms:
        tests = [NodeTest(r.key, r.operator, tuple(r.values or ())) for r in term.match_expressions or ()]
        terms.append(tuple(tests) if tests or term.match_fields else (NOWHERE,))
    return Reach(tuple(terms))


def in_tree_of(source: Volume | VolumeSpec) -> InTreeSource | None:
    """Return the in-tree disk of a pod's volume or of a PersistentVolume, if a CSI driver serves its kind now."""
    if source.gce_persistent_disk:
        return InTreeSource("kubernetes.io/gce-pd", source.gce_persistent_disk.pd_name)
    if source.aws_elastic_block_store:
        return InTreeSource("kubernetes.io/aws-ebs", source.aws_elastic_block_store.volume_id)
    if source.cinder:
        return InTreeSource("kubernetes.io/cinder", source.cinder.volume_id)
    if source.azure_disk:
        return InTreeSource("kubernetes.io/azure-disk", source.azure_disk.disk_uri, source.azure_disk.kind)
    if source.portworx_volume:
        return InTreeSource("kubernetes.io/portworx-volume", source.portworx_volume.volume_id)
    return None


def _storage(amounts: ResourceList | None, field: str, problems: list[str]) -> int | None:
    """Return the amount of storage in a list; None if there is none."""
    return _bytes((amounts or {}).get(_STORAGE), f"{field}[{_STORAGE}]", problems)


def _bytes(text: Quantity | None, field: str, problems: list[str]) -> int | None:
    """Return a quantity in bytes, None for none; what makes no sense is 0 and a problem."""
    if text is None:
        return None
    try:
        return to_units(text)
    except QuantityError as error:
        problems.append(f"{field}: {error}; it counts as 0")
        return 0


def _selector(selector: LabelSelector | None, field: str, problems: list[str]) -> Selector | None:
    """Return a selector as a value; one that makes no sense matches nothing and is a problem."""
    try:
        return selector_of(selector)
    except SelectorError as error:
        problems.append(f"{field}: {error}; it matches nothing")
        return None
