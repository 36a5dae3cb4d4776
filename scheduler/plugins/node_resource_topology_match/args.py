"""The arguments of NodeResourceTopologyMatch, named as those of scheduler-plugins (NodeResourceTopologyMatchArgs, v1)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from scheduler.config import ConfigurationModel

LEAST_NUMA_NODES = "LeastNUMANodes"


class ResourceWeight(ConfigurationModel):
    """How much a resource counts in a score."""

    name: str = Field(min_length=1)
    """The resource."""
    weight: int = Field(default=1, ge=0, le=100)
    """Its weight; 0 counts as 1, as does a resource that is not listed."""


class NumaScoringStrategy(ConfigurationModel):
    """What makes a node good."""

    type: Literal["LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"] = "LeastAllocated"
    """`LeastNUMANodes`: few NUMA nodes near each other, whatever the kubelet's policy. The others rate the fullness of NUMA
    nodes, where the policy is single-numa-node."""
    resources: list[ResourceWeight] = Field(default=[])
    """Weights of resources, for `LeastAllocated` and `MostAllocated`."""


class NodeResourceTopologyCache(ConfigurationModel):
    """How reports are compared with the pods that are known."""

    foreign_pods_detect: Literal["All", "None", "OnlyExclusiveResources"] = "All"
    """Which pods of other schedulers are deducted while no report tells of them."""
    resync_method: Literal["Autodetect", "All", "OnlyExclusiveResources"] = "Autodetect"
    """Which pods a fingerprint is taken to be of; `Autodetect` goes by the attribute beside it."""
    informer_mode: Literal["Dedicated", "Shared"] = "Dedicated"
    """Has no effect: all plugins see the same pods."""
    resync_scope: Literal["All", "OnlyResources"] = "All"
    """`All`: the kubelet's policy and scope count as soon as an object tells them. `OnlyResources`: when its amounts do."""


class NodeResourceTopologyMatchArgs(ConfigurationModel):
    """Arguments of NodeResourceTopologyMatch."""

    scoring_strategy: NumaScoringStrategy = NumaScoringStrategy()
    """What makes a node good."""
    cache_resync_period_seconds: int = Field(default=0, ge=0)
    """Above 0, pods that the report of a node does not tell of yet are deducted from all its NUMA nodes. Reports are compared
    as soon as they come, so that the number itself does not matter. With 0, what is reported counts as it stands."""
    discard_reserved_nodes: bool = False
    """Refuse nodes that have pods whose binding is not done yet, instead of deducting these."""
    cache: NodeResourceTopologyCache = NodeResourceTopologyCache()
    """How reports are compared with the pods that are known."""
