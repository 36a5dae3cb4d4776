"""Tables of what plugin authors meet, from the docstrings of the framework itself; for docs/writing-a-plugin.md."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

from scheduler.framework import plugin
from scheduler.framework.handle import Handle
from scheduler.framework.status import Status

from . import table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def points_table() -> list[str]:
    """Return the table of extension points as it stands in the contract."""
    return [line for line in (plugin.__doc__ or "").splitlines() if line.startswith("|")]


def statuses_table() -> list[str]:
    """Return a row for each way to make a status."""
    rows = [
        (f"`Status.{name}({_arguments(member.__func__)})`", _sentence(member.__func__))
        for name, member in vars(Status).items()
        if isinstance(member, classmethod)
    ]
    return table(("answer", "meaning"), [("`None`", "Yes."), *rows])


def attributes_table() -> list[str]:
    """Return a row for each attribute that a plugin's class may set, with its default."""
    found = re.findall(r"((?: +#: .*\n)+) +(\w+): ClassVar\[.*\] = (.*)", inspect.getsource(plugin.Plugin))
    rows = [(f"`{name}`", f"`{default}`", " ".join(re.findall(r"#: (.*)", said))) for said, name, default in found]
    return table(("attribute", "default", "meaning"), rows)


def handle_table() -> list[str]:
    """Return a row for each thing that a plugin may ask."""
    rows = []
    for name, member in vars(Handle).items():
        if isinstance(member, property):
            rows.append((f"`{name}`", _sentence(member)))
        elif inspect.isfunction(member) and not name.startswith("_"):
            rows.append((f"`{name}({_arguments(member)})`", _sentence(member)))
    return table(("`self.handle.…`", "meaning"), rows)


#: Name of a block to what stands in it.
BLOCKS: Mapping[str, Callable[[], list[str]]] = {
    "points": points_table,
    "statuses": statuses_table,
    "attributes": attributes_table,
    "handle": handle_table,
}


def _arguments(function: Callable[..., object]) -> str:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return ", ".join(f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name for p in parameters)


def _sentence(member: object) -> str:
    return (inspect.getdoc(member) or "").split("\n")[0]
