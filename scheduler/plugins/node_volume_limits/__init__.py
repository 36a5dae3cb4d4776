"""NodeVolumeLimits: whether a node can attach the volumes of one more pod."""

from .plugin import NAME, NodeVolumeLimits

__all__ = ["NAME", "NodeVolumeLimits"]
