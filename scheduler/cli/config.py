"""`ai-scheduler config`: tells what is wrong with a configuration, what of it has no effect, and what is in force."""

from __future__ import annotations

import click

from scheduler.config import to_yaml, unhonoured

from .reading import configuration_of

_FILE = click.Path(dir_okay=False)


@click.group()
def config() -> None:
    """Check a configuration, or show the effective one.

    A configuration has the shape of a KubeSchedulerConfiguration v1 (profiles, plugins, pluginConfig); files of
    kube-scheduler are read as they are.
    """


@config.command("check")
@click.argument("file", type=_FILE)
def check(file: str) -> None:
    """Tell what is wrong with the configuration in FILE, and which of its keys have no effect.

    Exit codes: 0 it can be used, 2 it cannot.
    """
    configuration = configuration_of(file)
    for line in unhonoured(configuration):
        click.echo(f"not honoured: {line}")
    click.echo(f"{file}: OK")


@config.command("show")
@click.option("--config", "file", type=_FILE, metavar="FILE", help="The configuration; without it, the default one.")
def show(file: str | None) -> None:
    """Print the effective configuration, with every default, as YAML."""
    click.echo(to_yaml(configuration_of(file)), nl=False)
