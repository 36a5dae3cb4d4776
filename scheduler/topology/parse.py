"""Reads `nvidia-smi topo -m` into a Machine, as people paste it and node agents store it.

It accepts tabs or spaces, colour codes, lines around the matrix, NIC columns with or without rows and legend, missing affinity
columns, and cells that ran together (`NIC8NIC9`, `NODENODE`). It never guesses a missing GPU cell: that is a TopologyError.

What the text leaves out is inferred: NVSwitches, where a GPU would need more direct links than any GPU has; and the PCIe
closeness of a pair whose cell shows NVLinks, from the NUMA column and from the NICs that both are close to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np

from .graph import MAX_GPUS, Machine, NvLink, TopologyError, build_machine
from .pcie import PCIE4_X16_GBPS, PcieClass, PcieLayout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_TEXT_BYTES = 64 * 1024
"""Largest text that is read."""

MAX_NICS = 128
MAX_LINKS_PER_GPU = 18
"""NVLinks of the largest GPUs to date (H100, B200): a GPU that seems to have more is behind NVSwitches."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07")
_CELL = re.compile(r"\s*(X|NV[0-9]{1,2}|SYS|SOC|NODE|PHB|PXB|PIX|PSB)(?![a-z0-9_-])")
_DEVICE = re.compile(r"GPU[0-9]+|NIC[0-9]+|[A-Za-z][A-Za-z0-9_.:-]*")
_LEGEND = re.compile(r"\s*(NIC[0-9]+):\s*(\S+)\s*$")
_AFFINITIES = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_CLASS_OF_CELL = {c.name: c for c in PcieClass if c is not PcieClass.UNKNOWN} | {"SOC": PcieClass.SYS}


@dataclass(frozen=True)
class TopologyText:
    """The matrix as text: devices of the header, GPUs first; the cells of each row; NUMA node of each GPU, None if not told.

    `nics` are the names of the legend, where there is one.
    """

    devices: tuple[str, ...]
    gpu_count: int
    nics: tuple[str, ...]
    cells_by_device: Mapping[str, tuple[str, ...]]
    numa: tuple[int | None, ...]


@lru_cache(maxsize=256)
def parse_topology(
    text: str, name: str = "measured", gbps_per_link: float = 25.0, pcie_gbps: int = PCIE4_X16_GBPS
) -> Machine:
    """Return the machine that `nvidia-smi topo -m` shows.

    The text does not tell the speed of a link: `gbps_per_link` is GB/s per direction (25 for V100 to H100, 50 for B200).
    Raises TopologyError when the text is too long, has no matrix, or has a row that is missing, short or not symmetric.
    """
    table = read_matrix(text)
    links = _nvlinks(table)
    switched = _switched(links)
    direct = {pair: count for pair, count in links.items() if not set(pair) <= set(switched)}
    return build_machine(
        name,
        table.gpu_count,
        layout=_layout(table, pcie_gbps),
        direct={pair: NvLink(count, round(count * gbps_per_link)) for pair, count in direct.items()},
        switched={gpu: NvLink(count, round(count * gbps_per_link)) for gpu, count in switched.items()},
    )


def read_matrix(text: str) -> TopologyText:
    """Split the text into devices, cells and NUMA nodes, and check that every GPU row is there; raises TopologyError."""
    if len(text) > MAX_TEXT_BYTES or len(text.encode("utf-8", "replace")) > MAX_TEXT_BYTES:
        raise TopologyError(f"topology text: longer than allowed; allowed are {MAX_TEXT_BYTES} bytes")
    lines = _ANSI.sub("", text).splitlines()
    start = next((n for n, line in enumerate(lines) if re.match(r"\s*GPU0(?!\d|\s+X\b)", line)), None)
    if start is None:
        raise TopologyError("topology text: no header line that begins with GPU0, as `nvidia-smi topo -m` prints it")
    devices, affinities = _read_header(lines[start])
    gpu_count = sum(1 for device in devices if re.fullmatch(r"GPU[0-9]+", device))
    cells_by_device: dict[str, tuple[str, ...]] = {}
    numa_by_device: dict[str, str] = {}
    for line in lines[start + 1 :]:
        row = re.match(r"\s*([A-Za-z]\w*)\s", line)
        if row is None or row[1] not in devices:
            continue
        if row[1] in cells_by_device:
            raise TopologyError(f"topology text: row {row[1]} appears twice; allowed is one row for each device")
        cells_by_device[row[1]], numa_by_device[row[1]] = _read_row(line[row.end() :], len(devices), affinities)
    _check(gpu_count, cells_by_device)
    numa = _numa_numbers(
        [numa_by_device[f"GPU{gpu}"] for gpu in range(gpu_count)], has_numa="NUMA Affinity" in affinities
    )
    legend = {found[1]: found[2] for line in lines if (found := _LEGEND.match(line))}
    nics = tuple(legend.get(nic, nic) for nic in devices[gpu_count:])
    return TopologyText(tuple(devices), gpu_count, nics, cells_by_device, numa)


