"""NVLinkTopology: GPUs that are joined well, inside nodes and between them."""

from .plugin import NAME, NVLinkTopology, NVLinkTopologyArgs

__all__ = ["NAME", "NVLinkTopology", "NVLinkTopologyArgs"]
