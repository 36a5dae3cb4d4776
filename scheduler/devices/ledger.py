"""Ledger: which devices are in use, and how much of those that are shared; changed by claims, in either direction.

For the allocator, which reads it, and for the plugin, which keeps one of what the API server says and what is assumed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from .amounts import amount_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping
    from fractions import Fraction

    from scheduler.model.device_claims import AllocatedDevice

#: Driver, pool, name.
DeviceId: TypeAlias = tuple[str, str, str]
_NOTHING: Mapping[str, Fraction] = {}


class Ledger:
    """What is in use. Devices that administrators look at only are not."""

    def __init__(self) -> None:
        """Start with nothing in use."""
        #: How many claims have a device for themselves; more than one is somebody's mistake.
        self._exclusive: Counter[DeviceId] = Counter()
        self._shares: Counter[DeviceId] = Counter()
        self._consumed: dict[DeviceId, dict[str, Fraction]] = {}

    def add(self, devices: Iterable[AllocatedDevice]) -> None:
        """Count what a claim has been given."""
        for device in devices:
            self._count(device, 1)

    def remove(self, devices: Iterable[AllocatedDevice]) -> None:
        """Take back what `add` counted."""
        for device in devices:
            self._count(device, -1)

    def is_exclusive(self, device: DeviceId) -> bool:
        """Tell whether a claim has a device for itself."""
        return device in self._exclusive

    def is_shared(self, device: DeviceId) -> bool:
        """Tell whether some claim has a share of a device."""
        return device in self._shares

    def is_in_use(self, device: DeviceId) -> bool:
        """Tell whether any claim has a device or a share of it."""
        return device in self._exclusive or device in self._shares

    def consumed(self, device: DeviceId) -> Mapping[str, Fraction]:
        """Return how much shares have taken of a device, by capacity."""
        return self._consumed.get(device, _NOTHING)

    def twice(self) -> list[DeviceId]:
        """Return the devices that more than one claim has for itself, or that are also shared."""
        return sorted(d for d, n in self._exclusive.items() if n > 1 or d in self._shares)

    def without(self, gone: Iterable[AllocatedDevice], among: Iterable[DeviceId]) -> Ledger:
        """Return what is in use among some devices if what claims have been given were taken back; O(these devices)."""
        other, ids = Ledger(), set(among)
        for device in ids:
            if device in self._exclusive:
                other._exclusive[device] = self._exclusive[device]
            if device in self._shares:
                other._shares[device] = self._shares[device]
                other._consumed[device] = dict(self._consumed.get(device, _NOTHING))
        other.remove(device for device in gone if device.id in ids)
        return other

    def use_of(self, device: DeviceId) -> Hashable:
        """Return what is equal for devices that are used alike: None for one that is free."""
        if not self.is_in_use(device):
            return None
        taken = self._consumed.get(device)
        return device in self._exclusive, device in self._shares, frozenset(taken.items()) if taken else None

    def _count(self, device: AllocatedDevice, sign: int) -> None:
        if device.admin_access:
            return
        counts = self._exclusive if device.share_id is None else self._shares
        counts[device.id] += sign
        if not counts[device.id]:
            del counts[device.id]
        if device.share_id is None:
            return
        taken = self._consumed.setdefault(device.id, {})
        for name, text in device.consumed.items():
            taken[name] = taken.get(name, amount_of("0")) + sign * amount_of(text)
        if device.id not in self._shares:
            del self._consumed[device.id]
