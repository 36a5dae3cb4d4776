"""Change: something that happened in the cluster, as queueing hints see it.

For plugins that refine what wakes a refused pod, and for the queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .status import ClusterEvent


@dataclass(frozen=True, slots=True)
class Change:
    """What happened, and to which node and pod."""

    event: ClusterEvent
    node_name: str = ""
    pod_uid: str = ""
