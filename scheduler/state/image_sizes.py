"""ImageSizes: how large an image counts, in a cluster whose nodes may tell different sizes of it.

For ClusterState.  As in kube-scheduler's cache, the node that told of an image first decides, until no node has the image;
a node that changes goes and comes again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.model import Node


class ImageSizes:
    """The sizes of all images of all nodes; fields are to be read only."""

    __slots__ = ("_holders", "sizes")

    def __init__(self) -> None:
        """Start without images."""
        #: Image name to bytes.
        self.sizes: dict[str, int] = {}
        self._holders: dict[str, int] = {}

    def replace(self, former: Node | None, node: Node | None) -> bool:
        """Take one node out and another in; return whether the size of an image changed that both have.  O(their images)."""
        before = {name: self.sizes[name] for name in former.images} if former else {}
        for name in before:
            self._holders[name] -= 1
            if not self._holders[name]:
                del self._holders[name], self.sizes[name]
        for name, size in node.images.items() if node else ():
            self._holders[name] = self._holders.get(name, 0) + 1
            self.sizes.setdefault(name, size)
        return any(self.sizes.get(name, size) != size for name, size in before.items())
