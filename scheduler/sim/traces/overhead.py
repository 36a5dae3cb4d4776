"""How long a job takes to start or to start again, by its model and its GPUs, as measured for the Muri simulations.

For policies that take GPUs from running jobs.  The figures are those of Rivendile/Muri @4e69a78c (Apache-2.0).
"""

from __future__ import annotations

from bisect import bisect_left

#: For models that nobody has measured.
DEFAULT_SECONDS = 10.0

_GPUS = (1, 2, 4, 8, 16, 32)
#: Seconds with so many GPUs.
_SECONDS = {
    "vgg16": (7, 7, 8, 9, 9, 10),
    "vgg19": (7, 7, 8, 9, 10, 10),
    "resnet18": (4, 5, 5, 7, 7, 7),
    "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8),
    "bert": (10, 10, 10, 10, 10, 10),
    "gpt2": (10, 10, 10, 10, 10, 10),
    "a2c": (38, 39, 39, 46, 46, 46),
    "dqn": (5, 5, 6, 6, 8, 8),
}


def start_overhead_seconds(model: str, gpus: int) -> float:
    """Return how long a job takes to start; between two measured numbers of GPUs, as with the higher one."""
    measured = _SECONDS.get(model)
    if measured is None:
        return DEFAULT_SECONDS
    return float(measured[min(bisect_left(_GPUS, gpus), len(_GPUS) - 1)])
