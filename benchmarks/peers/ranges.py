"""The reviewed ranges of counts and ratios, and what falls out of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from .results import by_row, medians
from .schedulers import KUBE, OURS

if TYPE_CHECKING:
    from typing import Any

FILE = Path(__file__).parent.parent / "ranges.yaml"
#: Ratios have the name of their figure and this.
BESIDE = "_beside_kube_scheduler"


def found_values(turns: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the figures of ours by row, and their ratios to kube-scheduler's where both were measured."""
    found: dict[str, dict[str, float]] = {}
    for row, columns in by_row(turns).items():
        middle = medians(columns)
        ours, kube = middle.get(OURS, {}), middle.get(KUBE, {})
        ratios = {f"{figure}{BESIDE}": ours[figure] / kube[figure] for figure in ours if kube.get(figure)}
        found[row] = {**ours, **ratios}
    return found


def problems(found: dict[str, dict[str, float]], file: Path = FILE) -> list[str]:
    """Return a line for each figure that is out of its range, or that was not measured."""
    lines = []
    for row, ranges in yaml.safe_load(file.read_text()).items():
        for figure, (least, most) in ranges.items():
            value = found.get(row, {}).get(figure)
            if value is None:
                lines.append(f"{row}: {figure} was not measured; allowed: {least} to {most}")
            elif not least <= value <= most:
                lines.append(f"{row}: {figure} is {value:.4g}; allowed: {least} to {most}")
    return lines
