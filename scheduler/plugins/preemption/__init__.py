"""Priority preemption: whom to evict for a pod (DefaultPreemption) or for a whole gang (GangPreemption).

For the profiles; `victims` and `costs` hold the decisions that both share.
"""

from .default import DefaultPreemption
from .gang import GangPreemption

__all__ = ["DefaultPreemption", "GangPreemption"]
