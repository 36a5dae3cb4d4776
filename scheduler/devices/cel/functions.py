"""The functions that expressions may call: those of the language, and Kubernetes' own (`libraries`, `texts`, `lists`).

For the compiler.  What is missing is missing by intent: addresses, URLs, named formats and times say nothing of devices;
an expression that asks for them is an error, never "no match".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from . import libraries, lists, texts
from .errors import CelError, no_overload
from .overloads import Table, traversal
from .typing import ANY_LIST, ANY_MAP, DYN, Type, inside
from .values import (
    INT_MAX,
    INT_MIN,
    TYPE_NAMES,
    UINT_MAX,
    Optional,
    Quantity,
    Semver,
    TypeValue,
    Uint,
    equal,
    kind_of,
    within,
    within_uint,
)

if TYPE_CHECKING:
    from collections.abc import Callable

TABLE = Table()
NAMESPACES = frozenset(("cel", "optional", "sets", "lists", "strings"))
TYPE_NAMES_AS_VALUES = frozenset(
    ("bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type")
)
_ORDERED: tuple[Type, ...] = ("bool", "string", "bytes")
_NUMBERS: tuple[Type, ...] = ("int", "uint", "double")


def _divided(left: int, right: int) -> int:
    """Divide towards zero."""
    if right == 0:
        raise CelError("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) is (right < 0) else -quotient


def _rest(left: int, right: int) -> int:
    """Return the rest of a division towards zero."""
    if right == 0:
        raise CelError("modulus by zero")
    return left - _divided(left, right) * right


def _float_divided(left: float, right: float) -> float:
    if right == 0:
        return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1.0, right)
    return left / right


def _arithmetic(table: Table) -> None:
    integer: dict[str, Callable[[Any, Any], Any]] = {
        "_+_": lambda a, b: a + b, "_-_": lambda a, b: a - b, "_*_": lambda a, b: a * b, "_/_": _divided, "_%_": _rest,
    }  # fmt: skip
    for name, run in integer.items():
        table.function(name, ("int", "int"), "int", lambda a, b, run=run: within(run(a, b)))
        table.function(name, ("uint", "uint"), "uint", lambda a, b, run=run: within_uint(run(int(a), int(b))))
    for name in ("_+_", "_-_", "_*_"):
        table.function(name, ("double", "double"), "double", lambda a, b, run=integer[name]: run(a, b))
    table.function("_/_", ("double", "double"), "double", _float_divided)
    table.function("_+_", ("string", "string"), "string", lambda a, b: a + b, costs=lambda a, b: traversal(a + b))
    table.function("_+_", ("bytes", "bytes"), "bytes", lambda a, b: a + b, costs=lambda a, b: traversal(a + b))
    table.function("_+_", (ANY_LIST, ANY_LIST), ANY_LIST, lambda a, b: a + b, costs=lambda a, b: 1 + len(a) + len(b))
    table.function("-_", ("int",), "int", lambda a: within(-a))
    table.function("-_", ("double",), "double", lambda a: -a)
    table.function("!_", ("bool",), "bool", lambda a: not a)


def _comparisons(table: Table) -> None:
    order: dict[str, Callable[[Any, Any], bool]] = {
        "_<_": lambda a, b: a < b, "_<=_": lambda a, b: a <= b, "_>_": lambda a, b: a > b, "_>=_": lambda a, b: a >= b,
    }  # fmt: skip
    for name, run in order.items():
        for kind in _ORDERED:
            table.function(
                name, (kind, kind), "bool", run, costs=lambda a, b: max(1, traversal(min((a, b), key=_length)))
            )
        for kind in _NUMBERS:
            for other in _NUMBERS:
                table.function(name, (kind, other), "bool", run)
    in_list = lambda item, values: any(_is(item, value) for value in values)  # noqa: E731 - one of a pair
    table.function("_in_", (DYN, ANY_LIST), "bool", in_list, costs=lambda _, values: len(values))
    table.function("_in_", (DYN, ANY_MAP), "bool", lambda key, values: _is_key(key) and key in values)


def _length(value: object) -> int:
    return len(value) if isinstance(value, str | bytes) else 1


def _is(left: object, right: object) -> bool:
    """Tell whether values are equal; what cannot be asked is not."""
    try:
        return equal(left, right)
    except CelError:
        return False


def _is_key(key: object) -> bool:
    return kind_of(key) in ("bool", "int", "uint", "double", "string")


def _to_int(value: Any) -> int:
    if isinstance(value, float):
        if not math.isfinite(value) or not INT_MIN < value < INT_MAX:
            raise CelError("integer overflow")
        return int(value)
    if isinstance(value, str) and not value.lstrip("+-").isdigit():
        raise CelError(f"type conversion error from 'string' to 'int': {value!r}")
    return within(int(value))


def _to_uint(value: Any) -> Uint:
    if isinstance(value, float) and (not math.isfinite(value) or not 0 <= value < UINT_MAX):
        raise CelError("unsigned integer overflow")
    if isinstance(value, str) and not value.isdigit():
        raise CelError(f"type conversion error from 'string' to 'uint': {value!r}")
    return within_uint(int(value))


def _to_bool(value: str) -> bool:
    known = {"1": True, "t": True, "T": True, "TRUE": True, "true": True, "True": True}
    known |= {"0": False, "f": False, "F": False, "FALSE": False, "false": False, "False": False}
    if value not in known:
        raise CelError(f"type conversion error from 'string' to 'bool': {value!r}")
    return known[value]


def _to_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def _conversions(table: Table) -> None:
    for kind in (*_NUMBERS, "string"):
        table.function("int", (kind,), "int", _to_int)
        table.function("uint", (kind,), "uint", _to_uint)
        table.function("double", (kind,), "double", float)
    for kind in (*_NUMBERS, "bool", "string"):
        table.function("string", (kind,), "string", texts.shown)
    table.function("string", ("bytes",), "string", _to_text, costs=traversal)
    table.function("bytes", ("string",), "bytes", str.encode, costs=traversal)
    table.function("bytes", ("bytes",), "bytes", bytes)
    table.function("bool", ("string",), "bool", _to_bool)
    table.function("bool", ("bool",), "bool", bool)
    table.function("dyn", (DYN,), DYN, lambda value: value)
    table.function("type", (DYN,), "type", lambda value: TypeValue(TYPE_NAMES.get(kind_of(value), kind_of(value))))
    for kind in ("string", "bytes", ANY_LIST, ANY_MAP):
        table.function("size", (kind,), "int", len)
        table.method("size", (kind,), "int", len)


def _optionals(table: Table) -> None:
    def value_of(optional: Optional) -> Any:
        if not optional.is_present:
            raise CelError("optional.none() dereference")
        return optional.value

    def or_value(optional: Optional, other: Any) -> Any:
        return optional.value if optional.is_present else other

    def present_if_not_zero(value: Any) -> Optional:
        is_zero = value is None or (not isinstance(value, Quantity | Semver) and not value)
        return Optional() if is_zero else Optional(value, is_present=True)

    def either(optional: Optional, other: Any) -> Optional:
        if not isinstance(other, Optional):
            raise no_overload("or", kind_of(other))
        return optional if optional.is_present else other

    any_optional: Type = ("optional", DYN)
    table.function(
        "optional.of",
        (DYN,),
        any_optional,
        lambda value: Optional(value, is_present=True),
        gives_of=lambda k: ("optional", k[0]),
    )
    table.function(
        "optional.ofNonZeroValue", (DYN,), any_optional, present_if_not_zero, gives_of=lambda k: ("optional", k[0])
    )
    table.function("optional.none", (), any_optional, Optional)
    table.method("hasValue", (any_optional,), "bool", lambda optional: optional.is_present)
    table.method("value", (any_optional,), DYN, value_of, gives_of=lambda k: inside(k[0]))
    table.method(
        "orValue",
        (any_optional, DYN),
        DYN,
        or_value,
        gives_of=lambda k: inside(k[0]) if DYN in (k[1], inside(k[0])) else k[1],
    )
    table.method("or", (any_optional, any_optional), any_optional, either, gives_of=lambda k: k[0])


for fill in (_arithmetic, _comparisons, _conversions, _optionals, texts.fill, lists.fill, libraries.fill):
    fill(TABLE)
