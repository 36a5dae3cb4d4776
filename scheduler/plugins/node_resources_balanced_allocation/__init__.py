"""NodeResourcesBalancedAllocation: whether a pod makes the use of a node's resources more even."""

from .plugin import NAME, NodeResourcesBalancedAllocation, NodeResourcesBalancedAllocationArgs

__all__ = ["NAME", "NodeResourcesBalancedAllocation", "NodeResourcesBalancedAllocationArgs"]
