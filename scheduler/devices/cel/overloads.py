"""Functions of the language as tables of overloads, and how one is chosen: by type when compiled, by kind when called.

For the compiler; what the functions do stands in the modules that fill the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Any

from .errors import CelCostError, CelError, no_overload
from .typing import DYN, Type, base, fits
from .values import TYPE_NAMES, kind_of, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: What kube-apiserver and kube-scheduler let an expression cost.
MOST_COST = 1_000_000
#: What looking through one character costs.
PER_CHARACTER = 0.1


@dataclass(slots=True)
class Meter:
    """Counts what an evaluation costs, in the units of kube-apiserver."""

    limit: int = MOST_COST
    spent: int = 0

    def spend(self, cost: int) -> None:
        """Count some cost; CelCostError when the limit is passed."""
        self.spent += cost
        if self.spent > self.limit:
            raise CelCostError(f"operation cancelled: actual cost limit exceeded ({self.limit} units)")


def traversal(value: object, factor: float = 1.0) -> int:
    """Return what it costs to look through a value `factor` times."""
    return ceil(size_of(value) * PER_CHARACTER * factor)


@dataclass(frozen=True, slots=True)
class Overload:
    """One way to call a function. `costs` tells what a call costs beforehand; a meter is passed on if it `meters` itself."""

    takes: tuple[Type, ...]
    gives: Type
    run: Callable[..., Any]
    costs: Callable[..., int] | None = None
    meters: bool = False
    #: What it gives, computed from the types of what it takes.
    gives_of: Callable[[Sequence[Type]], Type] | None = None


@dataclass(slots=True)
class Table:
    """Overloads by name: global functions, and methods, whose first value is the target."""

    functions: dict[str, list[Overload]] = field(default_factory=dict)
    methods: dict[str, list[Overload]] = field(default_factory=dict)

    def function(self, name: str, takes: Sequence[Type], gives: Type, run: Callable[..., Any], **more: Any) -> None:
        """Add a global function."""
        self.functions.setdefault(name, []).append(Overload(tuple(takes), gives, run, **more))

    def method(self, name: str, takes: Sequence[Type], gives: Type, run: Callable[..., Any], **more: Any) -> None:
        """Add a method."""
        self.methods.setdefault(name, []).append(Overload(tuple(takes), gives, run, **more))


def suited(overloads: Sequence[Overload], kinds: Sequence[Type]) -> list[Overload]:
    """Return the overloads that may take values of these types."""
    return [o for o in overloads if len(o.takes) == len(kinds) and all(map(fits, kinds, o.takes))]


def call(name: str, overloads: Sequence[Overload], values: list[Any], meter: Meter) -> Any:
    """Call the overload that takes these values; CelError if none does."""
    kinds = [kind_of(value) for value in values]
    for overload in overloads:
        if all(wanted in (DYN, kind) for kind, wanted in zip(kinds, map(base, overload.takes), strict=True)):
            meter.spend(overload.costs(*values) if overload.costs is not None else 1)
            try:
                return overload.run(meter, *values) if overload.meters else overload.run(*values)
            except (OverflowError, MemoryError, ValueError) as error:
                raise CelError(f"{name}: {error}") from error
    raise no_overload(name, *(TYPE_NAMES.get(kind, kind) for kind in kinds))
