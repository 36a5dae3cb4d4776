"""The kinds of objects that an explanation reads, and how each becomes a part of the cluster.

For cases and for snapshots of clusters; whoever reads them decides what an unknown kind is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from scheduler.model import (
    budget_from_api,
    claim_from_api,
    csi_driver_from_api,
    csi_node_from_api,
    namespace_from_api,
    node_from_api,
    owner_of_labels,
    owner_of_selector,
    persistent_volume_from_api,
    pod_from_api,
    priority_class_from_api,
    storage_capacity_from_api,
    storage_class_from_api,
    volume_attachment_from_api,
)
from scheduler.model.api import ApiBudget, ApiNode, ApiPod, ApiPriorityClass
from scheduler.model.device_api import (
    ApiDeviceClaim,
    ApiDeviceClaimTemplate,
    ApiDeviceClass,
    ApiDeviceTaintRule,
    ApiResourceSlice,
)
from scheduler.model.device_claims import device_claim_from_api, device_claim_template_from_api
from scheduler.model.devices import device_class_from_api, device_slice_from_api, device_taint_rule_from_api
from scheduler.model.dialects import DIALECTS
from scheduler.model.gang import PREFIX
from scheduler.model.hypernode import HYPERNODE_GROUP, ApiHyperNode, hypernode_from_api
from scheduler.model.node_resource_topology import GROUP as NUMA_GROUP
from scheduler.model.node_resource_topology import ApiNodeResourceTopology, node_resource_topology_from_api
from scheduler.model.node_topology import ApiNodeTopology, node_topology_from_api
from scheduler.model.owner_api import ApiNamespace, ApiReplicaSet, ApiService
from scheduler.model.queue_dialects import QUEUE_KINDS
from scheduler.model.storage_api import (
    ApiClaim,
    ApiCSIDriver,
    ApiCSINode,
    ApiPersistentVolume,
    ApiStorageCapacity,
    ApiStorageClass,
    ApiVolumeAttachment,
)
from scheduler.model.topology_api import TOPOLOGY_KINDS, ApiTopology, topology_from_api

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.model.dialects import Dialect, GroupSource
    from scheduler.state.cluster import ClusterState
    from scheduler.state.objects import Keyed

#: API group and kind.
GroupKind = tuple[str, str]


class Kind(NamedTuple):
    """A kind that is read: its wire type, and what puts an object into the cluster."""

    wire_type: type
    put: Callable[[ClusterState, Any], None]


class Head(msgspec.Struct, rename="camel", frozen=True):
    """What says of which kind an object is."""

    api_version: str = ""
    kind: str = ""

    @property
    def group_kind(self) -> GroupKind:
        """The API group, empty for the core, and the kind."""
        return self.api_version.rpartition("/")[0], self.kind


def _node(cluster: ClusterState, api: ApiNode) -> None:
    cluster.set_node(node_from_api(api))


def _pods(dialects: Sequence[Dialect]) -> Kind:
    """Return what counts pods on nodes and nominated ones; others that wait, and those that have ended, are nobody's concern."""

    def put(cluster: ClusterState, api: ApiPod) -> None:
        pod = pod_from_api(api, dialects)
        if not pod.is_terminal and (pod.node_name or pod.nominated_node_name):
            cluster.set_pod(pod)

    return Kind(ApiPod, put)


def _priority_class(cluster: ClusterState, api: ApiPriorityClass) -> None:
    cluster.priority_classes[api.metadata.name] = priority_class_from_api(api)


def _budget(cluster: ClusterState, api: ApiBudget) -> None:
    budget = budget_from_api(api)
    cluster.budgets[budget.namespace, budget.name] = budget


def _gangs(source: GroupSource) -> Kind:
    def put(cluster: ClusterState, api: Any) -> None:
        for gang in source.read(api):
            cluster.groups.put(gang)

    return Kind(source.api_type, put)


