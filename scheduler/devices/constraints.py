"""Constraints over the devices of a claim: an attribute that all must share, or in which all must differ.

For the allocator, which adds devices and takes them away again in reverse.  Both are monotonic: what is refused stays refused
when more devices are added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .errors import AllocationError

if TYPE_CHECKING:
    from scheduler.model.device_claims import DeviceClaim, DeviceConstraint
    from scheduler.model.devices import Attribute, Device

_COMPARABLE = frozenset(("string", "int", "bool", "version"))


class Constraint(Protocol):
    """One constraint of a claim during a search."""

    attribute: str

    def applies(self, names: tuple[str, str]) -> bool:
        """Tell whether it is about a request, or the alternative of it."""

    def add(self, names: tuple[str, str], driver: str, device: Device) -> bool:
        """Take a device for a request (its name and that of the alternative, or ""); False, and unchanged, if it does not fit."""

    def remove(self, names: tuple[str, str]) -> None:
        """Take back the device that was added last for a request."""


def attribute_of(driver: str, device: Device, name: str) -> Attribute | None:
    """Return an attribute by its full name; one without a domain belongs to the driver's."""
    if (found := device.attributes.get(name)) is not None:
        return found
    domain, slash, short = name.partition("/")
    return device.attributes.get(short) if slash and domain == driver else None


class MatchAttribute:
    """All devices have the same value."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        """Start without devices."""
        self.attribute = attribute
        self._requests = frozenset(requests)
        self._value: Attribute | None = None
        self._count = 0

    def applies(self, names: tuple[str, str]) -> bool:
        """Tell whether it is about a request."""
        return _applies(self._requests, names)

    def add(self, names: tuple[str, str], driver: str, device: Device) -> bool:
        """Take a device that has the value of those before it; the first needs the attribute only."""
        if not _applies(self._requests, names):
            return True
        value = attribute_of(driver, device, self.attribute)
        if value is None:
            return False
        if self._count == 0:
            self._value = value
        elif value.kind not in _COMPARABLE or value != self._value:
            return False
        self._count += 1
        return True

    def remove(self, names: tuple[str, str]) -> None:
        """Take one back."""
        if _applies(self._requests, names):
            self._count -= 1


class DistinctAttribute:
    """No two devices have the same value."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        """Start without devices."""
        self.attribute = attribute
        self._requests = frozenset(requests)
        self._values: list[Attribute] = []

    def applies(self, names: tuple[str, str]) -> bool:
        """Tell whether it is about a request."""
        return _applies(self._requests, names)

    def add(self, names: tuple[str, str], driver: str, device: Device) -> bool:
        """Take a device that has another value than all before it."""
        if not _applies(self._requests, names):
            return True
        value = attribute_of(driver, device, self.attribute)
        if value is None:
            return False
        if self._values and (value.kind not in _COMPARABLE or value in self._values):
            return False
        self._values.append(value)
        return True

    def remove(self, names: tuple[str, str]) -> None:
        """Take one back."""
        if _applies(self._requests, names):
            self._values.pop()


def constraints_of(claim: DeviceClaim) -> list[Constraint]:
    """Return the constraints of a claim; AllocationError for one of an unknown kind."""
    found: list[Constraint] = []
    for turn, each in enumerate(claim.constraints):
        found.append(_constraint(claim, turn, each))
    return found


def _constraint(claim: DeviceClaim, turn: int, each: DeviceConstraint) -> Constraint:
    if each.match is not None:
        return MatchAttribute(each.match, each.requests)
    if each.distinct is not None:
        return DistinctAttribute(each.distinct, each.requests)
    raise AllocationError(f"claim {claim.label}, constraint #{turn}: empty constraint (unsupported constraint type?)")


def _applies(requests: frozenset[str], names: tuple[str, str]) -> bool:
    """Tell whether a constraint is about a request or an alternative of it; without names it is about all."""
    request, alternative = names
    return not requests or request in requests or (bool(alternative) and f"{request}/{alternative}" in requests)
