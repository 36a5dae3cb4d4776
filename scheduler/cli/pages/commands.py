"""docs/cli.md: the help of every command, as it is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scheduler.cli.main import main

from . import GENERATED_FROM

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The width of the help, whatever terminal `make generate` runs in.
WIDTH = 100
NAME = "ai-scheduler"

_INTRODUCTION = """\
# Commands

What `--help` says. Every command answers to `-h` and `--help`.
"""


def commands_page() -> str:
    """Return docs/cli.md."""
    lines = [GENERATED_FROM.format("scheduler/cli/"), _INTRODUCTION]
    for context in contexts():
        lines += [f"## {context.command_path}", "", "```text", context.get_help(), "```", ""]
    return "\n".join(lines)


def contexts() -> Iterator[click.Context]:
    """Yield a context for each command and subcommand, parents first."""
    pending = [click.Context(main, info_name=NAME, terminal_width=WIDTH, **main.context_settings)]
    while pending:
        context = pending.pop(0)
        yield context
        command = context.command
        if isinstance(command, click.Group):
            children = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
            inner = [click.Context(child, context, name) for name, child in children if child is not None]
            pending = [*inner, *pending]
