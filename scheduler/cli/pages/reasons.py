"""docs/reasons.md: every reason code with its sentence, how final it is, what wakes the workload, and who gives it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from scheduler.framework.status import ClusterEvent, Kind

from . import GENERATED_FROM, table
from .source import Said, reasons_in

ROOT = Path(__file__).resolve().parents[3]
#: The parts that decide.
PARTS = ("engine", "framework", "plugins", "queues")

_INTRODUCTION = """\
# Reasons

Why a workload is not placed is told by codes that programs can read, each with a sentence for people. A refused pod has the
condition `PodScheduled=False`: its reason is `Unschedulable` for every member of a refused workload, which is what cluster
autoscalers look for, `SchedulingGated` for what waits for something other than room, and `SchedulerError` when a plugin
failed; its message is the sentence. The metric `ai_scheduler_refusals_total` counts by code.

*Final* says how final a refusal is:

- **not now**: it would fit if the cluster were in another state;
- **never**: nothing that comes and goes helps, only other nodes or another request;
- **gave up searching**: the search was cut; a placement may exist.

*Woken by* names the events after which the workload is tried again; [below](#events) is what they
are. A plugin may look closer (`queueing_hint`) and let it sleep. Whatever happens, a refused workload is tried again after
`unschedulableFlushSeconds`.

In a sentence, `<…>` is filled in and `[…]` may be absent.
"""


def reasons_page() -> str:
    """Return docs/reasons.md."""
    by_row: dict[tuple[str, str, str, str], list[str]] = {}
    for said in collect():
        row = (said.code, said.kind.value, said.by, _cures(said))
        sentences = by_row.setdefault(row, [])
        if said.sentence not in sentences:
            sentences.append(said.sentence)
    rows = [
        (f"`{code}`", by, kind, "<br>".join(f"`{sentence}`" for sentence in sentences), cures)
        for (code, kind, by, cures), sentences in sorted(by_row.items())
    ]
    lines = [GENERATED_FROM.format(", ".join(f"scheduler/{part}/" for part in PARTS)), _INTRODUCTION]
    lines += table(("code", "given by", "final", "sentence", "woken by"), rows)
    lines += ["", "## Events", "", *table(("event", "what happened"), _events()), ""]
    return "\n".join(lines)


def collect(root: Path = ROOT) -> list[Said]:
    """Return all reasons in the source of the parts that decide."""
    found = []
    for part in PARTS:
        for path in sorted((root / "scheduler" / part).rglob("*.py")):
            module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            found += list(reasons_in(path, module))
    return found


def _cures(said: Said) -> str:
    if said.kind is Kind.NEVER and not said.cures:
        return "nothing"
    if said.cures == ClusterEvent.ANY:
        return "any event"
    left, names = said.cures, []
    for name, event in [("NODE_ANY", ClusterEvent.NODE_ANY), *((e.name, e) for e in ClusterEvent)]:
        if event & left == event:
            names.append(f"`{name}`")
            left &= ~event
    return ", ".join(names) + (" and those of each reason that it counts" if said.adds_cures else "")


def _events() -> list[tuple[str, str]]:
    """Return each event with the comment at its definition."""
    source = inspect.getsource(ClusterEvent)
    comments = {name: text for text, name in re.findall(r"#: (.*)\n    (\w+) = auto\(\)", source)}
    rows = []
    for event in ClusterEvent:
        name = event.name or ""
        rows.append((f"`{name}`", comments.get(name, _in_words(name))))
    return [*rows, ("`NODE_ANY`", "Any of the four of a node.")]


def _in_words(name: str) -> str:
    subject, _, change = name.lower().partition("_")
    return f"A {subject} was {change}." if change.endswith("ed") else f"A {subject}'s {change} changed."
