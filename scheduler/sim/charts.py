"""The pictures of a simulation, as SVG: the timeline of workloads, what was in use, nodes and GPUs, and sets in a mesh.

For the page (`html`) and the one picture of all (`picture`).  Colours come from the page's style, by the classes c0 to c17; the page's script moves the time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from .occupancy import OTHERS, Stay, busiest_moment, owner_at, runs_of, stays_by_gpu, waits_of
from .report import size_text
from .svg import drawing, element, label, tip
from .words import count, duration, natural, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .outcome import NodeOutcome, Outcome, PodOutcome, WorkloadOutcome

COLOURS = 18
MOST_ROWS, MOST_NODES = 120, 512
_MOST_ROWS_OF_MAP = 16
_LEFT, _RIGHT, _WIDTH = 190.0, 50.0, 1100.0
_ROW, _BAR = 22.0, 14.0
_CELL, _GAP, _NAME = 17.0, 3.0, 66.0
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
_MOST_TICKS = 9


@dataclass(frozen=True, slots=True)
class Scale:
    """Seconds to horizontal places."""

    first: float
    last: float

    @classmethod
    def of(cls, outcome: Outcome) -> Scale:
        """Return the scale from the start to a little behind the end."""
        first = min(0.0, *(workload.submitted for workload in outcome.workloads)) if outcome.workloads else 0.0
        # A dump may hold pods that are months old; the picture is of the simulation.
        first = max(first, -0.1 * max(1.0, outcome.end_seconds))
        return cls(first, max(1.0, outcome.end_seconds) * 1.01)

    def x(self, seconds: float) -> float:
        """Return the place of a moment, within the drawing."""
        share = (min(max(seconds, self.first), self.last) - self.first) / (self.last - self.first)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def ticks(self) -> list[float]:
        """Return round moments."""
        span = self.last - self.first
        step = next(
            (step for step in _STEPS if span / step <= _MOST_TICKS), 86_400 * math.ceil(span / 86_400 / _MOST_TICKS)
        )
        return [tick * float(step) for tick in range(math.ceil(self.first / step), math.floor(self.last / step) + 1)]


def colour_classes(workloads: Sequence[WorkloadOutcome]) -> dict[str, str]:
    """Return the class of each workload's colour, by kind and key; those without GPUs are grey. O(workloads · colours)."""
    found = {OTHERS: "grey"} | {identity(workload): "grey" for workload in workloads}
    busy_until = [-math.inf] * COLOURS
    for workload in workloads:
        runs = runs_of(workload)
        if not workload.gpus or not runs:
            continue
        # The colour that has been free the longest, so that two workloads of one time are told apart.
        turn = min(range(COLOURS), key=lambda turn: (max(busy_until[turn], runs[0].first), busy_until[turn], turn))
        ends = [math.inf if run.last is None else run.last for run in runs]
        busy_until[turn] = max(busy_until[turn], *ends)
        found[identity(workload)] = f"c{turn}"
    return found


def identity(workload: WorkloadOutcome) -> str:
    """Return what names a workload among all."""
    return f"{workload.kind} {workload.key}"


def timeline(outcome: Outcome, scale: Scale, moment: float = 0.0) -> str:
    """Draw a row for each workload: when it waited, and when it ran; a line marks a moment."""
    shown = outcome.workloads[:MOST_ROWS]
    colours = colour_classes(outcome.workloads)
    height = _ROW * len(shown) + 26
    rows = [
        _row(workload, colours[identity(workload)], scale, turn, outcome.end_seconds)
        for turn, workload in enumerate(shown)
    ]
    head = label("GPUs", _WIDTH - 4, 12, "axis", text_anchor="end")
    return drawing(_WIDTH, height, head, _grid(scale, 16, height - 18, height - 4), *rows, _cursor(scale, moment, 16, height - 18),
                   title="When each workload waited and ran")  # fmt: skip


def _row(workload: WorkloadOutcome, colour: str, scale: Scale, turn: int, end: float) -> str:
    top = 20 + turn * _ROW
    parts = [tip(_told(workload)), label(_cut(workload.key), _LEFT - 8, top + 11, "name", text_anchor="end")]
    for first, last in waits_of(workload, end):
        x = scale.x(first)
        parts.append(element("rect", x=x, y=top + 4, width=max(1.0, scale.x(last) - x), height=_BAR - 8, class_="wait"))
    for run in runs_of(workload):
        x = scale.x(run.first)
        width = max(2.0, scale.x(end if run.last is None else run.last) - x)
        parts.append(element("rect", x=x, y=top, width=width, height=_BAR, rx=3, class_=f"run {colour}"))
        if run.outcome in ("Evicted", "Failed"):
            cross = x + width
            path = f"M{cross - 4:.1f} {top + 3:.1f}l8 8m0 -8l-8 8"
            parts.append(element("path", tip(run.outcome.lower()), d=path, class_="cross"))
    parts.append(label(str(workload.gpus or "–"), _WIDTH - 4, top + 11, "name", text_anchor="end"))
    return element("g", *parts, class_="row")


