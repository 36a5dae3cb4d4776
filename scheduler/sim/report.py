"""The report of a simulation for a terminal or a log: tables and plain lines.

For the command line.  It says, for each workload, how long it waited, where it ran and on what; who had to go for whom; what
still waits and why; and how much of the cluster was in use.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.table import Table

from .history import POD_GROUP
from .words import count, duration, percent, short_names, sparkline, when

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from .happenings import Happening
    from .outcome import EvictionOutcome, Outcome, WorkloadOutcome

PHASE_STYLES = {
    "Running": "cyan",
    "Succeeded": "green",
    "Failed": "red",
    "Evicted": "red",
    "Pending": "yellow",
    "Suspended": "dim",
}
_SPARKS = 60
BANDWIDTH_HINT = (
    "NVLink GB/s: summed over the pairs of GPUs of the pod that has it worst; in brackets, what that is of the best set of "
    "so many GPUs in such a node."
)


@dataclass(frozen=True, slots=True)
class Preemption:
    """Whom a workload drove out of the cluster at one moment."""

    seconds: float
    preempted_for: str
    victim: str
    pods: int
    gpus: int
    nodes: tuple[str, ...]
    #: How many pods the victim had until then.
    of_pods: int

    @property
    def who(self) -> str:
        """The victim, and how much of it had to go."""
        return self.victim if self.pods >= self.of_pods else f"{self.pods} of {self.of_pods} pods of {self.victim}"


def preemptions_of(evictions: Sequence[EvictionOutcome]) -> Iterator[Preemption]:
    """Draw the evictions of one workload for another at one moment together."""

    def key(eviction: EvictionOutcome) -> tuple[float, str, str]:
        return eviction.seconds, eviction.preempted_for, eviction.workload

    for (seconds, preempted_for, victim), group in groupby(sorted(evictions, key=key), key=key):
        pods = list(group)
        nodes = tuple(sorted({pod.node for pod in pods}))
        yield Preemption(seconds, preempted_for, victim, len(pods), sum(pod.gpus for pod in pods), nodes,
                         max(pod.of_pods for pod in pods))  # fmt: skip


def print_report(outcome: Outcome, console: Console) -> None:
    """Write the whole report."""
    console.print(_summary(outcome))
    console.print()
    console.print(_workload_table(outcome.workloads))
    if any(workload.bandwidth_gbps is not None for workload in outcome.workloads):
        console.print(f"[dim]{BANDWIDTH_HINT}[/dim]\n", highlight=False)
    preemptions = list(preemptions_of(outcome.evictions))
    if preemptions:
        console.print("[bold]Preemption[/bold]")
        for preemption in preemptions:
            console.print(_preemption_line(preemption), highlight=False)
        console.print()
    _print_promises(outcome, console)
    _print_unfit(outcome, console)
    _print_use(outcome, console)
    for note in outcome.notes:
        console.print(f"[dim]note: {escape(note)}[/dim]", highlight=False)


def _summary(outcome: Outcome) -> str:
    gpus = max((sample.gpus_total for sample in outcome.samples), default=0)
    cut = ", cut there" if outcome.is_cut else ""
    return (
        f"[bold]{count(len(outcome.workloads), 'workload')}[/bold] on {count(len(outcome.nodes), 'node')} "
        f"with {count(gpus, 'GPU')}; {duration(outcome.end_seconds)} simulated{cut}"
    )


def _workload_table(workloads: Sequence[WorkloadOutcome]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name, justify in (
        ("workload", "left"), ("kind", "left"), ("phase", "left"), ("submitted", "right"), ("wait", "right"),
        ("finished", "right"), ("GPUs", "right"), ("NVLink GB/s", "right"), ("evicted", "right"), ("nodes", "left"),
    ):  # fmt: skip
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name != "nodes")  # type: ignore[arg-type]
    for workload in workloads:
        style = PHASE_STYLES.get(workload.phase, "")
        table.add_row(
            escape(workload.key),
            workload.kind,
            f"[{style}]{workload.phase}[/{style}]" if style else workload.phase,
            when(workload.submitted),
            "-" if workload.wait_seconds is None else duration(workload.wait_seconds),
            "-" if workload.finished is None else when(workload.finished),
            str(workload.gpus) if workload.gpus else "-",
            bandwidth_text(workload),
            str(workload.evicted) if workload.evicted else "-",
            escape(short_names(workload.nodes)),
        )
    return table


def bandwidth_text(workload: WorkloadOutcome) -> str:
    """Return the bandwidth of the pod that has it worst, and what it is of the best."""
    if workload.bandwidth_gbps is None:
        return "-"
    return f"{workload.bandwidth_gbps} ({workload.bandwidth_percent}%)"


def _preemption_line(preemption: Preemption) -> str:
    held = f"{count(preemption.pods, 'pod')}, {count(preemption.gpus, 'GPU')}"
    reason = f" for [bold]{escape(preemption.preempted_for)}[/bold]" if preemption.preempted_for else ""
    where = escape(short_names(preemption.nodes))
    return f"  {duration(preemption.seconds):>7}  {escape(preemption.who)} had to go{reason} ({held} on {where})"


def _print_promises(outcome: Outcome, console: Console) -> None:
    promised = [workload for workload in outcome.workloads if workload.promised_start is not None]
    if promised:
        console.print("[bold]Promised starts[/bold]")
        for workload in promised:
            console.print(f"  {escape(workload.key)} {promise_text(workload)}", highlight=False)
        console.print()


def promise_text(workload: WorkloadOutcome) -> str:
    """Return which start a workload was promised, and what came of it."""
    first, last = workload.promised_start, workload.last_promised_start
    told = f"was promised {when(first or 0.0)}"
    if last != first:
        told += f", in the end {'no start' if last is None else when(last)}"
    if workload.started is None:
        return f"{told}; it has not started"
    late = workload.started - (first or 0.0)
    how = f"{duration(late)} late" if round(late) > 0 else f"{duration(-late)} early" if round(late) < 0 else "in time"
    return f"{told}, and started at {when(workload.started)}, {how}"


def _print_unfit(outcome: Outcome, console: Console) -> None:
    for workload in outcome.workloads:
        if workload.phase == "Running" and workload.reason and not workload.does_not_fit:
            console.print(f"[yellow]{escape(workload.key)}[/yellow]: {escape(workload.reason)}\n", highlight=False)
    if not outcome.unfit:
        console.print("[green]Nothing waits.[/green]\n")
        return
    console.print("[bold]Still waiting[/bold]")
    for workload in outcome.unfit:
        key = f"[yellow]{escape(workload.key)}[/yellow]"
        console.print(f"  {key} {waiting_text(workload)}", highlight=False)
        console.print(f"    {escape(workload.reason or 'no reason was given')}", highlight=False)
    console.print()


def waiting_text(workload: WorkloadOutcome) -> str:
    """Return since when how many pods wait, and for what."""
    if workload.phase == "Evicted":
        return f"went at {when(workload.finished or 0.0)} ({count(workload.gpus, 'GPU')})"
    if not workload.waiting:
        return f"since {when(workload.submitted)} (no pods yet)"
    since = workload.submitted if workload.waiting_since is None else workload.waiting_since
    pods = count(workload.waiting, "pod")
    if workload.running:
        pods = f"{workload.waiting} of {workload.waiting + workload.running} pods"
    return f"since {when(since)} ({pods}, {count(workload.waiting_gpus, 'GPU')})"


def _print_use(outcome: Outcome, console: Console) -> None:
    there = [
        (name, used)
        for name, used in (("GPUs", "gpus"), ("CPU", "millicores"))
        if any(getattr(sample, f"{used}_total") for sample in outcome.samples)
    ]
    if there:
        console.print("[bold]In use[/bold]")
    for name, used in there:
        total = f"{used}_total"
        shares = shares_over_time(outcome, used, _SPARKS)
        line = f"{sparkline(shares)}  " if (console.encoding or "").lower().startswith("utf") else ""
        mean, peak = percent(outcome.mean_share(used, total)), percent(outcome.peak_share(used, total))
        console.print(f"  {name:<5} {line}mean {mean}, peak {peak}", highlight=False)


def shares_over_time(outcome: Outcome, used: str, parts: int) -> list[float]:
    """Return the share in use at so many moments, evenly spread over the simulation."""
    samples = outcome.samples
    if not samples:
        return []
    shares, position = [], 0
    for part in range(parts):
        moment = outcome.end_seconds * part / max(1, parts - 1)
        while position + 1 < len(samples) and samples[position + 1].seconds <= moment:
            position += 1
        total = getattr(samples[position], f"{used}_total")
        shares.append(getattr(samples[position], used) / total if total else 0.0)
    return shares


def happening_line(happening: Happening, start: float) -> str:
    """Return something that happened as a plain line."""
    return f"{duration(happening.moment - start):>8}  {happening.workload.key} {_happening_text(happening)}"


def _happening_text(happening: Happening) -> str:
    record, text, where = happening.workload, happening.text, short_names(happening.nodes)
    pods = f"{happening.pods} of {happening.of_pods} pods"
    is_whole = happening.pods >= happening.of_pods
    told = f"{happening.what}: {text}" if text else happening.what
    match happening.what:
        case "submitted":
            told = f"was submitted: {size_text(record.owner.kind, record.needed)}"
        case "found":
            told = f"{'ran' if is_whole else f'ran with {pods}'} before the start, on {where}"
        case "started":
            started = "started" if is_whole else f"has {pods} started"
            told = f"{started} after {duration(happening.moment - record.submitted)} on {where}"
        case "promised":
            told = f"is promised a start in {duration(float(text))}" if text else "cannot be promised a start any more"
        case "grew":
            told = f"has {count(happening.pods, 'pod')} more, on {where}"
        case "restarted":
            told = f"{'runs again' if is_whole else f'has {pods} again'}, on {where}"
        case "evicted":
            reason = f"had to go for {text}" if text else "had to go"
            told = reason if is_whole else f"lost {pods}, which {reason}"
        case "pods failed":
            which = f"pod {happening.pod}" if happening.pod else count(happening.pods, "pod")
            told = f"{which} failed on {where}{f': {text}' if text else ''}"
    return told


def size_text(kind: str, needed: int) -> str:
    """Return a kind and how many pods it is; those of a gang start at once."""
    return f"{kind}, {count(needed, 'pod')}{' at once' if kind == POD_GROUP else ''}"
