"""`ai-scheduler node-agent`: tells what the machine of a node looks like, and which of its GPUs are free."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from .reading import give_up

if TYPE_CHECKING:
    from scheduler.agent.agent import Looking


@click.command("node-agent")
@click.option("--node-name", envvar="NODE_NAME", required=True, metavar="NAME", help="The node, else $NODE_NAME.")
@click.option(
    "--kubeconfig", default="", metavar="FILE",
    help="How to reach the API server; without it, the pod's service account or $KUBECONFIG.",
)  # fmt: skip
@click.option(
    "--root", type=click.Path(path_type=Path), default=Path("/"), show_default=True, metavar="FOLDER",
    help="Where the host's file system is mounted.",
)  # fmt: skip
@click.option(
    "--pod-resources", type=click.Path(path_type=Path), metavar="SOCKET", show_default=True,
    default=Path("/var/lib/kubelet/pod-resources/kubelet.sock"),
    help="The kubelet's socket; without it, nothing is told of free GPUs.",
)  # fmt: skip
@click.option("--resource", default="nvidia.com/gpu", show_default=True, help="The resource that counts whole GPUs.")
@click.option(
    "--source", "sources", multiple=True, type=click.Choice(["nvml", "nvidia-smi", "sysfs"]),
    help="Ask only this one; may be given several times. By default all, in this order.",
)  # fmt: skip
@click.option("--period-seconds", type=click.FloatRange(min=0.1), default=10.0, show_default=True)
@click.option("--print", "prints", is_flag=True, help="Print what would be written, and end; no API server is asked.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def node_agent(
    node_name: str, kubeconfig: str, root: Path, pod_resources: Path, resource: str, sources: tuple[str, ...],
    period_seconds: float, prints: bool, log_level: str,
) -> None:  # fmt: skip
    """Keep the NodeTopology object of a node up to date, until stopped.

    The machine is read from NVML, else `nvidia-smi`, else sysfs; who has which GPU from the kubelet. Logs go to stderr. Exit
    codes: 0 stopped by a signal, 1 nothing can be read (with --print), 2 the input cannot be used.
    """
    from scheduler.agent.agent import Looking  # noqa: PLC0415 - slow to import
    from scheduler.agent.sources import NAMES  # noqa: PLC0415 - likewise

    looking = Looking(root, pod_resources, resource, sources or NAMES)
    if prints:
        _print(looking)
        return
    from kubernetes.config import ConfigException  # noqa: PLC0415 - slow to import

    from scheduler.agent.main import main  # noqa: PLC0415 - likewise
    from scheduler.kube.logs import configure_logs  # noqa: PLC0415 - likewise

    configure_logs(log_level, as_json=None)
    try:
        main(node_name, kubeconfig, looking, period_seconds)
    except ConfigException as error:
        give_up(f"the API server cannot be reached: {error}")


def _print(looking: Looking) -> None:
    from scheduler.agent.agent import look  # noqa: PLC0415 - slow to import

    seen = look(looking)
    if seen.problem:
        click.echo(seen.problem, err=True)
    if seen.spec is None:
        raise click.exceptions.Exit(1)
    written = {"spec": seen.spec} | ({} if seen.devices is None else {"status": seen.devices})
    click.echo(msgspec.json.format(msgspec.json.encode(written), indent=2))
