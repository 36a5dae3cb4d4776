"""What NVML tells: GPUs with their NVLinks, read through `pynvml` (the package nvidia-ml-py), which need not be installed.

For `sources`.  NVML needs the driver's library in the container; where either is missing, the next source is asked.
"""

from __future__ import annotations

import importlib
from typing import Any

from .errors import SourceError
from .machine import Found, Gpu, Link
from .sysfs import pci_address

#: GB/s per direction of one link, by NVML's version of NVLink (see `topology.graph` for the sources).
GBPS_BY_VERSION = {1: 20.0, 2: 25.0, 3: 25.0, 4: 25.0, 5: 50.0}
_GBPS_OTHERWISE = 25.0
_MOST_LINKS = 18


def read_nvml(nvml: Any = None) -> Found:
    """Return all GPUs; SourceError if NVML is not there or fails. `nvml` stands in for the module."""
    try:
        nvml = nvml or importlib.import_module("pynvml")
    except ImportError as error:
        raise SourceError("nvml: the package nvidia-ml-py is not installed") from error
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise SourceError(f"nvml: {error}") from error
    try:
        return Found("nvml", _gpus(nvml))
    except nvml.NVMLError as error:
        raise SourceError(f"nvml: {error}") from error
    finally:
        nvml.nvmlShutdown()


def _gpus(nvml: Any) -> tuple[Gpu, ...]:
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    addresses = [pci_address(_text(nvml.nvmlDeviceGetPciInfo(handle).busId)) for handle in handles]
    by_address = {address: index for index, address in enumerate(addresses)}
    gpus = []
    for index, handle in enumerate(handles):
        peers, switch = _links(nvml, handle, by_address)
        uuid = _text(nvml.nvmlDeviceGetUUID(handle))
        gpus.append(Gpu(index, uuid, addresses[index], peers=peers, switch=switch))
    return tuple(gpus)


def _links(nvml: Any, handle: Any, by_address: dict[str, int]) -> tuple[dict[int, Link], Link | None]:
    """Return the NVLinks of a GPU that are up: those to other GPUs, and those to NVSwitches."""
    ends: list[tuple[int | None, float]] = []
    for link in range(_MOST_LINKS):
        try:
            if nvml.nvmlDeviceGetNvLinkState(handle, link) != nvml.NVML_FEATURE_ENABLED:
                continue
            gbps = GBPS_BY_VERSION.get(nvml.nvmlDeviceGetNvLinkVersion(handle, link), _GBPS_OTHERWISE)
            kind = nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)
            if kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
                ends.append((None, gbps))
            elif kind == nvml.NVML_NVLINK_DEVICE_TYPE_GPU:
                remote = pci_address(_text(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId))
                ends.append((by_address[remote], gbps))
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
            break  # there are no more links
        except KeyError:
            continue  # it leads to a GPU that this container does not see
    found = {end: [gbps for other, gbps in ends if other == end] for end, _ in ends}
    totals = {end: Link(len(speeds), round(sum(speeds))) for end, speeds in found.items()}
    return {end: link for end, link in totals.items() if end is not None}, totals.get(None)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
