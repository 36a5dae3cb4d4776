"""Feeds of the objects that are only read: namespaces, owners of pods, and everything about storage.

For `feeds`.  All are optional: without the right to read one, what depends on it finds no such object, and one log line says
so.  Of each object the view is kept, never the API object: of ReplicaSets there are many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from scheduler.engine.inputs import ObjectChanged, ObjectRemoved
from scheduler.model import Namespace, Owner, namespace_from_api, owner_of_labels, owner_of_selector
from scheduler.model.owner_api import ApiNamespace, ApiReplicaSet, ApiService
from scheduler.model.storage import (
    Claim,
    CSIDriver,
    CSINode,
    PersistentVolume,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
    claim_from_api,
    csi_driver_from_api,
    csi_node_from_api,
    persistent_volume_from_api,
    storage_capacity_from_api,
    storage_class_from_api,
    volume_attachment_from_api,
)
from scheduler.model.storage_api import (
    ApiClaim,
    ApiCSIDriver,
    ApiCSINode,
    ApiPersistentVolume,
    ApiStorageCapacity,
    ApiStorageClass,
    ApiVolumeAttachment,
)

from .reflector import HasMetadata, Reflector, Resource

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.state.objects import Keyed

    from .inbox import Put
    from .wire import ObjectKey

CORE, APPS, STORAGE = "/api/v1", "/apis/apps/v1", "/apis/storage.k8s.io/v1"

T = TypeVar("T", bound=HasMetadata)


class Make(Protocol):
    """Makes a reflector whose sink is two functions."""

    def __call__(
        self, resource: Resource[T], changed: Callable[[T], None], removed: Callable[[ObjectKey, T | None], None], /
    ) -> Reflector[T]:
        """Return it, not yet running."""


def object_feeds(make: Make, put: Put) -> list[Reflector[Any]]:
    """Return a reflector for each kind of object that is only read."""
    add = _Add(make, put)
    return [
        add("namespaces", f"{CORE}/namespaces", ApiNamespace, namespace_from_api, Namespace),
        *_owners(make, put),
        add("claims", f"{CORE}/persistentvolumeclaims", ApiClaim, claim_from_api, Claim),
        add("volumes", f"{CORE}/persistentvolumes", ApiPersistentVolume, persistent_volume_from_api, PersistentVolume),
        add("storage classes", f"{STORAGE}/storageclasses", ApiStorageClass, storage_class_from_api, StorageClass),
        add("CSI nodes", f"{STORAGE}/csinodes", ApiCSINode, csi_node_from_api, CSINode),
        add("CSI drivers", f"{STORAGE}/csidrivers", ApiCSIDriver, csi_driver_from_api, CSIDriver),
        add(
            "storage capacities",
            f"{STORAGE}/csistoragecapacities",
            ApiStorageCapacity,
            storage_capacity_from_api,
            StorageCapacity,
        ),
        add(
            "volume attachments",
            f"{STORAGE}/volumeattachments",
            ApiVolumeAttachment,
            volume_attachment_from_api,
            VolumeAttachment,
        ),
    ]


class _Add:
    """Makes the feed of objects that are kept by namespace and name."""

    def __init__(self, make: Make, put: Put) -> None:
        self._make = make
        self._put = put

    def __call__(
        self, name: str, path: str, api_type: type[T], view_of: Callable[[T], Keyed], kind: type
    ) -> Reflector[T]:
        put = self._put
        return self._make(
            Resource(name, path, api_type, is_optional=True),
            lambda api: put(ObjectChanged(view_of(api))),
            lambda key, _: put(ObjectRemoved(kind, key.name_key)),
        )


def _owners(make: Make, put: Put) -> list[Reflector[Any]]:
    """Return the feeds of Services and of controllers that own pods."""

    def owners(name: str, path: str, api_type: type[T], kind: str, view_of: Callable[[T, str], Owner]) -> Reflector[T]:
        return make(
            Resource(name, path, api_type, is_optional=True),
            lambda api: put(ObjectChanged(view_of(api, kind))),
            lambda key, _: put(ObjectRemoved(Owner, (key.namespace, f"{kind}/{key.name}"))),
        )

    return [
        owners("services", f"{CORE}/services", ApiService, "Service", owner_of_labels),
        owners(
            "replication controllers",
            f"{CORE}/replicationcontrollers",
            ApiService,
            "ReplicationController",
            owner_of_labels,
        ),
        owners("replica sets", f"{APPS}/replicasets", ApiReplicaSet, "ReplicaSet", owner_of_selector),
        owners("stateful sets", f"{APPS}/statefulsets", ApiReplicaSet, "StatefulSet", owner_of_selector),
    ]
