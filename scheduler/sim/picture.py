"""One picture of a simulation, as an SVG that stands alone: GPUs at the busiest moment, workloads over time, what was in use.

For the command line and the README: it shows where an HTML page cannot be, in light and dark.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING

from .charts import Scale, gpu_maps, timeline, use
from .html import lead_of
from .occupancy import busiest_moment
from .svg import drawing, element, label, number
from .words import duration

if TYPE_CHECKING:
    from .outcome import Outcome

_WIDTH, _MARGIN, _BETWEEN = 1160.0, 30.0, 34.0
_TITLE, _CAPTION = 44.0, 22.0
_SIZE = re.compile(r' width="([0-9.]+)" height="([0-9.]+)"')


def picture_of(outcome: Outcome) -> str:
    """Return the picture."""
    moment, scale = busiest_moment(outcome), Scale.of(outcome)
    parts = [label(lead_of(outcome), _MARGIN, 34, "title")]
    maps, bottom = _maps(outcome, 58.0)
    if maps:
        parts += [
            _headline(f"GPUs after {duration(moment)}: a square is a GPU, its colour the workload that holds it", 66.0),
            *maps,
        ]
    parts.append(
        _headline(
            "Workloads over time: a thin bar waits, a thick one runs, a cross marks an eviction or a failure", bottom
        )
    )
    for drawn in (timeline(outcome, scale, moment), use(outcome, scale, moment)):
        placed, _, height = _placed(drawn, _MARGIN, bottom + _TITLE - 26)
        parts.append(placed)
        bottom += height + 12
    style = files("scheduler.sim").joinpath("page.css").read_text(encoding="utf-8")
    ground = element("rect", width=_WIDTH, height=bottom + _TITLE, class_="ground")
    own = ".ground { fill: var(--card); } svg text.title { font-size: 17px; font-weight: 600; } svg text.headline { fill: var(--soft); font-size: 13px; }"
    svg = drawing(
        _WIDTH, bottom + _TITLE, element("style", f"\n{style}{own}\n"), ground, *parts, title=lead_of(outcome)
    )
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "\n"


def _headline(text: str, y: float) -> str:
    return label(text, _MARGIN, y, "headline")


def _maps(outcome: Outcome, top: float) -> tuple[list[str], float]:
    """Return the racks, in lines from left to right, and where the next thing may begin."""
    parts: list[str] = []
    x, y, lowest = _MARGIN, top + _TITLE, top + 8
    for rack, drawn in gpu_maps(outcome):
        placed, width, height = _placed(drawn, x, y)
        if x > _MARGIN and x + width > _WIDTH - _MARGIN:
            x, y = _MARGIN, lowest + _TITLE
            placed, width, height = _placed(drawn, x, y)
        parts += [label(rack, x, y - 8, "headline"), placed]
        x, lowest = x + width + _BETWEEN, max(lowest, y + height)
    return parts, lowest + (_CAPTION + 12 if parts else 0)


def _placed(drawn: str, x: float, y: float) -> tuple[str, float, float]:
    """Return a drawing at a place within another one, its width and its height."""
    size = _SIZE.search(drawn)
    assert size is not None
    return drawn.replace("<svg ", f'<svg x="{number(x)}" y="{number(y)}" ', 1), float(size[1]), float(size[2])
