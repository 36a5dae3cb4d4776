"""NodeTopology objects as they come over the wire, and what scheduling reads of them.

For the edges, which watch or load them, and for `topology`, which makes machines of them.  The spec tells the machine and seldom
changes; the status tells who has which GPU and changes with every pod.  `node_topology_crd` says what the fields mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from .api import ObjectMeta
from .times import parse_time
from .volume_api import ApiStruct

NODE_TOPOLOGY_RESOURCE: Final = "nodetopologies"


class ApiPeer(ApiStruct, frozen=True):
    """NVLinks of a GPU to another one, or to the NVSwitches."""

    gpu: int = -1
    links: int | None = None
    gigabytes_per_second: int = 0


class ApiGpu(ApiStruct, frozen=True):
    """A GPU."""

    index: int = -1
    uuid: str = ""
    pci_address: str = ""
    numa_node: int | None = None
    nvlink_peers: list[ApiPeer] | None = None
    nvswitch: ApiPeer | None = None
    pcie_path: list[str] | None = None


class ApiNic(ApiStruct, frozen=True):
    """A network adapter."""

    name: str = ""
    pci_address: str = ""
    numa_node: int | None = None
    rail: int | None = None
    pcie_path: list[str] | None = None


class ApiMachine(ApiStruct, frozen=True):
    """The spec."""

    source: str = ""
    pcie_gigabytes_per_second: int | None = None
    gpus: list[ApiGpu] | None = None
    nics: list[ApiNic] | None = None


class ApiFree(ApiStruct, frozen=True):
    """What is free."""

    gpus: tuple[int, ...] = ()


class ApiHolder(ApiStruct, frozen=True):
    """What one pod has."""

    pod: str = ""
    gpus: tuple[int, ...] = ()


class ApiReport(ApiStruct, frozen=True):
    """The status."""

    observed_time: str | None = None
    free: ApiFree | None = None
    allocations: list[ApiHolder] | None = None


class ApiNodeTopology(ApiStruct, frozen=True):
    """A NodeTopology (scheduling.ai-scheduler.io/v1alpha1), cluster-scoped, with the name of its node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ApiMachine = ApiMachine()
    status: ApiReport = ApiReport()


class Links(NamedTuple):
    """NVLinks of a pair of GPUs, or of a GPU to the NVSwitches; `links` is None where only the bandwidth is told."""

    links: int | None
    #: GB/s per direction, summed.
    gbps: int


@dataclass(frozen=True, slots=True)
class ToldGpu:
    """A GPU as an object tells of it, without what tells it from those of other nodes."""

    index: int
    numa: int | None
    peers: tuple[tuple[int, Links], ...]
    switch: Links | None
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToldNic:
    """A network adapter as an object tells of it."""

    name: str
    numa: int | None
    rail: int | None
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToldMachine:
    """What the spec tells; equal for nodes of one type, and hashable."""

    gpus: tuple[ToldGpu, ...]
    nics: tuple[ToldNic, ...]
    #: GB/s per direction; None if not told.
    pcie_gbps: int | None


class DeviceReport(NamedTuple):
    """Which GPUs were free when, and who had which."""

    #: Seconds since the epoch.
    observed: float
    free: tuple[int, ...]
    #: Namespace and name of a pod to its GPUs; None if the agent does not tell.
    held: dict[str, tuple[int, ...]] | None


class NodeTopology(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What the agent of a node says of it."""

    name: str
    uid: str = ""
    machine: ToldMachine
    #: None if nobody told what is free.
    report: DeviceReport | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Where it is kept: it has no namespace."""
        return "", self.name


def node_topology_from_api(api: ApiNodeTopology) -> NodeTopology:
    """Return the view of an object; whether its parts fit each other is looked at where a machine is made of it."""
    spec = api.spec
    machine = ToldMachine(
        gpus=tuple(sorted((_gpu(gpu) for gpu in spec.gpus or ()), key=lambda gpu: gpu.index)),
        nics=tuple(ToldNic(n.name, n.numa_node, n.rail, tuple(n.pcie_path or ())) for n in spec.nics or ()),
        pcie_gbps=spec.pcie_gigabytes_per_second,
    )
    return NodeTopology(name=api.metadata.name, uid=api.metadata.uid, machine=machine, report=_report(api.status))


def _gpu(gpu: ApiGpu) -> ToldGpu:
    peers = ((peer.gpu, Links(peer.links, peer.gigabytes_per_second)) for peer in gpu.nvlink_peers or ())
    switch = None if gpu.nvswitch is None else Links(gpu.nvswitch.links, gpu.nvswitch.gigabytes_per_second)
    return ToldGpu(
        gpu.index, gpu.numa_node, tuple(sorted(peers, key=lambda peer: peer[0])), switch, tuple(gpu.pcie_path or ())
    )


def _report(status: ApiReport) -> DeviceReport | None:
    observed = parse_time(status.observed_time)
    if status.free is None or observed is None:
        return None
    held = None
    if status.allocations is not None:
        held = {holder.pod: tuple(sorted(holder.gpus)) for holder in status.allocations}
    return DeviceReport(observed, tuple(sorted(status.free.gpus)), held)
