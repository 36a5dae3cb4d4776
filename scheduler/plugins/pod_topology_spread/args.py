"""The arguments of PodTopologySpread, checked as kube-scheduler checks them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from pydantic import Field, model_validator

from scheduler.config import ConfigurationModel
from scheduler.model.api import SpreadConstraint

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


class PodTopologySpreadArgs(ConfigurationModel):
    """Arguments, as kube-scheduler's PodTopologySpreadArgs."""

    default_constraints: list[dict[str, Any]] = Field(default=[])
    """Constraints for pods that have none, without `labelSelector`; only with `defaultingType: List`."""
    defaulting_type: Literal["System", "List"] = "System"
    """`System`: hosts with a skew of 3 and zones with 5, ScheduleAnyway. `List`: `defaultConstraints`."""

    @model_validator(mode="after")
    def _check(self) -> PodTopologySpreadArgs:
        if self.default_constraints and self.defaulting_type == "System":
            raise ValueError(
                "defaultConstraints must be empty with defaultingType System; allowed: defaultingType List"
            )
        for i, entry in enumerate(self.default_constraints):
            _check_default(f"defaultConstraints[{i}]", entry)
        return self


def _check_default(path: str, entry: dict[str, Any]) -> None:
    """Refuse a default constraint that kube-scheduler refuses."""
    try:
        constraint = msgspec.convert(entry, SpreadConstraint)
    except msgspec.ValidationError as error:
        raise ValueError(f"{path}: is no topologySpreadConstraint: {error}") from error
    if constraint.max_skew < 1:
        raise ValueError(f"{path}.maxSkew: {constraint.max_skew} is out of range; allowed are numbers from 1")
    if not constraint.topology_key:
        raise ValueError(f"{path}.topologyKey: is missing; allowed is a node label")
    if constraint.when_unsatisfiable not in (HARD, SOFT):
        raise ValueError(f"{path}.whenUnsatisfiable: {constraint.when_unsatisfiable!r}; allowed: {HARD}, {SOFT}")
    if constraint.label_selector is not None:
        raise ValueError(f"{path}.labelSelector: must be left out; it comes from the pod's Services and controller")
