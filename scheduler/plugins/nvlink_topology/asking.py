"""What a pod asks for: whole GPUs, NICs by the names of their resources, and how near the NICs have to be.

For the plugin beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scheduler.topology import NIC_SCOPE_ANNOTATION, NicAsk, NicScope, TopologyError, parse_scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.model import Pod

#: Resources that count NICs: device plugins for RDMA and SR-IOV, EFA, and the networks of GKE.
NIC_RESOURCES = (
    "rdma/",
    "nvidia.com/rdma",
    "nvidia.com/mlnx",
    "vpc.amazonaws.com/efa",
    "networking.gke.io.networks/rdma-",
)


class Ask(NamedTuple):
    """How many GPUs and NICs, and how near every NIC has to be; None if anywhere will do."""

    gpus: int
    nics: int = 0
    required: NicScope | None = None

    def near(self, free_nics: int) -> NicAsk:
        """Return the question about NICs of which some are free."""
        return NicAsk(self.nics, free_nics, self.required)


def nics_in(resources: Mapping[str, int], names: Sequence[str]) -> int:
    """Return how many NICs resources count whose name begins with one of the names."""
    return sum(count for resource, count in resources.items() if resource.startswith(tuple(names)))


def ask_of(pod: Pod, gpu_resource: str, nic_names: Sequence[str], scope: str | None) -> Ask:
    """Return what a pod asks for; `scope` counts where the pod names none, and what it names is no scope counts as none."""
    nics = nics_in(pod.requests, nic_names)
    if not nics:
        return Ask(pod.requests.get(gpu_resource, 0))
    named = pod.annotations.get(NIC_SCOPE_ANNOTATION, scope)
    try:
        required = None if named is None else parse_scope(named)
    except TopologyError:
        required = None
    return Ask(pod.requests.get(gpu_resource, 0), nics, required)
