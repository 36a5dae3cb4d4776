"""Compares what was written with the wire types, and tells every difference with its path.

For the loader: msgspec stops at the first difference and does not name keys of mappings; a user wants all of them.  Fields
that the types do not have are only told where it is asked for, of our own kinds: elsewhere the wire types cover what
scheduling reads, not the whole API.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_SHOWN = 60


def without_nulls(value: Any) -> Any:
    """Return the value without keys whose value is null: to the API server they are absent."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def type_problems(value: Any, wire_type: type) -> Iterator[tuple[str, str]]:
    """Yield (path, sentence) for each part of a value that has another type than the wire type says."""
    yield from _differences(value, _info(wire_type), "")


def unknown_fields(value: Any, wire_type: type, path: str) -> Iterator[tuple[str, str]]:
    """Yield (path, sentence) for each field, however deep, that a value of the right types has and the wire type has not."""
    yield from _unknown(value, _info(wire_type), path)


def _unknown(value: Any, info: msgspec.inspect.Type, path: str) -> Iterator[tuple[str, str]]:
    kinds = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    match next((kind for kind in kinds if _fits(value, kind)), info):
        case msgspec.inspect.StructType(fields=fields):
            known = {field.encode_name: field.type for field in fields}
            for key, item in value.items():
                if key in known:
                    yield from _unknown(item, known[key], _join(path, key))
                else:
                    yield _join(path, str(key)), f"is unknown; allowed: {', '.join(known)}"
        case msgspec.inspect.ListType(item_type=item_type):
            for index, item in enumerate(value):
                yield from _unknown(item, item_type, f"{path}[{index}]")


@lru_cache(maxsize=64)
def _info(wire_type: type) -> msgspec.inspect.Type:
    return msgspec.inspect.type_info(wire_type)


def _differences(value: Any, info: msgspec.inspect.Type, path: str) -> Iterator[tuple[str, str]]:
    kinds = [info]
    if isinstance(info, msgspec.inspect.UnionType):
        kinds = [kind for kind in info.types if not isinstance(kind, msgspec.inspect.NoneType)]
    fitting = next((kind for kind in kinds if _fits(value, kind)), None)
    if fitting is None:
        yield path, _sentence(value, kinds)
    else:
        yield from _inside(value, fitting, path)


def _inside(value: Any, info: msgspec.inspect.Type, path: str) -> Iterator[tuple[str, str]]:
    """Yield the differences inside a value whose outermost type is right."""
    match info:
        case msgspec.inspect.StructType(fields=fields):
            for field in fields:
                if field.encode_name in value:
                    yield from _differences(value[field.encode_name], field.type, _join(path, field.encode_name))
        case msgspec.inspect.DictType(value_type=item_type):
            for key, item in value.items():
                if not isinstance(key, str):
                    yield f"{path}[{_shown(key)}]", f"the key is {_word(key)}; allowed: text, such as {_quoted(key)}"
                yield from _differences(item, item_type, f"{path}[{key}]")
        case msgspec.inspect.ListType(item_type=item_type):
            for index, item in enumerate(value):
                yield from _differences(item, item_type, f"{path}[{index}]")


_PYTHON_TYPES: dict[type, tuple[type, ...]] = {
    msgspec.inspect.StrType: (str,),
    msgspec.inspect.BoolType: (bool,),
    msgspec.inspect.IntType: (int,),
    msgspec.inspect.FloatType: (int, float),
    msgspec.inspect.ListType: (list,),
    msgspec.inspect.StructType: (dict,),
    msgspec.inspect.DictType: (dict,),
}
_NAMES: dict[type, str] = {
    msgspec.inspect.StrType: "text",
    msgspec.inspect.BoolType: "true or false",
    msgspec.inspect.IntType: "a whole number",
    msgspec.inspect.FloatType: "a number",
    msgspec.inspect.ListType: "a list",
}


def _fits(value: Any, info: msgspec.inspect.Type) -> bool:
    """Tell whether the outermost type is right; to Python, but not to JSON, a boolean is a number."""
    types = _PYTHON_TYPES.get(type(info))
    if types is None:
        return True
    return isinstance(value, types) and (bool in types or not isinstance(value, bool))


def _sentence(value: Any, kinds: list[msgspec.inspect.Type]) -> str:
    allowed = " or ".join(dict.fromkeys(_NAMES.get(type(kind), "a mapping") for kind in kinds))
    if any(isinstance(kind, msgspec.inspect.StrType) for kind in kinds) and not isinstance(value, dict | list):
        allowed += f", such as {_quoted(value)} in quotes"
    return f"{_shown(value)} is {_word(value)}; allowed: {allowed}"


def _word(value: object) -> str:
    """Return what a value is, with its article."""
    if isinstance(value, bool):
        return "a boolean"
    words: dict[type, str] = {dict: "a mapping", list: "a list", str: "a text", int: "a number", float: "a number"}
    return words.get(type(value), "null")


def _shown(value: object) -> str:
    """Return a value as JSON would have it, cut to what fits a line."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def _quoted(value: object) -> str:
    return json.dumps(_shown(value))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
