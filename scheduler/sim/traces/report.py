"""The report of a replay, for a terminal or a log, and as JSON.

For the command line.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich import box
from rich.markup import escape
from rich.table import Table

from scheduler.sim.words import count, duration, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from .metrics import JobLife
    from .replay import Replayed

_DIGITS = 3
_MOST_NAMES = 10


def print_replay(replayed: Replayed, title: str, console: Console) -> None:
    """Write what a replay came to: the figures, and who blocks whom."""
    options = replayed.options
    cut = ", cut there" if replayed.is_cut else ""
    gangs = "with gangs" if options.has_gangs else f"without gangs, seed {options.seed}"
    console.print(
        f"[bold]{escape(title)}[/bold] on {options.shape}, {gangs}; {duration(replayed.end_seconds)} simulated{cut}",
        highlight=False,
    )
    table = Table(box=box.SIMPLE, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, figure in _figures(replayed).items():
        table.add_row(name, figure)
    console.print(table)
    if replayed.deadlocked:
        _print_deadlock(replayed.deadlocked, console)


def _figures(replayed: Replayed) -> dict[str, str]:
    """Return the rows of the table."""
    metrics = replayed.metrics
    return {
        "jobs": str(metrics.jobs),
        "finished": str(metrics.finished),
        "dead-locked": str(len(replayed.deadlocked)),
        "waiting": str(metrics.waiting),
        "average JCT, s": _seconds(metrics.mean_jct_seconds),
        "p99 JCT, s": _seconds(metrics.p99_jct_seconds),
        "average wait, s": _seconds(metrics.mean_wait_seconds),
        "makespan, s": _seconds(metrics.makespan_seconds),
        "GPU utilisation": percent(metrics.gpu_utilisation),
        "GPU-hours held idle": f"{metrics.gpu_hours_held_idle:,.0f}",
    }


def _print_deadlock(jobs: Sequence[JobLife], console: Console) -> None:
    """Say who holds what, and waits for the rest."""
    since = max(life.bound for job in jobs for life in job.placed)
    console.print(f"[red]Dead-lock[/red] since {duration(since)}: nothing is left that could happen.", highlight=False)
    for job in jobs[:_MOST_NAMES]:
        held = sum(life.gpus for life in job.placed)
        console.print(
            f"  {escape(job.name)} holds {held} of {count(job.gpus, 'GPU')} "
            f"({len(job.placed)} of {count(job.size, 'pod')}) and waits for the rest",
            highlight=False,
        )
    if len(jobs) > _MOST_NAMES:
        console.print(f"  and {len(jobs) - _MOST_NAMES} more", highlight=False)


def replay_json(replayed: Replayed) -> dict[str, Any]:
    """Return a replay as JSON; the keys are a promise to scripts."""
    options, shape = replayed.options, replayed.options.shape
    return {
        "cluster": {"nodes": shape.nodes, "gpus_per_node": shape.gpus_per_node, "gpus": shape.gpus},
        "gangs": options.has_gangs,
        "seed": options.seed,
        "end_seconds": _round(replayed.end_seconds),
        "is_cut": replayed.is_cut,
        "is_deadlocked": bool(replayed.deadlocked),
        "metrics": {key: _round(value) for key, value in asdict(replayed.metrics).items()}
        | {"deadlocked": len(replayed.deadlocked)},
        "jobs": [_job(job, replayed.end_seconds) for job in replayed.jobs],
    }


def _job(job: JobLife, end: float) -> dict[str, Any]:
    phase = "Finished" if job.finished is not None else "Waiting"
    if job.finished is None and job.placed:
        phase = "Incomplete" if job.is_incomplete else "Running"
    return {
        "name": job.name,
        "phase": phase,
        "gpus": job.gpus,
        "pods": job.size,
        "pods_placed": len(job.placed),
        "submitted": _round(job.submitted),
        "started": _round(job.started(end)),
        "finished": _round(job.finished),
        "jct_seconds": _round(job.jct_seconds),
    }


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:,.0f}"


def _round(value: float | None) -> float | None:
    """Return a number without the noise of floating point."""
    return round(value, _DIGITS) if isinstance(value, float) else value
