"""docs/plugins.md: the built-in plugins, their points, weights and arguments."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING

import yaml
from pydantic.alias_generators import to_camel

from scheduler.framework.registry import POINTS, implements
from scheduler.plugins import BASE_ARGS, BASES, BUILT_IN

from . import GENERATED_FROM, table
from .models import model_table, models_below

if TYPE_CHECKING:
    from scheduler.framework.plugin import Plugin

#: The points at which a weight counts.
_WEIGHED = ("score", "placement_score")

_INTRODUCTION = """\
# Built-in plugins

A profile starts from one of two sets, its `base`: `ai-scheduler`, the default, or `kube-default`, which is kube-scheduler's
plugins and weights with our gangs. [Configuration](configuration.md) says how a profile changes its set; [Writing a
plugin](writing-a-plugin.md) how to add to it.

The plugins stand in the order in which they are called. Points have their names in the configuration. A weight stands
where a plugin scores; a dash says that the plugin is not in the set.
"""


def plugins_page() -> str:
    """Return docs/plugins.md."""
    order = dict.fromkeys([*BASES["ai-scheduler"], *BUILT_IN])
    rows = [_row(BUILT_IN[name]) for name in order]
    lines = [GENERATED_FROM.format("scheduler/plugins/"), _INTRODUCTION]
    lines += table(("plugin", "points", *(f"weight in `{base}`" for base in BASES), "what it does"), rows)
    return "\n".join([*lines, "", *(line for name in order for line in _section(BUILT_IN[name]))])


def _row(cls: type[Plugin]) -> tuple[str, ...]:
    points = [f"`{to_camel(point)}`" for point in POINTS if implements(cls, point)]
    weights = [_weight(cls, base) for base in BASES]
    first_line = _about(cls).split("\n")[0]
    return f"[{cls.NAME}](#{cls.NAME.lower()})", ", ".join(points), *weights, first_line


def _weight(cls: type[Plugin], base: str) -> str:
    if cls.NAME not in BASES[base]:
        return "–"
    return str(BASES[base][cls.NAME]) if any(implements(cls, point) for point in _WEIGHED) else ""


def _section(cls: type[Plugin]) -> list[str]:
    """Return what there is to know of one plugin."""
    lines = [f"## {cls.NAME}", "", _about(cls), ""]
    if cls.Args is None:
        return [*lines, "It takes no arguments.", ""]
    for model, path in models_below(cls.Args):
        lines += [f"`{path}`: {inspect.getdoc(model)}" if path else "Arguments:", "", *model_table(model), ""]
    for base, arguments in BASE_ARGS.items():
        if cls.NAME in arguments:
            lines += [f"In `{base}` it runs with these, unless the profile's `pluginConfig` has others:", ""]
            lines += ["```yaml", yaml.safe_dump(arguments[cls.NAME], sort_keys=False).rstrip(), "```", ""]
    return lines


def _about(cls: type[Plugin]) -> str:
    """Return the docstring of a plugin's module, which says more than that of the class."""
    return inspect.getdoc(sys.modules[cls.__module__]) or inspect.getdoc(cls) or ""