def _told(workload: WorkloadOutcome) -> str:
    """Return what resting on a row tells."""
    lines = [f"{workload.key}: {workload.phase}", size_text(workload.kind, workload.needed)]
    if workload.wait_seconds is not None:
        lines.append(f"waited {duration(workload.wait_seconds)}")
    if workload.evicted:
        lines.append(f"{count(workload.evicted, 'pod')} evicted")
    return "\n".join([*lines, workload.reason]).strip()


def _cut(text: str, longest: int = 28) -> str:
    return text if len(text) <= longest else f"…{text[-longest + 1 :]}"


def use(outcome: Outcome, scale: Scale, moment: float = 0.0) -> str:
    """Draw the share of GPUs in use, and how many pods waited, over time; a line marks a moment."""
    height, top, bottom = 128.0, 10.0, 110.0
    most = max((sample.waiting_pods for sample in outcome.samples), default=0)
    gpus = [(s.seconds, s.gpus / s.gpus_total if s.gpus_total else 0.0) for s in outcome.samples]
    waiting = [(s.seconds, s.waiting_pods / most if most else 0.0) for s in outcome.samples]
    area = _steps(gpus, scale, outcome.end_seconds, top, bottom)
    line = _steps(waiting, scale, outcome.end_seconds, top, bottom)
    first, last = scale.x(0), scale.x(outcome.end_seconds)
    parts = [
        _grid(scale, top, bottom, height - 4),
        *(
            element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="grid")
            + label(text, _LEFT - 8, y + 4, "axis", text_anchor="end")
            for y, text in ((top, "100%"), ((top + bottom) / 2, "50%"), (bottom, "0%"))
        ),
        element("path", d=f"{area}L{last:.1f} {bottom}L{first:.1f} {bottom}Z", class_="area"),
        element("path", d=area, class_="edge"),
        element("path", d=line, class_="queue"),
        label(f"{most} pods" if most else "", _WIDTH - 4, top + 4, "axis queue-text", text_anchor="end"),
        label("GPUs in use", _LEFT - 8, 30, "name", text_anchor="end"),
        label("pods waiting", _LEFT - 8, 46, "name queue-text", text_anchor="end"),
        _cursor(scale, moment, top, bottom),
    ]
    return drawing(_WIDTH, height, *parts, title="GPUs in use and pods waiting over time")


def _steps(values: Sequence[tuple[float, float]], scale: Scale, end: float, top: float, bottom: float) -> str:
    """Return the path of a step function of values from 0 to 1."""
    points = []
    for turn, (seconds, value) in enumerate(values):
        y = bottom - value * (bottom - top)
        last = values[turn + 1][0] if turn + 1 < len(values) else end
        points += [f"{scale.x(seconds):.1f} {y:.1f}", f"{scale.x(last):.1f} {y:.1f}"]
    return f"M{'L'.join(points)}" if points else "M0 0"


def _grid(scale: Scale, top: float, bottom: float, text_y: float) -> str:
    return "".join(
        element("line", x1=scale.x(tick), x2=scale.x(tick), y1=top, y2=bottom, class_="grid")
        + label(duration(tick) if tick else "0", scale.x(tick), text_y, "axis", text_anchor="middle")
        for tick in scale.ticks()
    )


def _cursor(scale: Scale, moment: float, top: float, bottom: float) -> str:
    """Return the line that the page's script moves."""
    x = scale.x(moment)
    return element("line", x1=x, x2=x, y1=top, y2=bottom, class_="cursor")


