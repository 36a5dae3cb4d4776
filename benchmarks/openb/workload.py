"""The trace's files, and the stream of pods that the published protocol makes of a list.

For `benchmarks.openb`.  Sorted by name and shuffled; then drawn again, with replacement, until 1.3 times the cluster's GPUs were
asked for.  The shuffle is Python's, so a seed gives another order than the authors' program does.
"""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import NamedTuple

#: How much is asked for in the end, as a share of the cluster's GPUs.
ASKED = 1.3
WHOLE = 1000
DATA = Path(__file__).parent / "data"


class WorkloadError(Exception):
    """A file that cannot be read as what it should be."""


class NodeLine(NamedTuple):
    """A node of the list."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


class PodLine(NamedTuple):
    """A pod of the list."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    #: Thousandths of each GPU: 1000, or less for a share of one.
    gpu_milli: int
    #: Models that it may run on; all if empty.
    models: tuple[str, ...] = ()

    @property
    def asked_milli(self) -> int:
        """Thousandths of GPUs that it asks for in all."""
        return self.gpus * self.gpu_milli


def read_nodes(path: Path) -> list[NodeLine]:
    """Read a node list; WorkloadError names the file, the line and the column."""
    lines = _read(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    return [
        NodeLine(line["sn"], *_numbers(path, n, line, "cpu_milli", "memory_mib", "gpu"), line["model"])
        for n, line in lines
    ]


def read_pods(path: Path) -> list[PodLine]:
    """Read a pod list; WorkloadError names the file, the line and the column."""
    columns = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    found = []
    for n, line in _read(path, ("name", *columns)):
        cpu, memory, gpus, milli = _numbers(path, n, line, *columns)
        if gpus and not (0 < milli < WHOLE and gpus == 1) and milli != WHOLE:
            raise WorkloadError(
                f"{path}, line {n}: gpu_milli {milli} with num_gpu {gpus}; allowed are 1000, or 1 to 999 of one GPU"
            )
        models = tuple(model for model in (line.get("gpu_spec") or "").split("|") if model)
        found.append(PodLine(line["name"], cpu, memory, gpus, milli if gpus else 0, models))
    if not any(pod.asked_milli for pod in found):
        raise WorkloadError(f"{path}: no pod asks for a GPU; the protocol needs some")
    return found


def stream(pods: list[PodLine], capacity_milli: int, seed: int) -> list[PodLine]:
    """Return the pods in the order in which they arrive, until so much is asked for."""
    chance = random.Random(seed)
    arriving = sorted(pods, key=lambda pod: pod.name)
    chance.shuffle(arriving)
    asked = sum(pod.asked_milli for pod in arriving)
    listed = arriving.copy()
    while asked < ASKED * capacity_milli:
        arriving.append(chance.choice(listed))
        asked += arriving[-1].asked_milli
    return arriving


def _read(path: Path, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise WorkloadError(f"{path}: lacks the columns {', '.join(missing)}; needed are {', '.join(columns)}")
            return list(enumerate(reader, start=2))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise WorkloadError(f"{path}: {error}") from error


def _numbers(path: Path, number: int, line: dict[str, str], *columns: str) -> list[int]:
    found = []
    for column in columns:
        text = line[column] or ""
        if not text.isdecimal():
            raise WorkloadError(f"{path}, line {number}: {column} is {text!r}; allowed are whole numbers from 0 on")
        found.append(int(text))
    return found
