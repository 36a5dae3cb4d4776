"""Compiler: from the tree of an expression to a function of Python, checking names and types on the way.

For `evaluator`.  Errors of evaluation are exceptions; `&&`, `||`, `all` and `exists` take them back where the specification
says so.  Every step counts on a meter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from .errors import CelCompileError, CelError, no_overload
from .fields import index_of, member_of
from .functions import NAMESPACES, TABLE, TYPE_NAMES_AS_VALUES
from .lexing import place
from .overloads import Meter, call, suited
from .parsing import parse
from .typing import DEVICE_FIELDS, DYN, Type, are_comparable, base, fits, inside, joined, shown
from .values import Optional, TypeValue, equal, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .parsing import Node

#: Variables by name, and the meter of this evaluation.
Scope: TypeAlias = dict[str, Any]
Run: TypeAlias = "Callable[[Scope, Meter], Any]"
_LIST_COST, _MAP_COST = 10, 30


class Part(NamedTuple):
    """A compiled part: the type of what it gives, and how."""

    type: Type
    run: Run


def compile_expression(expression: str) -> Part:
    """Return an expression over `device`, compiled; CelCompileError says what is wrong with it."""
    try:
        part = Compiler(expression).build(parse(expression), {"device": "device"})
    except RecursionError:
        raise CelCompileError("the expression is nested too deeply") from None
    if base(part.type) not in ("bool", DYN):
        raise CelCompileError(f"must evaluate to bool or the unknown type, not {shown(part.type)}")
    return part


class Compiler:
    """Compiles the nodes of one expression."""

    def __init__(self, expression: str) -> None:
        """Keep the text, for messages."""
        self._expression = expression

    def error(self, node: Node, text: str) -> CelCompileError:
        """Return an error that names the place of a node."""
        return CelCompileError(f"{place(self._expression, node.at)}: {text}")

    def build(self, node: Node, names: Mapping[str, Type]) -> Part:
        """Compile a node where some variables are known."""
        if node.kind == "literal":
            return Part(kind_of(node.value), _constant(node.value))
        kinds: dict[str, Callable[[Node, Mapping[str, Type]], Part]] = {
            "ident": self._ident, "select": self._select, "index": self._index, "list": self._list, "map": self._map,
            "method": self._method, "call": self._call,
        }  # fmt: skip
        return kinds[node.kind](node, names)

    def _ident(self, node: Node, names: Mapping[str, Type]) -> Part:
        name = node.name
        if name in names:

            def variable(scope: Scope, meter: Meter) -> Any:
                meter.spend(1)
                return scope[name]

            return Part(names[name], variable)
        if name in TYPE_NAMES_AS_VALUES:
            return Part("type", _constant(TypeValue(name)))
        raise self.error(node, f"undeclared reference to '{name}' (in container '')")

    def _select(self, node: Node, names: Mapping[str, Type]) -> Part:
        operand, field = self.build(node.parts[0], names), node.name
        is_optional, run = bool(node.value), operand.run
        gives = self._field_type(node, operand.type, field)

        def select(scope: Scope, meter: Meter) -> Any:
            value = run(scope, meter)
            meter.spend(1)
            return member_of(value, field, is_optional=is_optional)

        if is_optional and base(operand.type) != "optional":
            gives = ("optional", gives)
        return Part(gives, select)

    def _field_type(self, node: Node, kind: Type, field: str) -> Type:
        """Return the type of a field; CelCompileError if there can be none."""
        match base(kind):
            case "device":
                if field not in DEVICE_FIELDS:
                    raise self.error(node, f"undefined field '{field}'")
                return DEVICE_FIELDS[field]
            case "map":
                return inside(kind, 2)
            case "optional":
                return ("optional", self._field_type(node, inside(kind), field))
            case "dyn":
                return DYN
        raise self.error(node, f"type '{shown(kind)}' does not support field selection")

    def _index(self, node: Node, names: Mapping[str, Type]) -> Part:
        operand, index = (self.build(part, names) for part in node.parts)
        is_optional, run, find = bool(node.value), operand.run, index.run
        gives = self._index_type(node, operand.type, index.type)

        def at(scope: Scope, meter: Meter) -> Any:
            value, key = run(scope, meter), find(scope, meter)
            meter.spend(1)
            return index_of(value, key, is_optional=is_optional)

        if is_optional and base(operand.type) != "optional":
            gives = ("optional", gives)
        return Part(gives, at)

    def _index_type(self, node: Node, kind: Type, key: Type) -> Type:
        match base(kind):
            case "list" if base(key) in ("int", DYN):
                return inside(kind)
            case "map" if fits(key, inside(kind)):
                return inside(kind, 2)
            case "optional":
                return ("optional", self._index_type(node, inside(kind), key))
            case "dyn":
                return DYN
        raise self.error(node, f"found no matching overload for '_[_]' applied to '({shown(kind)}, {shown(key)})'")

    def _list(self, node: Node, names: Mapping[str, Type]) -> Part:
        parts = [self.build(part, names) for part in node.parts]
        kinds = [inside(p.type) if is_optional else p.type for p, is_optional in zip(parts, node.value, strict=True)]
        kind = joined(kinds)
        if kind is None:
            raise self.error(node, f"expected type '{shown(kinds[0])}' for all elements of the list")
        runs = list(zip([part.run for part in parts], node.value, strict=True))

        def make(scope: Scope, meter: Meter) -> list[Any]:
            meter.spend(_LIST_COST)
            found = []
            for run, is_optional in runs:
                value = run(scope, meter)
                if not is_optional:
                    found.append(value)
                elif _as_optional(value).is_present:
                    found.append(value.value)
            return found

        return Part(("list", kind), make)

    def _map(self, node: Node, names: Mapping[str, Type]) -> Part:
        parts = [self.build(part, names) for part in node.parts]
        keys, values = parts[::2], parts[1::2]
        key_type = joined([key.type for key in keys])
        kinds = [inside(p.type) if is_optional else p.type for p, is_optional in zip(values, node.value, strict=True)]
        value_type = joined(kinds)
        if key_type is None or value_type is None:
            raise self.error(node, "keys and values of a map must be of one type each")
        if base(key_type) not in ("int", "uint", "string", "bool", DYN):
            raise self.error(node, f"unsupported key type: {shown(key_type)}")
        runs = list(zip([key.run for key in keys], [value.run for value in values], node.value, strict=True))

        def make(scope: Scope, meter: Meter) -> dict[Any, Any]:
            meter.spend(_MAP_COST)
            found: dict[Any, Any] = {}
            for key_run, run, is_optional in runs:
                key, value = key_run(scope, meter), run(scope, meter)
                if is_optional and not _as_optional(value).is_present:
                    continue
                if kind_of(key) not in ("int", "uint", "string", "bool"):
                    raise CelError(f"unsupported key type: {kind_of(key)}")
                if key in found:
                    raise CelError(f"Failed with repeated key {key}")
                found[key] = value.value if is_optional else value
            return found

        return Part(("map", key_type, value_type), make)

    def _method(self, node: Node, names: Mapping[str, Type]) -> Part:
        from .macros import METHOD_MACROS, NAMESPACE_MACROS  # noqa: PLC0415 - macros compile their bodies with this class

        target, arguments = node.parts[0], node.parts[1:]
        if target.kind == "ident" and target.name not in names and target.name in NAMESPACES:
            name = f"{target.name}.{node.name}"
            if (special := NAMESPACE_MACROS.get((name, len(arguments)))) is not None:
                return special(self, node, names)
            return self._applied(node, name, TABLE.functions.get(name, []), arguments, names)
        if (macro := METHOD_MACROS.get((node.name, len(arguments)))) is not None:
            return macro(self, node, names)
        return self._applied(node, node.name, TABLE.methods.get(node.name, []), node.parts, names)

    def _call(self, node: Node, names: Mapping[str, Type]) -> Part:
        from .macros import CALLS  # noqa: PLC0415 - likewise

        if (special := CALLS.get(node.name)) is not None:
            return special(self, node, names)
        if node.name in ("_==_", "_!=_"):
            return self._equality(node, names)
        return self._applied(node, node.name, TABLE.functions.get(node.name, []), node.parts, names)

    def _applied(self, node: Node, name: str, overloads: Any, parts: Any, names: Mapping[str, Type]) -> Part:
        """Compile a call of an ordinary function."""
        built = [self.build(part, names) for part in parts]
        if not overloads:
            raise self.error(
                node, f"undeclared reference to '{name}' (in container ''), or not known to this scheduler"
            )
        kinds = [part.type for part in built]
        found = suited(overloads, kinds)
        if not found:
            listed = ", ".join(shown(kind) for kind in kinds)
            raise self.error(node, f"found no matching overload for '{name}' applied to '({listed})'")
        gives = found[0].gives_of(kinds) if found[0].gives_of else found[0].gives
        if any(shown(other.gives) != shown(found[0].gives) for other in found[1:]):
            gives = DYN
        runs = [part.run for part in built]
        return Part(gives, lambda scope, meter: call(name, found, [run(scope, meter) for run in runs], meter))

    def _equality(self, node: Node, names: Mapping[str, Type]) -> Part:
        left, right = (self.build(part, names) for part in node.parts)
        if not are_comparable(left.type, right.type):
            kinds = f"({shown(left.type)}, {shown(right.type)})"
            raise self.error(node, f"found no matching overload for '{node.name}' applied to '{kinds}'")
        wanted, one, other = node.name == "_==_", left.run, right.run

        def compare(scope: Scope, meter: Meter) -> bool:
            first, second = one(scope, meter), other(scope, meter)
            meter.spend(max(1, min(_length(first), _length(second)) // 10))
            return equal(first, second) is wanted

        return Part("bool", compare)


def _constant(value: Any) -> Run:
    def run(_scope: Scope, _meter: Meter) -> Any:
        return value

    return run


def _as_optional(value: Any) -> Optional:
    if not isinstance(value, Optional):
        raise no_overload("?", kind_of(value))
    return value


def _length(value: object) -> int:
    return len(value) if isinstance(value, str | bytes | list | dict) else 1
