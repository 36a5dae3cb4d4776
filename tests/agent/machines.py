"""Machines for tests of the agent: folders as the kernel makes them, and a driver library that says what was recorded."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

DATA = Path(__file__).parents[1] / "topology" / "data"
GPU, INFINIBAND, ETHERNET, BRIDGE = 0x030200, 0x020700, 0x020000, 0x060400
NVIDIA, MELLANOX = 0x10DE, 0x15B3


def add_device(root: Path, *path: str, kind: int = GPU, vendor: int = NVIDIA, numa: int = 0, rdma: str = "") -> Path:
    """Make a device below its root complex and bridges, the last part being its address, with the link in `bus`."""
    folder = root.joinpath("sys/devices", *path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "class").write_text(f"0x{kind:06x}\n")
    (folder / "vendor").write_text(f"0x{vendor:04x}\n")
    (folder / "numa_node").write_text(f"{numa}\n")
    if rdma:
        (folder / "infiniband" / rdma).mkdir(parents=True)
    bus = root / "sys/bus/pci/devices"
    bus.mkdir(parents=True, exist_ok=True)
    (bus / path[-1]).symlink_to(os.path.relpath(folder, bus))
    return folder


def two_gpus(root: Path) -> Path:
    """Make two GPUs and a NIC under one switch, a NIC without RDMA, and somebody else's display."""
    switch = ("pci0000:3a", "0000:3a:00.0", "0000:3b:00.0")
    add_device(root, *switch, "0000:3c:04.0", "0000:3d:00.0")
    add_device(root, *switch, "0000:3c:08.0", "0000:3e:00.0")
    add_device(root, *switch, "0000:3c:0c.0", "0000:3f:00.0", kind=INFINIBAND, vendor=MELLANOX, rdma="mlx5_0")
    add_device(root, "pci0000:00", "0000:00:1f.6", kind=ETHERNET, vendor=0x8086)
    add_device(root, "pci0000:00", "0000:00:02.0", kind=0x030000, vendor=0x1A03, numa=-1)
    return root


class NVMLError(Exception):
    """What the library raises."""


class Driver:
    """Stands in for `pynvml`: GPUs by address, and for each the other end of every link (`switch`, an address, or down)."""

    NVML_FEATURE_ENABLED = 1
    NVML_NVLINK_DEVICE_TYPE_GPU, NVML_NVLINK_DEVICE_TYPE_SWITCH = 0, 2
    NVMLError = NVMLError

    class NVMLError_NotSupported(NVMLError):  # noqa: N801, N818 - the library's name
        """There are no NVLinks."""

    class NVMLError_InvalidArgument(NVMLError):  # noqa: N801, N818 - the library's name
        """There is no such link."""

    def __init__(self, gpus: dict[str, list[str]], version: int = 4, broken: str = "") -> None:
        self.gpus = list(gpus.items())
        self.version = version
        self.broken = broken
        self.is_open = False

    def nvmlInit(self) -> None:  # noqa: N802 - the library's name
        if self.broken:
            raise NVMLError(self.broken)
        self.is_open = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(busId=f"0000{self.gpus[handle][0].upper()}".encode())

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return f"GPU-{handle}"

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:  # noqa: N802
        links = self.gpus[handle][1]
        if not links:
            raise self.NVMLError_NotSupported
        if link >= len(links):
            raise self.NVMLError_InvalidArgument
        return int(links[link] != "down")

    def nvmlDeviceGetNvLinkVersion(self, handle: int, link: int) -> int:  # noqa: N802
        del handle, link
        return self.version

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: int, link: int) -> int:  # noqa: N802
        return 2 if self.gpus[handle][1][link] == "switch" else 0

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: int, link: int) -> Any:  # noqa: N802
        return SimpleNamespace(busId=self.gpus[handle][1][link])


def a_program(root: Path, topology: str, listed: list[tuple[str, str]]) -> Path:
    """Make a `nvidia-smi` that prints a recorded matrix, and a list of addresses and products."""
    program = root / "usr/bin/nvidia-smi"
    program.parent.mkdir(parents=True, exist_ok=True)
    lines = "\n".join(f"{i}, GPU-{i}, {address}, {product}" for i, (address, product) in enumerate(listed))
    program.write_text(
        f"#!/bin/sh\nif [ \"$1\" = topo ]; then cat {DATA / topology}\nelse cat <<'END'\n{lines}\nEND\nfi\n"
    )
    program.chmod(0o755)
    return root
