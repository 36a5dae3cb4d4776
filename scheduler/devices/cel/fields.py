"""Fields and elements: how `a.b`, `a.?b`, `a[b]` and `a[?b]` are looked up, and whether `has(a.b)`.

For the compiler beside it.
"""

from __future__ import annotations

from typing import Any

from .errors import CelError, no_overload
from .values import NUMBERS, DefaultMap, Optional, kind_of

ABSENT = Optional()


def member_of(value: Any, field: str, *, is_optional: bool) -> Any:
    """Return a field of a map; with `is_optional`, or of an optional value, an optional one."""
    if isinstance(value, Optional):
        return _of_optional(value, lambda inner: member_of(inner, field, is_optional=True))
    if not isinstance(value, dict):
        raise no_overload("select", kind_of(value), field)
    return _found(value, field, is_optional=is_optional)


def has_member(value: Any, field: str) -> bool:
    """Tell whether a map has a field."""
    if isinstance(value, Optional):
        return value.is_present and has_member(value.value, field)
    if not isinstance(value, dict):
        raise no_overload("has", kind_of(value), field)
    return field in value or isinstance(value, DefaultMap)


def index_of(value: Any, key: Any, *, is_optional: bool) -> Any:
    """Return an element of a list or map; with `is_optional`, or of an optional value, an optional one."""
    if isinstance(value, Optional):
        return _of_optional(value, lambda inner: index_of(inner, key, is_optional=True))
    if isinstance(value, dict):
        if kind_of(key) not in ("string", "bool", "int", "uint", "double"):
            raise no_overload("_[_]", "map", kind_of(key))
        return _found(value, key, is_optional=is_optional)
    if not isinstance(value, list):
        raise no_overload("_[_]", kind_of(value), kind_of(key))
    if kind_of(key) not in NUMBERS or key != int(key):
        raise CelError(f"unsupported index type '{kind_of(key)}' in list")
    if not 0 <= key < len(value):
        if is_optional:
            return ABSENT
        raise CelError(f"index out of bounds: {key}")
    found = value[int(key)]
    return Optional(found, is_present=True) if is_optional else found


def _found(value: dict[Any, Any], key: Any, *, is_optional: bool) -> Any:
    if key not in value:
        if isinstance(value, DefaultMap):
            return Optional({}, is_present=True) if is_optional else {}
        if is_optional:
            return ABSENT
        raise CelError(
            f"no such key: {key}. consider using CEL optional chaining (.? followed by orValue()) or guarding the check "
            "with has() for optional fields"
        )
    return Optional(value[key], is_present=True) if is_optional else value[key]


def _of_optional(value: Optional, look: Any) -> Optional:
    if not value.is_present:
        return value
    found: Optional = look(value.value)
    return found
