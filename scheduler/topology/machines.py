"""The known machines, by the product and the number of GPUs that NVIDIA's GPU feature discovery (GFD) writes on a node.

For nodes about which nothing better is known. The table states what NVIDIA's reference design fixes: NVLinks, and NUMA nodes
where the baseboard fixes them. It does not guess: PCIe boards have no NVLink here, since no label tells which are bridged (the
`node-topology` annotation can), and a product or count outside the table gives a machine of PCIe only, `is_known=False`.

Where one label stands for two designs, the one with fewer links is taken, and both rank sets alike: four H100 SXM may be an
HGX-4 (6 links to each peer, taken here) or half an HGX-8 behind NVSwitches; four V100 SXM2 may be half a DGX-1 (taken) or a
board with two links everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

from .graph import MAX_GPUS, Machine, NvLink, TopologyError, build_machine
from .pcie import PCIE3_X16_GBPS, PCIE4_X16_GBPS, PCIE5_X16_GBPS, PcieClass, PcieLayout

if TYPE_CHECKING:
    from collections.abc import Mapping

    LinksByPair = Mapping[tuple[int, int], int]

PRODUCT_LABEL = "nvidia.com/gpu.product"
COUNT_LABEL = "nvidia.com/gpu.count"

DGX1_VOLTA_LINKS: LinksByPair = {
    **dict.fromkeys([(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)], 2),
    **dict.fromkeys([(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)], 1),
}
"""NVLinks of the DGX-1 with V100 (also p3.16xlarge): hybrid cube mesh, 6 links per GPU (`nvidia-smi topo -m`)."""

DGX1_PASCAL_LINKS: LinksByPair = dict.fromkeys(
    [*combinations(range(4), 2), *combinations(range(4, 8), 2), (0, 4), (1, 5), (2, 6), (3, 7)],
    1,
)
"""NVLinks of the DGX-1 with P100: two full meshes of four and four cross links, 4 links per GPU."""


def _first_four(links_by_pair: LinksByPair) -> LinksByPair:
    return {pair: links for pair, links in links_by_pair.items() if max(pair) < 4}  # noqa: PLR2004


def _mesh_of_four(links: int) -> LinksByPair:
    return dict.fromkeys(combinations(range(4), 2), links)


@dataclass(frozen=True)
class Board:
    """A kind of GPU board: which products mean it, and how its GPUs are joined for each count.

    `product` is a pattern for the GFD product without `NVIDIA-` and suffixes. `switched_counts` sit behind NVSwitches with
    `links_per_gpu` links each; `direct` gives the links by pair. `pcie_pairs` are GPUs under one PCIe switch, on sockets of one
    host bridge. `gpus_per_socket` None means two equal halves from four GPUs on; a PCIe board may sit in any server, so
    nothing is said about its sockets. `gbps_per_link` also serves to read measured link counts of bridged boards.
    """

    name: str
    product: str
    pcie_gbps: int
    gbps_per_link: float = 25.0
    links_per_gpu: int = 0
    switched_counts: tuple[int, ...] = ()
    direct: Mapping[int, LinksByPair] = field(default_factory=dict)
    gpus_per_socket: int | None = None
    pcie_pairs: tuple[tuple[int, int], ...] = ()
    is_pcie_board: bool = False


_DGX1P = {8: DGX1_PASCAL_LINKS, 4: _first_four(DGX1_PASCAL_LINKS)}
_DGX1V = {8: DGX1_VOLTA_LINKS, 4: _first_four(DGX1_VOLTA_LINKS)}
_BY_TWOS = ((0, 2), (1, 3), (4, 6), (5, 7))
_IN_ROW = ((0, 1), (2, 3), (4, 5), (6, 7))

BOARDS = (
    Board("P100 SXM2", r"Tesla-P100-SXM2-.*", PCIE3_X16_GBPS, 20.0, 4, (), _DGX1P, 4, _BY_TWOS),
    Board("V100 SXM2", r"Tesla-V100-SXM2-.*", PCIE3_X16_GBPS, 25.0, 6, (), _DGX1V, 4, _IN_ROW),
    Board("V100 SXM3", r"Tesla-V100-SXM3-.*", PCIE3_X16_GBPS, 25.0, 6, (2, 4, 8, 16)),
    Board("A100 SXM", r"A100-SXM.*", PCIE4_X16_GBPS, 25.0, 12, (2, 8, 16), {4: _mesh_of_four(4)}),
    Board("A800 SXM", r"A800-SXM.*", PCIE4_X16_GBPS, 25.0, 8, (2, 8)),
    Board("H100 PCIe", r"H100-(PCIe|NVL).*|H200-NVL.*|H800-PCIe.*", PCIE5_X16_GBPS, is_pcie_board=True),
    Board("H800 SXM", r"H800.*", PCIE5_X16_GBPS, 25.0, 8, (2, 8)),
    Board("H100 SXM", r"H100-.*HBM3.*|H200|H20(-.*)?", PCIE5_X16_GBPS, 25.0, 18, (2, 8), {4: _mesh_of_four(6)}),
    Board("GH200", r"GH200.*", PCIE5_X16_GBPS, 25.0, 18, (), {4: _mesh_of_four(6)}, 1),
    Board("B200 SXM", r"B200|B300(-SXM.*)?", PCIE5_X16_GBPS, 50.0, 18, (2, 4, 8)),
    Board("GB200 tray", r"GB200|GB300", PCIE5_X16_GBPS, 50.0, 18, (2, 4)),
    Board("A100 PCIe", r"A100-PCIE.*|A100-80GB-PCIe.*|A800-.*PCIe.*|A30(-.*)?", PCIE4_X16_GBPS, is_pcie_board=True),
    Board("A40", r"A40(-.*)?|RTX-A[456]\d00.*|GeForce-RTX-3090.*", PCIE4_X16_GBPS, 14.0625, is_pcie_board=True),
    Board("Ada PCIe", r"L40S?|L4|L20|RTX-.*-Ada.*|GeForce-RTX-4\d+.*", PCIE4_X16_GBPS, is_pcie_board=True),
    Board("Ampere PCIe", r"A10G?|A16|A2|GeForce-RTX-3\d+.*", PCIE4_X16_GBPS, is_pcie_board=True),
    Board("Blackwell PCIe", r"RTX-PRO-.*|GeForce-RTX-5\d+.*", PCIE5_X16_GBPS, is_pcie_board=True),
    Board("Turing PCIe", r"Tesla-T4|Quadro-RTX-.*|GeForce-RTX-2\d+.*", PCIE3_X16_GBPS, is_pcie_board=True),
    Board("Pascal and Volta PCIe", r"Tesla-(V100S?|P100)-PCIE-.*|Tesla-P4\d?", PCIE3_X16_GBPS, is_pcie_board=True),
)
"""First match wins. Links per GPU and their speed: NVIDIA's data sheets of each product."""

