"""Macros and what is not evaluated from left to right: has, all, exists, map, filter, cel.bind, `&&`, `||` and `?:`.

For the compiler.  `all`, `exists`, `&&` and `||` forget an error when another operand decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .compiling import Part
from .errors import CelError, no_overload
from .fields import has_member
from .typing import DYN, base, fits, inside, joined, shown
from .values import DefaultMap, Optional, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .compiling import Compiler, Run, Scope
    from .overloads import Meter
    from .parsing import Node
    from .typing import Type

_FOLD_COST = 3


def _logic(compiler: Compiler, node: Node, names: Mapping[str, Type]) -> Part:
    """Compile a chain of `&&` or `||`."""
    parts = [compiler.build(part, names) for part in node.parts]
    for part in parts:
        _expect_bool(compiler, node, part)
    decides, runs = node.name == "_||_", [part.run for part in parts]

    def run(scope: Scope, meter: Meter) -> bool:
        failure: CelError | None = None
        for each in runs:
            try:
                value = each(scope, meter)
            except CelError as error:
                failure = failure or error
                continue
            if value is decides:
                return bool(value)
            if not isinstance(value, bool):
                failure = failure or no_overload(node.name, kind_of(value))
        if failure is not None:
            raise failure
        return not decides

    return Part("bool", run)


def _conditional(compiler: Compiler, node: Node, names: Mapping[str, Type]) -> Part:
    test, yes, no = (compiler.build(part, names) for part in node.parts)
    _expect_bool(compiler, node, test)
    kind = joined([yes.type, no.type])
    if kind is None:
        text = f"found no matching overload for '_?_:_' applied to '(bool, {shown(yes.type)}, {shown(no.type)})'"
        raise compiler.error(node, text)

    def run(scope: Scope, meter: Meter) -> Any:
        value = test.run(scope, meter)
        if not isinstance(value, bool):
            raise no_overload("_?_:_", kind_of(value))
        return yes.run(scope, meter) if value else no.run(scope, meter)

    return Part(kind, run)


def _has(compiler: Compiler, node: Node, names: Mapping[str, Type]) -> Part:
    if len(node.parts) != 1 or node.parts[0].kind != "select" or node.parts[0].value:
        raise compiler.error(node, "invalid argument to has() macro")
    chosen = node.parts[0]
    compiler.build(chosen, names)  # the field must be known
    operand = compiler.build(chosen.parts[0], names)
    field, run = chosen.name, operand.run
    return Part("bool", lambda scope, meter: has_member(run(scope, meter), field))


def _bind(compiler: Compiler, node: Node, names: Mapping[str, Type]) -> Part:
    _, name_node, value_node, body_node = node.parts
    name = _variable(compiler, name_node)
    value = compiler.build(value_node, names)
    body = compiler.build(body_node, {**names, name: value.type})

    def run(scope: Scope, meter: Meter) -> Any:
        return body.run({**scope, name: value.run(scope, meter)}, meter)

    return Part(body.type, run)


def _optional_map(compiler: Compiler, node: Node, names: Mapping[str, Type]) -> Part:
    """Compile optMap and optFlatMap."""
    target_node, name_node, body_node = node.parts
    target, name = compiler.build(target_node, names), _variable(compiler, name_node)
    body = compiler.build(body_node, {**names, name: inside(target.type)})
    is_flat = node.name == "optFlatMap"

    def run(scope: Scope, meter: Meter) -> Any:
        value = target.run(scope, meter)
        if not isinstance(value, Optional):
            raise no_overload(node.name, kind_of(value))
        if not value.is_present:
            return value
        found = body.run({**scope, name: value.value}, meter)
        return found if is_flat else Optional(found, is_present=True)

    return Part(body.type if is_flat else ("optional", body.type), run)


def _fold(compiler: Compiler, node: Node, names: Mapping[str, Type]) -> Part:
    """Compile a macro that walks over a list or the keys of a map, or, with two variables, over positions or keys and values."""
    target = compiler.build(node.parts[0], names)
    if base(target.type) not in ("list", "map", DYN):
        raise compiler.error(node, f"expression of type '{shown(target.type)}' cannot be range of a comprehension")
    count = 2 if _has_two_variables(node) else 1
    variables = [_variable(compiler, part) for part in node.parts[1 : 1 + count]]
    is_list = base(target.type) == "list"
    kinds: list[Type] = [inside(target.type)]
    if count == 2:  # noqa: PLR2004 - one for the key, one for the value
        kinds = ["int", inside(target.type)] if is_list else [inside(target.type), inside(target.type, 2)]
        kinds = [DYN, DYN] if target.type == DYN else kinds
    known = {**names, **dict(zip(variables, kinds, strict=True))}
    bodies = [compiler.build(part, known) for part in node.parts[1 + count :]]
    if node.name not in ("map", "transformList", "transformMap", "transformMapEntry") or len(bodies) > 1:
        _expect_bool(compiler, node, bodies[0])
    gives: Type = {
        "map": ("list", bodies[-1].type), "transformList": ("list", bodies[-1].type),
        "transformMap": ("map", kinds[0], bodies[-1].type), "transformMapEntry": bodies[-1].type,
        "filter": ("list", kinds[0]),
    }.get(node.name, "bool")  # fmt: skip
    walk = _walker(target.run, variables, node.name)
    return Part(gives, _FOLDS[node.name](walk, [body.run for body in bodies], variables[0]))


def _walker(run: Run, variables: list[str], name: str) -> Callable[[Scope, Meter], Iterator[Scope]]:
    def walk(scope: Scope, meter: Meter) -> Iterator[Scope]:
        value = run(scope, meter)
        if not isinstance(value, list | dict):
            raise no_overload(name, kind_of(value))
        for turn, key in enumerate(list(value)):
            meter.spend(_FOLD_COST)
            if len(variables) == 1:
                yield {**scope, variables[0]: key}
            elif isinstance(value, list):
                yield {**scope, variables[0]: turn, variables[1]: key}
            else:
                yield {**scope, variables[0]: key, variables[1]: value[key]}

    return walk


Walk = "Callable[[Scope, Meter], Iterator[Scope]]"


def _quantified(*, decides: bool) -> Callable[..., Run]:
    """Return how `exists` (decided by a truth) and `all` (decided by a falsehood) are run."""

    def make(walk: Any, bodies: list[Run], _variable_name: str) -> Run:
        def run(scope: Scope, meter: Meter) -> bool:
            failure: CelError | None = None
            for inner in walk(scope, meter):
                try:
                    value = bodies[0](inner, meter)
                except CelError as error:
                    failure = error
                    continue
                if value is decides:
                    return bool(value)
                if not isinstance(value, bool):
                    failure = no_overload("_&&_", kind_of(value))
            if failure is not None:
                raise failure
            return not decides

        return run

    return make


def _exists_one(walk: Any, bodies: list[Run], _variable_name: str) -> Run:
    def run(scope: Scope, meter: Meter) -> bool:
        return sum(_truth(bodies[0](inner, meter)) for inner in walk(scope, meter)) == 1

    return run


def _filtered(walk: Any, bodies: list[Run], variable: str) -> Run:
    def run(scope: Scope, meter: Meter) -> list[Any]:
        return [inner[variable] for inner in walk(scope, meter) if _truth(bodies[0](inner, meter))]

    return run


def _mapped(walk: Any, bodies: list[Run], _variable_name: str) -> Run:
    def run(scope: Scope, meter: Meter) -> list[Any]:
        kept = (s for s in walk(scope, meter) if len(bodies) == 1 or _truth(bodies[0](s, meter)))
        return [bodies[-1](inner, meter) for inner in kept]

    return run


def _mapped_to_map(walk: Any, bodies: list[Run], variable: str) -> Run:
    def run(scope: Scope, meter: Meter) -> dict[Any, Any]:
        kept = (s for s in walk(scope, meter) if len(bodies) == 1 or _truth(bodies[0](s, meter)))
        return {inner[variable]: bodies[-1](inner, meter) for inner in kept}

    return run


def _mapped_to_entries(walk: Any, bodies: list[Run], _variable_name: str) -> Run:
    def run(scope: Scope, meter: Meter) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for inner in walk(scope, meter):
            if len(bodies) > 1 and not _truth(bodies[0](inner, meter)):
                continue
            entry = bodies[-1](inner, meter)
            if not isinstance(entry, dict) or isinstance(entry, DefaultMap):
                raise no_overload("transformMapEntry", kind_of(entry))
            for key, value in entry.items():
                if key in found:
                    raise CelError(f"insert failed: key {key} already exists")
                found[key] = value
        return found

    return run


def _sorted_by(compiler: Compiler, node: Node, names: Mapping[str, Type]) -> Part:
    target, name = compiler.build(node.parts[0], names), _variable(compiler, node.parts[1])
    body = compiler.build(node.parts[2], {**names, name: inside(target.type)})

    def run(scope: Scope, meter: Meter) -> list[Any]:
        values = target.run(scope, meter)
        if not isinstance(values, list):
            raise no_overload("sortBy", kind_of(values))
        meter.spend(len(values) * max(1, len(values).bit_length()))
        keyed = [(body.run({**scope, name: value}, meter), value) for value in values]
        if len({kind_of(key) for key, _ in keyed}) > 1:
            raise CelError("list elements must have the same type")
        try:
            return [value for _, value in sorted(keyed, key=lambda pair: pair[0])]
        except TypeError:
            raise CelError("list elements must be comparable") from None

    return Part(target.type, run)


def _expect_bool(compiler: Compiler, node: Node, part: Part) -> None:
    if not fits(part.type, "bool"):
        name = node.name
        raise compiler.error(node, f"expected type 'bool' but found '{shown(part.type)}' as an operand of '{name}'")


def _variable(compiler: Compiler, node: Node) -> str:
    if node.kind != "ident":
        raise compiler.error(node, "argument is not an identifier")
    return node.name


def _has_two_variables(node: Node) -> bool:
    if node.name.startswith("transform") or node.name == "existsOne":
        return node.name != "existsOne" or len(node.parts) == 4  # noqa: PLR2004 - target, two variables, predicate
    return node.name in ("all", "exists", "exists_one") and len(node.parts) == 4  # noqa: PLR2004 - likewise


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise no_overload("_?_:_", kind_of(value))
    return value


_FOLDS: dict[str, Callable[..., Run]] = {
    "all": _quantified(decides=False), "exists": _quantified(decides=True), "exists_one": _exists_one,
    "existsOne": _exists_one, "filter": _filtered, "map": _mapped, "transformList": _mapped,
    "transformMap": _mapped_to_map, "transformMapEntry": _mapped_to_entries,
}  # fmt: skip
#: By name and number of arguments beside the target.
METHOD_MACROS: dict[tuple[str, int], Callable[[Compiler, Node, Mapping[str, Type]], Part]] = {
    ("optMap", 2): _optional_map, ("optFlatMap", 2): _optional_map, ("sortBy", 2): _sorted_by,
    **{(name, n): _fold for name in ("all", "exists", "exists_one", "existsOne") for n in (2, 3)},
    ("filter", 2): _fold, ("map", 2): _fold, ("map", 3): _fold,
    **{(f"transform{name}", n): _fold for name in ("List", "Map", "MapEntry") for n in (3, 4)},
}  # fmt: skip
NAMESPACE_MACROS = {("cel.bind", 3): _bind}
CALLS = {"_||_": _logic, "_&&_": _logic, "_?_:_": _conditional, "has": _has}
