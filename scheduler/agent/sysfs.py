"""What the kernel tells of PCI devices: GPUs, network adapters that do RDMA, their NUMA nodes and what is between them.

For the other sources, which know NVLinks but not the paths, and alone where no driver answers.  It reads below
`ROOT/sys/bus/pci/devices` and nothing else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from .errors import SourceError

if TYPE_CHECKING:
    from pathlib import Path

NVIDIA = 0x10DE
#: The first two bytes of a PCI class: display controllers (VGA, 3D), and network controllers (Ethernet, InfiniBand, other).
_DISPLAY, _NETWORK = (0x0300, 0x0302), (0x0200, 0x0207, 0x0280)
_ADDRESS = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")


class PciDevice(NamedTuple):
    """A device on PCI."""

    address: str
    #: None where the machine does not tell.
    numa_node: int | None
    #: From the root complex to the bridge above the device.
    path: tuple[str, ...]
    #: What the driver calls it: of a network adapter its RDMA device, such as mlx5_0.
    name: str = ""


class PciDevices(NamedTuple):
    """What was found, by address."""

    gpus: dict[str, PciDevice]
    nics: dict[str, PciDevice]


def pci_address(text: str) -> str:
    """Return an address as sysfs writes it: `00000000:3B:00.0` is `0000:3b:00.0`; SourceError if it is none."""
    found = _ADDRESS.fullmatch(text.strip())
    if found is None:
        raise SourceError(f"{text!r} is no PCI address; allowed are such as 0000:3b:00.0")
    domain, bus, device, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function}".lower()


def read_pci_devices(root: Path) -> PciDevices:
    """Return GPUs of NVIDIA and RDMA adapters, by address and in its order; SourceError if there is no PCI at all."""
    folder = root / "sys/bus/pci/devices"
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise SourceError(f"sysfs: {folder} cannot be read: {error.strerror}") from error
    gpus: dict[str, PciDevice] = {}
    nics: dict[str, PciDevice] = {}
    for entry in entries:
        kind, vendor = _number(entry / "class"), _number(entry / "vendor")
        if kind is None or _ADDRESS.fullmatch(entry.name) is None:
            continue
        if vendor == NVIDIA and kind >> 8 in _DISPLAY:
            gpus[entry.name] = _device(entry, "")
        elif kind >> 8 in _NETWORK and (name := _rdma_name(entry)):
            nics[entry.name] = _device(entry, name)
    return PciDevices(gpus, nics)


def _device(entry: Path, name: str) -> PciDevice:
    numa = _number(entry / "numa_node")
    return PciDevice(entry.name, None if numa is None or numa < 0 else numa, _path(entry), name)


def _path(entry: Path) -> tuple[str, ...]:
    """Return what is above a device: the parts of its folder below `/sys/devices` that are root complexes or PCI devices."""
    parts = entry.resolve().parts
    above = [part for part in parts[:-1] if part.startswith("pci") or _ADDRESS.fullmatch(part)]
    start = next((n for n, part in enumerate(above) if re.fullmatch(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", part)), len(above))
    return tuple(above[start:])


def _rdma_name(entry: Path) -> str:
    """Return the RDMA device of an adapter; empty if it has none."""
    try:
        return min((child.name for child in (entry / "infiniband").iterdir()), default="")
    except OSError:
        return ""


def _number(file: Path) -> int | None:
    """Return a number as sysfs writes it, or None if it is not there."""
    try:
        return int(file.read_text().strip(), 0)
    except (OSError, ValueError):
        return None
