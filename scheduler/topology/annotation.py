"""Reads the node annotation `scheduling.ai-scheduler.io/node-topology` into a Machine.

Its value is either the text of `nvidia-smi topo -m`, or compact JSON:

    {"gpus": 8, "links": [[0, 1, 300], [2, 3, 300]], "nvswitch": null, "numa": [0, 0, 0, 0, 1, 1, 1, 1]}

`gpus` is the number of GPUs (1 to 64). `links` are direct NVLinks, each a pair of GPUs and the GB/s per direction between them,
all links of the pair summed. `nvswitch` is the GB/s per direction of each GPU to the NVSwitches, or null. `numa` is the NUMA
node of each GPU. All but `gpus` may be left out.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

import msgspec

from .graph import MAX_GPUS, Machine, NvLink, TopologyError, build_machine
from .parse import MAX_TEXT_BYTES, parse_topology
from .pcie import PCIE4_X16_GBPS, PcieLayout

NODE_TOPOLOGY_ANNOTATION = "scheduling.ai-scheduler.io/node-topology"

MAX_GBPS = 100_000
"""Largest bandwidth that is accepted for one GPU or pair, GB/s per direction; today's largest is 900."""

_GpuCount = Annotated[int, msgspec.Meta(ge=1, le=MAX_GPUS)]
_GpuIndex = Annotated[int, msgspec.Meta(ge=0, lt=MAX_GPUS)]
_Gbps = Annotated[float, msgspec.Meta(gt=0, le=MAX_GBPS)]
_Links = Annotated[
    tuple[tuple[_GpuIndex, _GpuIndex, _Gbps], ...], msgspec.Meta(max_length=MAX_GPUS * (MAX_GPUS - 1) // 2)
]


class NodeTopologyAnnotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The JSON form of the annotation; the module says what the fields mean."""

    gpus: _GpuCount
    links: _Links = ()
    nvswitch: _Gbps | None = None
    numa: (
        Annotated[tuple[Annotated[int, msgspec.Meta(ge=0, lt=1024)], ...], msgspec.Meta(max_length=MAX_GPUS)] | None
    ) = None


def parse_node_topology(text: str, gbps_per_link: float = 25.0, pcie_gbps: int = PCIE4_X16_GBPS) -> Machine:
    """Return the machine of the annotation's value, either form; `gbps_per_link` is used for what the form leaves out.

    The raw text has no speeds, the JSON no numbers of links. Bandwidths are rounded to whole GB/s. Raises TopologyError that
    names the annotation, the field and the allowed values.
    """
    try:
        if text.lstrip()[:1] in {"{", "["}:
            return _machine_of_json(text, gbps_per_link, pcie_gbps)
        return parse_topology(text, "annotated", gbps_per_link, pcie_gbps)
    except TopologyError as error:
        raise TopologyError(f"annotation {NODE_TOPOLOGY_ANNOTATION}: {error}") from error


@lru_cache(maxsize=256)
def _machine_of_json(text: str, gbps_per_link: float, pcie_gbps: int) -> Machine:
    """Decode, check what types cannot say, and build."""
    if len(text) > MAX_TEXT_BYTES:
        raise TopologyError(f"longer than allowed; allowed are {MAX_TEXT_BYTES} bytes")
    try:
        told = msgspec.json.decode(text.encode("utf-8", "replace"), type=NodeTopologyAnnotation)
    except msgspec.DecodeError as error:
        raise TopologyError(f"{error}; allowed are gpus (1 to {MAX_GPUS}), links, nvswitch and numa") from error
    numa = told.numa if told.numa is not None else (None,) * told.gpus
    if len(numa) != told.gpus:
        raise TopologyError(f"numa: {len(numa)} entries; allowed are {told.gpus}, one for each GPU")

    def link(gbps: float) -> NvLink:
        return NvLink(max(1, round(gbps / gbps_per_link)), max(1, round(gbps)))

    return build_machine(
        "annotated",
        told.gpus,
        layout=PcieLayout.of_numa(numa, pcie_gbps),
        direct={pair: link(gbps) for pair, gbps in _gbps_by_pair(told).items()},
        switched=dict.fromkeys(range(told.gpus), link(told.nvswitch)) if told.nvswitch is not None else {},
    )


def _gbps_by_pair(told: NodeTopologyAnnotation) -> dict[tuple[int, int], float]:
    """Return GB/s by ascending pair; a pair twice, a GPU with itself or outside the machine is a TopologyError."""
    gbps_by_pair: dict[tuple[int, int], float] = {}
    for number, (one, other, gbps) in enumerate(told.links):
        pair = (min(one, other), max(one, other))
        if one == other or pair[1] >= told.gpus or pair in gbps_by_pair:
            raise TopologyError(
                f"links[{number}]: [{one}, {other}] is not allowed; "
                f"allowed is each pair of two different GPUs from 0 to {told.gpus - 1} once",
            )
        gbps_by_pair[pair] = gbps
    return gbps_by_pair
