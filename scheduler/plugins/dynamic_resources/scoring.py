"""Scoring: how early the alternatives stand that a node would serve.

For the plugin beside it: kube-scheduler's `computeScore`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.devices.allocator import Given
    from scheduler.model.device_claims import DeviceClaim

#: As many alternatives a request may have: the first is worth so much, each further one 1 less.
MOST_ALTERNATIVES = 8


def preference(claims: Sequence[DeviceClaim], given: Sequence[Given]) -> int:
    """Return the worth of what a pod's claims have, or would be given, in order."""
    fresh, total = iter(given), 0
    for claim in claims:
        allocation = claim.allocation
        if allocation is None:
            answer = next(fresh, None)
            if answer is None:
                return 0
            allocation = answer.allocation
        served = {device.request for device in allocation.devices}
        for request in claim.requests:
            for turn, exact in enumerate(request.alternatives):
                if f"{request.name}/{exact.name}" in served:
                    total += MOST_ALTERNATIVES - turn
    return total
