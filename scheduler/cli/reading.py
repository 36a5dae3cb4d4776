"""Reads what commands are given: configurations whose plugins exist; else says what is wrong, and exits with 2."""

from __future__ import annotations

from typing import NoReturn

import click

from scheduler.config import ConfigurationError, Profile, SchedulerConfiguration, default, load

CANNOT_BE_USED = 2


def give_up(message: str) -> NoReturn:
    """Tell why the input cannot be used, and exit."""
    click.echo(message, err=True)
    raise click.exceptions.Exit(CANNOT_BE_USED)


def configuration_of(file: str | None) -> SchedulerConfiguration:
    """Return the configuration in a file whose plugins exist, or the default one."""
    if file is None:
        return default()
    try:
        configuration = load(file)
    except ConfigurationError as error:
        give_up(str(error))
    if problems := plugin_problems(configuration):
        give_up("\n".join([f"{file} cannot be used:", *(f"  {problem}" for problem in problems)]))
    return configuration


def with_base(configuration: SchedulerConfiguration, base: str) -> SchedulerConfiguration:
    """Return the configuration with one profile: the built-in one of that name."""
    return configuration.model_copy(update={"profiles": [Profile.model_validate({"base": base})]})


def plugin_problems(configuration: SchedulerConfiguration) -> list[str]:
    """Return what is wrong with the plugins and their arguments, in all profiles."""
    from scheduler.engine.engine import Engine  # noqa: PLC0415 - numpy is slow to import
    from scheduler.framework.registry import RegistryError  # noqa: PLC0415 - likewise

    problems = []
    for index, profile in enumerate(configuration.profiles):
        try:
            Engine(configuration.model_copy(update={"profiles": [profile]}), lambda: 0.0)
        except RegistryError as error:
            problems += [problem.replace("profiles[0]", f"profiles[{index}]", 1) for problem in error.problems]
    return problems
