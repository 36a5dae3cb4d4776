"""Values of expressions: what they are in Python, how they are equal and how they compare.

For the evaluator and its functions.  bool, int, float, str, bytes, None, list and dict stand for themselves; an int is
always within 64 bits, `Uint` is the unsigned one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, total_ordering
from typing import TYPE_CHECKING, Any

from .errors import CelError, no_overload

if TYPE_CHECKING:
    from fractions import Fraction

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
_SEMVER = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([^+]*))?(?:\+(.*))?", re.ASCII | re.DOTALL)
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+", re.ASCII)


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Quantity:
    """A Kubernetes quantity."""

    value: Fraction


@total_ordering
class Semver:
    """A semantic version; build metadata does not count in comparisons."""

    __slots__ = ("_rank", "numbers", "text")

    def __init__(self, text: str) -> None:
        """Read a version; CelError for what is none."""
        match = _SEMVER.fullmatch(text)
        if match is None:
            raise CelError(f"{text!r} is not a semantic version: it must be major.minor.patch, such as 1.2.3-rc.1")
        parts, before, build = match.group(1, 2, 3), match.group(4), match.group(5)
        names = before.split(".") if before is not None else []
        if any(len(part) > 1 and part[0] == "0" for part in (*parts, *(n for n in names if n.isdigit()))):
            raise CelError(f"{text!r} is not a semantic version: a number must not begin with 0")
        for name in (*names, *(build.split(".") if build is not None else ())):
            if not _IDENTIFIER.fullmatch(name):
                raise CelError(f"{text!r} is not a semantic version: {name!r} is no identifier")
        self.text = text
        self.numbers = tuple(int(part) for part in parts)
        if any(number > UINT_MAX for number in self.numbers):
            raise CelError(f"{text!r} is not a semantic version: a number is too large")
        ranks = tuple((0, int(n), "") if n.isdigit() else (1, 0, n) for n in names)
        self._rank = (self.numbers, not names, ranks)

    def __eq__(self, other: object) -> bool:
        """Compare by precedence."""
        return isinstance(other, Semver) and self._rank == other._rank

    def __lt__(self, other: Semver) -> bool:
        """Compare by precedence."""
        return self._rank < other._rank

    def __hash__(self) -> int:
        """Hash by precedence."""
        return hash(self._rank)


@cache
def semver_of(text: str) -> Semver:
    """Return a version, read once; CelError for what is none."""
    return Semver(text)


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be absent."""

    value: Any = None
    is_present: bool = False


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type, as `type()` returns it."""

    name: str


class DefaultMap(dict[Any, Any]):
    """A map in which every key that is missing is found to be an empty map; only `in` tells the difference."""


_KINDS = {
    bool: "bool", int: "int", Uint: "uint", float: "double", str: "string", bytes: "bytes", type(None): "null",
    list: "list", dict: "map", DefaultMap: "map", Quantity: "quantity", Semver: "semver", Optional: "optional",
    TypeValue: "type",
}  # fmt: skip
NUMBERS = frozenset(("int", "uint", "double"))
#: What Kubernetes calls its own types.
TYPE_NAMES = {
    "quantity": "kubernetes.Quantity",
    "semver": "kubernetes.Semver",
    "null": "null_type",
    "optional": "optional_type",
}


def kind_of(value: object) -> str:
    """Return the kind of a value."""
    return _KINDS[type(value)]


def equal(left: Any, right: Any) -> bool:  # noqa: PLR0911 - one for each kind
    """Tell whether values are equal; values of different kinds are not, but quantities and versions are never asked that."""
    if left is None or right is None:
        return left is right
    one, other = kind_of(left), kind_of(right)
    if one in NUMBERS and other in NUMBERS:
        return bool(left == right)
    if one != other:
        if one in ("quantity", "semver"):
            raise no_overload("_==_", one, other)
        return False
    if one == "list":
        return len(left) == len(right) and all(equal(a, b) for a, b in zip(left, right, strict=True))
    if one == "map":
        return len(left) == len(right) and all(key in right and equal(left[key], right[key]) for key in left)
    if one == "optional":
        return left.is_present == right.is_present and (not left.is_present or equal(left.value, right.value))
    return bool(left == right)


def within(value: int) -> int:
    """Return an int if it fits into 64 bits; CelError if not."""
    if not INT_MIN <= value <= INT_MAX:
        raise CelError("integer overflow")
    return value


def within_uint(value: int) -> Uint:
    """Return an unsigned int if it fits into 64 bits; CelError if not."""
    if not 0 <= value <= UINT_MAX:
        raise CelError("unsigned integer overflow")
    return Uint(value)


def size_of(value: object) -> int:
    """Return how large a value is for the cost of working on it: 1 for what has no length."""
    return len(value) if isinstance(value, str | bytes | list | dict) else 1
