"""Problems of a configuration: pydantic's errors turned into one line each, "path: what is wrong; allowed: …".

For whoever reads a model from a user's file: the configuration here, arguments of plugins in the registry.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import ValidationError
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

_NOUN_BY_ERROR_TYPE = {
    "int_type": "whole number",
    "int_from_float": "whole number",
    "float_type": "number",
    "finite_number": "finite number",
    "string_type": "text",
    "list_type": "list",
    "dict_type": "mapping",
    "model_type": "mapping",
    "model_attributes_type": "mapping",
}


class Problem(NamedTuple):
    """What is wrong at a path."""

    path: str
    text: str

    def __str__(self) -> str:
        """Return the line that a user reads."""
        return f"{self.path}: {self.text}" if self.path else self.text


class ProblemsError(ValueError):
    """What a model's own check found, with paths relative to that model."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keep the problems."""
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)

    @classmethod
    def raise_for(cls, problems: Sequence[Problem]) -> None:
        """Raise if there are problems."""
        if problems:
            raise cls(problems)


def problems_of(error: ValidationError, model: type[BaseModel], prefix: str = "") -> list[Problem]:
    """Return one problem for each thing that pydantic found wrong with the input of a model, in order."""
    found: list[Problem] = []
    for details in error.errors(include_url=False):
        where = _path(details["loc"], prefix)
        cause = details.get("ctx", {}).get("error")
        if isinstance(cause, ProblemsError):
            found += [Problem(_join(where, problem.path), problem.text) for problem in cause.problems]
        elif details["type"] == "extra_forbidden":
            found.append(Problem(where, _unknown_key(details, model)))
        else:
            found.append(Problem(where, str(cause) if cause else _text(details, model)))
    return list(dict.fromkeys(found))


def allowed_values(field: FieldInfo) -> str:
    """Return what a field's type and limits allow, in words; empty if any value of its type may stand there."""
    return ", ".join(map(str, _literals(field.annotation))) or _range(field)


def _text(details: ErrorDetails, model: type[BaseModel]) -> str:
    kind, shown = details["type"], _shown(details["input"])
    field = _field_at(details["loc"], model)
    match kind:
        case "missing":
            return "is missing; allowed: a value"
        case "string_too_short":
            what, allowed = "is empty", "a text"
        case "bool_type":
            what, allowed = f"{shown} is neither true nor false", "true, false"
        case "literal_error":
            what, allowed = f"{shown} is unknown", details["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        case _ if kind in _NOUN_BY_ERROR_TYPE:
            noun = _NOUN_BY_ERROR_TYPE[kind]
            what, allowed = f"{shown} is no {noun}", noun if noun == "text" else f"a {noun}"
        case _:
            what, allowed = f"{shown} is out of range", allowed_values(field) if field else ""
    return f"{what}; allowed: {allowed}" if allowed else f"{shown} is not allowed: {details['msg']}"


def _unknown_key(details: ErrorDetails, model: type[BaseModel]) -> str:
    parent = _model_at(details["loc"][:-1], model)
    names = [field.alias or name for name, field in parent.model_fields.items()] if parent else []
    close = get_close_matches(str(details["loc"][-1]), names, n=1)
    return f"unknown key{f', did you mean {close[0]}?' if close else ''}; allowed: {', '.join(names)}"


def _path(loc: Sequence[int | str], prefix: str) -> str:
    path = prefix
    for part in loc:
        path = f"{path}[{part}]" if isinstance(part, int) else _join(path, part)
    return path


def _join(path: str, tail: str) -> str:
    return f"{path}.{tail}" if path and tail else path or tail


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - what fits a line


def _field_at(loc: Sequence[int | str], model: type[BaseModel]) -> FieldInfo | None:
    """Return the field that a location leads to, or None inside raw mappings."""
    keys = [part for part in loc if isinstance(part, str)]
    parent = _model_at(loc[:-1] if loc and isinstance(loc[-1], str) else loc, model) if keys else None
    return _field_named(parent, keys[-1]) if parent else None


def _model_at(loc: Sequence[int | str], model: type[BaseModel]) -> type[BaseModel] | None:
    """Return the model that a location leads to."""
    current: type[BaseModel] | None = model
    for part in loc:
        if isinstance(part, str) and current is not None:
            field = _field_named(current, part)
            current = next(iter(_models(field.annotation)), None) if field else None
    return current


def _field_named(model: type[BaseModel], alias: str) -> FieldInfo | None:
    return next((field for name, field in model.model_fields.items() if alias in (field.alias, name)), None)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models(argument)


def _literals(annotation: Any) -> list[object]:
    return [argument for argument in getattr(annotation, "__args__", ()) if isinstance(argument, str)]


def _range(field: FieldInfo) -> str:
    limits = [
        *field.metadata,
        *(
            part
            for argument in getattr(field.annotation, "__args__", ())
            for part in getattr(argument, "__metadata__", ())
        ),
    ]
    flat = [inner for limit in limits for inner in getattr(limit, "metadata", [limit])]
    words = []
    for limit in flat:
        match limit:
            case Ge(ge=low):
                words.append(f"from {low}")
            case Gt(gt=low):
                words.append(f"above {low}")
            case Le(le=high):
                words.append(f"to {high}")
            case Lt(lt=high):
                words.append(f"below {high}")
            case MinLen(min_length=length) if length == 1:
                words.append("not empty")
    return " ".join(words)
