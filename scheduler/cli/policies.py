"""`ai-scheduler simulate --trace … --policy`: runs the jobs of a trace under a policy alone, and prints what that came to.

For `simulate`, which has the options.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from scheduler.sim.policies.run import PolicyRun
    from scheduler.sim.traces.trace import ClusterShape, Trace

#: As `scheduler.sim.policies.run.POLICIES`; numpy need not be imported to print the help.
NAMES = ("fifo", "attained", "tiresias", "srtf", "srsf")
#: Options of a replay with the real engine, which mean nothing to a policy.
OF_THE_ENGINE = ("gangs", "seed", "file", "profile", "until", "start_delay")


def run_under_policy(name: str, trace: Trace, shape: ClusterShape, source: dict[str, str], output: str) -> bool:
    """Run a trace and print the figures; False if jobs could never run."""
    from scheduler.sim.policies.run import policy_json, run_policy  # noqa: PLC0415 - numpy is slow to import

    run = run_policy(name, trace, shape)
    if output == "json":
        click.echo(json.dumps({"trace": source} | policy_json(run), indent=2))
    else:
        _print(run, f"{source['format']} trace {source['file']}")
    return run.metrics.finished == run.metrics.jobs


def _print(run: PolicyRun, title: str) -> None:
    width = None if sys.stdout.isatty() else 160
    console = Console(file=sys.stdout, width=width, soft_wrap=width is not None)
    console.print(
        f"[bold]{escape(title)}[/bold] on {run.shape}, under policy {run.policy} (no engine, no pods)", highlight=False
    )
    table = Table(box=box.SIMPLE, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    metrics = run.metrics
    for label, figure in (
        ("jobs", float(metrics.jobs)),
        ("finished", float(metrics.finished)),
        ("average JCT, s", metrics.mean_jct_seconds),
        ("p99 JCT, s", metrics.p99_jct_seconds),
        ("average wait, s", metrics.mean_wait_seconds),
        ("makespan, s", metrics.makespan_seconds),
        ("preemptions", float(run.preemptions)),
        ("GPU-seconds lost to preemptions", run.lost_gpu_seconds),
    ):
        table.add_row(label, "-" if figure is None else f"{figure:,.0f}")
    console.print(table)
