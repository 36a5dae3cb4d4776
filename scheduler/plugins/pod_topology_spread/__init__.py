"""PodTopologySpread: pods that are alike, evenly over zones, hosts or racks."""

from .args import PodTopologySpreadArgs
from .plugin import NAME, NO_LABEL, SKEWED, PodTopologySpread

__all__ = ["NAME", "NO_LABEL", "SKEWED", "PodTopologySpread", "PodTopologySpreadArgs"]
