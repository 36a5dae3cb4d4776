"""The configuration reference, as Markdown, from the models and their docstrings.

For `scheduler.cli.generate`.
"""

from __future__ import annotations

import inspect
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from scheduler import config
from scheduler.config import ConfigurationModel, SchedulerConfiguration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

_INTRODUCTION = f"""\
<!-- Generated from scheduler/config/ by `make generate`: edits here are lost. -->
# Configuration

`ai-scheduler run --config FILE` reads one YAML file in the shape of `KubeSchedulerConfiguration` v1; `ai-scheduler config
check FILE` says what is wrong with it and which keys have no effect. Without a file, everything has its default.

- `apiVersion` and `kind` are ours (`{config.API_VERSION}`, `{config.KIND}`), kube-scheduler's
  (`{config.KUBE_API_VERSION}`, `{config.KUBE_KIND}`), or absent.
- **One file may drive both schedulers**: with kube-scheduler's `apiVersion`, profiles start from its plugins and weights
  (`base: kube-default`); otherwise from ours (`base: {config.DEFAULT_SCHEDULER_NAME}`).
- An unknown key is an error. A key of kube-scheduler's that has no effect here is accepted; the tables say so.
- A key without a value is as good as absent.
- Durations are Go's: `15s`, `1m30s`, `500ms`.

The smallest useful file:

```yaml
profiles:
- schedulerName: {config.DEFAULT_SCHEDULER_NAME}
  plugins:
    score:
      enabled:
      - name: NodeResourcesFit
        weight: 5
```
"""


def configuration_page() -> str:
    """Return docs/configuration.md."""
    sections = [_section(model, path) for model, path in _models(SchedulerConfiguration, "")]
    return "\n".join([_INTRODUCTION, *sections, _defaults()])


def _models(model: type[BaseModel], path: str) -> Iterator[tuple[type[BaseModel], str]]:
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


def _parts(annotation: Any) -> Iterator[type[ConfigurationModel]]:  # noqa: ANN401 - any annotation
    if isinstance(annotation, type) and issubclass(annotation, ConfigurationModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _parts(argument)


def _section(model: type[BaseModel], path: str) -> str:
    title = "Top level" if not path else f"`{path.replace('preEnqueue', '<point>')}`"
    lines = [f"## {title}", "", inspect.getdoc(model) or "", ""]
    lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
    for field in model.model_fields.values():
        cells = (f"`{field.alias}`", _type(field), _default(field), _meaning(field))
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([*lines, ""])


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
    if "dict[" in annotation:
        return "mapping"
    noun = next((noun for key, noun in names.items() if key in annotation and "Literal" not in annotation), "")
    return " ".join(part for part in (noun, config.allowed_values(field)) if part)


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
        case [*_]:
            text = "one, with defaults"
        case timedelta() as duration:
            text = f"`{config.format_duration(duration)}`"
        case float() as number:
            text = f"`{number:g}`"
        case value:
            text = f"`{json.dumps(value)}`".replace('"', "")
    return text


def _defaults() -> str:
    return f"## All defaults\n\n```yaml\n{config.to_yaml(config.default())}```\n"
