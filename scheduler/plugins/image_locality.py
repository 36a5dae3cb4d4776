"""ImageLocality prefers nodes that hold the pod's images already, the more so the larger and the wider spread they are.

At Score, for all containers and image volumes.  An image counts with its size times the share of all nodes that have it,
so that one node with a rare image does not draw every pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scheduler.framework.plugin import Plugin

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.model import Node, Pod
    from scheduler.state.snapshot import Ints, Nodes

NAME = "ImageLocality"
#: A smaller sum counts nothing.
LEAST_BYTES = 23 * 1024 * 1024
#: Per image, a larger one counts no more.
MOST_BYTES = 1000 * 1024 * 1024


def full_name(image: str) -> str:
    """Return an image's name with the tag that the container runtime takes when there is none."""
    return f"{image}:latest" if image.rfind(":") <= image.rfind("/") else image


def scale(sum_bytes: Ints, images: int) -> Ints:
    """Return 0 to 100 for sums of so many images."""
    most = MOST_BYTES * images
    return (np.clip(sum_bytes, LEAST_BYTES, most) - LEAST_BYTES) * 100 // (most - LEAST_BYTES)


class ImageLocality(Plugin):
    """Run pods where their images are."""

    NAME: ClassVar[str] = NAME
    READS_NODES_ONLY: ClassVar[bool] = True
    READS_SHAPE_ONLY: ClassVar[bool] = True

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return the scaled sum of each node's images."""
        total = np.zeros(len(nodes), dtype=np.int64)
        if not pod.images:
            return total
        for image in pod.images:
            total += _worth(full_name(image), nodes)
        return scale(total, len(pod.images))


def _worth(image: str, nodes: Nodes) -> Ints:
    """Return an image's size on each node times the share of all nodes that have it."""

    def size(node: Node) -> int:
        return node.images.get(image, 0)

    everywhere = nodes.snapshot.nodes.column((NAME, image), size, np.int64)
    share = np.count_nonzero(everywhere) / max(1, len(everywhere))
    here = nodes.column((NAME, image), size, np.int64)
    return (here * share).astype(np.int64)
