"""The built-in plugins, one a file, and the two sets of them that profiles start from.

For the registry.  Plugins do not know each other; the order of a set is the order in which its plugins are called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .default_binder import DefaultBinder
from .dynamic_resources import DynamicResources
from .fabric_topology import FabricTopology
from .gang import Gang
from .gpu_fragmentation import GPUFragmentation
from .gpu_isolation import GPUIsolation
from .image_locality import ImageLocality
from .inter_pod_affinity import InterPodAffinity
from .node_affinity import NodeAffinity
from .node_declared_features import NodeDeclaredFeatures
from .node_name import NodeName
from .node_ports import NodePorts
from .node_resource_topology_match import NodeResourceTopologyMatch
from .node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from .node_resources_fit import NodeResourcesFit
from .node_unschedulable import NodeUnschedulable
from .node_volume_limits import NodeVolumeLimits
from .nvlink_topology import NVLinkTopology
from .pod_topology_spread import PodTopologySpread
from .preemption import DefaultPreemption, GangPreemption
from .priority_sort import PrioritySort
from .scheduling_gates import SchedulingGates
from .taint_toleration import TaintToleration
from .volume_binding import VolumeBinding
from .volume_restrictions import VolumeRestrictions
from .volume_zone import VolumeZone

if TYPE_CHECKING:
    from scheduler.framework.plugin import Plugin

BUILT_IN: dict[str, type[Plugin]] = {
    cls.NAME: cls
    for cls in (
        SchedulingGates, PrioritySort, NodeName, NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts,
        NodeResourcesFit, VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone, DynamicResources, PodTopologySpread,
        InterPodAffinity, NodeResourcesBalancedAllocation, ImageLocality, GPUIsolation, NVLinkTopology, GPUFragmentation,
        FabricTopology, Gang, DefaultPreemption, GangPreemption, DefaultBinder, NodeDeclaredFeatures, NodeResourceTopologyMatch,
    )
}  # fmt: skip

#: kube-scheduler's plugins, order and weights (1.37), with our gangs, which it knows nothing of.
_KUBE_DEFAULT: dict[str, int] = {
    "SchedulingGates": 0,
    "PrioritySort": 0,
    "NodeName": 0,
    "NodeUnschedulable": 0,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodePorts": 0,
    "NodeResourcesFit": 1,
    "VolumeRestrictions": 0,
    "NodeVolumeLimits": 0,
    "VolumeBinding": 1,
    "VolumeZone": 0,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "Gang": 0,
    "DefaultPreemption": 0,
    "GangPreemption": 0,
    "DefaultBinder": 0,
    "NodeDeclaredFeatures": 0,
}

#: Ours: GPUs and gangs pack, pods without GPUs spread and keep off GPU nodes.
_AI_SCHEDULER: dict[str, int] = {
    **{
        name: weight
        for name, weight in _KUBE_DEFAULT.items()
        if name not in ("DefaultPreemption", "GangPreemption", "DefaultBinder")
    },
    "GPUIsolation": 5,
    "NVLinkTopology": 25,
    "DynamicResources": 25,
    "NodeResourceTopologyMatch": 2,
    "GPUFragmentation": 5,
    "FabricTopology": 0,
    "DefaultPreemption": 0,
    "GangPreemption": 0,
    "DefaultBinder": 0,
}

#: Base of a profile → plugin → weight. The one place where weights are listed.
BASES: dict[str, dict[str, int]] = {"ai-scheduler": _AI_SCHEDULER, "kube-default": _KUBE_DEFAULT}

#: Base of a profile → plugin → arguments that differ from the plugin's own defaults.
BASE_ARGS: dict[str, dict[str, Any]] = {
    "ai-scheduler": {
        "DefaultPreemption": {"protectGangs": True, "minimizeLoss": True},
        "NodeResourceTopologyMatch": {
            "scoringStrategy": {"type": "LeastNUMANodes"},
            "cacheResyncPeriodSeconds": 5,
        },
        "DynamicResources": {"prefersConnected": True, "preemptionReleasesClaims": True},
        "NodeResourcesFit": {
            "scoringStrategy": {
                "type": "LeastAllocated",
                "resources": [
                    {"name": "cpu", "weight": 1},
                    {"name": "memory", "weight": 1},
                    {"name": "nvidia.com/gpu", "weight": 10, "type": "MostAllocated"},
                    {"name": "scheduling.ai-scheduler.io/gpu-milli", "weight": 10, "type": "MostAllocated"},
                ],
            }
        },
    },
    "kube-default": {},
}