def _read_header(line: str) -> tuple[list[str], list[str]]:
    """Return the device names of the header, GPUs first and in order, and the affinity columns that follow."""
    matrix, *_ = re.split(r"CPU Affinity|NUMA Affinity|GPU NUMA ID", line)
    devices = [device for token in matrix.split() for device in _DEVICE.findall(token)]
    gpus = [device for device in devices if re.fullmatch(r"GPU[0-9]+", device)]
    if devices[: len(gpus)] != [f"GPU{number}" for number in range(len(gpus))] or not 1 <= len(gpus) <= MAX_GPUS:
        raise TopologyError(
            f"topology text: header {line.strip()[:80]!r}; allowed are GPU0, GPU1, … in order, up to {MAX_GPUS}"
        )
    if len(set(devices)) != len(devices) or len(devices) - len(gpus) > MAX_NICS:
        raise TopologyError(f"topology text: header has a device twice or more than the allowed {MAX_NICS} NICs")
    return devices, [column for column in _AFFINITIES if column in line]


def _read_row(line: str, device_count: int, affinities: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Return the cells of a row and the text of its NUMA column, or of its CPU column where there is no NUMA column."""
    cells: list[str] = []
    position = 0
    while len(cells) < device_count and (found := _CELL.match(line, position)):
        cells.append(found[1])
        position = found.end()
    rest = dict(zip(affinities, line[position:].split(), strict=False))
    return tuple(cells), rest.get(
        "NUMA Affinity", "" if "NUMA Affinity" in affinities else rest.get("CPU Affinity", "")
    )


def _check(gpu_count: int, cells_by_device: Mapping[str, tuple[str, ...]]) -> None:
    """Raise TopologyError unless the square of GPUs is complete, has X on its diagonal, and is symmetric."""
    rows = [cells_by_device.get(f"GPU{gpu}", ()) for gpu in range(gpu_count)]
    for gpu, row in enumerate(rows):
        if len(row) < gpu_count:
            raise TopologyError(
                f"topology text: row GPU{gpu} has {len(row)} cells that are X, NV1 to NV99, "
                f"SYS, NODE, PHB, PXB, PIX or PSB; allowed are at least {gpu_count}",
            )
        if row[gpu] != "X":
            raise TopologyError(f"topology text: row GPU{gpu}, column GPU{gpu} is {row[gpu]}; allowed is X")
    for one, other in combinations(range(gpu_count), 2):
        if rows[one][other] != rows[other][one] or "X" in (rows[one][other], rows[other][one]):
            raise TopologyError(
                f"topology text: GPU{one} to GPU{other} is {rows[one][other]} and back {rows[other][one]}; "
                "allowed is the same link both ways, and X for a device itself only",
            )


def _numa_numbers(texts: Sequence[str], *, has_numa: bool) -> tuple[int | None, ...]:
    """Return NUMA numbers; without a NUMA column, GPUs with equal CPU affinity share a node, numbered by first appearance."""
    if has_numa:
        return tuple(int(text) if re.fullmatch(r"[0-9]{1,4}", text) else None for text in texts)
    numbers = {text: number for number, text in enumerate(dict.fromkeys(t for t in texts if t not in {"", "N/A"}))}
    return tuple(numbers.get(text) for text in texts)


def _nvlinks(table: TopologyText) -> dict[tuple[int, int], int]:
    """Return the number of NVLinks of each pair of GPUs that shows any."""
    links: dict[tuple[int, int], int] = {}
    for one, other in combinations(range(table.gpu_count), 2):
        cell = table.cells_by_device[f"GPU{one}"][other]
        if cell.startswith("NV") and int(cell[2:]) > 0:
            links[one, other] = int(cell[2:])
    return links


def _switched(links: Mapping[tuple[int, int], int]) -> dict[int, int]:
    """Return the NVSwitch links of each GPU behind NVSwitches.

    A group is behind NVSwitches when all its pairs show links, some GPU would need more direct ones than GPUs have, and every
    pair shows the smaller of the two GPUs' own links (a GPU with failed links has fewer towards every peer).
    """
    joined: nx.Graph[int] = nx.Graph(list(links))
    switched: dict[int, int] = {}
    for group in nx.connected_components(joined):
        pairs = {pair: links.get(pair, 0) for pair in combinations(sorted(group), 2)}
        rows = {gpu: [count for pair, count in pairs.items() if gpu in pair] for gpu in sorted(group)}
        own = {gpu: max(row) for gpu, row in rows.items()}
        if max(map(sum, rows.values())) > MAX_LINKS_PER_GPU and all(
            count == min(own[one], own[other]) for (one, other), count in pairs.items()
        ):
            switched |= own
    return switched


def _layout(table: TopologyText, pcie_gbps: int) -> PcieLayout:
    """Return the PCIe layout: measured classes, and for NVLink pairs what NUMA nodes and shared NICs say."""
    numa = (*table.numa, *([None] * len(table.nics)))
    closeness = np.zeros((len(table.devices), len(table.devices)), dtype=np.int64)
    gpus = slice(0, table.gpu_count)
    closeness[gpus, gpus] = PcieLayout.of_numa(table.numa).closeness
    for row, device in enumerate(table.devices):
        for column, cell in enumerate(table.cells_by_device.get(device, ())):
            if cell in _CLASS_OF_CELL:
                closeness[row, column] = closeness[column, row] = int(_CLASS_OF_CELL[cell])
    return PcieLayout(closeness, numa, table.nics, pcie_gbps)
