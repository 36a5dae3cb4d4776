"""The report of an explanation for a terminal: what each plugin says of each node, the scores, and what preemption would do.

For the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.table import Table

from scheduler.plugins.preemption.victims import budgets_of

from .preempting import reasons_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from scheduler.config import Profile
    from scheduler.framework.status import Status
    from scheduler.model import Pod
    from scheduler.plugins.preemption.candidate import Candidate

    from .explanation import Explanation, PreemptionExplanation


def print_explanation(found: Explanation, profile: Profile, notes: Sequence[str], console: Console) -> None:
    """Write the whole report."""
    name = escape(profile.scheduler_name)
    by = name if profile.base == profile.scheduler_name else f"{name} (base {profile.base})"
    console.print(f"[bold]{escape(found.pod.key)}[/bold] by the profile {by}", highlight=False)
    for note in notes:
        console.print(f"[dim]note: {escape(note)}[/dim]", highlight=False)
    console.print()
    _print_pre_filter(found, console)
    console.print(_filter_table(found))
    if found.totals:
        console.print(_score_table(found))
        best = ", ".join(found.node_names[position] for position in found.best)
        console.print(f"Best: [bold]{escape(best)}[/bold]\n", highlight=False)
    if found.preemption is not None and not found.error:
        _print_preemption(found.preemption, console)
    if found.error:
        console.print(f"[red]The cycle ended with an error: {escape(found.error)}[/red]", highlight=False)
    if found.event:
        console.print(f"FailedScheduling: {escape(found.event)}", highlight=False)


def _print_pre_filter(found: Explanation, console: Console) -> None:
    for plugin, status in found.prefilter.items():
        console.print(f"PreFilter {plugin}: {_said(status)}", highlight=False)
    for plugin, names in found.prefilter_nodes.items():
        console.print(f"PreFilter {plugin}: only {escape(', '.join(names))}", highlight=False)
    if found.skipped:
        console.print(f"[dim]Nothing to check for {', '.join(found.skipped)}[/dim]", highlight=False)
    console.print(f"[dim]Filter, in order: {', '.join(found.filters)}[/dim]", highlight=False)


def _filter_table(found: Explanation) -> Table:
    """Return one row for each node: what counts, and every plugin that refuses it."""
    table = _table(("node", "verdict", "refused by", "because"), folds=("because",))
    for position, name in enumerate(found.node_names):
        status = found.filter[position] if found.filter else None
        verdict = "[green]passes[/green]" if status is None else f"[yellow]{status.code.upstream_name}[/yellow]"
        refusals = list(_refusals(found, position, status))
        table.add_row(
            escape(name),
            verdict if found.filter else "-",
            "\n".join(escape(plugin) for plugin, _ in refusals) or "-",
            "\n".join(escape(text) for _, text in refusals) or "-",
        )
    return table


def _refusals(found: Explanation, position: int, status: Status | None) -> Iterable[tuple[str, str]]:
    """Yield each plugin that refuses a node alone; first what counts, if no plugin says it alone."""
    alone = {
        plugin: None if verdicts is None else verdicts.status_at(position)
        for plugin, verdicts in found.filters.items()
        if verdicts is None or verdicts.status_at(position) is not None
    }
    if status is not None and status.plugin not in alone:
        is_nominated = status.plugin in found.filters
        yield status.plugin or "PreFilter", f"{_said(status)}{', with nominated pods counted' if is_nominated else ''}"
    for plugin, refusal in alone.items():
        yield plugin, "Error" if refusal is None else _said(refusal)


def _score_table(found: Explanation) -> Table:
    """Return one row for each feasible node, best first: raw and normalised scores, and the weighted total."""
    plugins = list(found.scores)
    heads = (f"{plugin}\n×{found.scores[plugin].weight}" for plugin in plugins)
    table = _table(("node", "total", *heads), right=True)
    order = sorted(range(len(found.totals)), key=lambda i: (-found.totals[i], i))
    best = set(found.best)
    for i in order:
        position = (found.feasible or ())[i]
        scores = [found.scores[plugin] for plugin in plugins]
        cells = [f"{int(of.raw[i])} → {int(of.normalized[i])}" for of in scores]
        name = escape(found.node_names[position])
        table.add_row(f"[bold]{name}[/bold]" if position in best else name, str(found.totals[i]), *cells)
    return table


def _print_preemption(found: PreemptionExplanation, console: Console) -> None:
    if found.ineligible:
        console.print(f"Preemption: {escape(found.ineligible)}\n", highlight=False)
        return
    if not found.potential:
        console.print("Preemption: evictions help on no node.\n", highlight=False)
        return
    chosen = [candidate.node_name for candidate in found.chosen]
    table = _table(
        ("node", "preemption", "victims, most important first", "budgets broken"),
        folds=("victims, most important first",),
    )
    for candidate in found.candidates:
        name = escape(candidate.node_name)
        is_best = candidate.node_name in chosen
        victims = [(pod, "") for pod in candidate.victims] + [(pod, f" on {node}") for pod, node in candidate.dragged]
        table.add_row(
            f"[bold]{name}[/bold]" if is_best else name,
            "[bold]would evict[/bold]" if is_best else "could evict",
            "\n".join(f"{_victim(pod, candidate, found)}{escape(where)}" for pod, where in victims),
            str(candidate.violations) if candidate.violations else "-",
        )
    for node, status in found.rejected.items():
        table.add_row(escape(node), "does not help", _said(status), "-")
    console.print(table)
    if len(chosen) > 1:
        console.print(f"[dim]{escape(', '.join(chosen))} tie; kube-scheduler draws one.[/dim]\n", highlight=False)
    if found.budget_order_matters:
        console.print("[dim]Budgets in another order would give other victims.[/dim]\n", highlight=False)


def _victim(pod: Pod, candidate: Candidate, found: PreemptionExplanation) -> str:
    """Return a victim with its priority and the budgets that count its eviction."""
    budgets = [f"{b.name} allows {b.disruptions_allowed}" for b in budgets_of(pod, found.budgets)]
    text = f"{pod.key} (priority {pod.priority})"
    if budgets:
        text += f", {'breaks' if pod.uid in candidate.violating else 'within'} its budget: {', '.join(budgets)}"
    return escape(text)


def _said(status: Status) -> str:
    return f"{status.code.upstream_name}: {', '.join(reasons_of(status))}"


def _table(heads: Iterable[str], *, folds: Sequence[str] = (), right: bool = False) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for i, head in enumerate(heads):
        table.add_column(
            head, justify="right" if right and i else "left", overflow="fold", no_wrap=head not in folds and not right
        )
    return table
