"""Usage: what a search has chosen so far, beside what is in use; every step can be taken back exactly.

For the search.  It knows devices, shares of their capacities, and counters that devices of a pool have in common.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

from .amounts import amount_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .ledger import DeviceId, Ledger
    from .pools import Candidate, Pool, PoolId

_ZERO = Fraction(0)
Counters = dict[tuple[str, str], Fraction]


class Usage:
    """What is in use while claims are being allocated."""

    def __init__(self, ledger: Ledger) -> None:
        """Start with what is in use."""
        self.ledger = ledger
        #: By device: the claims (by turn) that it is being given to.
        self._owners: dict[DeviceId, Counter[int]] = {}
        #: By device: how many shares are being given, and how much of its capacities.
        self._shares: Counter[DeviceId] = Counter()
        self._consumed: dict[DeviceId, dict[str, Fraction]] = {}
        self._counters: dict[PoolId, Counters] = {}
        #: What shared counters have left where nothing is being given, by pool.
        self._left: dict[PoolId, Counters] = {}

    def is_taken(self, device: DeviceId) -> bool:
        """Tell whether somebody has a device for itself, or is being given it."""
        return self.ledger.is_exclusive(device) or bool(self._owners.get(device))

    def is_given_to(self, device: DeviceId, claim: int) -> bool:
        """Tell whether a claim is being given a device."""
        return bool((owners := self._owners.get(device)) and owners[claim])

    def is_shared(self, device: DeviceId) -> bool:
        """Tell whether shares of a device are in use or being given: its counters are paid for."""
        return self.ledger.is_shared(device) or bool(self._shares[device])

    def consumed(self, device: DeviceId) -> tuple[Mapping[str, Fraction], Mapping[str, Fraction]]:
        """Return what shares in use, and shares that are being given, take of a device."""
        return self.ledger.consumed(device), self._consumed.get(device, {})

    def give(self, device: DeviceId, claim: int) -> None:
        """Give a device to a claim."""
        self._owners.setdefault(device, Counter())[claim] += 1

    def take(self, device: DeviceId, claim: int) -> None:
        """Undo `give`."""
        owners = self._owners[device]
        owners[claim] -= 1
        if not owners[claim]:
            del owners[claim]

    def give_share(self, device: DeviceId, consumed: Mapping[str, str]) -> None:
        """Give a share of a device."""
        self._shares[device] += 1
        self._add_share(device, consumed, 1)

    def take_share(self, device: DeviceId, consumed: Mapping[str, str]) -> None:
        """Undo `give_share`."""
        self._shares[device] -= 1
        self._add_share(device, consumed, -1)

    def _add_share(self, device: DeviceId, consumed: Mapping[str, str], sign: int) -> None:
        taken = self._consumed.setdefault(device, {})
        for name, text in consumed.items():
            taken[name] = taken.get(name, _ZERO) + sign * amount_of(text)

    def charge(self, candidate: Candidate) -> bool:
        """Count a device against the counters of its pool; False, and unchanged, if any counter of the pool is exceeded."""
        pool = candidate.pool
        left = self._left.get(pool.id)
        if left is None:
            left = self._left[pool.id] = self._left_in(pool)
        self._count(candidate, 1)
        used = self._counters[pool.id]
        if all(used.get(key, _ZERO) <= rest for key, rest in left.items()):
            return True
        self._count(candidate, -1)
        return False

    def refund(self, candidate: Candidate) -> None:
        """Undo `charge`."""
        self._count(candidate, -1)

    def _count(self, candidate: Candidate, sign: int) -> None:
        used = self._counters.setdefault(candidate.pool.id, {})
        for name, counters in candidate.device.consumes:
            for counter, text in counters:
                key = (name, counter)
                used[key] = used.get(key, _ZERO) + sign * amount_of(text)

    def _left_in(self, pool: Pool) -> Counters:
        """Return what counters have left beside devices in use; below zero if drivers gave out too much."""
        left = {(name, counter): rest for name, counters in pool.counters.items() for counter, rest in counters.items()}
        known = [*[(candidate.id, candidate.device) for candidate in pool.devices], *pool.others]
        for device_id, device in known:
            if not self.ledger.is_in_use(device_id):
                continue
            for name, counters in device.consumes:
                for counter, text in counters:
                    left[name, counter] = left.get((name, counter), _ZERO) - amount_of(text)
        return left