def _view(view_of: Callable[[Any], Keyed]) -> Callable[[ClusterState, Any], None]:
    return lambda cluster, api: _put(cluster, view_of(api))


def _topology(dialect: str) -> Callable[[ClusterState, Any], None]:
    return _view(lambda api: topology_from_api(api, dialect))


def _put(cluster: ClusterState, thing: Keyed) -> None:
    cluster.objects.put(thing)


_ALWAYS: dict[GroupKind, Kind] = {
    ("", "Node"): Kind(ApiNode, _node),
    ("scheduling.k8s.io", "PriorityClass"): Kind(ApiPriorityClass, _priority_class),
    ("policy", "PodDisruptionBudget"): Kind(ApiBudget, _budget),
    ("", "Namespace"): Kind(ApiNamespace, _view(namespace_from_api)),
    ("", "Service"): Kind(ApiService, _view(lambda api: owner_of_labels(api, "Service"))),
    ("", "ReplicationController"): Kind(ApiService, _view(lambda api: owner_of_labels(api, "ReplicationController"))),
    ("apps", "ReplicaSet"): Kind(ApiReplicaSet, _view(lambda api: owner_of_selector(api, "ReplicaSet"))),
    ("apps", "StatefulSet"): Kind(ApiReplicaSet, _view(lambda api: owner_of_selector(api, "StatefulSet"))),
    ("", "PersistentVolumeClaim"): Kind(ApiClaim, _view(claim_from_api)),
    ("", "PersistentVolume"): Kind(ApiPersistentVolume, _view(persistent_volume_from_api)),
    ("storage.k8s.io", "StorageClass"): Kind(ApiStorageClass, _view(storage_class_from_api)),
    ("storage.k8s.io", "CSINode"): Kind(ApiCSINode, _view(csi_node_from_api)),
    ("storage.k8s.io", "CSIDriver"): Kind(ApiCSIDriver, _view(csi_driver_from_api)),
    ("storage.k8s.io", "CSIStorageCapacity"): Kind(ApiStorageCapacity, _view(storage_capacity_from_api)),
    ("storage.k8s.io", "VolumeAttachment"): Kind(ApiVolumeAttachment, _view(volume_attachment_from_api)),
    ("resource.k8s.io", "ResourceClaim"): Kind(ApiDeviceClaim, _view(device_claim_from_api)),
    ("resource.k8s.io", "ResourceClaimTemplate"): Kind(ApiDeviceClaimTemplate, _view(device_claim_template_from_api)),
    ("resource.k8s.io", "ResourceSlice"): Kind(ApiResourceSlice, _view(device_slice_from_api)),
    ("resource.k8s.io", "DeviceClass"): Kind(ApiDeviceClass, _view(device_class_from_api)),
    ("resource.k8s.io", "DeviceTaintRule"): Kind(ApiDeviceTaintRule, _view(device_taint_rule_from_api)),
    **{(kind.group, "Topology"): Kind(ApiTopology, _topology(kind.dialect)) for kind in TOPOLOGY_KINDS},
    (PREFIX, "NodeTopology"): Kind(ApiNodeTopology, _view(node_topology_from_api)),
    **{(kind.group, kind.kind): Kind(kind.api_type, _view(kind.read)) for kind in QUEUE_KINDS},
    (HYPERNODE_GROUP, "HyperNode"): Kind(ApiHyperNode, _view(hypernode_from_api)),
    (NUMA_GROUP, "NodeResourceTopology"): Kind(ApiNodeResourceTopology, _view(node_resource_topology_from_api)),
}


def kinds_of(dialects: Sequence[Dialect]) -> dict[GroupKind, Kind]:
    """Return all kinds that are read where pods name their gangs in these dialects."""
    gangs = {(source.group, source.kind): _gangs(source) for dialect in dialects for source in dialect.sources}
    return {**gangs, ("", "Pod"): _pods(dialects), **_ALWAYS}


#: Those without a configuration.
KINDS = kinds_of(DIALECTS)
