"""DynamicResources: devices for pods, from the ResourceClaims that they use."""

from .plugin import NAME, DynamicResources, DynamicResourcesArgs

__all__ = ["NAME", "DynamicResources", "DynamicResourcesArgs"]
