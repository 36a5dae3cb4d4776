"""NodeTopology: what one node's machine looks like and which of its GPUs are free, as pydantic models for `crds/`.

For the generator, and for whoever writes a NodeTopology from Python: the node agent.  The scheduler itself reads the objects
through `node_topology`.
"""

from datetime import datetime
from typing import Annotated, Final

from pydantic import ConfigDict, Field, JsonValue

from .podgroup import Condition, _Part, _rules

MOST_GPUS: Final = 64
MOST_NICS: Final = 128
_LONGEST_PATH: Final = 16
_MOST_ALLOCATIONS: Final = 256
_PCI_ADDRESS: Final = r"^[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]$"
_ATOMIC: Final[dict[str, JsonValue]] = {"x-kubernetes-list-type": "atomic"}

GpuIndex = Annotated[int, Field(ge=0, le=MOST_GPUS - 1, description="The index of a GPU.")]
PathPart = Annotated[str, Field(min_length=1, max_length=64, description="A root complex, a root port or a bridge.")]


def _map_of(key: str, *rules: tuple[str, str]) -> dict[str, JsonValue]:
    """Return that a list has one entry for each value of a key, with further rules."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key], **_rules(*rules)}


class GpuLink(_Part):
    """NVLinks, all of one pair or all of one GPU to the NVSwitches."""

    links: int | None = Field(default=None, ge=1, le=64)
    """How many NVLinks these are."""
    gigabytes_per_second: int = Field(ge=1, le=100_000)
    """Their bandwidth per direction, all links summed, in GB/s."""


class GpuPeer(GpuLink):
    """The NVLinks of a GPU that lead straight to another one."""

    gpu: GpuIndex
    """The index of the other GPU. One of the two has to name the pair; if both do, they have to say the same."""


class NodeGpu(_Part):
    """One GPU."""

    index: int = Field(ge=0, le=MOST_GPUS - 1)
    """Its index on the node, as `nvidia-smi` counts them: 0, 1, … without a gap."""
    uuid: str | None = Field(default=None, min_length=1, max_length=128)
    """Its UUID, as the device plugin and the kubelet call it."""
    pci_address: str | None = Field(default=None, pattern=_PCI_ADDRESS)
    """Its PCI address, such as `0000:3b:00.0`."""
    numa_node: int | None = Field(default=None, ge=0, le=1023)
    """Its NUMA node; not set where the machine does not tell."""
    nvlink_peers: list[GpuPeer] | None = Field(default=None, max_length=MOST_GPUS, json_schema_extra=_map_of("gpu"))
    """The GPUs that its NVLinks lead to straight."""
    nvswitch: GpuLink | None = None
    """Its NVLinks to the NVSwitches, where the machine has some: every GPU that has them reaches every other one."""
    pcie_path: list[PathPart] | None = Field(default=None, max_length=_LONGEST_PATH, json_schema_extra=_ATOMIC)
    """What is between the memory and the GPU, as sysfs has it: the root complex, the root port, then all bridges, without the
    GPU itself, such as `[pci0000:3a, 0000:3a:00.0, 0000:3b:00.0, 0000:3c:04.0]`. What two devices share says how close they are."""


class NodeNic(_Part):
    """One network adapter that training uses."""

    name: str = Field(min_length=1, max_length=64)
    """What the driver calls it, such as `mlx5_0`."""
    pci_address: str | None = Field(default=None, pattern=_PCI_ADDRESS)
    """Its PCI address."""
    numa_node: int | None = Field(default=None, ge=0, le=1023)
    """Its NUMA node."""
    rail: int | None = Field(default=None, ge=0, le=MOST_NICS - 1)
    """The rail that it is wired to: adapters of one rail, on all nodes, reach each other over the fewest switches."""
    pcie_path: list[PathPart] | None = Field(default=None, max_length=_LONGEST_PATH, json_schema_extra=_ATOMIC)
    """What is between the memory and the adapter, as for GPUs."""


class NodeTopologySpec(_Part):
    """The machine. It changes when hardware does."""

    source: str | None = Field(default=None, max_length=64)
    """Where this was read, such as `nvml`, `nvidia-smi` or `sysfs`."""
    pcie_gigabytes_per_second: int | None = Field(default=None, ge=1, le=1024)
    """The PCIe bandwidth of a GPU per direction, in GB/s."""
    gpus: list[NodeGpu] = Field(
        min_length=1,
        max_length=MOST_GPUS,
        json_schema_extra=_map_of(
            "index",
            ("self.all(x, x.index < size(self))", "indices must be 0, 1, … without a gap"),
            (
                "self.all(x, !has(x.nvlinkPeers) || x.nvlinkPeers.all(y, y.gpu != x.index && y.gpu < size(self)))",
                "nvlinkPeers must name other GPUs of this node",
            ),
        ),
    )
    """All GPUs of the node, those that do not work included."""
    nics: list[NodeNic] | None = Field(default=None, max_length=MOST_NICS, json_schema_extra=_map_of("name"))
    """The network adapters that training uses; not those of the node's own traffic."""


class FreeDevices(_Part):
    """What is free."""

    gpus: list[GpuIndex] = Field(max_length=MOST_GPUS, json_schema_extra={"x-kubernetes-list-type": "set"})
    """The GPUs that work and that no container has."""


class DeviceHolder(_Part):
    """What one pod has."""

    pod: str = Field(min_length=3, max_length=507)
    """Namespace and name, as `namespace/name`."""
    gpus: list[GpuIndex] = Field(max_length=MOST_GPUS, json_schema_extra={"x-kubernetes-list-type": "set"})
    """The GPUs of all its containers."""


class NodeTopologyStatus(_Part):
    """Who has which device; written by the node agent alone."""

    model_config = ConfigDict(
        json_schema_extra=_rules(
            ("!has(self.free) || has(self.observedTime)", "observedTime must say when it was seen what is free")
        )
    )

    observed_time: datetime | None = None
    """When this was seen. What happened later is added by the scheduler."""
    free: FreeDevices | None = None
    """What is free, from the kubelet's pod-resources. If it is not set, the scheduler assumes."""
    allocations: list[DeviceHolder] | None = Field(
        default=None, max_length=_MOST_ALLOCATIONS, json_schema_extra=_map_of("pod")
    )
    """Who has what, from the same answer of the kubelet."""
    conditions: list[Condition] | None = Field(default=None, json_schema_extra=_map_of("type"))
    """The state by aspect; `Ready` is False while the agent cannot read what the machine looks like."""


class NodeTopology(_Part):
    """What one node's machine looks like, and which of its GPUs are free. It has the name of its node."""

    spec: NodeTopologySpec
    """The machine. It changes when hardware does."""
    status: NodeTopologyStatus | None = None
    """Who has which device; written by the node agent alone."""
