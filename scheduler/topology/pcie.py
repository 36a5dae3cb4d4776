"""How close two devices are over PCIe, and the tree of switches and NUMA nodes that says the same.

The classes are those of `nvidia-smi topo -m`. A tree is what the graph can hold; a matrix of classes that is no tree (measured
matrices nearly always are one) is read as the closest tree that brings no pair further apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from itertools import combinations
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

PCIE3_X16_GBPS = 16
"""PCIe 3.0 x16, GB/s per direction (15.75 by the standard, rounded)."""
PCIE4_X16_GBPS = 32
"""PCIe 4.0 x16, GB/s per direction (31.5 by the standard, rounded)."""
PCIE5_X16_GBPS = 63
"""PCIe 5.0 x16, GB/s per direction (63.0 by the standard)."""


class NodeKind(StrEnum):
    """What a node of the machine graph stands for."""

    GPU = "gpu"
    NVSWITCH = "nvswitch"
    PCIE_SWITCH = "pcie-switch"
    ROOT_PORT = "root-port"
    HOST_BRIDGE = "host-bridge"
    NUMA = "numa"
    NIC = "nic"


class LinkKind(StrEnum):
    """What an edge of the machine graph stands for; SMP is the link between sockets (UPI, xGMI, C2C)."""

    NVLINK = "nvlink"
    PCIE = "pcie"
    SMP = "smp"


class PcieClass(IntEnum):
    """The closeness of two devices over PCIe, in the words of `nvidia-smi topo -m`; a larger value is closer.

    UNKNOWN stands where a source does not say (the diagonal; two GPUs of which only the NVLinks are told).
    """

    UNKNOWN = 0
    SYS = 1
    NODE = 2
    PHB = 3
    PXB = 4
    PIX = 5
    PSB = 6


_TREE_LEVELS = (
    (PcieClass.PSB, NodeKind.PCIE_SWITCH),
    (PcieClass.PIX, NodeKind.PCIE_SWITCH),
    (PcieClass.PXB, NodeKind.PCIE_SWITCH),
    (PcieClass.PHB, NodeKind.HOST_BRIDGE),
    (PcieClass.NODE, NodeKind.NUMA),
)


@dataclass(frozen=True)
class PcieLayout:
    """Where the GPUs and NICs of a machine sit: closeness of each pair, NUMA node of each device, speed of their slots.

    `closeness` is a symmetric matrix of `PcieClass` over the GPUs, then the NICs. `numa` names the NUMA node of each of them,
    or None where it is not known. `nics` are device names (`mlx5_0`). `gbps` is the PCIe bandwidth of a GPU in GB/s per direction.
    `rails` are the rails of the NICs, None where they are not known; it is empty where none is.
    """

    closeness: NDArray[np.int64]
    numa: tuple[int | None, ...]
    nics: tuple[str, ...] = ()
    gbps: int = PCIE4_X16_GBPS
    rails: tuple[int | None, ...] = ()

    @classmethod
    def of_numa(cls, numa: Sequence[int | None], gbps: int = PCIE4_X16_GBPS) -> PcieLayout:
        """Return the layout in which GPUs of one NUMA node are NODE to each other, and SYS across; None meets None as NODE."""
        nodes = np.array([-1 if n is None else n for n in numa], dtype=np.int64)
        closeness = np.where(nodes[:, None] == nodes[None, :], int(PcieClass.NODE), int(PcieClass.SYS)).astype(np.int64)
        np.fill_diagonal(closeness, int(PcieClass.UNKNOWN))
        return cls(closeness, tuple(numa), gbps=gbps)

    def with_groups(self, groups: Sequence[Sequence[int]], pcie_class: PcieClass) -> PcieLayout:
        """Return this layout with the GPUs of each group brought to `pcie_class`; other pairs stay as they are."""
        closeness = self.closeness.copy()
        for group in groups:
            for one, other in combinations(group, 2):
                closeness[one, other] = closeness[other, one] = int(pcie_class)
        return PcieLayout(closeness, self.numa, self.nics, self.gbps, self.rails)


def add_pcie_tree(graph: nx.Graph[str], leaves: Sequence[str], layout: PcieLayout) -> None:
    """Hang the leaves under switches, host bridges and NUMA nodes, and join all NUMA nodes by SMP links.

    An inner node carries `joins`, the class of two leaves that meet there. A node that would have one child is left out,
    except a NUMA node and a root port: each device or tree of switches hangs from a root port of its own. The speed of an SMP link is not published per pair of GPUs and is given as that of the slot.
    """
    tops = list(leaves)
    for pcie_class, kind in _TREE_LEVELS:
        for number, members in enumerate(_groups(layout.closeness, pcie_class)):
            children = sorted({tops[m] for m in members})
            if len(children) == 1 and kind is not NodeKind.NUMA:
                continue
            name = (
                f"{pcie_class.name.lower()}{number}"
                if kind is not NodeKind.NUMA
                else _numa_name(graph, members, layout)
            )
            graph.add_node(name, kind=kind, joins=pcie_class)
            graph.add_edges_from(((name, child) for child in children), kind=LinkKind.PCIE, gbps=layout.gbps)
            for member in members:
                tops[member] = name
        if pcie_class is PcieClass.PXB:
            tops = _root_ports(graph, tops, layout.gbps)
    graph.add_edges_from(combinations(sorted(set(tops)), 2), kind=LinkKind.SMP, gbps=layout.gbps)


def _root_ports(graph: nx.Graph[str], tops: Sequence[str], gbps: int) -> list[str]:
    """Hang each top from a root port of its own; return the port above each leaf."""
    ports = {top: f"root-port{number}" for number, top in enumerate(dict.fromkeys(tops))}
    for top, port in ports.items():
        graph.add_node(port, kind=NodeKind.ROOT_PORT, joins=PcieClass.PXB)
        graph.add_edge(port, top, kind=LinkKind.PCIE, gbps=gbps)
    return [ports[top] for top in tops]


def _groups(closeness: NDArray[np.int64], pcie_class: PcieClass) -> list[list[int]]:
    """Return the sets of devices that are chained by pairs at least this close, in order of their first device."""
    chained: nx.Graph[int] = nx.Graph()
    chained.add_nodes_from(range(len(closeness)))
    chained.add_edges_from((int(one), int(other)) for one, other in np.argwhere(closeness >= int(pcie_class)))
    return sorted(sorted(members) for members in nx.connected_components(chained))


def _numa_name(graph: nx.Graph[str], members: Sequence[int], layout: PcieLayout) -> str:
    """Name a NUMA node by the first number that its devices know and no other node has, else `numa-unnamed` and a count."""
    known = [f"numa{layout.numa[m]}" for m in members if layout.numa[m] is not None]
    unnamed = (f"numa-unnamed{number}" for number in range(len(layout.numa)))
    return next(name for name in (*known, *unnamed) if name not in graph)


def pcie_closeness(graph: nx.Graph[str], leaves: Sequence[str]) -> NDArray[np.int64]:
    """Return the matrix of `PcieClass` over the leaves: the widest join on the path between them; O(leaves · nodes).

    UNKNOWN stands on the diagonal and where no PCIe path leads from one leaf to the other.
    """
    closeness = np.zeros((len(leaves), len(leaves)), dtype=np.int64)
    for row, leaf in enumerate(leaves):
        met = _joins_from(graph, leaf)
        closeness[row] = [met.get(other, PcieClass.UNKNOWN) if other != leaf else PcieClass.UNKNOWN for other in leaves]
    return closeness


def _joins_from(graph: nx.Graph[str], leaf: str) -> dict[str, PcieClass]:
    """Walk the PCIe tree from one leaf; an SMP link makes everything behind it SYS."""
    met = {leaf: PcieClass.PSB}
    frontier = [leaf]
    while frontier:
        node = frontier.pop()
        for neighbour, link in graph[node].items():
            if neighbour in met or link["kind"] is LinkKind.NVLINK:
                continue
            here = PcieClass.SYS if link["kind"] is LinkKind.SMP else graph.nodes[neighbour].get("joins", PcieClass.PSB)
            met[neighbour] = min(met[node], here)
            frontier.append(neighbour)
    return met
