"""Types that an expression is checked against before it is ever evaluated, as kube-apiserver checks it.

A type is a name, or a tuple of a name and what is inside: ("list", T), ("map", K, V), ("optional", T).  "dyn" is known at
run time only, and goes with everything.
"""

from __future__ import annotations

from typing import TypeAlias

from .values import TYPE_NAMES

Type: TypeAlias = "str | tuple[str | tuple[object, ...], ...]"

DYN = "dyn"
ANY_LIST: Type = ("list", DYN)
ANY_MAP: Type = ("map", DYN, DYN)
#: What a request selects devices by: its fields and their types.
DEVICE_FIELDS: dict[str, Type] = {
    "driver": "string",
    "allowMultipleAllocations": "bool",
    "attributes": ("map", "string", ("map", "string", DYN)),
    "capacity": ("map", "string", ("map", "string", "quantity")),
}


def base(kind: Type) -> str:
    """Return the name of a type without what is inside."""
    return kind if isinstance(kind, str) else str(kind[0])


def fits(given: Type, wanted: Type) -> bool:
    """Tell whether a value of one type may stand where another is wanted."""
    if DYN in (given, wanted):
        return True
    if base(given) != base(wanted):
        return False
    if isinstance(given, str) or isinstance(wanted, str):
        return True
    return all(fits(one, other) for one, other in zip(given[1:], wanted[1:], strict=True))  # type: ignore[arg-type]


def are_comparable(left: Type, right: Type) -> bool:
    """Tell whether two types may be asked for equality: they must be the same."""
    return fits(left, right)


def joined(kinds: list[Type]) -> Type | None:
    """Return the one type of elements of a literal; "dyn" if some are, None if they are mixed."""
    if not kinds:
        return DYN
    first = next((kind for kind in kinds if kind != DYN), DYN)
    if not all(fits(kind, first) for kind in kinds):
        return None
    return first if DYN not in kinds else DYN


def inside(kind: Type, position: int = 1) -> Type:
    """Return the type of what is in a list, map or optional; "dyn" if it is not known."""
    return kind[position] if isinstance(kind, tuple) and len(kind) > position else DYN  # type: ignore[return-value]


def shown(kind: Type) -> str:
    """Return a type as messages show it."""
    if isinstance(kind, str):
        return TYPE_NAMES.get(kind, kind)
    return f"{kind[0]}({', '.join(shown(each) for each in kind[1:])})"  # type: ignore[arg-type]
