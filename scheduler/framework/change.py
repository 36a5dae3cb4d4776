"""Change: something that happened in the cluster, as queueing hints see it.

For plugins that refine what wakes a refused pod, and for the queue.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.model import Node, Pod

    from .status import ClusterEvent


@dataclass(frozen=True, slots=True)
class Change:
    """What happened, and to which node, pod or other object; what is there now stands in the cluster's state."""

    event: ClusterEvent
    node_name: str = ""
    pod_uid: str = ""
    #: Namespace and name of an object that is only read.
    key: tuple[str, str] = ("", "")
    #: The pod as it was before, where one was removed or changed; None if it is new, or not known.
    former_pod: Pod | None = field(default=None, compare=False)
    #: The node as it was before, where one was changed or removed.
    former_node: Node | None = field(default=None, compare=False)
