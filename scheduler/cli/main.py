"""The command `ai-scheduler`: its subcommands, loaded only when they are called, so that the small ones answer at once.

Exit codes of all commands: 0 all is well, 1 something differs or does not fit, 2 the input cannot be used.
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version

import click

#: Subcommand to (module, its click command, the line in the help).
_COMMANDS = {
    "config": ("scheduler.cli.config", "config", "Check a configuration, or show the effective one."),
    "explain": ("scheduler.cli.explain", "explain", "Tell what every plugin says of a pod."),
    "node-agent": (
        "scheduler.cli.node_agent",
        "node_agent",
        "Tell what the machine of a node looks like, and which GPUs are free.",
    ),
    "run": ("scheduler.cli.run", "run", "Schedule pods of a Kubernetes cluster."),
    "simulate": ("scheduler.cli.simulate", "simulate", "Run manifests on an embedded cluster in virtual time."),
    "topology": ("scheduler.cli.topology", "topology", "Show the machine inside a node, or check how GPUs are chosen."),
}


class LazyGroup(click.Group):
    """A group whose subcommands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, sorted."""
        del ctx
        return sorted({*self.commands, *_COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a subcommand."""
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, attribute, _ = _COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands without importing them."""
        del ctx
        own = {name: command.get_short_help_str() for name, command in self.commands.items()}
        lines = own | {name: text for name, (_, _, text) in _COMMANDS.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(lines.items()))


def _version() -> str:
    try:
        return version("ai-scheduler")
    except PackageNotFoundError:
        return "not installed"


def _print_version(ctx: click.Context, param: click.Parameter, is_asked: bool) -> None:
    del param
    if is_asked:
        click.echo(_version())
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
def main() -> None:
    """Schedule whole jobs of a Kubernetes cluster, down to which GPUs.

    Exit codes: 0 all is well, 1 something differs or does not fit, 2 the input cannot be used.
    """


@main.command("version")
def print_version() -> None:
    """Print the version."""
    click.echo(_version())


if __name__ == "__main__":
    main(prog_name="ai-scheduler")
