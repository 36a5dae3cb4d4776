"""Scoring: how early the alternatives stand that a node would serve, and how well the GPUs are linked that it would give.

For the plugin beside it: the first is kube-scheduler's `computeScore`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from scheduler.topology import table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.devices.allocator import Given
    from scheduler.devices.ledger import Ledger
    from scheduler.model.device_claims import AllocatedDevice, DeviceClaim
    from scheduler.topology import Machine

    from .answers import Answer
    from .world import Place

#: As many alternatives a request may have: the first is worth so much, each further one 1 less.
MOST_ALTERNATIVES = 8
FULL = 100
#: The share of links in what a set is worth, in percent, as for GPUs of device plugins; the rest goes to what stays connected.
LINK_SHARE = 90
_MOST_KEPT = 65_536


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


class Links:
    """Remembers how well the GPUs are linked of the last answer about each node: answers that are kept are the same objects."""

    def __init__(self) -> None:
        """Start without memory."""
        self._kept: dict[str, tuple[Answer, Place, int]] = {}

    def worth(self, place: Place, claims: Sequence[DeviceClaim], answer: Answer, ledger: Ledger) -> int:
        """Return the connection of what a pod's claims have, or would be given, on a node."""
        if any(claim.allocation is not None for claim in claims):
            return connection(place, claims, answer.given, ledger)
        known = self._kept.get(place.site.name)
        if known is None or known[0] is not answer or known[1] is not place:
            if len(self._kept) > _MOST_KEPT:
                self._kept.clear()
            known = self._kept[place.site.name] = answer, place, connection(place, (), answer.given, ledger)
        return known[2]


def connection(place: Place, claims: Sequence[DeviceClaim], given: Sequence[Given], ledger: Ledger) -> int:
    """Return 0 to 100: how well the GPUs are linked that a pod's claims have or would be given on a node.

    Nine tenths are their NVLink bandwidth as a share of the best that as many GPUs of an empty machine have; one GPU is joined well by
    itself, several of which nothing is known are not.  One tenth is what stays connected for others.  0 for a pod that gets no GPUs.
    """
    allocations = [claim.allocation for claim in claims if claim.allocation is not None]
    allocations += [each.allocation for each in given]
    ours = [device.id for each in allocations for device in each.devices if _is_gpu(place, device)]
    if not ours:
        return 0
    linked = place.connections
    if linked is None or not linked.gpu_of.keys() >= set(ours):
        return (LINK_SHARE * (FULL if len(ours) == 1 else 0) + (FULL - LINK_SHARE) * FULL) // FULL
    taken = sum(1 << linked.gpu_of[each] for each in set(ours))
    free = sum(1 << number for each, number in linked.gpu_of.items() if not ledger.is_in_use(each)) | taken
    return _worth(linked.machine, free, taken)


@lru_cache(maxsize=65_536)
def _worth(machine: Machine, free: int, taken: int) -> int:
    table, count = table_of(machine), taken.bit_count()
    ideal = table.best(machine.all_gpus, count)
    most = ideal.bandwidth_gbps if ideal is not None else 0
    chosen = table.set_of(taken).bandwidth_gbps
    quality = FULL if count == 1 else FULL * chosen // most if most else 0
    harm = table.harm_of(free, taken) if machine.nvlink_gbps.any() else 0
    lost = harm * free.bit_count() // machine.gpu_count
    return (LINK_SHARE * quality + (FULL - LINK_SHARE) * (FULL - lost)) // FULL


def _is_gpu(place: Place, device: AllocatedDevice) -> bool:
    return not device.admin_access and device.id in place.gpus
