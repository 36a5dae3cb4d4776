"""Arguments of DynamicResources.

For the plugin beside it.
"""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from scheduler.config import ConfigurationModel
from scheduler.config.duration import Duration


class DynamicResourcesArgs(ConfigurationModel):
    """Arguments of DynamicResources."""

    binding_timeout: Duration = Field(default=timedelta(seconds=600), gt=timedelta(0))
    """How long a pod waits until its devices are ready (binding conditions)."""
    filter_timeout: Duration = Field(default=timedelta(seconds=10), ge=timedelta(0))
    """Changes nothing: the search for devices on a node is limited in steps, not in time."""
    prefers_connected: bool = False
    """Of the devices that a claim may have, the best connected ones are taken, not the first that are listed, and nodes are preferred
    whose devices are linked best."""
    fractional_capacity: bool = False
    """Steps of shared capacities may be fractions: the gate DRAFractionalCapacityRange, which 1.37 has off by default."""
    preemption_releases_claims: bool = False
    """Preemption counts on the devices of its victims; kube-scheduler's never does."""