_MIG_SUFFIX = re.compile(r"-MIG-.*$")
_SHARED_SUFFIX = re.compile(r"-SHARED$")


def board_of(product: str) -> Board | None:
    """Return the board that a GFD product stands for, whatever its `-SHARED` or `-MIG-…` suffix, or None."""
    bare = _MIG_SUFFIX.sub("", _SHARED_SUFFIX.sub("", product)).removeprefix("NVIDIA-")
    return next((board for board in BOARDS if re.fullmatch(board.product, bare)), None)


def counts_whole_gpus(product: str) -> bool:
    """Tell whether the GPU resource of a GFD product counts whole GPUs: not MIG slices, not shares of GPUs."""
    return _MIG_SUFFIX.search(product) is None and _SHARED_SUFFIX.search(product) is None


def parse_count(text: str) -> int:
    """Return the GPU count of a label; raises TopologyError that names the label and what it may hold."""
    if re.fullmatch(r"[0-9]{1,3}", text) and 1 <= int(text) <= MAX_GPUS:
        return int(text)
    raise TopologyError(
        f"label {COUNT_LABEL}: {text[:63]!r} is not allowed; allowed is a whole number, 1 to {MAX_GPUS}"
    )


@lru_cache(maxsize=512)
def known_machine(product: str, gpu_count: int) -> Machine:
    """Return the machine for a GFD product and count; an unknown pair gives PCIe only with `is_known=False`.

    A product with a MIG suffix counts slices: PCIe only, and `is_whole=False`, as with a `-SHARED` suffix.
    """
    is_mig = _MIG_SUFFIX.search(product) is not None
    is_whole = counts_whole_gpus(product)
    board = board_of(product)
    name = f"{gpu_count} x {product[:63] or 'unnamed GPU'}"
    if board is None or is_mig:
        layout = PcieLayout.of_numa([None] * gpu_count, board.pcie_gbps if board else PCIE4_X16_GBPS)
        return build_machine(name, gpu_count, layout=layout, is_known=board is not None, is_whole=is_whole)
    direct = {
        pair: NvLink(links, round(links * board.gbps_per_link))
        for pair, links in board.direct.get(gpu_count, {}).items()
    }
    uplink = NvLink(board.links_per_gpu, round(board.links_per_gpu * board.gbps_per_link))
    switched = dict.fromkeys(range(gpu_count), uplink) if gpu_count in board.switched_counts else {}
    is_known = bool(direct or switched) or board.is_pcie_board or gpu_count == 1
    layout = _layout(board, gpu_count)
    return build_machine(
        name, gpu_count, layout=layout, direct=direct, switched=switched, is_known=is_known, is_whole=is_whole
    )


def _layout(board: Board, gpu_count: int) -> PcieLayout:
    """Return the sockets that the baseboard fixes, with its PCIe pairs; one NUMA node where nothing is fixed."""
    per_socket = board.gpus_per_socket or gpu_count // 2
    if board.is_pcie_board or gpu_count < 4 or gpu_count % per_socket:  # noqa: PLR2004
        return PcieLayout.of_numa([None] * gpu_count, board.pcie_gbps)
    layout = PcieLayout.of_numa([gpu // per_socket for gpu in range(gpu_count)], board.pcie_gbps)
    if gpu_count not in board.direct or not board.pcie_pairs:
        return layout
    sockets = [range(start, start + per_socket) for start in range(0, gpu_count, per_socket)]
    pairs = [pair for pair in board.pcie_pairs if max(pair) < gpu_count]
    return layout.with_groups(sockets, PcieClass.PHB).with_groups(pairs, PcieClass.PIX)
