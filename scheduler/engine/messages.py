"""Messages: a refusal as one sentence, in kube-scheduler's shape.

For conditions and events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.framework.status import Reason
    from scheduler.framework.workload import Workload
    from scheduler.model import TopologyConstraint

    from .candidates import Candidate
    from .placement import Halt

#: The whole message where there is no node at all.
NO_NODES = "no nodes available to schedule pods"


def fit_message(total: int, counts: Mapping[tuple[str, Reason], int], narrowed: Candidate) -> str:
    """Return "0/N nodes are available: <count> <reason>, …." with the parts sorted, as kube-scheduler does."""
    if narrowed.early is not None:
        return fit_text(total, {}, early=narrowed.early.message)
    parts: dict[str, int] = {}
    for (_, reason), number in counts.items():
        parts[reason.text] = parts.get(reason.text, 0) + number
    return fit_text(total, parts, available=int(narrowed.feasible.sum()))


def halt_message(total: int, halt: Halt) -> str:
    """Return why the next pod of a gang found no place when some had one."""
    parts: dict[str, int] = {}
    for (_, reason), number in halt.counts.items():
        parts[reason.text] = parts.get(reason.text, 0) + number
    return f"With {halt.placed} of them placed, {fit_text(total, parts, available=halt.available)}"


def fit_text(total: int, parts: Mapping[str, int], *, early: str = "", available: int = 0) -> str:
    """Return the sentence of kube-scheduler's FitError: reasons with their counts, or what PreFilter said instead."""
    if total == 0:
        return NO_NODES
    head = f"{available}/{total} nodes are available:"
    if early:
        return f"{head} {early}."
    said = ", ".join(sorted(f"{number} {text}" for text, number in parts.items()))
    if available and not said:
        return f"{available}/{total} nodes are available to a single pod."
    return f"{head} {said}." if said else head


def narrowed_text(plugins: Iterable[str]) -> str:
    """Return what is said of a node that PreFilter narrowed away."""
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]"


def gang_message(workload: Workload, numbers: tuple[tuple[str, int | float | str], ...]) -> str:
    """Return what a gang needs at once and what there is room for."""
    known = dict(numbers)
    pod = workload.ordered()[0]
    ask = ", ".join(
        f"{n if r != 'memory' else _size(n)} {r}" if r != "cpu" else f"{n}m cpu"
        for r, n in sorted(pod.requests.items())
    )
    text = f"gang {workload.gang.key if workload.gang else workload.key} needs {known['needed']} pods at once"
    text += f" (each {ask})" if ask else ""
    if workload.gang is not None and workload.gang.topology is not None:
        text += _where(workload.gang.topology)
    if "now" in known:
        text += f"; there is room for {known['now']}"
        if int(known["ever"]) < int(known["needed"]):
            text += f", and never for more than {known['ever']}"
    return f"{text}."


def _where(asked: TopologyConstraint) -> str:
    """Return what a gang insists on in the network."""
    said = [f"in one {asked.required}"] if asked.required else []
    if asked.exclusive:
        said.append(f"in a domain of their own of the level {asked.exclusive}")
    if asked.segment_size and asked.segment_required:
        said.append(f"in segments of {asked.segment_size} that each are in one {asked.segment_required}")
    if asked.spread:
        said.append(f"spread evenly over the level {asked.spread}")
    return "".join(f", {text}" for text in said)


def _size(count: int) -> str:
    """Return bytes in the largest binary unit that divides them."""
    for unit, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if count and count % size == 0:
            return f"{count // size}{unit}"
    return str(count)
