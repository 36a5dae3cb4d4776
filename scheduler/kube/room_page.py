"""The page /largest-gang: how large a gang would fit now, by what a pod asks for and by domain of the fabric.

For people and scripts, beside /metrics; computed when it is asked for.  The query says what one pod requests, such as
`/largest-gang?nvidia.com/gpu=8&cpu=16`; without one, it shows 1, 2, 4 and 8 GPUs.  `output=json` gives the same as JSON.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scheduler.engine.room import MOST_DOMAINS, LevelRoom
from scheduler.model.quantity import amount

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.engine.engine import Engine

    from .metrics import Metrics

PATH = "/largest-gang"
GPU = "nvidia.com/gpu"
GPUS_PER_POD = (1, 2, 4, 8)
#: How many levels the metric shows: the cluster and the widest below it.
SHOWN_LEVELS = 4
#: So many resources may stand in a query.
MOST_RESOURCES = 16
_OUTPUTS = ("table", "json")


def room_page(engine: Engine | None, query: Mapping[str, str]) -> tuple[int, str, str]:
    """Return HTTP status, text and content type; 503 while this replica does not lead, 400 for a query that makes no sense."""
    try:
        output, told = _read(query)
    except ValueError as error:
        return 400, f"{error}\n", "text/plain"
    if engine is None:
        return 503, "this replica stands by and does not know what is free\n", "text/plain"
    shapes = [told] if told else [{GPU: str(gpus)} for gpus in GPUS_PER_POD]
    asked = [{resource: amount(resource, text) for resource, text in shape.items()} for shape in shapes]
    rooms = engine.largest_gangs(asked)
    if output == "json":
        return 200, json.dumps(as_json(shapes, rooms)) + "\n", "application/json"
    return 200, as_text(shapes, rooms), "text/plain"


def set_gauges(metrics: Metrics, engine: Engine) -> None:
    """Bring the gauges of the largest gangs up to date: the usual shapes, on the cluster and the widest levels."""
    rooms = engine.largest_gangs([{GPU: gpus} for gpus in GPUS_PER_POD])
    for gpus, levels in zip(GPUS_PER_POD, rooms, strict=True):
        metrics.room(gpus, levels[:SHOWN_LEVELS])


def as_json(shapes: Sequence[Mapping[str, str]], rooms: Sequence[Sequence[LevelRoom]]) -> dict[str, object]:
    """Return `{"shapes": [{"requests", "levels": [{"level", "domains", "pods", "largest": [{"domain", "pods"}]}]}]}`."""
    return {
        "shapes": [
            {
                "requests": dict(shape),
                "levels": [
                    {
                        "level": level.level,
                        "domains": level.domains,
                        "pods": level.pods,
                        "largest": [{"domain": name, "pods": pods} for name, pods in level.largest],
                    }
                    for level in levels
                ],
            }
            for shape, levels in zip(shapes, rooms, strict=True)
        ]
    }


def as_text(shapes: Sequence[Mapping[str, str]], rooms: Sequence[Sequence[LevelRoom]]) -> str:
    """Return a table for each shape: a line for each level, with the domains that have most room."""
    lines = []
    for shape, levels in zip(shapes, rooms, strict=True):
        lines.append("a pod requests " + ", ".join(f"{resource} {text}" for resource, text in shape.items()))
        for level in levels:
            named = ", ".join(f"{name} {pods}" for name, pods in level.largest if name)
            lines.append(
                f"  {level.level:20} {level.pods:>8} pods in one of {level.domains}" + (f": {named}" if named else "")
            )
        lines.append("")
    lines.append(
        f"Affinity, volumes and quotas are not looked at; at most {MOST_DOMAINS} domains of a level are named."
    )
    return "\n".join(lines) + "\n"


def _read(query: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the form of the answer and what one pod requests; ValueError names the key and what is allowed."""
    output = query.get("output", "table")
    if output not in _OUTPUTS:
        raise ValueError(f"output: {output!r} is unknown; allowed: {', '.join(_OUTPUTS)}")
    told = {key: text for key, text in query.items() if key != "output"}
    if len(told) > MOST_RESOURCES:
        raise ValueError(f"{len(told)} resources; allowed are at most {MOST_RESOURCES}")
    for resource, text in told.items():
        try:
            is_positive = amount(resource, text) > 0
        except ValueError as error:
            raise ValueError(f"{resource}: {error}") from error
        if not is_positive:
            raise ValueError(f"{resource}: {text!r}; allowed are quantities above 0, such as 8, 500m or 64Gi")
    return output, told
