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
_CELLS = "X, NV1 to NV99, SYS, NODE, PHB, PXB, PIX or PSB"
_DEVICE = re.compile(r"GPU[0-9]+|NIC[0-9]+|[A-Za-z][A-Za-z0-9_.:-]*")
_LEGEND = re.compile(r"\s*(NIC[0-9]+):\s*(\S+)\s*$")
_AFFINITIES = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_CLASS_OF_CELL = {c.name: c for c in PcieClass if c is not PcieClass.UNKNOWN} | {"SOC": PcieClass.SYS}


@dataclass(frozen=True)
class MatrixRow:
    """The cells of one row, where each begins, and where reading stopped; lines and columns count from 1."""

    line: int
    cells: tuple[str, ...]
    columns: tuple[int, ...]
    end: int


@dataclass(frozen=True)
class TopologyText:
    """The matrix as text: devices of the header, GPUs first; the row of each; NUMA node of each GPU, None if not told.

    `nics` are the names of the legend, where there is one.
    """

    devices: tuple[str, ...]
    gpu_count: int
    nics: tuple[str, ...]
    rows: Mapping[str, MatrixRow]
    numa: tuple[int | None, ...]


def _error(line: int, column: int, text: str) -> TopologyError:
    """Return the error for something that stands at a line and a column, both counted from 1."""
    return TopologyError(f"topology text, line {line}, column {column}: {text}")


@lru_cache(maxsize=256)
def parse_topology(
    text: str, name: str = "measured", gbps_per_link: float = 25.0, pcie_gbps: int = PCIE4_X16_GBPS
) -> Machine:
    """Return the machine that `nvidia-smi topo -m` shows.

    The text does not tell the speed of a link: `gbps_per_link` is GB/s per direction (25 for V100 to H100, 50 for B200).
    Raises TopologyError with line and column when the text is too long, has no matrix, or has a row that is missing, short or not
    symmetric, or a cell that means nothing; colour codes do not count as columns.
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
        raise _error(1, 1, f"longer than allowed; allowed are {MAX_TEXT_BYTES} bytes")
    lines = _ANSI.sub("", text).splitlines()
    start = next((n for n, line in enumerate(lines) if re.match(r"\s*GPU0(?!\d|\s+X\b)", line)), None)
    if start is None:
        raise _error(1, 1, "no header line that begins with GPU0 follows, as `nvidia-smi topo -m` prints it")
    devices, affinities = _read_header(lines[start], start + 1)
    gpu_count = sum(1 for device in devices if re.fullmatch(r"GPU[0-9]+", device))
    rows: dict[str, MatrixRow] = {}
    numa_by_device: dict[str, str] = {}
    for number, line in enumerate(lines[start + 1 :], start + 2):
        row = re.match(r"\s*([A-Za-z]\w*)\s", line + " ")
        if row is None or row[1] not in devices:
            continue
        if row[1] in rows:
            raise _error(number, row.start(1) + 1, f"row {row[1]} appears twice; allowed is one row for each device")
        rows[row[1]], rest = _read_row(line, number, min(row.end(), len(line)), len(devices))
        numa_by_device[row[1]] = _numa_text(rest, affinities)
    _check(gpu_count, rows, len(lines))
    numa = _numa_numbers(
        [numa_by_device[f"GPU{gpu}"] for gpu in range(gpu_count)], has_numa="NUMA Affinity" in affinities
    )
    legend = {found[1]: found[2] for line in lines if (found := _LEGEND.match(line))}
    nics = tuple(legend.get(nic, nic) for nic in devices[gpu_count:])
    return TopologyText(tuple(devices), gpu_count, nics, rows, numa)


def _read_header(line: str, number: int) -> tuple[list[str], list[str]]:
    """Return the device names of the header, GPUs first and in order, and the affinity columns that follow."""
    matrix, *_ = re.split(r"CPU Affinity|NUMA Affinity|GPU NUMA ID", line)
    found = [(device[0], device.start() + 1) for device in _DEVICE.finditer(matrix)]
    devices = [device for device, _ in found]
    gpus = [device for device in devices if re.fullmatch(r"GPU[0-9]+", device)]
    for position, (device, column) in enumerate(found[: len(gpus)]):
        if device != f"GPU{position}" or position >= MAX_GPUS:
            raise _error(number, column, f"header has {device}; allowed are GPU0, GPU1, … in order, up to {MAX_GPUS}")
    for position, (device, column) in enumerate(found):
        if device in devices[:position] or position - len(gpus) >= MAX_NICS:
            raise _error(number, column, f"header has {device} twice, or more than the allowed {MAX_NICS} NICs")
    return devices, [column for column in _AFFINITIES if column in line]


def _read_row(line: str, number: int, position: int, device_count: int) -> tuple[MatrixRow, str]:
    """Return the cells of a row and what follows them; a word among the cells that is none is a TopologyError."""
    cells: list[str] = []
    columns: list[int] = []
    while len(cells) < device_count and (found := _CELL.match(line, position)):
        cells.append(found[1])
        columns.append(found.start(1) + 1)
        position = found.end()
    rest = line[position:]
    end = position + len(rest) - len(rest.lstrip()) + 1
    word = re.match(r"\s*(?!N/A)([^\s0-9]\S*|[0-9]+[A-Za-z]\S*)", rest)
    if word is not None and (len(cells) < device_count or not rest[0].isspace()):
        raise _error(number, end, f"{word[1][:20]!r} is no cell; allowed are {_CELLS}")
    return MatrixRow(number, tuple(cells), tuple(columns), end), rest


def _numa_text(rest: str, affinities: Sequence[str]) -> str:
    """Return the text of the NUMA column, or of the CPU column where there is no NUMA column."""
    told = dict(zip(affinities, rest.split(), strict=False))
    return told.get("NUMA Affinity", "" if "NUMA Affinity" in affinities else told.get("CPU Affinity", ""))


def _check(gpu_count: int, rows_by_device: Mapping[str, MatrixRow], last_line: int) -> None:
    """Raise TopologyError unless the square of GPUs is complete, has X on its diagonal, and is symmetric."""
    rows = [rows_by_device.get(f"GPU{gpu}", MatrixRow(last_line, (), (), 1)) for gpu in range(gpu_count)]
    for gpu, row in enumerate(rows):
        if len(row.cells) < gpu_count:
            said = f"row GPU{gpu} has {len(row.cells)} cells that are {_CELLS}; allowed are at least {gpu_count}"
            raise _error(row.line, row.end, said)
        if row.cells[gpu] != "X":
            said = f"row GPU{gpu}, column GPU{gpu} is {row.cells[gpu]}; allowed is X"
            raise _error(row.line, row.columns[gpu], said)
    for one, other in combinations(range(gpu_count), 2):
        there, back = rows[one].cells[other], rows[other].cells[one]
        if there != back or "X" in (there, back):
            raise _error(
                rows[other].line,
                rows[other].columns[one],
                f"GPU{one} to GPU{other} is {there} and back {back}; "
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
        cell = table.rows[f"GPU{one}"].cells[other]
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
        for column, cell in enumerate(table.rows[device].cells if device in table.rows else ()):
            if cell in _CLASS_OF_CELL:
                closeness[row, column] = closeness[column, row] = int(_CLASS_OF_CELL[cell])
    return PcieLayout(closeness, numa, table.nics, pcie_gbps)
