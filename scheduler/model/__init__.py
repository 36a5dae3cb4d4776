"""Typed, immutable views of the objects that scheduling reads, and the exact arithmetic of quantities and selectors.

For every other part; it imports none of them.
"""

from .gang import (
    Budget,
    Gang,
    GangKey,
    PriorityClass,
    budget_from_api,
    gang_from_api,
    gang_key_of,
    priority_class_from_api,
)
from .node import Node, node_from_api
from .owners import Namespace, Owner, namespace_from_api, owner_of_labels, owner_of_selector
from .pod import HostPort, Pod, pod_from_api

__all__ = [
    "Budget",
    "Gang",
    "GangKey",
    "HostPort",
    "Namespace",
    "Node",
    "Owner",
    "Pod",
    "PriorityClass",
    "budget_from_api",
    "gang_from_api",
    "gang_key_of",
    "namespace_from_api",
    "node_from_api",
    "owner_of_labels",
    "owner_of_selector",
    "pod_from_api",
    "priority_class_from_api",
]
