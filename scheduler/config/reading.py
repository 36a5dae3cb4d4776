"""Reading and writing SchedulerConfiguration: strict YAML in, complete YAML out, and what was set without effect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from pydantic import BaseModel, ValidationError

from .model import API_VERSION, KIND, NOT_HONOURED, SchedulerConfiguration
from .problems import Problem, problems_of
from .strict_yaml import StrictConstructor, refuse_expansion
from .upstream import absent_uses, idle_gates, idle_points

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


#: Keys whose values belong to somebody else and are handed on as they are.
RAW_KEYS: Final = ("args", "extenders")
_INTEGER_BITS: Final = 63


class ConfigurationError(Exception):
    """A configuration that cannot be used; the message has one line per problem."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        """Keep where it came from and what is wrong."""
        super().__init__("\n".join([f"{source} cannot be used:", *(f"  {problem}" for problem in problems)]))
        self.source = source
        self.problems = tuple(problems)


def default() -> SchedulerConfiguration:
    """Return the configuration of an empty file."""
    return SchedulerConfiguration()


def load(path: str | Path) -> SchedulerConfiguration:
    """Return the configuration in a file.

    Raises:
        ConfigurationError: The file cannot be read, or its content cannot be used.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(str(path), [Problem("", error.strerror or str(error))]) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(str(path), [Problem("", "is no UTF-8 text")]) from error
    return parse(text, source=str(path))


def parse(text: str, source: str = "the configuration") -> SchedulerConfiguration:
    """Return the configuration in a YAML (or JSON) text.

    Raises:
        ConfigurationError: The text is no YAML, or a key or a value in it is not allowed.
    """
    try:
        values = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader
        values = {} if values is None else _without_nulls(values)
    except yaml.YAMLError as error:
        raise ConfigurationError(source, [_yaml_problem(error)]) from None
    except RecursionError:
        raise ConfigurationError(source, [Problem("", "nests too deeply, or in itself")]) from None
    if not isinstance(values, dict):
        raise ConfigurationError(source, [Problem("", f"is a {type(values).__name__}; allowed: a mapping")])
    problems = _identity_problems(values)
    try:
        configuration = SchedulerConfiguration.model_validate(values, by_alias=True, by_name=False)
    except ValidationError as error:
        problems += problems_of(error, SchedulerConfiguration)
        raise ConfigurationError(source, problems) from None
    if problems:
        raise ConfigurationError(source, problems)
    return configuration


def unhonoured(configuration: SchedulerConfiguration) -> list[str]:
    """Return "path: why" for each key that was set, is accepted, and has no effect."""
    upstream = (*idle_gates(configuration), *idle_points(configuration), *absent_uses(configuration))
    found = (*_without_effect(configuration, ""), *upstream)
    return [str(problem) for problem in found]


def to_yaml(configuration: SchedulerConfiguration) -> str:
    """Return the whole configuration with every default in it, as a file of our own kind.

    Reading it again gives the same configuration, but for `apiVersion` and `kind`.
    """
    values = configuration.model_dump(by_alias=True, exclude_none=True)
    complete = _pruned(values) | {"apiVersion": API_VERSION, "kind": KIND}
    text: str = yaml.safe_dump(complete, sort_keys=False, allow_unicode=True, width=120)
    return text


def _without_nulls(value: Any) -> Any:
    """Return the value without keys that have no value: to kube-scheduler, too, they are as good as absent."""
    if isinstance(value, dict):
        return {
            key: item if key in RAW_KEYS else _without_nulls(item) for key, item in value.items() if item is not None
        }
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _identity_problems(values: dict[str, Any]) -> list[Problem]:
    """Return a problem if only one of apiVersion and kind is there: a default for the other would be a guess."""
    have, lack = ("apiVersion", "kind") if "apiVersion" in values else ("kind", "apiVersion")
    if have in values and lack not in values:
        return [Problem(lack, f"is missing beside {have}; allowed: both or neither")]
    return []


def _without_effect(model: BaseModel, path: str) -> Iterator[Problem]:
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        where = f"{path}.{field.alias}" if path else str(field.alias)
        extra = field.json_schema_extra
        if name in model.model_fields_set and value is not None and isinstance(extra, dict) and NOT_HONOURED in extra:
            yield Problem(where, str(extra[NOT_HONOURED]))
        elif isinstance(value, BaseModel):
            yield from _without_effect(value, where)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, BaseModel):
                    yield from _without_effect(item, f"{where}[{index}]")


def _pruned(value: dict[str, Any]) -> dict[str, Any]:
    """Return the mapping without sets of plugins that change nothing."""
    kept = {}
    for key, item in value.items():
        if key in RAW_KEYS:
            pass
        elif isinstance(item, dict):
            item = _pruned(item)  # noqa: PLW2901 - the same item, pruned
        elif isinstance(item, list):
            item = [_pruned(part) if isinstance(part, dict) else part for part in item]  # noqa: PLW2901
        if item not in ({}, []):
            kept[key] = item
    return kept


def _yaml_problem(error: yaml.YAMLError) -> Problem:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        mark = error.problem_mark
        return Problem(f"line {mark.line + 1}, column {mark.column + 1}", str(error.problem or error.context))
    return Problem("", " ".join(str(error).split()))


class _StrictLoader(StrictConstructor, yaml.SafeLoader):
    """A SafeLoader to which a key that is there twice is an error, as to kube-scheduler; so is what would break it."""

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()
        if node is not None:
            refuse_expansion(node)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        value = super().construct_object(node, deep)
        if isinstance(value, int) and value.bit_length() > _INTEGER_BITS:
            problem = "the number is out of range; allowed: whole numbers of 64 bits"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return value
