"""One self-contained page of a simulation: figures, pictures and tables; nothing is loaded from anywhere.

For the command line.  It is readable without its script, in light and dark, on paper and on a small screen.
"""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from statistics import median
from typing import TYPE_CHECKING

from .charts import MOST_NODES, MOST_ROWS, Scale, colour_classes, gpu_maps, identity, meshes, timeline, use
from .occupancy import OTHERS, busiest_moment
from .report import BANDWIDTH_HINT, bandwidth_text, preemptions_of, waiting_text
from .svg import element
from .words import count, duration, percent, short_names, when

if TYPE_CHECKING:
    from .outcome import Outcome, WorkloadOutcome

_MOST_TABLE_ROWS = 500


def page_of(outcome: Outcome) -> str:
    """Return the page."""
    scale = Scale.of(outcome)
    resources = files("scheduler.sim")
    style, script = (resources.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    facts = json.dumps(_facts(outcome, scale)).replace("</", "<\\/")
    body = element(
        "main", _head(outcome), _maps(outcome), _timeline(outcome, scale),
        _section("In use", "", use(outcome, scale)), _meshes(outcome), _waiting(outcome), _preemptions(outcome),
        _table(outcome), _notes(outcome),
    )  # fmt: skip
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>ai-scheduler simulation</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}\n"
        f'<script type="application/json" id="facts">{facts}</script>\n<script>\n{script}</script>\n</body>\n</html>\n'
    )


_TIMELINE_HINT = (
    "A thin bar waits, a thick one runs, a cross marks an eviction or a failure. Rest on a row for its story."
)


def _timeline(outcome: Outcome, scale: Scale) -> str:
    left_out = len(outcome.workloads) - MOST_ROWS
    more = f" {count(left_out, 'workload')} more are left out here." if left_out > 0 else ""
    return _section("Workloads over time", _TIMELINE_HINT + more, timeline(outcome, scale))


def _facts(outcome: Outcome, scale: Scale) -> dict[str, object]:
    """Return what the script needs to know."""
    colours = colour_classes(outcome.workloads)
    return {
        "first": scale.first,
        "last": scale.last,
        "end": outcome.end_seconds,
        "left": scale.x(scale.first),
        "width": scale.x(scale.last) - scale.x(scale.first),
        "workloads": [
            *([workload.key, colours[identity(workload)]] for workload in outcome.workloads),
            [OTHERS, colours[OTHERS]],
        ],
    }


def lead_of(outcome: Outcome) -> str:
    """Return in a line what was simulated."""
    gpus = max((sample.gpus_total for sample in outcome.samples), default=0)
    return (
        f"{count(len(outcome.workloads), 'workload')} on {count(len(outcome.nodes), 'node')} with {count(gpus, 'GPU')}, "
        f"{duration(outcome.end_seconds)} simulated"
    )


def _head(outcome: Outcome) -> str:
    waits = [workload.wait_seconds for workload in outcome.workloads if workload.wait_seconds is not None]
    used, peak = outcome.mean_share("gpus", "gpus_total"), outcome.peak_share("gpus", "gpus_total")
    done = sum(1 for workload in outcome.workloads if workload.phase == "Succeeded")
    figures = (
        (percent(used), f"of the GPUs in use on average, {percent(peak)} at most"),
        (
            f"{done} of {len(outcome.workloads)}",
            f"workloads finished, {len(outcome.unfit)} {'does' if len(outcome.unfit) == 1 else 'do'} not fit",
        ),
        (duration(median(waits)) if waits else "–", f"median wait, {duration(max(waits, default=0))} the longest"),
        (str(len(outcome.evictions)), "pods evicted to make room"),
    )
    cards = "".join(element("div", element("b", number), element("span", text)) for number, text in figures)
    return (
        element("h1", "Simulation")
        + element("p", lead_of(outcome), class_="lead")
        + element("div", cards, class_="figures")
    )


def _section(title: str, hint: str, content: str, class_: str = "wide") -> str:
    if not content:
        return ""
    told = element("p", hint, class_="hint") if hint else ""
    return element("section", element("h2", title), told, element("div", content, class_=class_))


