"""Typed, immutable views of the objects that scheduling reads, and the exact arithmetic of quantities and selectors.

For every other part; it imports none of them.
"""

from .dialects import gang_from_api
from .gang import Gang, GangKey, Membership, Subgroup, gang_key_of
from .node import Node, node_from_api
from .owners import Namespace, Owner, namespace_from_api, owner_of_labels, owner_of_selector
from .pod import HostPort, Pod, pod_from_api
from .policy import Budget, PriorityClass, budget_from_api, priority_class_from_api
from .storage import (
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
from .topology_constraint import TopologyConstraint

__all__ = [
    "Budget",
    "CSIDriver",
    "CSINode",
    "Claim",
    "Gang",
    "GangKey",
    "HostPort",
    "Membership",
    "Namespace",
    "Node",
    "Owner",
    "PersistentVolume",
    "Pod",
    "PriorityClass",
    "StorageCapacity",
    "StorageClass",
    "Subgroup",
    "TopologyConstraint",
    "VolumeAttachment",
    "budget_from_api",
    "claim_from_api",
    "csi_driver_from_api",
    "csi_node_from_api",
    "gang_from_api",
    "gang_key_of",
    "namespace_from_api",
    "node_from_api",
    "owner_of_labels",
    "owner_of_selector",
    "persistent_volume_from_api",
    "pod_from_api",
    "priority_class_from_api",
    "storage_capacity_from_api",
    "storage_class_from_api",
    "volume_attachment_from_api",
]
