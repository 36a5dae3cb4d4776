"""ImageLocality prefers nodes that hold the pod's images already, the more so the larger and the wider spread they are.

At Score, for all containers and image volumes.  An image counts with its size times the share of all nodes that have it,
so that one node with a rare image does not draw every pod; it has one size, whatever single nodes tell (`ImageSizes`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scheduler.framework.plugin import Plugin

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.model import Pod
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
        """Return the scaled sum of each node's images; nothing is looked at for images that no node has."""
        total = np.zeros(len(nodes), dtype=np.int64)
        if not (held := _held(pod, nodes)):
            return total
        for image in held:
            total += _worth(image, nodes.snapshot.image_sizes[image], nodes)
        return scale(total, len(pod.images))

    def same_score(self, pod: Pod, nodes: Nodes) -> int | None:
        """Return 0 for images that no node has."""
        return None if _held(pod, nodes) else 0


def _held(pod: Pod, nodes: Nodes) -> list[str]:
    """Return the images of a pod that some node has."""
    sizes = nodes.snapshot.image_sizes
    return [name for name in map(full_name, pod.images) if name in sizes]


def _worth(image: str, size_bytes: int, nodes: Nodes) -> Ints:
    """Return, where an image is, its size times the share of all nodes that have it."""
    everywhere = nodes.snapshot.nodes.column((NAME, image), lambda node: image in node.images)
    share = np.count_nonzero(everywhere) / len(everywhere)
    worth: Ints = nodes.at(everywhere) * int(size_bytes * share)
    return worth
