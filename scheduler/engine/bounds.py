"""Bounds: cheap and sound answers to "can these pods fit at all": now, ever, or with evictions.

For the cycle, before it searches.  A bound may say "perhaps" where the truth is "no", never the other way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scheduler.model import Pod
    from scheduler.state.snapshot import Bools, Ints, Nodes


def slots(pod: Pod, nodes: Nodes, room: dict[str, Ints], where: Bools) -> int:
    """Return how many such pods the nodes could take at most, by resources alone.

    `room` is what each node has of a resource; `where` says which nodes are open to the pod. O(nodes × resources).
    """
    count = np.where(where, room["pods"], 0)
    for resource, request in pod.requests.items():
        if request > 0:
            np.minimum(count, room[resource] // request, out=count)
    return int(np.maximum(count, 0).sum()) if len(nodes) else 0


def free_room(pod: Pod, nodes: Nodes) -> dict[str, Ints]:
    """Return what is free now, per resource that the pod asks for, and of pod slots."""
    room = {resource: nodes.allocatable(resource) - nodes.requested(resource) for resource in pod.requests}
    return room | {"pods": nodes.allocatable("pods") - nodes.pod_counts()}


def whole_room(pod: Pod, nodes: Nodes) -> dict[str, Ints]:
    """Return what empty nodes would offer, per resource that the pod asks for, and of pod slots."""
    return {resource: nodes.allocatable(resource) for resource in (*pod.requests, "pods")}
