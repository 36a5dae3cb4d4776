"""Amounts of devices as exact numbers, and how a request's share of a capacity is rounded and checked.

For pools, ledger and allocator.  Rules and order are those of `structured/internal/incubating/consumable_capacity.go`
(Kubernetes 1.37).  `is_fractional` stands for its gate DRAFractionalCapacityRange: the steps of a range are counted in
thousandths where its bounds allow that; otherwise all is rounded up to whole numbers.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING

from scheduler.model.quantity import parse_quantity

from .errors import AllocationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.model.devices import Capacity, CapacityRange

_MOST = 2**63 - 1
_ZERO = Fraction(0)


@lru_cache(maxsize=65_536)
def amount_of(text: str) -> Fraction:
    """Return a quantity as a number; the edges have made sure that it is one."""
    return parse_quantity(text)


def text_of(value: Fraction) -> str:
    """Return a number as a quantity: whole, or in thousandths, millionths or billionths, rounded up."""
    if value.denominator == 1:
        return str(value.numerator)
    for suffix, scale in (("m", 10**3), ("u", 10**6)):
        if (value * scale).denominator == 1:
            return f"{(value * scale).numerator}{suffix}"
    return f"{ceil(value * 10**9)}n"


def consumed_by(
    asked: Mapping[str, str] | None, capacity: Mapping[str, Capacity], *, is_fractional: bool
) -> dict[str, str]:
    """Return what a request takes of each capacity of a device; AllocationError if that cannot be told."""
    found = {}
    for name, each in capacity.items():
        wanted = asked.get(name) if asked else None
        found[name] = _consumed(name, wanted, each, is_fractional=is_fractional)
        if amount_of(found[name]) < 0:
            raise AllocationError(f'capacity "{name}": capacity value is negative')
    return found


def has_room(
    asked: Mapping[str, str] | None,
    capacity: Mapping[str, Capacity],
    *used: Mapping[str, Fraction],
    is_fractional: bool,
) -> bool:
    """Tell whether a request fits into what a device has left, and is allowed by its policies.

    A capacity that the device does not have, one that is not allowed and one that is full are a plain no; AllocationError is
    raised for an amount that cannot be told, whatever else is true.
    """
    if asked and any(name not in capacity for name in asked):
        return False
    consumed = consumed_by(asked, capacity, is_fractional=is_fractional)
    for name, each in capacity.items():
        wanted = amount_of(consumed[name])
        if _is_against_policy(wanted, each, is_fractional=is_fractional):
            return False
        if wanted + sum((taken.get(name, _ZERO) for taken in used), _ZERO) > amount_of(each.value):
            return False
    return True


def _consumed(name: str, wanted: str | None, capacity: Capacity, *, is_fractional: bool) -> str:
    if wanted is None:
        return capacity.default if capacity.default is not None else capacity.value
    if capacity.valid_range is not None:
        return _rounded(name, wanted, capacity.valid_range, _unit_of(capacity.valid_range, is_fractional=is_fractional))
    for value in capacity.valid_values or ():
        if amount_of(wanted) <= amount_of(value):
            return value
    return wanted


def _rounded(name: str, wanted: str, reach: CapacityRange, unit: Fraction) -> str:
    """Round an amount up to the least, or to the next step from it."""
    value, least = amount_of(wanted), amount_of(reach.min)
    if value < least:
        return reach.min
    if reach.step is None:
        return wanted
    if unit != 1 and not _is_in_thousandths(value):
        raise AllocationError(f'capacity "{name}": request {wanted} is not a representable milli value')
    value, least, step = (ceil(x / unit) for x in (value, least, amount_of(reach.step)))  # type: ignore[assignment]
    if not step:
        raise AllocationError(f'capacity "{name}": a step of {reach.step} cannot be counted in')
    rounded = least + step * -(-(value - least) // step)
    if value > _MOST or rounded > _MOST:
        raise AllocationError(f'capacity "{name}": request {wanted} cannot be represented in the range of the device')
    return text_of(rounded * unit)


def _is_against_policy(value: Fraction, capacity: Capacity, *, is_fractional: bool) -> bool:
    """Tell whether an amount may not be asked for; the default always may."""
    if not capacity.has_policy or (capacity.default is not None and value == amount_of(capacity.default)):
        return False
    if (reach := capacity.valid_range) is not None:
        return _is_out_of_range(value, reach, _unit_of(reach, is_fractional=is_fractional))
    return bool(capacity.valid_values) and all(value != amount_of(v) for v in capacity.valid_values or ())


def _is_out_of_range(value: Fraction, reach: CapacityRange, unit: Fraction) -> bool:
    if reach.max is not None and value > amount_of(reach.max):
        return True
    if reach.step is None:
        return False
    if unit != 1 and not _is_in_thousandths(value):
        return True
    number, least, step = (ceil(x / unit) for x in (value, amount_of(reach.min), amount_of(reach.step)))
    return not step or (number - least) % step != 0


def _unit_of(reach: CapacityRange, *, is_fractional: bool) -> Fraction:
    """Return what steps are counted in: thousandths, if all bounds can be written so and the step is at least one."""
    if not is_fractional:
        return Fraction(1)
    bounds = [amount_of(text) for text in (reach.min, reach.max, reach.step) if text is not None]
    has_step = reach.step is None or amount_of(reach.step) * 1000 >= 1
    return Fraction(1, 1000) if has_step and all(map(_is_in_thousandths, bounds)) else Fraction(1)


def _is_in_thousandths(value: Fraction) -> bool:
    return (value * 1000).denominator == 1 and abs(value * 1000) <= _MOST
