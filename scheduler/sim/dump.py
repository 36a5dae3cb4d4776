"""The command that dumps a cluster, so that everything that a simulation or an explanation reads is in its input.

For the command line's help and for notes about what an input lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.dialects import DIALECTS
from scheduler.model.gang import PREFIX
from scheduler.model.hypernode import HYPERNODE_GROUP
from scheduler.model.node_resource_topology import GROUP as NUMA_GROUP
from scheduler.model.node_resource_topology import RESOURCE as NUMA_RESOURCE
from scheduler.model.node_topology import NODE_TOPOLOGY_RESOURCE
from scheduler.model.queue_dialects import QUEUE_KINDS
from scheduler.model.topology_api import TOPOLOGY_KINDS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from scheduler.model.dialects import Dialect

#: Those that need no dialect.
DUMP_KINDS = (
    "nodes", "pods", "pc", "jobs", "deploy", "rs", "sts", "ds", "pdb", "ns", "svc", "rc",
    "pvc", "pv", "sc", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments",
    "resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses", "devicetaintrules",
    f"{NUMA_RESOURCE}.{NUMA_GROUP}",
)  # fmt: skip
#: What goes with it: kubectl refuses the whole command for one kind that the cluster does not have.
LEAVE_OUT = "leave out kinds that the cluster does not know"


def dump_command(names: Collection[str] = ("ai-scheduler",), dialects: Sequence[Dialect] = DIALECTS) -> str:
    """Return the command that dumps everything that is read, with the groups, queues and networks of these dialects."""
    sources = (source for dialect in dialects if dialect.name in names for source in dialect.sources)
    groups = [f"{source.resource}.{source.group}" for source in sources if source.resource not in DUMP_KINDS]
    queues = [f"{kind.resource}.{kind.group}" for kind in QUEUE_KINDS if kind.dialect in names]
    return f"kubectl get {','.join((*DUMP_KINDS, *groups, *_networks(names), *queues))} -A -o yaml"


def _networks(names: Collection[str]) -> list[str]:
    found = [f"topologies.{kind.group}" for kind in TOPOLOGY_KINDS if kind.dialect in names]
    found += [f"{NODE_TOPOLOGY_RESOURCE}.{PREFIX}"] if "ai-scheduler" in names else []
    return [*found, f"hypernodes.{HYPERNODE_GROUP}"] if "volcano" in names else found
