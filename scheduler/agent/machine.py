"""What a machine looks like, put together: NVLinks from one source, PCI paths and network adapters from the kernel.

For the agent's loop and for its sources, which fill in `Gpu`s.  It makes the `spec` of a NodeTopology, checked by its definition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from scheduler.model.node_topology_crd import NodeTopologySpec

from .errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .sysfs import PciDevice, PciDevices


@dataclass(frozen=True)
class Link:
    """NVLinks, all of one pair or of one GPU to the NVSwitches: how many, and GB/s per direction, summed."""

    links: int
    gbps: int


@dataclass(frozen=True)
class Gpu:
    """A GPU as a source tells of it; the index is that of the driver."""

    index: int
    uuid: str = ""
    pci_address: str = ""
    numa_node: int | None = None
    peers: dict[int, Link] = field(default_factory=dict)
    switch: Link | None = None


@dataclass(frozen=True)
class Found:
    """What one source found."""

    source: str
    gpus: tuple[Gpu, ...]
    #: GB/s per direction; None if it is not told.
    pcie_gbps: int | None = None


def spec_of(found: Found, pci: PciDevices | None) -> dict[str, Any]:
    """Return the spec of a NodeTopology as JSON; SourceError if what was found breaks its rules."""
    spec: dict[str, Any] = {"source": found.source}
    if found.pcie_gbps is not None:
        spec["pcieGigabytesPerSecond"] = found.pcie_gbps
    devices = {} if pci is None else pci.gpus
    spec["gpus"] = [_gpu(gpu, devices.get(gpu.pci_address)) for gpu in sorted(found.gpus, key=lambda gpu: gpu.index)]
    if pci is not None and pci.nics:
        spec["nics"] = _nics(list(pci.nics.values()))
    try:
        NodeTopologySpec.model_validate(spec)
    except ValidationError as error:
        first = error.errors()[0]
        raise SourceError(f"{found.source}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    return spec


def _gpu(gpu: Gpu, device: PciDevice | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"index": gpu.index}
    if gpu.uuid:
        entry["uuid"] = gpu.uuid
    if gpu.pci_address:
        entry["pciAddress"] = gpu.pci_address
    numa = gpu.numa_node if device is None or device.numa_node is None else device.numa_node
    if numa is not None:
        entry["numaNode"] = numa
    if gpu.peers:
        entry["nvlinkPeers"] = [{"gpu": peer} | _link(link) for peer, link in sorted(gpu.peers.items())]
    if gpu.switch is not None:
        entry["nvswitch"] = _link(gpu.switch)
    if device is not None and device.path:
        entry["pciePath"] = list(device.path)
    return entry


def _link(link: Link) -> dict[str, int]:
    return {"links": link.links, "gigabytesPerSecond": link.gbps}


def _nics(devices: Sequence[PciDevice]) -> list[dict[str, Any]]:
    entries = []
    for device in sorted(devices, key=lambda device: (len(device.name), device.name)):
        entry: dict[str, Any] = {"name": device.name, "pciAddress": device.address}
        if device.numa_node is not None:
            entry["numaNode"] = device.numa_node
        if device.path:
            entry["pciePath"] = list(device.path)
        entries.append(entry)
    return entries
