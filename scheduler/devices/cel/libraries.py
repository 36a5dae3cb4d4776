"""Kubernetes' own types in expressions: `quantity(…)` and `semver(…)`, and their methods.

For the table of functions.  As `k8s.io/apiserver/pkg/cel/library` defines them.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

from scheduler.model.quantity import QuantityError, parse_quantity

from .errors import CelError
from .overloads import traversal
from .values import INT_MAX, INT_MIN, Quantity, Semver, semver_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .overloads import Table

_LEADING_ZEROS = re.compile(r"0+(?=[0-9])")
_PARTS = 3


def quantity_of(text: str) -> Quantity:
    """Return a quantity; CelError for what is none."""
    try:
        return Quantity(parse_quantity(text))
    except QuantityError as error:
        raise CelError(str(error)) from error


def normalized(text: str) -> str:
    """Return a version in full: without a leading v and leading zeros, and with three numbers."""
    parts = text.removeprefix("v").split(".", 2)
    parts = [_LEADING_ZEROS.sub("", part, count=1) if part[:1] == "0" else part for part in parts]
    if len(parts) < _PARTS:
        if any(mark in parts[-1] for mark in "+-"):
            raise CelError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (_PARTS - len(parts))
    return ".".join(parts)


def _is_whole(quantity: Quantity) -> bool:
    return quantity.value.denominator == 1 and INT_MIN <= quantity.value <= INT_MAX


def _as_integer(quantity: Quantity) -> int:
    if not _is_whole(quantity):
        raise CelError("cannot convert value to integer")
    return quantity.value.numerator


def _compared(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _succeeds(read: Callable[..., object]) -> Callable[..., bool]:
    """Return a function that tells whether another one would not fail."""

    def run(*values: Any) -> bool:
        try:
            read(*values)
        except CelError:
            return False
        return True

    return run


def fill(table: Table) -> None:
    """Add everything to the table of functions."""
    _fill_quantities(table)
    _fill_versions(table)


def _fill_quantities(table: Table) -> None:
    table.function("quantity", ("string",), "quantity", quantity_of, costs=traversal)
    table.function("isQuantity", ("string",), "bool", _succeeds(quantity_of), costs=traversal)
    table.method("isInteger", ("quantity",), "bool", _is_whole)
    table.method("asInteger", ("quantity",), "int", _as_integer)
    table.method("asApproximateFloat", ("quantity",), "double", lambda q: float(q.value))
    table.method("sign", ("quantity",), "int", lambda q: _compared(q.value, 0))
    pair = ("quantity", "quantity")
    table.method("add", pair, "quantity", lambda a, b: Quantity(a.value + b.value))
    table.method("sub", pair, "quantity", lambda a, b: Quantity(a.value - b.value))
    table.method("add", ("quantity", "int"), "quantity", lambda a, b: Quantity(a.value + Fraction(b)))
    table.method("sub", ("quantity", "int"), "quantity", lambda a, b: Quantity(a.value - Fraction(b)))
    table.method("isLessThan", pair, "bool", lambda a, b: a.value < b.value)
    table.method("isGreaterThan", pair, "bool", lambda a, b: a.value > b.value)
    table.method("compareTo", pair, "int", lambda a, b: _compared(a.value, b.value))


def _fill_versions(table: Table) -> None:
    def read(text: str, is_short: bool = False) -> Semver:
        return semver_of(normalized(text) if is_short else text)

    for takes in (("string",), ("string", "bool")):
        table.function("semver", takes, "semver", read, costs=lambda text, *_: traversal(text))
        table.function("isSemver", takes, "bool", _succeeds(read), costs=lambda text, *_: traversal(text))
    for position, name in enumerate(("major", "minor", "patch")):
        table.method(name, ("semver",), "int", lambda version, position=position: version.numbers[position])
    pair = ("semver", "semver")
    table.method("isLessThan", pair, "bool", lambda a, b: a < b)
    table.method("isGreaterThan", pair, "bool", lambda a, b: a > b)
    table.method("compareTo", pair, "int", _compared)
