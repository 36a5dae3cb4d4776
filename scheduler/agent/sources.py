"""Asks the sources in turn what the machine looks like: NVML, `nvidia-smi`, then the kernel alone.

For the agent's loop.  The first that answers counts; the kernel tells PCI paths and network adapters for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import SourceError
from .machine import Found, Gpu, spec_of
from .nvidia_smi import read_nvidia_smi, runner
from .nvml import read_nvml
from .sysfs import read_pci_devices

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .sysfs import PciDevices

NAMES = ("nvml", "nvidia-smi", "sysfs")


def read_machine(root: Path, names: tuple[str, ...] = NAMES, nvml: Any = None) -> dict[str, Any] | None:
    """Return the spec of a NodeTopology as JSON, None if the node has no GPU of NVIDIA; SourceError if nobody can tell."""
    problems: list[str] = []
    pci: PciDevices | None = None
    try:
        pci = read_pci_devices(root)
    except SourceError as error:
        problems.append(str(error))
    readers: dict[str, Callable[[], Found]] = {
        "nvml": lambda: read_nvml(nvml),
        "nvidia-smi": lambda: read_nvidia_smi(runner(root)),
        "sysfs": lambda: _of_kernel(pci),
    }
    for name in names:
        try:
            found = readers[name]()
            return spec_of(found, pci) if found.gpus else None
        except SourceError as error:
            problems.append(str(error))
    raise SourceError("; ".join(dict.fromkeys(problems)))


def _of_kernel(pci: PciDevices | None) -> Found:
    """Return the GPUs in the order of their addresses, which is that of the driver's indices, without NVLinks."""
    if pci is None:
        raise SourceError("sysfs: it tells of no PCI devices")
    gpus = (
        Gpu(i, pci_address=device.address, numa_node=device.numa_node) for i, device in enumerate(pci.gpus.values())
    )
    return Found("sysfs", tuple(gpus))
