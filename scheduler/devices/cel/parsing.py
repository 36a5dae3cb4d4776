"""Parser of the Common Expression Language: from a text to a tree of `Node`.

For the compiler beside it.  Macros are calls here like all others.  Depth and length are bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import CelCompileError
from .lexing import RESERVED, Token, negated, place, tokens_of
from .values import INT_MAX

#: The API's limit of an expression, in bytes.
LONGEST_EXPRESSION = 10 * 1024
DEEPEST = 64
_BINARY = {
    "||": 1,
    "&&": 2,
    "==": 3,
    "!=": 3,
    "<": 3,
    "<=": 3,
    ">": 3,
    ">=": 3,
    "in": 3,
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "%": 5,
}


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the tree.

    | kind | name | parts |
    |---|---|---|
    | literal | | the value, in `value` |
    | ident | the name | |
    | select | the field; `value`: whether it is optional (`.?`) | operand |
    | index | `value`: whether it is optional (`[?`) | operand, index |
    | call | the function | arguments |
    | method | the function | target, arguments |
    | list | `value`: which elements are optional | elements |
    | map | `value`: which entries are optional | keys and values in turn |
    """

    kind: str
    at: int
    name: str = ""
    parts: tuple[Node, ...] = ()
    value: Any = None


def parse(expression: str) -> Node:
    """Return the tree of an expression; CelCompileError says what is wrong and where."""
    if len(expression.encode()) > LONGEST_EXPRESSION:
        raise CelCompileError(f"the expression is longer than {LONGEST_EXPRESSION} bytes")
    return _Parser(expression).whole()


class _Parser:
    """Reads tokens from left to right, by precedence climbing."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens = tokens_of(expression)
        self._next = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._expr()
        if self._peek.kind != "end":
            raise self._unexpected()
        return node

    @property
    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self, *operators: str) -> Token | None:
        """Return the next token if it is one of these operators, and go on; else None."""
        token = self._peek
        if token.kind in ("op", "name") and token.value in operators:
            self._next += 1
            return token
        return None

    def _need(self, operator: str) -> Token:
        token = self._take(operator)
        if token is None:
            raise self._unexpected(f", expecting {operator!r}")
        return token

    def _unexpected(self, more: str = "") -> CelCompileError:
        token = self._peek
        what = "end of the expression" if token.kind == "end" else repr(token.value)
        return CelCompileError(f"Syntax error at {place(self._expression, token.at)}: unexpected {what}{more}")

    def _expr(self) -> Node:
        """Read an expression with its conditional, if it has one."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise CelCompileError(f"the expression is nested deeper than {DEEPEST} levels")
        node = self._binary(1)
        if mark := self._take("?"):
            yes = self._binary(1)
            self._need(":")
            node = Node("call", mark.at, "_?_:_", (node, yes, self._expr()))
        self._depth -= 1
        return node

    def _binary(self, lowest: int) -> Node:
        """Read operands joined by operators of at least some precedence; chains of `||` and `&&` become one node."""
        node = self._unary()
        while True:
            token = self._peek
            strength = _BINARY.get(str(token.value), 0) if token.kind in ("op", "name") else 0
            if strength < lowest:
                return node
            self._next += 1
            right = self._binary(strength + 1)
            name = f"_{token.value}_"
            if name in ("_||_", "_&&_") and node.name == name and node.value is None:
                node = Node("call", token.at, name, (*node.parts, right))
            else:
                node = Node("call", token.at, name, (node, right))

    def _unary(self) -> Node:
        mark = self._take("!", "-")
        if mark is None:
            return self._member(self._primary())
        token = self._peek
        if mark.value == "-" and token.kind == "literal" and type(token.value) in (int, float):
            self._next += 1
            value: Any = token.value
            literal = Node("literal", token.at, value=negated(value) if isinstance(value, int) else -value)
            return self._member(literal)
        is_odd = True
        while self._take(str(mark.value)):
            is_odd = not is_odd
        node = self._member(self._primary())
        return Node("call", mark.at, f"{mark.value}_", (node,)) if is_odd else node

    def _primary(self) -> Node:  # noqa: PLR0911 - one for each kind
        token = self._peek
        if token.kind == "literal":
            self._next += 1
            if type(token.value) is int and token.value > INT_MAX:
                raise CelCompileError(f"Syntax error at {place(self._expression, token.at)}: invalid int literal")
            return Node("literal", token.at, value=token.value)
        if token.kind == "name":
            return self._name(token)
        if self._take("("):
            node = self._expr()
            self._need(")")
            return Node(
                node.kind, node.at, node.name, node.parts, node.value if node.value is not None else _grouped(node)
            )
        if self._take("["):
            return self._list(token, is_first_optional=False)
        if self._take("[?"):
            return self._list(token, is_first_optional=True)
        if self._take("{"):
            return self._map(token, is_first_optional=False)
        if self._take("{?"):
            return self._map(token, is_first_optional=True)
        raise self._unexpected()

    def _name(self, token: Token) -> Node:
        self._next += 1
        name = str(token.value)
        if name in ("true", "false", "null"):
            return Node("literal", token.at, value={"true": True, "false": False, "null": None}[name])
        if name in RESERVED:
            raise CelCompileError(f"Syntax error at {place(self._expression, token.at)}: reserved identifier: {name}")
        if self._take("("):
            return Node("call", token.at, name, self._arguments())
        return Node("ident", token.at, name)

    def _member(self, node: Node) -> Node:
        """Read the fields, indices and methods that follow an operand."""
        while True:
            token = self._peek
            if self._take("."):
                name = self._field()
                if self._take("("):
                    node = Node("method", token.at, name, (node, *self._arguments()))
                else:
                    node = Node("select", token.at, name, (node,), value=False)
            elif self._take(".?"):
                node = Node("select", token.at, self._field(), (node,), value=True)
            elif self._take("[", "[?"):
                index = self._expr()
                self._need("]")
                node = Node("index", token.at, "", (node, index), value=token.value == "[?")
            elif self._take("{"):
                raise CelCompileError(
                    f"Syntax error at {place(self._expression, token.at)}: messages are not known here"
                )
            else:
                return node

    def _field(self) -> str:
        token = self._peek
        if token.kind not in ("name", "quoted"):
            raise self._unexpected(", expecting a field")
        self._next += 1
        return str(token.value)

    def _arguments(self) -> tuple[Node, ...]:
        found = list[Node]()
        while not self._take(")"):
            if found:
                self._need(",")
            found.append(self._expr())
        return tuple(found)

    def _list(self, start: Token, *, is_first_optional: bool) -> Node:
        elements, optional = list[Node](), list[bool]()
        is_optional = is_first_optional
        while is_optional or not self._take("]"):
            elements.append(self._expr())
            optional.append(is_optional)
            if not self._take(","):
                self._need("]")
                break
            is_optional = self._take("?") is not None
        return Node("list", start.at, "", tuple(elements), value=tuple(optional))

    def _map(self, start: Token, *, is_first_optional: bool) -> Node:
        entries, optional = list[Node](), list[bool]()
        is_optional = is_first_optional
        while is_optional or not self._take("}"):
            entries.append(self._expr())
            self._need(":")
            entries.append(self._expr())
            optional.append(is_optional)
            if not self._take(","):
                self._need("}")
                break
            is_optional = self._take("?") is not None
        return Node("map", start.at, "", tuple(entries), value=tuple(optional))


def _grouped(node: Node) -> object:
    """Return what marks a chain in parentheses, so that it is not joined with what follows."""
    return True if node.kind == "call" and node.name in ("_||_", "_&&_") else node.value
