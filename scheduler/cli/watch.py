"""Watching a simulation: a live table on a terminal, a line for each thing that happens elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from scheduler.sim.history import gpus_of
from scheduler.sim.report import PHASE_STYLES, happening_line
from scheduler.sim.words import count, duration, short_names

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from scheduler.sim.history import WorkloadRecord
    from scheduler.sim.run import Simulation

#: A simulation is faster than an eye: so long is each moment shown, and so long are all of them at most.
_MOMENT_SECONDS = 0.04
_SLOWDOWN_SECONDS = 4.5
_MARGIN_LINES = 8
_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#d9b62c", "#ff9da6", "#9d755d", "#7b8feb",
            "#a3cf5f", "#c2377f", "#2f6f6d", "#ffbe7d", "#6a4c93", "#86bcf0", "#a61e2e", "#d4a6c8")  # fmt: skip


def watch(simulation: Simulation, console: Console) -> None:
    """Run a simulation to its end and show it."""
    if console.is_terminal:
        _watch_live(simulation, console)
    else:
        _print_lines(simulation, console)


def _print_lines(simulation: Simulation, console: Console) -> None:
    told = 0
    while True:
        goes_on = simulation.advance()
        happenings = simulation.cluster.history.happenings
        for happening in happenings[told:]:
            console.print(happening_line(happening, simulation.world.start), markup=False, highlight=False)
        told = len(happenings)
        if not goes_on:
            console.print()
            return


def _watch_live(simulation: Simulation, console: Console) -> None:
    slowed = 0.0
    told = 0
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while simulation.advance():
            happenings = simulation.cluster.history.happenings
            if len(happenings) == told:
                continue
            told = len(happenings)
            live.update(_view(simulation, console.height - _MARGIN_LINES), refresh=True)
            if slowed < _SLOWDOWN_SECONDS:
                time.sleep(_MOMENT_SECONDS)
                slowed += _MOMENT_SECONDS


def _view(simulation: Simulation, lines: int) -> RenderableType:
    history = simulation.cluster.history
    sample = history.samples[-1] if history.samples else None
    used, total = (sample.gpus, sample.gpus_total) if sample else (0, 0)
    head = Table.grid(padding=(0, 2))
    head.add_row(
        Text(f"after {duration(simulation.elapsed):>6}", style="bold"),
        Text(f"GPUs {used}/{total}"),
        ProgressBar(total=max(1, total), completed=used, width=40),
        Text(f"{count(sample.waiting_pods if sample else 0, 'pod')} waiting"),
    )
    columns = Table.grid(padding=(0, 3))
    colours = {id(record): _COLOURS[number % len(_COLOURS)] for number, record in enumerate(history.workloads.values())}
    columns.add_row(
        _table(list(history.workloads.values()), colours, simulation, lines), _map(simulation, colours, lines)
    )
    return Group(head, Text(), columns)


def _table(records: list[WorkloadRecord], colours: dict[int, str], simulation: Simulation, lines: int) -> Table:
    """Return the table of workloads: those that run or wait first, as far as there is room."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", "workload", "phase", "wait", "GPUs", "nodes"):
        table.add_column(name, no_wrap=True, justify="right" if name in ("wait", "GPUs") else "left")
    shown = sorted(records, key=lambda record: (not (record.placed or record.waiting), record.submitted, record.owner))
    now = simulation.cluster.clock()
    for record in shown[: max(1, lines)]:
        phase, wait = _phase(record), _waited(record, now)
        gpus = sum(gpus_of(life.pod.requests) for life in record.placed or record.waiting)
        nodes = short_names({life.pod.node_name for life in record.placed})
        style = PHASE_STYLES.get(phase, "")
        table.add_row(
            Text("■" if record.placed else " ", style=colours[id(record)]),
            escape(record.key), Text(phase, style=style), duration(wait), str(gpus or "-"), escape(nodes),
        )  # fmt: skip
    return table


def _waited(record: WorkloadRecord, now: float) -> float:
    """Return how long a workload has waited for its start, or for its next one since its pods went."""
    ends = [life.ended for life in record.pods.values() if life.ended is not None]
    if record.waiting and not record.placed and ends:
        return now - max(ends)
    return (now if record.started is None else record.started) - record.submitted


def _phase(record: WorkloadRecord) -> str:
    if record.failure:
        return "Failed"
    if record.is_running:
        return "Running"
    if record.waiting:
        return "Pending"
    return "Succeeded" if record.started is not None else "Pending"


def _map(simulation: Simulation, colours: dict[int, str], lines: int) -> Table:
    """Return the map of nodes and GPUs; which GPU of a node belongs to whom is in the page, here they stand in a row."""
    history = simulation.cluster.history
    held: dict[str, list[str]] = {}
    for record in history.workloads.values():
        for life in record.placed:
            held.setdefault(life.pod.node_name, []).extend([colours[id(record)]] * gpus_of(life.pod.requests))
    table = Table.grid(padding=(0, 1))
    for name in sorted(name for name, node in history.nodes.items() if gpus_of(node.allocatable))[: max(1, lines)]:
        total = gpus_of(history.nodes[name].allocatable)
        row = Text()
        for colour in held.get(name, []):
            row.append("■", style=colour)
        row.append("·" * max(0, total - len(held.get(name, []))), style="dim")
        table.add_row(Text(name, style="dim"), row)
    return table
