"""Makes a Machine of what a NodeTopology object tells, and the closeness of two devices of their PCIe paths.

A path lists what is between the memory and a device, as sysfs has it: the root complex, the root port, then bridges.  Two devices
that share the root complex alone meet in the host bridge; devices that share the root port are joined by switches: by one if at
most one bridge of each lies below what they share, else by several.  Without paths the NUMA nodes count.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from .graph import MAX_GPUS, Machine, NvLink, TopologyError, build_machine
from .pcie import PCIE4_X16_GBPS, PcieClass, PcieLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model.node_topology import Links, ToldGpu, ToldMachine, ToldNic

_DEFAULT_GBPS_PER_LINK = 25.0
#: What the CustomResourceDefinition allows as well; objects from files have not been held against it.
MOST_LINKS, MOST_GBPS, MOST_PCIE_GBPS = 64, 100_000, 1024


@lru_cache(maxsize=512)
def machine_of_told(
    told: ToldMachine, gbps_per_link: float | None = None, pcie_gbps: int | None = None, *, is_whole: bool = True
) -> Machine:
    """Return the machine; `gbps_per_link` serves where numbers of links are left out, `pcie_gbps` where it is not told.

    Raises TopologyError that names the field and what is allowed.
    """
    count = len(told.gpus)
    if [gpu.index for gpu in told.gpus] != list(range(count)) or not 1 <= count <= MAX_GPUS:
        indices = ", ".join(str(gpu.index) for gpu in told.gpus[:MAX_GPUS])
        raise TopologyError(
            f"spec.gpus: indices {indices or 'none'}; allowed are 0, 1, … without a gap, up to {MAX_GPUS}"
        )
    _check_range("spec.pcieGigabytesPerSecond", told.pcie_gbps, MOST_PCIE_GBPS)
    speed = gbps_per_link or _DEFAULT_GBPS_PER_LINK
    return build_machine(
        "told",
        count,
        layout=_layout(told, told.pcie_gbps or pcie_gbps or PCIE4_X16_GBPS),
        direct={pair: _nvlink(links, speed) for pair, links in _direct(told.gpus).items()},
        switched={gpu.index: _nvlink(gpu.switch, speed) for gpu in told.gpus if gpu.switch is not None},
        is_whole=is_whole,
    )


def _nvlink(links: Links, gbps_per_link: float) -> NvLink:
    _check_range("gigabytesPerSecond", links.gbps, MOST_GBPS)
    _check_range("links", links.links, MOST_LINKS)
    return NvLink(links.links or max(1, round(links.gbps / gbps_per_link)), links.gbps)


def _check_range(field: str, value: int | None, most: int) -> None:
    """Raise TopologyError for a number that is told and is not between 1 and the most that is allowed."""
    if value is not None and not 1 <= value <= most:
        raise TopologyError(f"{field}: {value} is not allowed; allowed are whole numbers from 1 to {most}")


def _direct(gpus: Sequence[ToldGpu]) -> dict[tuple[int, int], Links]:
    """Return the direct links by ascending pair; both ends may tell, if they tell the same."""
    direct: dict[tuple[int, int], Links] = {}
    for gpu in gpus:
        for peer, links in gpu.peers:
            path = f"spec.gpus[{gpu.index}].nvlinkPeers"
            pair = (min(gpu.index, peer), max(gpu.index, peer))
            if peer == gpu.index or not 0 <= peer < len(gpus):
                raise TopologyError(
                    f"{path}: gpu {peer} is not allowed; allowed are the other ones of 0 to {len(gpus) - 1}"
                )
            if direct.setdefault(pair, links) != links:
                raise TopologyError(
                    f"{path}: what it says of gpu {peer} differs from what that says; allowed is the same"
                )
    return direct


def _layout(told: ToldMachine, gbps: int) -> PcieLayout:
    """Return the PCIe layout of the GPUs and NICs."""
    devices: list[ToldGpu | ToldNic] = [*told.gpus, *told.nics]
    closeness = np.zeros((len(devices), len(devices)), dtype=np.int64)
    for one, other in combinations(range(len(devices)), 2):
        first, second = devices[one], devices[other]
        found = path_class(first.path, second.path, is_same_numa=first.numa == second.numa)
        closeness[one, other] = closeness[other, one] = int(found)
    nics = tuple(nic.name for nic in told.nics)
    rails = tuple(nic.rail for nic in told.nics)
    return PcieLayout(closeness, tuple(device.numa for device in devices), nics, gbps, rails)


def path_class(one: Sequence[str], other: Sequence[str], *, is_same_numa: bool) -> PcieClass:
    """Return how close two devices are, of what is between the memory and each of them."""
    shared = 0
    for part, its_part in zip(one, other, strict=False):
        if part != its_part:
            break
        shared += 1
    if shared == 0:
        return PcieClass.NODE if is_same_numa else PcieClass.SYS
    if shared == 1:
        return PcieClass.PHB
    return PcieClass.PIX if max(len(one), len(other)) - shared <= 1 else PcieClass.PXB