def gpu_maps(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Yield the nodes with GPUs, rack by rack: a caption, and a drawing as at the busiest moment."""
    colours = colour_classes(outcome.workloads)
    stays = stays_by_gpu(outcome)
    moment = busiest_moment(outcome)
    nodes = sorted(
        (node for node in outcome.nodes if node.gpus), key=lambda node: (natural(node.group), natural(node.name))
    )[:MOST_NODES]
    for group, members in groupby(nodes, key=lambda node: node.group):
        ordered = list(members)
        for first in range(0, len(ordered), _MOST_ROWS_OF_MAP):
            yield group or "nodes", _group(ordered[first : first + _MOST_ROWS_OF_MAP], stays, colours, moment)


def _group(
    nodes: Sequence[NodeOutcome], stays: dict[tuple[str, int], list[Stay]], colours: dict[str, str], moment: float
) -> str:
    widest = max(node.gpus for node in nodes)
    parts = []
    for row, node in enumerate(nodes):
        y = row * (_CELL + _GAP)
        parts.append(label(_cut(node.name, 11), _NAME - 6, y + 13, "name", text_anchor="end"))
        for gpu in range(node.gpus):
            held = stays.get((node.name, gpu), [])
            owner = owner_at(held, moment)
            parts.append(
                element(
                    "rect", tip(f"{node.name} GPU {gpu}"), x=_NAME + gpu * (_CELL + _GAP), y=y, width=_CELL, height=_CELL,
                    rx=3, class_=f"gpu {colours.get(owner, 'idle') if owner else 'idle'}",
                    data_at=f"{node.name} GPU {gpu}", data_s=_data(held),
                )
            )  # fmt: skip
    return drawing(_NAME + widest * (_CELL + _GAP), len(nodes) * (_CELL + _GAP), *parts, title="GPUs by node")


def _data(stays: Sequence[Stay]) -> str | None:
    """Return stays for the script: first, last and workload, three to a stay."""
    if not stays:
        return None
    return ";".join(f"{stay.first:g},{stay.last:g},{stay.turn}" for stay in stays)


#: Where the GPUs of a hybrid cube mesh stand: two quads.
_PLACES = ((0, 0), (1, 0), (0, 1), (1, 1), (2.4, 0), (3.4, 0), (2.4, 1), (3.4, 1))
_MOST_MESHES = 12
_STEP, _PAD = 44.0, 16.0


def meshes(outcome: Outcome) -> str:
    """Draw which GPUs of meshed nodes each pod got: NVLinks inside the set are bold."""
    by_node = {node.name: node for node in outcome.nodes if node.links and node.gpus == len(_PLACES)}
    colours = colour_classes(outcome.workloads)
    figures = []
    for workload in outcome.workloads:
        seen: set[tuple[int, ...]] = set()
        for pod in workload.pods:
            node = by_node.get(pod.node)
            if node is None or not pod.gpu_set or pod.gpu_set in seen or not 1 < len(pod.gpu_set) < node.gpus:
                continue
            seen.add(pod.gpu_set)
            figures.append(_mesh(workload, pod, node, colours[identity(workload)]))
    return "".join(figures[:_MOST_MESHES])


def _mesh(workload: WorkloadOutcome, pod: PodOutcome, node: NodeOutcome, colour: str) -> str:
    assert pod.gpu_set is not None
    chosen = set(pod.gpu_set)
    places = [(_PAD + x * _STEP, _PAD + y * _STEP) for x, y in _PLACES]
    single = min(gbps for _, _, gbps in node.links)
    lines, dots = [], []
    for one, other, gbps in node.links:
        inside = one in chosen and other in chosen
        (x1, y1), (x2, y2) = places[one], places[other]
        # Links between the quads would run through GPUs; they are bent.
        bend = 24.0 if y1 == y2 and abs(x2 - x1) > _STEP * 1.5 else 0.0
        middle = (x1 + x2) / 2, (y1 + y2) / 2 + (bend if y1 > _PAD else -bend)
        path = f"M{x1:.1f} {y1:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {x2:.1f} {y2:.1f}"
        text = tip(f"GPU {one} – GPU {other}: {gbps} GB/s")
        kind = f"link {colour}" if inside else "link off"
        lines.append((inside, element("path", text, d=path, class_=kind, stroke_width=1.5 * gbps / single)))
    for gpu, (x, y) in enumerate(places):
        kind = f"dot {colour}" if gpu in chosen else "dot off"
        dots.append(
            element("circle", cx=x, cy=y, r=9, class_=kind) + label(str(gpu), x, y + 4, "digit", text_anchor="middle")
        )
    share = percent((pod.bandwidth_gbps or 0) / pod.best_gbps) if pod.best_gbps else "–"
    caption = element("figcaption", element("b", _markup(workload.name)), f" on {_markup(pod.node)}",
                      element("br").replace("</br>", ""), f"{pod.bandwidth_gbps} GB/s, {share} of the best")  # fmt: skip
    ordered = [line for _, line in sorted(lines, key=lambda item: item[0])]
    return element(
        "figure", drawing(2 * _PAD + 3.4 * _STEP, 2 * _PAD + _STEP, *ordered, *dots, title=pod.name), caption
    )


def _markup(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
