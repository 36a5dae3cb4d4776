"""docs/configuration.md: every key of the configuration, from the models and their docstrings."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from scheduler import config
from scheduler.config import SchedulerConfiguration

from .models import model_table, models_below

if TYPE_CHECKING:
    from pydantic import BaseModel

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
    sections = [_section(model, path) for model, path in models_below(SchedulerConfiguration)]
    return "\n".join([_INTRODUCTION, *sections, _defaults()])


def _section(model: type[BaseModel], path: str) -> str:
    title = "Top level" if not path else f"`{path.replace('preEnqueue', '<point>')}`"
    return "\n".join([f"## {title}", "", inspect.getdoc(model) or "", "", *model_table(model), ""])


def _defaults() -> str:
    return f"## All defaults\n\n```yaml\n{config.to_yaml(config.default())}```\n"
