"""Functions of texts: those of the language, of cel-go's strings (version 2, without `format`), and Kubernetes' find.

For the table of functions.  Patterns are matched in time linear in the text (`patterns`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import CelError
from .overloads import Meter, traversal
from .patterns import Pattern, pattern_of
from .values import Uint, kind_of

if TYPE_CHECKING:
    from .overloads import Table

_EXACT_DIGITS = 21


def shown(value: Any) -> str:
    """Return a value as text, as `string()` does."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return _float_text(value)
        case Uint() | int() | str():
            return str(int(value)) if not isinstance(value, str) else value
    raise CelError(f"type conversion error from '{kind_of(value)}' to 'string'")


def _float_text(value: float) -> str:
    """Return a number as Go's shortest form: 1 for 1.0, and an exponent for what is very large or small."""
    if value != value:  # noqa: PLR0124 - NaN
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    mantissa = mantissa.removesuffix(".0")
    if not exponent:
        return mantissa
    if 0 <= int(exponent) < _EXACT_DIGITS:
        return str(int(value))
    return f"{mantissa}e{exponent[0] if exponent[0] in '+-' else '+'}{exponent.lstrip('+-').zfill(2)}"


def _position(text: str, position: int, *, is_end: bool = True) -> int:
    if not 0 <= position <= len(text) - (0 if is_end else 1):
        raise CelError(f"index out of range: {position}")
    return position


def _char_at(text: str, position: int) -> str:
    return text[_position(text, position) : position + 1]


def _substring(text: str, start: int, end: int | None = None) -> str:
    last = _position(text, len(text) if end is None else end)
    if _position(text, start) > last:
        raise CelError(f"invalid substring range. start: {start}, end: {last}")
    return text[start:last]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if start and not 0 <= start < max(1, len(text)):
        raise CelError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: str, last: int | None = None) -> int:
    if last is None:
        return text.rfind(part)
    if not 0 <= last < max(1, len(text)):
        raise CelError(f"index out of range: {last}")
    return text.rfind(part, 0, last + len(part))


def _replaced(meter: Meter, text: str, old: str, new: str, count: int = -1) -> str:
    times = text.count(old) if old else len(text) + 1
    times = times if count < 0 else min(times, count)
    meter.spend(traversal(text, 2) + (times * len(new)) // 10)
    return text.replace(old, new, count)


def _split(text: str, by: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if not by:
        return list(text) if count < 0 else [*text[: count - 1], *([text[count - 1 :]] if text[count - 1 :] else [])]
    return text.split(by, -1 if count < 0 else count - 1)


def _joined(values: list[Any], between: str = "") -> str:
    if not all(isinstance(value, str) for value in values):
        raise CelError("join takes a list of strings")
    return between.join(values)


def _join_cost(values: list[Any], between: str = "") -> int:
    return traversal("") + sum(len(str(value)) + len(between) for value in values) // 5 + 1


def _lowered(text: str) -> str:
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in text)


def _uppered(text: str) -> str:
    return "".join(chr(ord(c) - 32) if "a" <= c <= "z" else c for c in text)


def _quoted(text: str) -> str:
    marks = {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
    return '"' + "".join(marks.get(c, c) for c in text) + '"'


def _matches(meter: Meter, text: str, pattern: str) -> bool:
    return _compiled(meter, text, pattern).search(text, meter.spend) is not None


def _found(meter: Meter, text: str, pattern: str) -> str:
    span = _compiled(meter, text, pattern).search(text, meter.spend)
    return text[span[0] : span[1]] if span else ""


def _found_all(meter: Meter, text: str, pattern: str, most: int = -1) -> list[str]:
    spans = _compiled(meter, text, pattern).search_all(text, meter.spend, most)
    return [text[start:end] for start, end in spans]


def _compiled(meter: Meter, text: str, pattern: str) -> Pattern:
    """Return a pattern; it costs what kube-apiserver counts for it."""
    meter.spend(traversal(text + " ") * -(-len(pattern) // 4))
    return pattern_of(pattern)


def fill(table: Table) -> None:
    """Add everything to the table of functions."""
    pair = ("string", "string")
    table.method("startsWith", pair, "bool", str.startswith, costs=lambda _, part: traversal(part))
    table.method("endsWith", pair, "bool", str.endswith, costs=lambda _, part: traversal(part))
    table.method("contains", pair, "bool", lambda a, b: b in a, costs=lambda a, b: traversal(a) * traversal(b))
    table.method("matches", pair, "bool", _matches, meters=True)
    table.function("matches", pair, "bool", _matches, meters=True)
    table.method("find", pair, "string", _found, meters=True)
    table.method("findAll", pair, ("list", "string"), _found_all, meters=True)
    table.method("findAll", (*pair, "int"), ("list", "string"), _found_all, meters=True)
    table.method("charAt", ("string", "int"), "string", _char_at)
    table.method("indexOf", pair, "int", _index_of, costs=lambda text, *_: traversal(text))
    table.method("indexOf", (*pair, "int"), "int", _index_of, costs=lambda text, *_: traversal(text))
    table.method("lastIndexOf", pair, "int", _last_index_of, costs=lambda text, *_: traversal(text))
    table.method("lastIndexOf", (*pair, "int"), "int", _last_index_of, costs=lambda text, *_: traversal(text))
    table.method("lowerAscii", ("string",), "string", _lowered, costs=traversal)
    table.method("upperAscii", ("string",), "string", _uppered, costs=traversal)
    table.method("trim", ("string",), "string", str.strip, costs=traversal)
    table.method("reverse", ("string",), "string", lambda text: text[::-1], costs=traversal)
    table.method("substring", ("string", "int"), "string", _substring, costs=lambda text, *_: traversal(text))
    table.method("substring", ("string", "int", "int"), "string", _substring, costs=lambda text, *_: traversal(text))
    table.method("replace", ("string", "string", "string"), "string", _replaced, meters=True)
    table.method("replace", ("string", "string", "string", "int"), "string", _replaced, meters=True)
    table.method("split", pair, ("list", "string"), _split, costs=lambda text, *_: traversal(text, 2))
    table.method("split", (*pair, "int"), ("list", "string"), _split, costs=lambda text, *_: traversal(text, 2))
    table.method("join", (("list", "string"),), "string", _joined, costs=_join_cost)
    table.method("join", (("list", "string"), "string"), "string", _joined, costs=_join_cost)
    table.function("strings.quote", ("string",), "string", _quoted, costs=traversal)
