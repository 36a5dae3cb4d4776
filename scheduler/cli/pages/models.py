"""Tables of pydantic models: one row a field, with the docstrings as meaning; for the pages on configuration and plugins."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from scheduler import config
from scheduler.config import ConfigurationModel

from . import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo


def models_below(model: type[BaseModel], path: str = "") -> Iterator[tuple[type[BaseModel], str]]:
    """Yield the model and those below it with the path of the first place where each stands."""
    pending, seen = [(model, path)], set()
    while pending:
        current, where = pending.pop(0)
        if current in seen:
            continue
        seen.add(current)
        yield current, where
        for field in current.model_fields.values():
            is_list = "list[" in str(field.annotation)
            pending += [
                (part, f"{where}.{field.alias}".lstrip(".") + "[]" * is_list) for part in _parts(field.annotation)
            ]


def model_table(model: type[BaseModel]) -> list[str]:
    """Return the lines of the table of a model's fields."""
    rows = [
        (f"`{field.alias}`", _type(field), _default(field), _meaning(field)) for field in model.model_fields.values()
    ]
    return table(("key", "type", "default", "meaning"), rows)


def _parts(annotation: Any) -> Iterator[type[ConfigurationModel]]:
    if isinstance(annotation, type) and issubclass(annotation, ConfigurationModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _parts(argument)


def _meaning(field: FieldInfo) -> str:
    text = " ".join((field.description or "").split())
    extra = field.json_schema_extra
    why = extra.get(config.NOT_HONOURED) if isinstance(extra, dict) else None
    return f"{text} *No effect: {why}.*" if why else text


def _type(field: FieldInfo) -> str:
    annotation = str(field.annotation)
    names = {"timedelta": "duration", "bool": "true, false", "int": "whole number", "float": "number", "str": "text"}
    if parts := list(_parts(field.annotation)):
        return f"list of {parts[0].__name__}" if "list[" in annotation else parts[0].__name__
    if "list[dict" in annotation:
        return "list of mappings"
    if "list[str" in annotation:
        return "list of texts"
    if "dict[" in annotation:
        return "mapping"
    noun = next((noun for key, noun in names.items() if key in annotation and "Literal" not in annotation), "")
    allowed = config.allowed_values(field) or ", ".join(_literals(field.annotation))
    return " ".join(part for part in (noun, allowed) if part)


def _literals(annotation: Any) -> Iterator[str]:
    """Yield what a Literal allows, also one that may be absent."""
    for argument in getattr(annotation, "__args__", ()):
        if isinstance(argument, str):
            yield argument
        else:
            yield from _literals(argument)


def _default(field: FieldInfo) -> str:
    """Return the default in words, or as it would stand in a file."""
    if field.is_required():
        return "(required)"
    match field.get_default(call_default_factory=True):
        case None:
            text = "none"
        case [] | {} | "":
            text = "empty"
        case BaseModel():
            text = "defaults"
        case [BaseModel() as only] if not only.model_fields_set:
            text = "one, with defaults"
        case [*items]:
            text = f"`{_flow([_plain(item) for item in items])}`"
        case timedelta() as duration:
            text = f"`{config.format_duration(duration)}`"
        case float() as number:
            text = f"`{number:g}`"
        case value:
            text = f"`{_flow(value)}`"
    return text


def _plain(value: object) -> object:
    return value.model_dump(mode="json", by_alias=True, exclude_unset=True) if isinstance(value, BaseModel) else value


def _flow(value: object) -> str:
    return json.dumps(value).replace('"', "")
