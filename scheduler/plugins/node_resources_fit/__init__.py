"""NodeResourcesFit: whether a node has room for a pod's requests, and how full it should be."""

from .plugin import NAME, NodeResourcesFit
from .strategies import NodeResourcesFitArgs

__all__ = ["NAME", "NodeResourcesFit", "NodeResourcesFitArgs"]
