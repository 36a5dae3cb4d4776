"""DynamicResources: devices for pods, from the ResourceClaims that they use."""

from .args import DynamicResourcesArgs
from .plugin import NAME, DynamicResources

__all__ = ["NAME", "DynamicResources", "DynamicResourcesArgs"]
