"""The graph of one machine: GPUs, NVSwitches, PCIe switches, root ports, NUMA nodes and NICs, with the bandwidth of each link.

Plugins and the GPU set table read `Machine`; parsers and the table of known machines build one with `build_machine`.

**The bandwidth of a set of GPUs** is the sum, over its pairs, of the NVLink bandwidth between the two, in GB/s per direction.
Two GPUs that are linked directly have the bandwidth of all their links; two behind NVSwitches have the smaller of their own
link bandwidths, towards every peer alike. Traffic relayed by a third GPU does not count, nor does PCIe: PCIe closeness only
breaks ties, so that one switch comes before one NUMA node before two sockets.

Bandwidth of one NVLink, GB/s per direction, as NVIDIA publishes it: 20 (NVLink 1, P100), 25 (NVLink 2, 3 and 4: V100, A100,
H100), 50 (NVLink 5: B200, GB200). The NVLink 3 of graphics boards (A40, RTX A6000) has 14.0625.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np

from .pcie import LinkKind, NodeKind, PcieLayout, add_pcie_tree, pcie_closeness

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

MAX_GPUS = 64
"""Largest number of GPUs of one machine that is accepted from any source."""

LOCALITY_BITS = 14
"""2,016 pairs of 64 GPUs at class PSB (6) sum to 12,096 < 2**14: closeness can never outweigh 1 GB/s."""


class TopologyError(ValueError):
    """A topology source that cannot be used; the message names the field or label and the values that are allowed."""


@dataclass(frozen=True)
class NvLink:
    """The NVLinks of a pair of GPUs, or of a GPU to the NVSwitches: their number and their summed GB/s per direction."""

    links: int
    gbps: int


@dataclass(frozen=True)
class Nic:
    """A NIC of a machine: its device name, and the rail that it is wired to, None where that is not known."""

    name: str
    rail: int | None = None


@dataclass(frozen=True, eq=False)
class Machine:
    """A machine type, frozen; equal machines have equal graphs, whatever their names.

    `nvlink_gbps[i, j]` is the NVLink bandwidth of a pair, `direct_links[i, j]` the number of its direct NVLinks (0 behind an
    NVSwitch), `pcie[i, j]` its `PcieClass`; all are symmetric int64 and read-only. `nic_pcie[i, n]` is the `PcieClass` of GPU i
    and NIC n, of those in `nics`. `is_known` is False where nothing but the
    number of GPUs is known. `is_whole` is False where the resource counts shares of GPUs (MIG slices, time slices), so that
    neither sets nor links mean anything to a pod.
    """

    name: str
    gpu_count: int
    graph: nx.Graph[str]
    is_known: bool
    is_whole: bool
    nvlink_gbps: NDArray[np.int64] = field(repr=False)
    direct_links: NDArray[np.int64] = field(repr=False)
    pcie: NDArray[np.int64] = field(repr=False)
    nics: tuple[Nic, ...] = field(repr=False)
    nic_pcie: NDArray[np.int64] = field(repr=False)
    fingerprint: str = field(repr=False)

    def __eq__(self, other: object) -> bool:
        """Compare the graphs and what is known of them, by fingerprint."""
        return isinstance(other, Machine) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        """Hash the fingerprint."""
        return hash(self.fingerprint)

    @property
    def all_gpus(self) -> int:
        """The mask with one bit for each GPU."""
        return (1 << self.gpu_count) - 1

    @property
    def pair_weights(self) -> NDArray[np.int64]:
        """The weight by which sets are compared: GB/s shifted by `LOCALITY_BITS`, plus PCIe closeness to break ties."""
        return (self.nvlink_gbps << LOCALITY_BITS) + self.pcie


def gpus_of_mask(mask: int) -> tuple[int, ...]:
    """Return the GPU indices of a mask, ascending."""
    return tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def mask_of_gpus(gpus: Iterable[int]) -> int:
    """Return the mask of GPU indices."""
    return sum(1 << gpu for gpu in set(gpus))


def build_machine(
    name: str,
    gpu_count: int,
    *,
    layout: PcieLayout,
    direct: Mapping[tuple[int, int], NvLink] | None = None,
    switched: Mapping[int, NvLink] | None = None,
    is_known: bool = True,
    is_whole: bool = True,
) -> Machine:
    """Build a machine from its direct NVLinks by pair, its NVSwitch links by GPU, and its PCIe layout.

    Raises TopologyError when there are no GPUs or more than `MAX_GPUS`.
    """
    if not 1 <= gpu_count <= MAX_GPUS:
        raise TopologyError(f"gpus: {gpu_count} is not allowed; allowed are 1 to {MAX_GPUS}")
    graph: nx.Graph[str] = nx.Graph()
    gpus = [f"gpu{index}" for index in range(gpu_count)]
    graph.add_nodes_from(gpus, kind=NodeKind.GPU)
    nics = [f"nic{index}" for index in range(len(layout.nics))]
    rails = layout.rails or (None,) * len(nics)
    for nic, device, rail in zip(nics, layout.nics, rails, strict=True):
        graph.add_node(nic, kind=NodeKind.NIC, device=device, rail=rail)
    add_pcie_tree(graph, [*gpus, *nics], layout)
    for (one, other), link in sorted((direct or {}).items()):
        graph.add_edge(gpus[one], gpus[other], kind=LinkKind.NVLINK, gbps=link.gbps, links=link.links)
    if switched:
        graph.add_node("nvswitch0", kind=NodeKind.NVSWITCH)
        for gpu, link in sorted(switched.items()):
            graph.add_edge(gpus[gpu], "nvswitch0", kind=LinkKind.NVLINK, gbps=link.gbps, links=link.links)
    return machine_of_graph(name, graph, is_known=is_known, is_whole=is_whole)


def machine_of_graph(name: str, graph: nx.Graph[str], *, is_known: bool = True, is_whole: bool = True) -> Machine:
    """Freeze a graph and derive its matrices; GPUs are the nodes `gpu0`, `gpu1`, … without a gap; O(GPUs · nodes)."""
    count = len(_nodes_of(graph, NodeKind.GPU))
    gpus = [f"gpu{index}" for index in range(count)]
    if not gpus or any(gpu not in graph for gpu in gpus):
        raise TopologyError("gpus: the graph must have the GPU nodes gpu0, gpu1, … without a gap")
    nvlink_gbps, direct_links = np.zeros((2, count, count), dtype=np.int64)
    for one, other, gbps, links in _nvlink_pairs(graph, gpus):
        nvlink_gbps[one, other] = nvlink_gbps[other, one] = nvlink_gbps[one, other] + gbps
        direct_links[one, other] = direct_links[other, one] = direct_links[one, other] + links
    nics = [f"nic{index}" for index in range(len(_nodes_of(graph, NodeKind.NIC)))]
    every = pcie_closeness(graph, [*gpus, *nics])
    closeness, to_nics = every[:count, :count].copy(), every[:count, count:].copy()
    for matrix in (nvlink_gbps, direct_links, closeness, to_nics):
        matrix.flags.writeable = False
    return Machine(
        name=name,
        gpu_count=count,
        graph=nx.freeze(graph),
        is_known=is_known,
        is_whole=is_whole,
        nvlink_gbps=nvlink_gbps,
        direct_links=direct_links,
        pcie=closeness,
        nics=tuple(Nic(graph.nodes[nic].get("device", nic), graph.nodes[nic].get("rail")) for nic in nics),
        nic_pcie=to_nics,
        fingerprint=_fingerprint(graph, is_known=is_known, is_whole=is_whole),
    )


@lru_cache(maxsize=512)
def with_links_of(machine: Machine, links: Machine) -> Machine:
    """Return a machine with the NVLinks of another one of as many GPUs; its PCIe switches, NUMA nodes and NICs stay."""
    graph: nx.Graph[str] = nx.Graph(machine.graph)
    graph.remove_nodes_from(_nodes_of(graph, NodeKind.NVSWITCH))
    graph.remove_edges_from([(a, b) for a, b, edge in graph.edges(data=True) if edge["kind"] is LinkKind.NVLINK])
    graph.add_nodes_from((name, links.graph.nodes[name]) for name in _nodes_of(links.graph, NodeKind.NVSWITCH))
    graph.add_edges_from(
        (one, other, edge) for one, other, edge in links.graph.edges(data=True) if edge["kind"] is LinkKind.NVLINK
    )
    return machine_of_graph(links.name, graph, is_known=True, is_whole=machine.is_whole)


def _nodes_of(graph: nx.Graph[str], kind: NodeKind) -> list[str]:
    return sorted(name for name, data in graph.nodes(data=True) if data["kind"] is kind)


def _nvlink_pairs(graph: nx.Graph[str], gpus: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield (one, other, GB/s, direct links) for each pair of GPUs that NVLink joins, directly or through one NVSwitch."""
    index = {gpu: number for number, gpu in enumerate(gpus)}
    for one, other, link in graph.edges(data=True):
        if link["kind"] is LinkKind.NVLINK and one in index and other in index:
            yield index[one], index[other], link["gbps"], link["links"]
    for switch in _nodes_of(graph, NodeKind.NVSWITCH):
        ports = sorted((index[gpu], int(port["gbps"])) for gpu, port in graph[switch].items() if gpu in index)
        for position, (gpu, gbps) in enumerate(ports):
            for peer, peer_gbps in ports[position + 1 :]:
                yield gpu, peer, min(gbps, peer_gbps), 0


def _fingerprint(graph: nx.Graph[str], *, is_known: bool, is_whole: bool) -> str:
    """Return the SHA-256 of the graph written out in sorted order."""
    nodes = sorted(f"{name} {sorted((k, str(v)) for k, v in data.items())}" for name, data in graph.nodes(data=True))
    edges = sorted(
        f"{' '.join(sorted((one, other)))} {sorted((k, str(v)) for k, v in data.items())}"
        for one, other, data in graph.edges(data=True)
    )
    text = "\n".join((*nodes, *edges, f"{is_known} {is_whole}"))
    return hashlib.sha256(text.encode()).hexdigest()
