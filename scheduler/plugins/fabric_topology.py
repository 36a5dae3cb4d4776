"""FabricTopology keeps gangs together in the network between nodes: one rack if they fit into one, else one block, and so on.

At GenerateDomains for every gang, also for those that ask for nothing; where a gang asks for levels itself, the engine keeps that
with or without this plugin.  The levels are those of Topology objects or of the node labels that are known (docs/topology.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from scheduler.config import ConfigurationModel
from scheduler.framework.plugin import Plugin

if TYPE_CHECKING:
    from scheduler.framework.handle import Handle
    from scheduler.framework.workload import Workload
    from scheduler.model import TopologyConstraint
    from scheduler.topology.fabric import Fabric

NAME = "FabricTopology"


class FabricTopologyArgs(ConfigurationModel):
    """Arguments of FabricTopology."""

    smallest_gang: int = Field(default=2, ge=1)
    """Gangs with fewer pods that wait are placed by scores alone, unless members of theirs are on nodes already."""


class FabricTopology(Plugin):
    """Keep gangs together."""

    NAME: ClassVar[str] = NAME
    Args = FabricTopologyArgs
    READS_ONE_NODE: ClassVar[bool] = True

    def __init__(self, args: FabricTopologyArgs | None, handle: Handle) -> None:
        """Keep the arguments."""
        super().__init__(args or FabricTopologyArgs(), handle)

    def fabric_for(self, workload: Workload, constraint: TopologyConstraint | None) -> Fabric | None:
        """Return the tree of domains for a gang that is large enough, or that has a place already."""
        gang = workload.gang
        if gang is None:
            return None
        cluster = self.handle.cluster
        is_large = len(workload.pods) >= self.args.smallest_gang
        if is_large or any(map(cluster.counts_as_placed, cluster.members(gang.key))):
            return self.handle.fabric(constraint)
        return None
