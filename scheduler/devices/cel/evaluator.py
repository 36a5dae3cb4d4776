"""Evaluator: tells whether an expression holds of a device; each is compiled once, and evaluated once for equal devices.

For the allocator, through the protocol `Evaluator`; another engine may stand behind it.  An expression that cannot be
compiled or evaluated raises CelError or CelCostError, and is never taken for "no match".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from scheduler.model.quantity import parse_quantity

from .compiling import Run, compile_expression
from .errors import CelCompileError, CelCostError, CelError
from .overloads import MOST_COST, Meter
from .values import TYPE_NAMES, DefaultMap, Quantity, kind_of, semver_of

if TYPE_CHECKING:
    from scheduler.model.devices import Attribute, Device

_MOST_KEPT = 65_536
#: An evaluation that costs more is heavy, and all heavy ones of an expression together may cost so much: else one expression
#: over thousands of devices could keep the scheduler from everything else.
HEAVY = 1_000
MOST_HEAVY_COST = 5_000_000


class Evaluator(Protocol):
    """Tells whether expressions hold of devices."""

    def compiled(self, expression: str) -> str:
        """Return why an expression makes no sense; empty if it does."""

    def holds(self, expression: str, driver: str, device: Device) -> bool:
        """Tell whether an expression holds of a device of a driver; CelError or CelCostError if it cannot be told."""


class CelEvaluator:
    """The evaluator of this package."""

    def __init__(self, most_cost: int = MOST_COST) -> None:
        """Start with nothing known; an evaluation may cost `most_cost` units."""
        self._most_cost = most_cost
        self._programs: dict[str, Run | CelCompileError] = {}
        #: By driver and identity of a device: what expressions see of it, the device (so that it stays alive), and answers.
        self._seen: dict[tuple[str, int], tuple[Device, _Facts]] = {}
        self._facts: dict[Any, _Facts] = {}
        #: What heavy evaluations of an expression have cost, and what was refused for its cost: that holds for every device.
        self._heavy: dict[str, int] = {}
        self._refused: dict[str, CelCostError] = {}

    def compiled(self, expression: str) -> str:
        """Return why an expression makes no sense; empty if it does."""
        program = self._program(expression)
        return str(program) if isinstance(program, CelCompileError) else ""

    def holds(self, expression: str, driver: str, device: Device) -> bool:
        """Tell whether an expression holds of a device."""
        answers = self._facts_of(driver, device).answers
        answer = answers.get(expression)
        if answer is None:
            answer = answers[expression] = self._answer(expression, driver, device)
        if isinstance(answer, Exception):
            raise answer.with_traceback(None)
        return answer

    def _answer(self, expression: str, driver: str, device: Device) -> bool | CelError | CelCostError:
        program = self._program(expression)
        if isinstance(program, CelCompileError):
            return program
        if (refused := self._refused.get(expression)) is not None:
            return refused
        meter = Meter(self._most_cost)
        try:
            value = _run(program, driver, device, meter)
        except CelCostError as error:
            self._refused[expression] = error
            return error
        except CelError as error:
            return error
        self._count(expression, meter.spent)
        return value

    def _count(self, expression: str, cost: int) -> None:
        """Refuse an expression from now on whose heavy evaluations have cost too much altogether."""
        if cost > HEAVY:
            spent = self._heavy[expression] = self._heavy.get(expression, 0) + cost
            if spent > MOST_HEAVY_COST:
                text = f"the expression costs too much: {spent} units for the devices so far, about {cost} for each"
                self._refused[expression] = CelCostError(text)

    def _program(self, expression: str) -> Run | CelCompileError:
        program = self._programs.get(expression)
        if program is None:
            try:
                program = compile_expression(expression).run
            except CelCompileError as error:
                program = error
            if len(self._programs) >= _MOST_KEPT:
                for known in (self._programs, self._heavy, self._refused):
                    known.clear()
            self._programs[expression] = program
        return program

    def _facts_of(self, driver: str, device: Device) -> _Facts:
        """Return what is known of devices that are equal to one in all that an expression can see."""
        seen = self._seen.get((driver, id(device)))
        if seen is not None and seen[0] is device:
            return seen[1]
        if len(self._seen) >= _MOST_KEPT:
            self._seen.clear()
            self._facts.clear()
        key = (
            driver,
            device.allows_multiple,
            frozenset((name, each.kind, each.value) for name, each in device.attributes.items()),
            frozenset((name, each.value) for name, each in device.capacity.items()),
        )
        facts = self._facts.setdefault(key, _Facts())
        self._seen[driver, id(device)] = device, facts
        return facts


class _Facts:
    """Answers about devices that look the same to expressions."""

    __slots__ = ("answers",)

    def __init__(self) -> None:
        self.answers: dict[str, bool | CelError | CelCostError] = {}


def _run(program: Run, driver: str, device: Device, meter: Meter) -> bool:
    """Evaluate an expression; CelError if it gives anything but a truth."""
    try:
        value = program({"device": variables_of(driver, device)}, meter)
    except RecursionError:
        raise CelError("the expression is nested too deeply") from None
    if not isinstance(value, bool):
        kind = TYPE_NAMES.get(kind_of(value), kind_of(value))
        raise CelError(f"CEL result of type {kind} could not be converted to bool")
    return value


def variables_of(driver: str, device: Device) -> dict[str, Any]:
    """Return what an expression sees of a device; names without a domain are in the domain of the driver."""
    attributes, capacity = DefaultMap(), DefaultMap()
    for name, attribute in device.attributes.items():
        domain, short = _qualified(name, driver)
        attributes.setdefault(domain, {})[short] = _value(name, attribute)
    for name, each in device.capacity.items():
        domain, short = _qualified(name, driver)
        capacity.setdefault(domain, {})[short] = Quantity(parse_quantity(each.value))
    return {
        "driver": driver,
        "allowMultipleAllocations": device.allows_multiple,
        "attributes": attributes,
        "capacity": capacity,
    }


def _value(name: str, attribute: Attribute) -> Any:
    match attribute.kind:
        case "version":
            return _version(name, str(attribute.value))
        case "versions":
            return [_version(name, str(text)) for text in attribute.value]  # type: ignore[union-attr]
        case "ints" | "bools" | "strings":
            return list(attribute.value)  # type: ignore[arg-type]
        case "":
            raise CelError(f"attribute {name}: unsupported attribute value")
    return attribute.value


def _version(name: str, text: str) -> Any:
    try:
        return semver_of(text)
    except CelError as error:
        raise CelError(f"attribute {name}: parse semantic version: {error}") from error


def _qualified(name: str, driver: str) -> tuple[str, str]:
    """Return domain and short name."""
    domain, slash, short = name.partition("/")
    return (domain, short) if slash else (driver, name)
