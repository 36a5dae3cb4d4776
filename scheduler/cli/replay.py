"""`ai-scheduler simulate --trace`: reads a trace, replays it, and prints the report; `simulate` checks which options go with it.

For `simulate`, which has the options.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import Progress

from . import policies
from .reading import give_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scheduler.config import SchedulerConfiguration
    from scheduler.sim.traces.replay import Replayed, ReplayOptions
    from scheduler.sim.traces.trace import Trace

#: Options of `simulate` that say something about manifests, and those that say something about traces.
OF_MANIFESTS = ("paths", "duration_from", "submit_from", "schedule_all", "report")
OF_TRACES = ("gangs", "nodes", "gpus_per_node", "seed", "first", "virtual_cluster", "policy")
_MOST_NODES, _MOST_GPUS = 10_000, 1024


@dataclass(frozen=True, slots=True)
class TraceChoice:
    """Which jobs of which file are replayed, and on what."""

    format: str
    file: str
    nodes: int
    gpus_per_node: int
    has_gangs: bool
    seed: int
    first: int | None
    virtual_cluster: str
    #: Simulate the order of this policy alone; None for the real engine.
    policy: str | None


def trace_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of traces."""
    for option in reversed((
        click.option(
            "--trace", nargs=2, type=(click.Choice(["muri", "philly"]), click.Path(dir_okay=False, allow_dash=True)),
            metavar="muri|philly FILE", help="Replay the jobs of a trace instead of manifests: CSV, plain or gzip.",
        ),
        click.option("--gangs", type=click.Choice(["on", "off"]), default="on", show_default=True,
                     help="off: a trace's pods belong to no PodGroup, and wait in random order."),
        click.option("--nodes", type=click.IntRange(1, _MOST_NODES), default=8, show_default=True,
                     help="How many nodes a trace is replayed on."),
        click.option("--gpus-per-node", type=click.IntRange(1, _MOST_GPUS), default=8, show_default=True,
                     help="How many GPUs each of them has."),
        click.option("--seed", type=click.IntRange(0), default=0, show_default=True,
                     help="Of the random order with --gangs off."),
        click.option("--first", type=click.IntRange(1), metavar="JOBS", help="Replay only the first so many jobs."),
        click.option("--policy", type=click.Choice(policies.NAMES),
                     help="Simulate this order alone, without engine and pods; srtf and srsf know how long jobs run."),
        click.option("--virtual-cluster", metavar="NAME", help="Replay only the jobs of this cluster of a philly trace."),
    )):  # fmt: skip
        command = option(command)
    return command


def check_options(context: click.Context) -> None:
    """Refuse options that go with the other kind of input."""
    default = click.core.ParameterSource.DEFAULT
    given = {name for name in context.params if context.get_parameter_source(name) is not default}
    given -= {name for name in given if context.params[name] in ((), None)}
    has_trace = context.params["trace"] is not None
    parameters: dict[str | None, click.Parameter] = {parameter.name: parameter for parameter in context.command.params}
    if context.params["policy"] is not None and has_trace:
        _check_policy_options(given, parameters)
    wrong = [parameters[name] for name in (OF_MANIFESTS if has_trace else OF_TRACES) if name in given]
    names = ", ".join("PATH" if isinstance(found, click.Argument) else found.opts[0] for found in wrong)
    if wrong:
        raise click.UsageError(f"{names}: not allowed {'with' if has_trace else 'without'} --trace.")
    if not has_trace and not context.params["paths"]:
        raise click.UsageError("Missing argument 'PATH...', or --trace.")
    if has_trace and context.params["virtual_cluster"] is not None and context.params["trace"][0] != "philly":
        raise click.UsageError("--virtual-cluster: allowed with --trace philly only; no other format names clusters.")


def _check_policy_options(given: set[str], parameters: dict[str | None, click.Parameter]) -> None:
    """Refuse options that say something about the engine or its pods."""
    names = ", ".join(parameters[name].opts[0] for name in policies.OF_THE_ENGINE if name in given)
    if names:
        raise click.UsageError(f"{names}: not allowed with --policy, which needs no engine and no pods.")


def replay_trace(
    choice: TraceChoice, configuration: SchedulerConfiguration, start_delay: float, until: float | None,
    *, output: str, is_quiet: bool,
) -> bool:  # fmt: skip
    """Replay a trace and print what it came to; False if jobs wait at the end."""
    from scheduler.sim.traces.replay import ReplayOptions, replay  # noqa: PLC0415 - numpy is slow to import
    from scheduler.sim.traces.trace import ClusterShape  # noqa: PLC0415 - likewise

    shape = ClusterShape(choice.nodes, choice.gpus_per_node)
    options = ReplayOptions(shape, choice.has_gangs, choice.seed, start_delay, until)
    trace = _trace(choice, options)
    if choice.policy is not None:
        source = {"format": choice.format, "file": choice.file}
        return policies.run_under_policy(choice.policy, trace, shape, source, output)
    with _progress(is_shown=not is_quiet) as on_moment:
        replayed = replay(trace, configuration, options, on_moment=on_moment)
    _tell(replayed, choice, output)
    return replayed.metrics.incomplete + replayed.metrics.waiting == 0


def _trace(choice: TraceChoice, options: ReplayOptions) -> Trace:
    """Return the jobs that are to be replayed, or tell what is wrong with the file."""
    from scheduler.sim.traces.muri import read_muri  # noqa: PLC0415 - only here
    from scheduler.sim.traces.philly import read_philly  # noqa: PLC0415 - only here
    from scheduler.sim.traces.trace import TraceError  # noqa: PLC0415 - only here

    try:
        if choice.format == "philly":
            trace = read_philly(choice.file, options.shape, choice.virtual_cluster)
        else:
            trace = read_muri(choice.file, options.shape)
    except TraceError as error:
        give_up(f"{error}\nNothing was simulated.")
    return trace.first(choice.first)


@contextmanager
def _progress(*, is_shown: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Show how many jobs have finished, on a terminal."""
    console = Console(stderr=True)
    if not (is_shown and console.is_terminal):
        yield None
        return
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("jobs finished", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _tell(replayed: Replayed, choice: TraceChoice, output: str) -> None:
    from scheduler.sim.traces.report import print_replay, replay_json  # noqa: PLC0415 - only here

    if output == "json":
        source = {"format": choice.format, "file": choice.file}
        click.echo(json.dumps({"trace": source} | replay_json(replayed), indent=2))
    else:
        title = f"{choice.format} trace {choice.file}"
        width = None if sys.stdout.isatty() else 160
        print_replay(replayed, title, Console(file=sys.stdout, width=width, soft_wrap=width is not None))
