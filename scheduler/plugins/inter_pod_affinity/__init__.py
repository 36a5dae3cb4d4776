"""InterPodAffinity: pods near the pods they need, and away from those they cannot stand."""

from .plugin import ANTI_AFFINITY, EXISTING, NAME, NO_AFFINITY, InterPodAffinity, InterPodAffinityArgs

__all__ = ["ANTI_AFFINITY", "EXISTING", "NAME", "NO_AFFINITY", "InterPodAffinity", "InterPodAffinityArgs"]
