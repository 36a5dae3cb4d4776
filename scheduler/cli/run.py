"""`ai-scheduler run`: the scheduler of a real cluster."""

from __future__ import annotations

import click

from .reading import configuration_of, give_up


@click.command()
@click.option(
    "--config",
    "file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The configuration; without it, the default one.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="How to reach the API server; without it, the configuration says, else the pod's service account or $KUBECONFIG.",
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option(
    "--log-format", type=click.Choice(["auto", "json", "text"]), default="auto", show_default=True,
    help="auto: text on a terminal, JSON lines elsewhere.",
)  # fmt: skip
def run(file: str | None, kubeconfig: str | None, log_level: str, log_format: str) -> None:
    """Schedule the pods of a Kubernetes cluster that name this scheduler, until stopped.

    Logs go to stderr. Exit codes: 0 stopped by a signal, 1 a part failed, 2 the input cannot be used.
    """
    configuration = configuration_of(file)
    if kubeconfig is not None:
        connection = configuration.client_connection.model_copy(update={"kubeconfig": kubeconfig})
        configuration = configuration.model_copy(update={"client_connection": connection})

    from kubernetes.config import ConfigException  # noqa: PLC0415 - slow to import

    from scheduler.kube.logs import configure_logs  # noqa: PLC0415 - likewise
    from scheduler.kube.main import main  # noqa: PLC0415 - likewise

    configure_logs(log_level, as_json=None if log_format == "auto" else log_format == "json")
    try:
        code = main(configuration)
    except ConfigException as error:
        give_up(f"the API server cannot be reached: {error}")
    raise click.exceptions.Exit(code)
