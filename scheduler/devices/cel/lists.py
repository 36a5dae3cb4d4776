"""Functions of lists and sets: Kubernetes' own (isSorted, sum, min, max, indexOf, includes) and those of cel-go (sets, lists).

For the table of functions.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .errors import CelError
from .overloads import Meter, traversal
from .typing import ANY_LIST, DYN, inside
from .values import equal, kind_of, within, within_uint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .overloads import Table
    from .typing import Type

_SUMS = {"int": 0, "uint": 0, "double": 0.0}
_COMPARABLE = frozenset(("int", "uint", "double", "bool", "string", "bytes"))
_LONGEST_RANGE = 100_000


def _one_kind(values: list[Any], function: str) -> str:
    """Return the kind of all elements; CelError if they are mixed or cannot be compared."""
    kinds = {kind_of(value) for value in values}
    if len(kinds) > 1 or not kinds <= _COMPARABLE:
        raise CelError(f"no such overload: {function}(list of {', '.join(sorted(kinds))})")
    return next(iter(kinds), "")


def _is_sorted(values: list[Any]) -> bool:
    _one_kind(values, "isSorted")
    return all(not later < former for former, later in pairwise(values))


def _sum(values: list[Any]) -> Any:
    kind = _one_kind(values, "sum")
    if kind not in ("", *_SUMS):
        raise CelError(f"no such overload: sum(list of {kind})")
    total = sum((int(v) for v in values), 0) if kind != "double" else sum(values)
    return within_uint(total) if kind == "uint" else within(total) if kind != "double" else total


def _most(values: list[Any], function: str) -> Any:
    if not values:
        raise CelError(f"{function} called on empty list")
    _one_kind(values, function)
    return max(values) if function == "max" else min(values)


def _index(values: list[Any], wanted: Any) -> int:
    return next((i for i, value in enumerate(values) if equal(value, wanted)), -1)


def _last_index(values: list[Any], wanted: Any) -> int:
    found = _index(values[::-1], wanted)
    return found if found < 0 else len(values) - 1 - found


def _includes(values: Any, wanted: Any) -> bool:
    """Tell whether a list has a value; what is no list is taken to be a list of itself."""
    return any(equal(value, wanted) for value in values) if isinstance(values, list) else equal(values, wanted)


def _has_all(values: list[Any], wanted: list[Any]) -> bool:
    return all(any(equal(value, each) for value in values) for each in wanted)


def _distinct(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if not any(equal(value, known) for known in found):
            found.append(value)
    return found


def _flattened(meter: Meter, values: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    found: list[Any] = []
    for value in values:
        meter.spend(1)
        found += _flattened(meter, value, depth - 1) if isinstance(value, list) and depth > 0 else [value]
    return found


def _sliced(values: list[Any], start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(values):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _range(meter: Meter, count: int) -> list[int]:
    if not 0 <= count <= _LONGEST_RANGE:
        raise CelError(f"lists.range takes 0 to {_LONGEST_RANGE}")
    meter.spend(count)
    return list(range(count))


def _sorted(values: list[Any]) -> list[Any]:
    _one_kind(values, "sort")
    return sorted(values)


def _pairs(left: list[Any], right: Any) -> int:
    return 1 + len(left) * (len(right) if isinstance(right, list) else 1)


def fill(table: Table) -> None:
    """Add everything to the table of functions."""

    def of_element(kinds: Sequence[Type]) -> Type:
        return inside(kinds[0])

    def same(kinds: Sequence[Type]) -> Type:
        return kinds[0]

    table.method("isSorted", (ANY_LIST,), "bool", _is_sorted, costs=traversal)
    table.method("sum", (ANY_LIST,), DYN, _sum, costs=traversal, gives_of=of_element)
    table.method("min", (ANY_LIST,), DYN, lambda v: _most(v, "min"), costs=traversal, gives_of=of_element)
    table.method("max", (ANY_LIST,), DYN, lambda v: _most(v, "max"), costs=traversal, gives_of=of_element)
    table.method("indexOf", (ANY_LIST, DYN), "int", _index, costs=_pairs)
    table.method("lastIndexOf", (ANY_LIST, DYN), "int", _last_index, costs=_pairs)
    table.method("includes", (DYN, DYN), "bool", _includes, costs=lambda v, _: traversal(v))
    table.method("slice", (ANY_LIST, "int", "int"), ANY_LIST, _sliced, costs=lambda v, *_: 1 + len(v), gives_of=same)
    table.method("flatten", (ANY_LIST,), ANY_LIST, _flattened, meters=True)
    table.method("flatten", (ANY_LIST, "int"), ANY_LIST, _flattened, meters=True)
    table.method("distinct", (ANY_LIST,), ANY_LIST, _distinct, costs=lambda v: _pairs(v, v), gives_of=same)
    table.method("reverse", (ANY_LIST,), ANY_LIST, lambda v: v[::-1], costs=lambda v: 1 + len(v), gives_of=same)
    table.method("sort", (ANY_LIST,), ANY_LIST, _sorted, costs=lambda v: _pairs(v, v), gives_of=same)
    table.function("lists.range", ("int",), ("list", "int"), _range, meters=True)
    table.function("sets.contains", (ANY_LIST, ANY_LIST), "bool", _has_all, costs=_pairs)
    both = lambda a, b: _has_all(a, b) and _has_all(b, a)  # noqa: E731 - beside its siblings
    table.function("sets.equivalent", (ANY_LIST, ANY_LIST), "bool", both, costs=_pairs)
    any_of = lambda a, b: any(equal(one, other) for one in a for other in b)  # noqa: E731 - likewise
    table.function("sets.intersects", (ANY_LIST, ANY_LIST), "bool", any_of, costs=_pairs)
