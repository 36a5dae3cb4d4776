"""Which controller plays for an object of the embedded cluster that makes pods.

For the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .daemons import DaemonController
from .jobs import JobController
from .objects import ApiJob
from .workloads import ReplicaController, StatefulController

if TYPE_CHECKING:
    from .cluster import Cluster
    from .workloads import Controller
    from .world import ControllerObject


def controller_for(item: ControllerObject, cluster: Cluster) -> Controller:
    """Return the controller for an object."""
    if isinstance(item.api, ApiJob):
        return JobController(item, item.api, cluster)
    if item.owner.kind == "DaemonSet":
        return DaemonController(item, item.api, cluster)
    if item.owner.kind == "StatefulSet":
        return StatefulController(item, item.api, cluster)
    return ReplicaController(item, item.api, cluster)
