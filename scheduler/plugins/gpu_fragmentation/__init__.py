"""GPUFragmentation: keeps GPUs whole, and useful to the pods that are likely to come."""

from .plugin import NAME, GPUFragmentation, GPUFragmentationArgs

__all__ = ["NAME", "GPUFragmentation", "GPUFragmentationArgs"]
