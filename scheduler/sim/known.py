"""Objects that the scheduler only reads, as the model sees them: namespaces, owners of pods, storage, and the network.

For the loader and the workload controllers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from scheduler.model import Namespace, namespace_from_api, owner_of_labels, owner_of_selector
from scheduler.model.device_api import (
    ApiDeviceClaim,
    ApiDeviceClaimTemplate,
    ApiDeviceClass,
    ApiDeviceTaintRule,
    ApiResourceSlice,
)
from scheduler.model.device_claims import device_claim_from_api, device_claim_template_from_api
from scheduler.model.devices import device_class_from_api, device_slice_from_api, device_taint_rule_from_api
from scheduler.model.hypernode import ApiHyperNode, hypernode_from_api
from scheduler.model.node_resource_topology import ApiNodeResourceTopology, node_resource_topology_from_api
from scheduler.model.node_topology import ApiNodeTopology, node_topology_from_api
from scheduler.model.owner_api import ApiNamespace, ApiReplicaSet, ApiService, ReplicaSetSpec
from scheduler.model.queue_dialects import QUEUE_KINDS
from scheduler.model.storage import (
    csi_driver_from_api,
    csi_node_from_api,
    storage_capacity_from_api,
    storage_class_from_api,
    volume_attachment_from_api,
)
from scheduler.model.storage_api import (
    ApiCSIDriver,
    ApiCSINode,
    ApiStorageCapacity,
    ApiStorageClass,
    ApiVolumeAttachment,
)
from scheduler.model.topology_api import TOPOLOGY_KINDS, ApiTopology, topology_from_api

from .objects import ApiReplicas

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.model import Owner
    from scheduler.model.api import LabelSelector, ObjectMeta
    from scheduler.state.objects import Keyed

    from .kinds import Loaded

#: The label that every namespace has.
NAME_LABEL = "kubernetes.io/metadata.name"


def thing_of(loaded: Loaded) -> Keyed | None:  # noqa: C901, PLR0911, PLR0912 - one return per kind
    """Return what the scheduler reads of an object besides what it is otherwise, or None."""
    kind = loaded.kind.kind
    match loaded.api:
        case ApiNamespace() as api:
            return with_name_label(namespace_from_api(api))
        case ApiService() as api:
            return owner_of_labels(api, kind)
        case ApiReplicas() as api if kind in ("ReplicaSet", "StatefulSet"):
            return owner_of_pods(kind, api.metadata, api.spec.selector)
        case ApiStorageClass() as api:
            return storage_class_from_api(api)
        case ApiCSINode() as api:
            return csi_node_from_api(api)
        case ApiCSIDriver() as api:
            return csi_driver_from_api(api)
        case ApiStorageCapacity() as api:
            return storage_capacity_from_api(api)
        case ApiVolumeAttachment() as api:
            return volume_attachment_from_api(api)
        case ApiDeviceClaim() as api:
            return device_claim_from_api(api)
        case ApiDeviceClaimTemplate() as api:
            return device_claim_template_from_api(api)
        case ApiResourceSlice() as api:
            return device_slice_from_api(api)
        case ApiDeviceClass() as api:
            return device_class_from_api(api)
        case ApiDeviceTaintRule() as api:
            return device_taint_rule_from_api(api)
        case ApiTopology() as api:
            dialect = next(known.dialect for known in TOPOLOGY_KINDS if known.group == loaded.kind.group)
            return topology_from_api(api, dialect)
        case ApiHyperNode() as api:
            return hypernode_from_api(api)
        case ApiNodeResourceTopology() as api:
            return node_resource_topology_from_api(api)
        case ApiNodeTopology() as api:
            return node_topology_from_api(api)
    return next((known.read(loaded.api) for known in QUEUE_KINDS if known.api_type is type(loaded.api)), None)


def owner_of_pods(kind: str, meta: ObjectMeta, selector: LabelSelector | None) -> Owner:
    """Return the view of a ReplicaSet or a StatefulSet."""
    return owner_of_selector(ApiReplicaSet(metadata=meta, spec=ReplicaSetSpec(selector=selector)), kind)


def with_name_label(namespace: Namespace) -> Namespace:
    """Return a namespace with the label that the API server gives it."""
    return msgspec.structs.replace(namespace, labels=namespace.labels | {NAME_LABEL: namespace.name})


def unnamed_namespaces(loaded: Iterable[Loaded]) -> list[Namespace]:
    """Return the namespaces that the input uses and does not hold, by name."""
    used: set[str] = set()
    held: set[str] = set()
    for entry in loaded:
        (held if isinstance(entry.api, ApiNamespace) else used).add(
            entry.api.metadata.name if isinstance(entry.api, ApiNamespace) else entry.api.metadata.namespace
        )
    return [with_name_label(Namespace(name=name)) for name in sorted(used - held) if name]
