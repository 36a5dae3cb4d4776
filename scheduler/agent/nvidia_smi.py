"""What `nvidia-smi` tells: the matrix of `nvidia-smi topo -m`, and which GPU has which UUID, address and product.

For `sources`, where NVML is not at hand.  The program is run below the root folder if it is there, else from the PATH.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from scheduler.topology import TopologyError, parse_topology
from scheduler.topology.machines import board_of
from scheduler.topology.parse import read_matrix

from .errors import SourceError
from .machine import Found, Gpu, Link
from .sysfs import pci_address

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from scheduler.topology import Machine

    #: Runs a program and returns what it prints; SourceError if it cannot.
    Run = Callable[[Sequence[str]], str]

QUERY = ("--query-gpu=index,uuid,pci.bus_id,name", "--format=csv,noheader")
_PLACES = ("usr/bin/nvidia-smi", "usr/local/bin/nvidia-smi", "usr/local/nvidia/bin/nvidia-smi")
_SECONDS = 60
_FIELDS = 4


def runner(root: Path) -> Run:
    """Return what runs `nvidia-smi` with arguments, that of the root folder first."""
    program = next((str(root / place) for place in _PLACES if (root / place).exists()), "nvidia-smi")

    def run(arguments: Sequence[str]) -> str:
        command = [program, *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603 - fixed arguments
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SourceError(f"nvidia-smi: {program} cannot be run: {error}") from error
        if done.returncode:
            words = (done.stderr or done.stdout).strip()[:200]
            raise SourceError(f"nvidia-smi: `{' '.join(command)}` ended with {done.returncode}: {words}")
        return done.stdout

    return run


def read_nvidia_smi(run: Run) -> Found:
    """Return all GPUs; SourceError if the program fails or says something that cannot be read."""
    rows = [_row(line) for line in run(QUERY).splitlines() if line.strip()]
    if not rows:
        return Found("nvidia-smi", ())
    board = board_of(rows[0][3].replace(" ", "-"))
    text = run(["topo", "-m"])
    try:
        machine = parse_topology(text, gbps_per_link=25.0 if board is None else board.gbps_per_link)
        numa = read_matrix(text).numa
    except TopologyError as error:
        raise SourceError(f"nvidia-smi: {error}") from error
    if machine.gpu_count != len(rows):
        raise SourceError(f"nvidia-smi: its matrix has {machine.gpu_count} GPUs, its list {len(rows)}")
    if [row[0] for row in rows] != list(range(len(rows))):
        raise SourceError("nvidia-smi: its list does not count GPUs from 0 without a gap")
    gpus = tuple(_gpu(machine, index, uuid, address, numa[index]) for index, uuid, address, _ in rows)
    return Found("nvidia-smi", gpus, None if board is None else board.pcie_gbps)


def _row(line: str) -> tuple[int, str, str, str]:
    parts = [part.strip() for part in line.split(",", _FIELDS - 1)]
    if len(parts) != _FIELDS or not parts[0].isdigit():
        raise SourceError(f"nvidia-smi: {line!r} is no line of index, UUID, PCI address and name")
    return int(parts[0]), parts[1], pci_address(parts[2]), parts[3]


def _gpu(machine: Machine, index: int, uuid: str, address: str, numa: int | None) -> Gpu:
    peers: dict[int, Link] = {}
    switch = None
    for other, edge in machine.graph[f"gpu{index}"].items():
        if other.startswith("nvswitch"):
            switch = Link(edge["links"], edge["gbps"])
        elif other.startswith("gpu"):
            peers[int(other.removeprefix("gpu"))] = Link(edge["links"], edge["gbps"])
    return Gpu(index, uuid, address, numa, peers, switch)
