"""Gang: lets no member of a gang through before the minimum is reserved.

For every profile.  The engine already decides gangs whole, so this is the last line of defence at Permit: should a
third-party Reserve plugin have taken members out, the rest waits here, and is released at the group's deadline.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scheduler.framework.plugin import Plugin
from scheduler.framework.status import Status
from scheduler.model.needs import Needs

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.model import Pod
    from scheduler.state.cluster import ClusterState

NAME = "Gang"


def members_placed(pod: Pod, cluster: ClusterState) -> tuple[int, int]:
    """Return how many members of a pod's gang are on nodes, assumed ones included, and how many have to be.

    Of a gang that goes on below its minimum each member counts for itself.
    """
    key = cluster.gang_of(pod)
    gang = cluster.gangs.get(key) if key is not None else None
    if key is None or gang is None or key in cluster.shrunk:
        return 1, 1
    role_of = cluster.groups.role_of
    placed = Counter(role_of(member) for member in cluster.members(key) if cluster.counts_as_placed(member))
    return sum(placed.values()), sum(placed.values()) + Needs(gang, placed).missing()


class Gang(Plugin):
    """Permit for gangs."""

    NAME = NAME

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Wait until the minimum is reserved; the member that completes it lets the others go."""
        del node_name
        key = self.handle.cluster.gang_of(pod)
        if key is None:
            return None
        placed, needed = state.read((NAME, key)) or members_placed(pod, self.handle.cluster)
        state.write((NAME, key), (placed, needed))
        if placed < needed:
            gang = self.handle.cluster.gangs[key]
            return Status.wait(
                gang.schedule_timeout_seconds, f"{placed} of {needed} members of gang {key} are reserved"
            )
        for waiting in self.handle.waiting():
            if self.handle.cluster.gang_of(waiting.pod) == key:
                self.handle.allow(waiting.pod.uid, NAME)
        return None
