"""How NodeResourcesFit scores: its arguments, and the integer arithmetic of the three strategies.

For the plugin beside it.  The arguments are kube-scheduler's, and one of ours: a strategy per resource, so that a profile
packs GPUs while it spreads cores.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, Self, TypeAlias

from pydantic import Field, field_validator, model_validator

from scheduler.config import ConfigurationModel
from scheduler.framework.broken_line import ShapePoint

Strategy: TypeAlias = Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]


class ResourceSpec(ConfigurationModel):
    """A resource that is scored."""

    name: str = Field(min_length=1)
    """The resource, such as `cpu` or `nvidia.com/gpu`."""
    weight: int = Field(default=1, ge=1, le=100)
    """How much it counts beside the others."""
    type: Strategy | None = None
    """How it is scored; absent means like the whole strategy (ai-scheduler's own field)."""


class RequestedToCapacityRatio(ConfigurationModel):
    """Arguments of the strategy of the same name."""

    shape: list[ShapePoint] = Field(min_length=1)
    """Points in the order of rising utilization."""

    @field_validator("shape")
    @classmethod
    def _rises(cls, shape: list[ShapePoint]) -> list[ShapePoint]:
        if any(a.utilization >= b.utilization for a, b in pairwise(shape)):
            raise ValueError("utilization must rise from point to point")
        return shape


class ScoringStrategy(ConfigurationModel):
    """Which resources are scored, and how."""

    type: Strategy = "LeastAllocated"
    """Prefer the emptiest node, the fullest, or by a line of one's own."""
    resources: list[ResourceSpec] = Field(default=[ResourceSpec(name="cpu"), ResourceSpec(name="memory")])
    """Resources and their weights."""
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None
    """The line, for RequestedToCapacityRatio."""

    @model_validator(mode="after")
    def _has_shape(self) -> Self:
        used = {self.type, *(resource.type for resource in self.resources)}
        if "RequestedToCapacityRatio" in used and self.requested_to_capacity_ratio is None:
            raise ValueError("requestedToCapacityRatio.shape is required for the strategy RequestedToCapacityRatio")
        return self


class NodeResourcesFitArgs(ConfigurationModel):
    """Arguments of NodeResourcesFit."""

    ignored_resources: list[str] = Field(default=[])
    """Extended resources that Filter leaves to others."""
    ignored_resource_groups: list[str] = Field(default=[])
    """Likewise all resources of a group: `example.com` stands for `example.com/*`."""
    scoring_strategy: ScoringStrategy = ScoringStrategy()
    """How Score works."""

    @field_validator("ignored_resource_groups")
    @classmethod
    def _is_group(cls, groups: list[str]) -> list[str]:
        for group in groups:
            if "/" in group:
                raise ValueError(f"{group!r} is no group: it must not contain '/'")
        return groups
