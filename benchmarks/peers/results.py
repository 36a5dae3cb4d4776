"""Results: the figures of all turns as they come, as JSON and as the tables of a page."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections import defaultdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .goals import GOALS
from .schedulers import OURS

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What the figures are called in tables, and how they are written.
TITLES = {
    "pods_per_s": ("pods/s", ".0f"),
    "p99_s": ("p99 s", ".2f"),
    "gang_p99_s": ("gang p99 s", ".2f"),
    "gang_s": ("whole gang bound s", ".2f"),
    "after_last_creation_s": ("… from its last creation s", ".2f"),
    "no_first_s": ("first no s", ".3f"),
    "no_s": ("no s", ".3f"),
    "yes_s": ("room → bound s", ".3f"),
    "cpu_s_per_1000_pods": ("CPU s per 1,000 pods", ".2f"),
    "rss_mib": ("RSS MiB", ".0f"),
    "requests_per_pod": ("requests per pod", ".2f"),
    "idle_writes": ("writes while idle", ".0f"),
    "node_evaluations_per_pod": ("node evaluations per pod", ".0f"),
}


class Results:
    """What all turns of one run measured."""

    def __init__(self, programs: Path, arguments: list[str], file: Path | None) -> None:
        self._file = file
        self._document: dict[str, Any] = {
            "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "arguments": arguments,
            "machine": machine(),
            "versions": versions(programs),
            "turns": [],
        }

    @property
    def turns(self) -> list[dict[str, Any]]:
        """All turns so far."""
        turns: list[dict[str, Any]] = self._document["turns"]
        return turns

    def add(self, turn: dict[str, Any]) -> None:
        """Take a turn, and write the file anew: in one step, so that it is whole at any time."""
        self.turns.append(turn)
        if self._file is not None:
            unfinished = self._file.with_suffix(".unfinished")
            unfinished.write_text(json.dumps(self._document, indent=1, ensure_ascii=False) + "\n")
            unfinished.replace(self._file)

    @property
    def page(self) -> str:
        """The tables, for people."""
        return page(self._document)


def page(document: dict[str, Any]) -> str:
    """Return what a document of results says, as Markdown."""
    what = [f"{document['date']}; {document['machine']}.", *(f"{k} {v}," for k, v in document["versions"].items())]
    lines = [" ".join(what).rstrip(",") + ".", ""]
    found = by_row(document["turns"])
    lines += ["| workload | figure | " + " | ".join(schedulers(document)) + " | goals |"]
    lines += ["|---|---|" + "---|" * (len(schedulers(document)) + 1)]
    for row, columns in found.items():
        lines += _lines(row, columns, schedulers(document))
    missed = [turn for turn in document["turns"] if turn.get("error")]
    lines += [""] + [f"{t['workload']}, {t['scheduler']}, turn {t['repetition']}: {t['error']}" for t in missed]
    return "\n".join(lines).rstrip() + "\n"


def schedulers(document: dict[str, Any]) -> list[str]:
    """Return the schedulers that had turns, in the order of their first."""
    return list(dict.fromkeys(sorted((turn["scheduler"] for turn in document["turns"]), key=lambda name: name != OURS)))


def by_row(turns: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return all values by row, scheduler and figure."""
    found: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for turn in turns:
        for part, figures in turn.get("figures", {}).items():
            for figure, value in figures.items():
                found[part or turn["workload"]][turn["scheduler"]][figure].append(value)
    return found


def medians(columns: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, float]]:
    """Return the medians of one row by scheduler and figure."""
    return {name: {f: statistics.median(values) for f, values in row.items()} for name, row in columns.items()}


def _lines(row: str, columns: dict[str, dict[str, list[float]]], names: list[str]) -> Iterator[str]:
    figures = [figure for figure in TITLES if any(figure in columns.get(name, {}) for name in names)]
    middle = medians(columns)
    for figure in figures:
        title, form = TITLES[figure]
        cells = [_cell(columns.get(name, {}).get(figure, []), form) for name in names]
        goals = [said for g in GOALS if (g.row, g.figure) == (row, figure) and (said := g.judge(middle))]
        yield f"| {row} | {title} | {' | '.join(cells)} | {'; '.join(goals)} |"
        row = ""


def _cell(values: list[float], form: str) -> str:
    if not values:
        return "–"
    text = f"{statistics.median(values):{form}}"
    return text if len(values) == 1 else f"{text} ({min(values):{form}}–{max(values):{form}})"


def machine() -> str:
    """Return what the run runs on."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, {platform.system()} {platform.release().partition('-')[0]}"


def versions(programs: Path) -> dict[str, str]:
    """Return the versions of all that takes part."""

    def said(program: str, word: str) -> str:
        command = [programs / program, "--version"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return next(line.split()[-1] for line in text.splitlines() if word in line)

    return {
        "ai-scheduler": version("ai-scheduler"),
        "Python": platform.python_version(),
        "kube-scheduler": said("kube-scheduler", "Kubernetes"),
        "kube-apiserver": said("kube-apiserver", "Kubernetes"),
        "etcd": said("etcd", "etcd Version"),
    }