def _maps(outcome: Outcome) -> str:
    figures = [element("figure", element("figcaption", escape(rack)), drawn) for rack, drawn in gpu_maps(outcome)]
    if not figures:
        return ""
    moment = busiest_moment(outcome)
    time = element(
        "div",
        element("button", "Play", id="play", type="button"),
        f'<input type="range" id="time" min="0" max="{outcome.end_seconds:g}" step="any" value="{moment:g}" aria-label="time">',
        element("output", duration(moment), id="moment"),
        class_="time",
    )
    hint = "A square is a GPU, its colour the workload that holds it. Move the time, or play it."
    if (left_out := sum(1 for node in outcome.nodes if node.gpus) - MOST_NODES) > 0:
        hint += f" {count(left_out, 'node')} more are left out here."
    return _section("Nodes and GPUs", hint, time + element("div", *figures, class_="maps"), "")


def _meshes(outcome: Outcome) -> str:
    hint = (
        "Nodes whose GPUs are linked directly: which GPUs each pod got, its links in bold. A thicker line is a faster link; "
        "GPUs without a line have none."
    )
    content = meshes(outcome)
    return _section("GPU sets in a mesh", hint, element("div", content, class_="maps meshes") if content else "", "")


def _waiting(outcome: Outcome) -> str:
    reasons = [
        element(
            "div",
            element("b", escape(workload.key)),
            f" {waiting_text(workload)}",
            element("div", escape(workload.reason or "no reason was given")),
            class_="reason",
        )
        for workload in outcome.unfit[:_MOST_TABLE_ROWS]
    ]
    return _section("What still waits, and why", "", "".join(reasons), "")


def _preemptions(outcome: Outcome) -> str:
    rows = [
        element(
            "tr",
            element("td", duration(preemption.seconds), class_="n"),
            element("td", escape(preemption.who)),
            element("td", escape(preemption.preempted_for or "–")),
            element("td", str(preemption.pods), class_="n"),
            element("td", str(preemption.gpus), class_="n"),
            element("td", escape(short_names(preemption.nodes))),
        )
        for preemption in preemptions_of(outcome.evictions)
    ]
    if not rows:
        return ""
    head = _header(("at", "n"), ("who had to go", ""), ("for whom", ""), ("pods", "n"), ("GPUs", "n"), ("nodes", ""))
    return _section("Preemption", "", element("table", head, *rows[:_MOST_TABLE_ROWS]))


def _table(outcome: Outcome) -> str:
    colours = colour_classes(outcome.workloads)
    rows = [_table_row(workload, colours[identity(workload)]) for workload in outcome.workloads[:_MOST_TABLE_ROWS]]
    head = _header(
        ("workload", ""), ("kind", ""), ("phase", ""), ("priority", "n"), ("submitted", "n"), ("wait", "n"), ("finished", "n"),
        ("GPUs", "n"), ("NVLink GB/s", "n"), ("evicted", "n"), ("nodes", ""),
    )  # fmt: skip
    left_out = len(outcome.workloads) - len(rows)
    hints = [BANDWIDTH_HINT] if any(workload.bandwidth_gbps is not None for workload in outcome.workloads) else []
    hints += [f"{left_out} more are left out here."] if left_out else []
    return _section("Workloads", " ".join(hints), element("table", head, *rows))


def _table_row(workload: WorkloadOutcome, colour: str) -> str:
    swatch = element("span", class_=f"swatch {colour}")
    wait = "–" if workload.wait_seconds is None else duration(workload.wait_seconds)
    finished = "–" if workload.finished is None else when(workload.finished)
    return element(
        "tr",
        element("td", swatch, escape(workload.key), class_="key"),
        element("td", escape(workload.kind)),
        element("td", workload.phase, class_=f"phase {workload.phase}"),
        *(
            element("td", text, class_="n")
            for text in (
                str(workload.priority), when(workload.submitted), wait, finished, str(workload.gpus or "–"),
                bandwidth_text(workload), str(workload.evicted or "–"),
            )
        ),
        element("td", escape(short_names(workload.nodes))),
    )  # fmt: skip


def _header(*columns: tuple[str, str]) -> str:
    return element("tr", *(element("th", text, class_=class_ or None) for text, class_ in columns))


def _notes(outcome: Outcome) -> str:
    return _section("Notes", "", "".join(element("p", escape(note), class_="hint") for note in outcome.notes), "")
