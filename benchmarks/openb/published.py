"""What the authors of the trace measured with their six policies, by workload.

For `benchmarks.openb`.  Means over ten seeds.
"""

from __future__ import annotations

import csv

from .playing import ALLOC_POINTS, FRAG_POINTS
from .workload import DATA

_FILE = DATA / "published_by_policy.csv"
_METRICS = {"alloc_pct": ("alloc_pct", ALLOC_POINTS), "frag_ratio_pct_of_idle": ("frag_ratio", FRAG_POINTS)}


def published(workload: str) -> dict[str, dict[str, dict[str, float]]]:
    """Return policy → alloc_pct and frag_ratio → point → percent; empty for a workload that was not published."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    with _FILE.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            if line["workload"] == workload and line["metric"] in _METRICS:
                key, points = _METRICS[line["metric"]]
                policy = line["sc_policy"].partition("-")[2]
                found.setdefault(policy, {})[key] = {str(point): float(line[f"mean@{point}"]) for point in points}
    return found
