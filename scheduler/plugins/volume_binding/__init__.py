"""VolumeBinding: volumes for a pod's claims: those that it has, those that fit, and those that can be made."""

from .plugin import NAME, VolumeBinding
from .scoring import VolumeBindingArgs

__all__ = ["NAME", "VolumeBinding", "VolumeBindingArgs"]
