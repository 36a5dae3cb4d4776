"""Tokens of the Common Expression Language, as its specification defines them.

For the parser.  Literals are values already: int, Uint, float, str, bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import CelCompileError
from .values import INT_MAX, INT_MIN, UINT_MAX, Uint

_TOKEN = re.compile(
    r"""(?P<blank>[\t\n\f\r ]+|//[^\n]*)
    |(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<int>(?:0[xX][0-9a-fA-F]+|[0-9]+)[uU]?)
    |(?P<text>(?:[rR][bB]|[bB][rR]|[rRbB])?(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|\"(?:\\.|[^\\"\n\r])*\"|'(?:\\.|[^\\'\n\r])*'))
    |(?P<rawtext>[rR][bB]?(?:\"[^"\n\r]*\"|'[^'\n\r]*'))
    |(?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
    |(?P<quoted>`[a-zA-Z0-9_.\-/ ]+`)
    |(?P<op>\[\?|\{\?|\.\?|&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "?": "?", '"': '"', "'": "'", "`": "`",
}  # fmt: skip
_LENGTHS = {"x": 2, "X": 2, "u": 4, "U": 8}
#: Names that the language keeps for itself.
RESERVED = frozenset(
    "as break const continue else for function if import let loop package namespace return var void while".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its kind (literal, name, op or end), its text or value, and where it begins."""

    kind: str
    value: object
    at: int


def tokens_of(expression: str) -> list[Token]:
    """Return the tokens of an expression, an end token last; CelCompileError names the place of what is none."""
    found, at = list[Token](), 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None:
            raise CelCompileError(f"Syntax error at {place(expression, at)}: unexpected {expression[at]!r}")
        kind, text = str(match.lastgroup), match.group()
        if kind in ("text", "rawtext"):
            found.append(Token("literal", _unquoted(text, expression, at), at))
        elif kind in ("float", "int"):
            found.append(Token("literal", _number(text, kind, expression, at), at))
        elif kind == "quoted":
            found.append(Token("quoted", text[1:-1], at))
        elif kind != "blank":
            found.append(Token(kind, text, at))
        at = match.end()
    found.append(Token("end", "", at))
    return found


def place(expression: str, at: int) -> str:
    """Return line and column of a position, as people count them."""
    before = expression[:at]
    return f"{before.count(chr(10)) + 1}:{at - before.rfind(chr(10))}"


def _number(text: str, kind: str, expression: str, at: int) -> object:
    if kind == "float":
        return float(text)
    digits = text.rstrip("uU")
    value = int(digits, 16 if digits[:2].lower() == "0x" else 10)
    if digits != text:
        if value > UINT_MAX:
            raise CelCompileError(f"Syntax error at {place(expression, at)}: invalid uint literal")
        return Uint(value)
    if value > INT_MAX + 1:  # one more: it may have a minus before it
        raise CelCompileError(f"Syntax error at {place(expression, at)}: invalid int literal")
    return value


def negated(value: int) -> int:
    """Return a literal with a minus before it."""
    return max(-value, INT_MIN)


def _unquoted(text: str, expression: str, at: int) -> object:
    prefix = text[: re.match(r"[rRbB]*", text).end()].lower()  # type: ignore[union-attr]
    body = text[len(prefix) :]
    width = 3 if len(body) >= 6 and body[:3] in ('"""', "'''") else 1  # noqa: PLR2004 - two times three quotes
    inner = body[width:-width].replace("\r\n", "\n")
    if "r" not in prefix:
        inner = _unescaped(inner, expression, at, is_bytes="b" in prefix)
    if "b" in prefix:
        return inner.encode("latin-1") if "r" not in prefix else inner.encode()
    return inner


def _unescaped(text: str, expression: str, at: int, *, is_bytes: bool) -> str:
    """Return a text without escapes; in bytes hexadecimal and octal ones stand for bytes, everything else for UTF-8."""
    parts, i = list[str](), 0
    while i < len(text):
        if text[i] != "\\":
            parts.append(text[i].encode().decode("latin-1") if is_bytes else text[i])
            i += 1
            continue
        letter = text[i + 1]
        if letter in _ESCAPES:
            parts.append(_ESCAPES[letter])
            i += 2
            continue
        digits = text[i + 2 : i + 2 + _LENGTHS[letter]] if letter in _LENGTHS else text[i + 1 : i + 4]
        wanted, base = (_LENGTHS[letter], 16) if letter in _LENGTHS else (3, 8)
        if len(digits) != wanted or not re.fullmatch("[0-9a-fA-F]+" if base == 16 else "[0-3][0-7]{2}", digits):  # noqa: PLR2004
            raise CelCompileError(f"Syntax error at {place(expression, at)}: unknown escape \\{letter}")
        number = int(digits, base)
        if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF or (is_bytes and letter in "uU"):  # noqa: PLR2004 - Unicode's limits
            raise CelCompileError(f"Syntax error at {place(expression, at)}: invalid escape \\{letter}{digits}")
        parts.append(chr(number))
        i += (2 if letter in _LENGTHS else 1) + wanted
    return "".join(parts)
