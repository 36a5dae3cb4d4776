"""`ai-scheduler topology`: what a machine looks like and which GPUs are the best ones; and vectors of NVIDIA's allocator."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .reading import give_up

if TYPE_CHECKING:
    from scheduler.topology import Machine

DIFFERS = 1
STDIN = "-"


@click.group()
def topology() -> None:
    """Show the machine inside a node, or check how GPUs are chosen.

    Exit codes: 0 all is well, 1 a vector fails, 2 the input cannot be used.
    """


@topology.command("show")
@click.argument("source", metavar="FILE|NODE")
@click.option("--product", metavar="NAME", default="",
              help="What GPU feature discovery calls the GPU, such as NVIDIA-B200: the text does not tell how fast a link is.")  # fmt: skip
@click.option("--free", metavar="GPUS", help="The GPUs that are free, such as 0,1,5; without it, all of a file, or what a node reports.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["text", "svg", "json"]), default="text", show_default=True)
def show(source: str, product: str, free: str | None, output: str) -> None:
    """Print a machine, and the best set of GPUs of each size.

    FILE is the text of `nvidia-smi topo -m`, the value of the annotation node-topology, or manifests of a NodeTopology, a Node or its
    ResourceSlices; - is standard input. What is no file is the name of a NODE of the cluster that kubectl speaks to.

    \b
      nvidia-smi topo -m | ai-scheduler topology show -
      ai-scheduler topology show node-1 -o svg > node-1.svg
    """  # noqa: D301 - click's mark of a paragraph that keeps its lines
    from scheduler.topology import TopologyError, mask_of_gpus  # noqa: PLC0415 - numpy is slow to import

    from .machine_page import best_sets, machine_json, machine_text  # noqa: PLC0415 - likewise
    from .machine_source import SourceError, machine_of_file, machine_of_node  # noqa: PLC0415 - likewise
    from .machine_svg import machine_svg  # noqa: PLC0415 - likewise

    try:
        if source == STDIN or Path(source).is_file():
            machine, mask = machine_of_file(_read(source), product)
        else:
            machine, mask = machine_of_node(source, product)
        mask = mask if free is None else mask_of_gpus(_gpus(free, machine))
    except (TopologyError, SourceError) as error:
        give_up(f"{'standard input' if source == STDIN else source} cannot be used: {error}")
    sets = best_sets(machine, mask)
    if output == "json":
        click.echo(json.dumps(machine_json(machine, mask, sets), indent=2))
    else:
        click.echo(machine_svg(machine, mask, sets) if output == "svg" else machine_text(machine, mask, sets))


@topology.command("check")
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True))
def check(file: str) -> None:
    """Run vectors of NVIDIA's go-gpuallocator.

    Each is run in the policy that it names: best_effort, static_dgx or simple. A line for each one, then "N of M". Exits with 1 unless all pass.
    """
    from scheduler.topology import TopologyError  # noqa: PLC0415 - numpy is slow to import
    from scheduler.topology.vectors import read_vectors, run_vectors  # noqa: PLC0415 - likewise

    try:
        outcomes = list(run_vectors(read_vectors(_read(file))))
    except TopologyError as error:
        give_up(f"{file} cannot be used: {error}")
    for outcome in outcomes:
        click.echo(f"{outcome.name}: {outcome.failure or 'passes'}")
    passed = sum(not outcome.failure for outcome in outcomes)
    click.echo(f"{passed} of {len(outcomes)}")
    if passed < len(outcomes):
        raise click.exceptions.Exit(DIFFERS)


def _read(file: str) -> bytes:
    """Return what is in a file, or on standard input."""
    try:
        return sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as error:
        give_up(f"{file} cannot be read: {error.strerror}")


def _gpus(text: str, machine: Machine) -> list[int]:
    """Return the GPUs of a list; raises TopologyError that says what is allowed."""
    from scheduler.topology import TopologyError  # noqa: PLC0415 - numpy is slow to import

    words: list[Any] = [word.strip() for word in text.split(",") if word.strip()]
    gpus = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) <= 2]  # noqa: PLR2004
    if len(gpus) != len(words) or any(gpu >= machine.gpu_count for gpu in gpus):
        raise TopologyError(f"--free: {text!r}; allowed are GPUs from 0 to {machine.gpu_count - 1}, such as 0,1")
    return gpus
