"""Reads from the source what is said where: every `Reason(…)` of the parts that decide, without running them.

For docs/reasons.md.  It understands what the code does today: constants, f-strings, local names, choices by `if … else`, and
functions that pass a sentence on.  What it cannot follow it names, in angle brackets; it never guesses.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from scheduler.framework.status import ClusterEvent, Kind, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FIELDS = [field.name for field in fields(Reason)]
_PLAIN = Reason("", "")
Function = ast.FunctionDef | None


@dataclass(frozen=True, slots=True)
class Said:
    """One reason as it stands in the source."""

    code: str
    sentence: str
    kind: Kind
    cures: ClusterEvent
    #: What the sentence counts has cures of its own, which are added.
    adds_cures: bool
    #: The plugin, or the part.
    by: str


def reasons_in(path: Path, module_name: str) -> Iterator[Said]:
    """Yield what a module says, in the order of its lines, one for each way that a choice may go."""
    module = _Module(ast.parse(path.read_text(encoding="utf-8")), vars(import_module(module_name)))
    by = str(module.names.get("NAME") or module_name.split(".")[1])
    for call, function in module.calls("Reason"):
        given = dict(zip(_FIELDS, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
        code = module.constant(given.pop("code"))
        if code is None:
            continue  # a copy of another reason
        for arguments in module.meanings(given, function, call.lineno):
            cures, adds = module.cures(arguments.get("cures"))
            kind = _kind(arguments.get("kind"))
            yield Said(code, module.sentence(arguments["text"]), kind, cures, adds, by)


class _Module:
    """The tree of a module and the names that it has once imported."""

    def __init__(self, tree: ast.Module, names: dict[str, Any]) -> None:
        self.tree = tree
        self.names = names

    def calls(self, name: str) -> Iterator[tuple[ast.Call, Function]]:
        """Yield the calls of a function by its plain name, each with the function around it."""
        for top in self.tree.body:
            functions = [node for node in ast.walk(top) if isinstance(node, ast.FunctionDef)]
            for node in ast.walk(top):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                    inside = [f for f in functions if f.lineno <= node.lineno <= (f.end_lineno or 0)]
                    yield node, max(inside, key=lambda f: f.lineno, default=None)

    def meanings(self, given: dict[str, ast.expr], function: Function, line: int) -> Iterator[dict[str, ast.expr]]:
        """Yield the arguments of a call without local names, without parameters and without choices."""
        text = given["text"]
        parameters = [argument.arg for argument in function.args.args] if function else []
        is_passed_on = isinstance(text, ast.Name) and text.id in parameters
        calls = [*self.calls(function.name)] if function and is_passed_on else []
        if calls:
            for call, around in calls:
                passed = call.args[parameters.index(ast.unparse(text))]
                yield from self.meanings(given | {"text": passed}, around, call.lineno)
        else:
            yield from _choices({key: self._inlined(value, function, line) for key, value in given.items()})

    def constant(self, node: ast.expr) -> str | None:
        """Return a text that stands in the source, or that a name of the module stands for; None for anything else."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Name(id=name) if isinstance(self.names.get(name), str):
                return str(self.names[name])
        return None

    def sentence(self, node: ast.expr) -> str:  # noqa: PLR0911 - one return per kind of expression
        """Return the pattern of a sentence: what is put in stands in angle brackets, what may be absent in square ones."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.JoinedStr(values=parts):
                return "".join(self.sentence(part) for part in parts)
            case ast.FormattedValue(value=inner):
                return self.sentence(inner)
            case ast.BinOp(left=left, op=ast.Add(), right=right) if _is_text(node):
                return self.sentence(left) + self.sentence(right)
            case ast.IfExp(body=body, orelse=ast.Constant(value="")):
                return f"[{self.sentence(body)}]"
            case ast.Name(id=name) if isinstance(self.names.get(name), str):
                return str(self.names[name])
            case ast.Call(func=ast.Name(id=name)) if (told := self._told(name)) is not None:
                return told
        return f"<{_words(node)}>"

    def cures(self, node: ast.expr | None) -> tuple[ClusterEvent, bool]:
        """Return the events that are named, and whether others are added that only running the code would tell."""
        match node:
            case None:
                return _PLAIN.cures, False
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                (one, adds_one), (other, adds_other) = self.cures(left), self.cures(right)
                return one | other, adds_one or adds_other
            case ast.Attribute(value=ast.Name(id="ClusterEvent"), attr=name):
                return ClusterEvent[name], False
            case ast.Name(id=name) if isinstance(self.names.get(name), ClusterEvent):
                return self.names[name], False
        return ClusterEvent.NONE, True

    def _told(self, name: str) -> str | None:
        """Return the sentence that a function makes, or what it says of it; None for one that makes none."""
        function = self.names.get(name)
        if getattr(function, "__annotations__", {}).get("return") not in (str, "str"):
            return None
        for node in self.tree.body:
            match node:
                case ast.FunctionDef(body=[*_, ast.Return(value=ast.JoinedStr() as value)]) if node.name == name:
                    return self.sentence(value)
        said = (function.__doc__ or name).split("\n")[0].removeprefix("Return ").rstrip(".")
        return f"<{said}>"

    def _inlined(self, node: ast.expr, function: Function, line: int) -> ast.expr:
        """Return an expression with local names replaced by what was last assigned to them before the line."""
        if function is None:
            return node
        around, assigned = function, self._assigned

        class Inline(ast.NodeTransformer):
            def visit_Name(self, name: ast.Name) -> ast.expr:
                return assigned(name.id, around, line) or name

        changed = Inline().visit(copy.deepcopy(node))
        assert isinstance(changed, ast.expr)
        return changed

    def _assigned(self, name: str, function: ast.FunctionDef, line: int) -> ast.expr | None:
        """Return what a local name stands for at a line, additions included; None for what says no more than the name."""
        value: ast.expr | None = None
        statements = [node for node in ast.walk(function) if isinstance(node, ast.Assign | ast.AugAssign)]
        for statement in sorted(statements, key=lambda node: node.lineno):
            if statement.lineno >= line:
                break
            match statement:
                case ast.Assign(targets=[ast.Name(id=target)]) if target == name:
                    value = self._inlined(statement.value, function, statement.lineno)
                case ast.AugAssign(target=ast.Name(id=target)) if target == name and value is not None:
                    value = ast.BinOp(value, statement.op, statement.value)
        match value:
            case ast.JoinedStr() | ast.Constant(value=str()) | ast.IfExp() | ast.BinOp(op=ast.BitOr()):
                return value
            case ast.BinOp() if _is_text(value):
                return value
            case ast.Attribute(value=ast.Name(id="ClusterEvent" | "Kind")):
                return value
            case ast.Call(func=ast.Name(id=called)) if self._told(called) is not None:
                return value
        return None


def _kind(node: ast.expr | None) -> Kind:
    if node is None:
        return _PLAIN.kind
    if isinstance(node, ast.Attribute):
        return Kind[node.attr]
    raise ValueError(f"a kind that cannot be followed: {ast.unparse(node)}")


def _choices(arguments: dict[str, ast.expr]) -> Iterator[dict[str, ast.expr]]:
    """Yield the arguments for both ways of each `if … else`, equal conditions decided equally."""
    parts = (part for value in arguments.values() for part in ast.walk(value))
    test = next((ast.dump(part.test) for part in parts if isinstance(part, ast.IfExp) and _is_choice(part)), None)
    if test is None:
        yield arguments
        return

    class Choose(ast.NodeTransformer):
        def __init__(self, *, holds: bool) -> None:
            self.holds = holds

        def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
            self.generic_visit(node)
            if ast.dump(node.test) != test or not _is_choice(node):
                return node
            return node.body if self.holds else node.orelse

    for holds in (True, False):
        yield from _choices({key: Choose(holds=holds).visit(copy.deepcopy(value)) for key, value in arguments.items()})


def _is_choice(node: ast.IfExp) -> bool:
    """Tell choices from additions to a sentence that may be absent."""
    return not (isinstance(node.orelse, ast.Constant) and node.orelse.value == "")


def _is_text(node: ast.expr) -> bool:
    """Tell the joining of texts from the sum of numbers."""
    return any(isinstance(part, ast.JoinedStr) for part in ast.walk(node))


def _words(node: ast.expr) -> str:  # noqa: PLR0911 - one return per kind of expression
    """Return a name in plain words for what is put into a sentence."""
    match node:
        case ast.Attribute(value=value, attr="name" | "key" as name):
            return f"{_words(value)} {name}"
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_").replace("_", " ")
        case ast.FormattedValue(value=inner) | ast.Subscript(value=inner):
            return _words(inner)
        case ast.Call(func=ast.Attribute(attr="join"), args=[inner]):
            return _words(inner)
        case ast.Call(func=ast.Name(id="len")) | ast.BinOp():
            return "number"
        case ast.Call(func=ast.Name(id="sorted" | "set" | "list" | "tuple"), args=[inner, *_]):
            return _words(inner)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name.strip("_").replace("_", " ")
        case ast.GeneratorExp(elt=inner) | ast.ListComp(elt=inner):
            return _words(inner)
    return "…"
