"""`ai-scheduler simulate`: manifests, or a trace, on an embedded cluster, with the real engine and plugins, in virtual time."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from scheduler.sim.annotations import MOST_SECONDS

from .reading import configuration_of, give_up, with_base
from .replay import TraceChoice, check_options, replay_trace, trace_options

if TYPE_CHECKING:
    from scheduler.config import SchedulerConfiguration
    from scheduler.sim.loading import LoadOptions
    from scheduler.sim.outcome import Outcome
    from scheduler.sim.world import World

DOES_NOT_FIT = 1
#: Wide enough for tables where no terminal says how wide it is.
_WIDTH_OF_FILES = 160


class Seconds(click.ParamType[float]):
    """A number of seconds that a simulation can last."""

    name = "seconds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        try:
            seconds = float(str(value).removesuffix("s"))
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds <= MOST_SECONDS:  # NaN is neither
            self.fail(f"{value!r} is not allowed; allowed: seconds from 0 to {MOST_SECONDS}, such as 600", param, ctx)
        return seconds


class DurationSource(click.ParamType[str | float]):
    """The words annotation and job, or a number of seconds."""

    name = "duration source"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002 - click's signature
        """Return what the help shows."""
        return "annotation|job|SECONDS"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str | float:
        """Return the word or the number."""
        if value in ("annotation", "job"):
            return str(value)
        try:
            return Seconds().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not allowed; allowed: annotation, job, or seconds such as 600", param, ctx)


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option(
    "--duration-from",
    type=DurationSource(),
    default="annotation",
    show_default=True,
    help="How long a pod runs that has no annotation run-seconds: for ever, as long as its Job ran, or so many seconds.",
)
@click.option(
    "--submit-from",
    type=click.Choice(["annotation", "created"]),
    default="annotation",
    show_default=True,
    help="When a workload without the annotation submit-seconds arrives: at the start, or by its creationTimestamp.",
)
@click.option("--schedule-all", is_flag=True, help="Schedule pending pods that name another scheduler, too.")
@click.option(
    "--config", "file", type=click.Path(dir_okay=False), metavar="FILE", help="The scheduler's configuration."
)
@click.option(
    "--profile",
    type=click.Choice(["ai-scheduler", "kube-default"]),
    help="The built-in plugins to decide with; with --config, the file says.",
)
@click.option("--until", type=Seconds(), metavar="SECONDS", help="Cut the simulation after so long.")
@click.option(
    "--start-delay",
    type=Seconds(),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a bound pod takes to start.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option(
    "--report",
    type=click.Path(dir_okay=False),
    metavar="FILE.html|FILE.svg",
    help="Write a page with pictures, or one picture, too.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print the report alone, not what happens on the way.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if something does not fit.")
@trace_options
@click.pass_context
def simulate(
    context: click.Context, paths: tuple[str, ...], duration_from: str | float, submit_from: str, *, schedule_all: bool, file: str | None,
    profile: str | None, until: float | None, start_delay: float, output: str, report: str | None, quiet: bool,
    exit_zero: bool, trace: tuple[str, str] | None, gangs: str, nodes: int, gpus_per_node: int, seed: int,
    first: int | None, virtual_cluster: str | None, policy: str | None,
) -> None:  # fmt: skip
    """Run manifests on an embedded cluster: the real engine and plugins, simulated kubelets, virtual time.

    PATH is a folder, a file, or - for standard input: ordinary manifests, or a dump. Pods that are bound run from the
    start on; Jobs, ReplicaSets, Deployments, StatefulSets and DaemonSets make their pods. Kinds that do not matter here
    are counted and left out.

    \b
    A dump with everything that is read (leave out kinds that the cluster does not know):
      kubectl get nodes,pods,pc,jobs,deploy,rs,sts,ds,pdb,ns,svc,rc,pvc,pv,sc,csinodes,csidrivers,csistoragecapacities,volumeattachments,resourceclaims,resourceclaimtemplates,resourceslices,deviceclasses,devicetaintrules,noderesourcetopologies.topology.node.k8s.io,podgroups.scheduling.ai-scheduler.io,topologies.scheduling.ai-scheduler.io,nodetopologies.scheduling.ai-scheduler.io,queues.scheduling.ai-scheduler.io -A -o yaml

    \b
    Annotations that only the simulation reads (prefix scheduling.ai-scheduler.io/):
      run-seconds     how long a pod runs; on a pod, a pod template or a Job
      submit-seconds  when an object is created, after the start; on any object
      exit-code       what a pod ends with; anything but 0 fails
      fail-count      with exit-code: so many pods fail, the later ones succeed

    With --trace, each job of the trace is a gang that runs as long as the trace says; docs/traces.md tells what is counted.

    Exit codes: 0 every workload was placed, 1 some wait for ever or were evicted for good, 2 the input cannot be used.
    """  # noqa: D301 - click's mark of a paragraph that keeps its lines
    check_options(context)
    if file is not None and profile is not None:
        raise click.UsageError("--config and --profile exclude each other: the file names its profiles.")
    configuration = configuration_of(file)
    if profile is not None:
        configuration = with_base(configuration, profile)
    if trace is not None:
        choice = TraceChoice(*trace, nodes, gpus_per_node, gangs == "on", seed, first, virtual_cluster or "", policy)
        fits = replay_trace(choice, configuration, start_delay, until, output=output, is_quiet=quiet)
        raise click.exceptions.Exit(0 if fits or exit_zero else DOES_NOT_FIT)
    page = _page_path(report)
    world = _world(paths, _load_options(configuration, duration_from, submit_from, schedule_all=schedule_all))
    outcome = _run(world, configuration, start_delay, until, is_shown=output == "table" and not quiet)
    _tell(outcome, output)
    if page is not None:
        _write_page(outcome, page, is_told=output == "table")
    raise click.exceptions.Exit(DOES_NOT_FIT if outcome.unfit and not exit_zero else 0)


def _load_options(
    configuration: SchedulerConfiguration, duration_from: str | float, submit_from: str, *, schedule_all: bool
) -> LoadOptions:
    from scheduler.model.dialects import dialects_of  # noqa: PLC0415 - likewise
    from scheduler.sim.loading import Arrivals, Durations, LoadOptions  # noqa: PLC0415 - numpy is slow to import

    return LoadOptions(
        dialects=dialects_of(configuration.group_kinds),
        scheduler_names=tuple(profile.scheduler_name for profile in configuration.profiles),
        schedule_all=schedule_all,
        arrivals=Arrivals.CREATED if submit_from == "created" else Arrivals.AT_START,
        durations=duration_from if isinstance(duration_from, float) else Durations(duration_from),
    )


def _world(paths: tuple[str, ...], options: LoadOptions) -> World:
    """Return the world, or tell everything that is wrong with the input."""
    from scheduler.sim.loading import load_world  # noqa: PLC0415 - numpy is slow to import
    from scheduler.sim.manifests import ManifestError  # noqa: PLC0415 - likewise

    try:
        return load_world(paths, options)
    except ManifestError as error:
        count = len(error.problems)
        give_up(f"{error}\n{count} {'problem' if count == 1 else 'problems'}; nothing was simulated.")


def _run(
    world: World, configuration: SchedulerConfiguration, start_delay: float, until: float | None, *, is_shown: bool
) -> Outcome:
    """Simulate; on a terminal with a live view, elsewhere with a line for each thing that happens."""
    from scheduler.sim.kubelets import KubeletTimes  # noqa: PLC0415 - numpy is slow to import
    from scheduler.sim.run import RunOptions, simulation_of  # noqa: PLC0415 - likewise

    from .watch import watch  # noqa: PLC0415 - likewise

    simulation = simulation_of(world, configuration, RunOptions(KubeletTimes(start_seconds=start_delay), until))
    if is_shown:
        watch(simulation, _console())
    else:
        while simulation.advance():
            pass
    return simulation.outcome()


def _tell(outcome: Outcome, output: str) -> None:
    if output == "json":
        from scheduler.sim.outcome import to_json  # noqa: PLC0415 - only here

        click.echo(json.dumps(to_json(outcome), indent=2))
    else:
        from scheduler.sim.report import print_report  # noqa: PLC0415 - only here

        print_report(outcome, _console())


def _console() -> Console:
    return Console() if sys.stdout.isatty() else Console(file=sys.stdout, width=_WIDTH_OF_FILES, soft_wrap=True)


def _page_path(report: str | None) -> Path | None:
    """Return where the page goes, having made sure that it can be written there before anything is simulated."""
    if report is None:
        return None
    path = Path(report)
    if not path.parent.is_dir():
        give_up(f"--report: the folder {path.parent} does not exist; make it first, or name another")
    was_there = path.exists()
    try:
        path.open("a").close()
        if not was_there:
            path.unlink()
    except OSError as error:
        give_up(f"--report: {report} cannot be written: {error.strerror or error}")
    return path


def _write_page(outcome: Outcome, path: Path, *, is_told: bool) -> None:
    from scheduler.sim.html import page_of  # noqa: PLC0415 - only here
    from scheduler.sim.picture import picture_of  # noqa: PLC0415 - only here

    make = picture_of if path.suffix == ".svg" else page_of
    path.write_text(make(outcome), encoding="utf-8")
    if is_told:
        click.echo(f"\nThe page with pictures is {path}")
