"""Claimants: pods that stand on nodes of the snapshot, also in a what-if only, and use claims.

For the plugin beside it.  Those whose claims have no devices yet are placed in a what-if, or about to be reserved: they
will want devices, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.state.row_cache import RowFollower

from .answers import waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model import Pod
    from scheduler.model.device_claims import DeviceClaim
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Nodes, Snapshot

    from .answers import Claimant
    from .world import World


class Claimants(RowFollower):
    """Pods that use claims, or ask for extended resources, by row; those left out that are assigned: they have what they have."""

    def __init__(self) -> None:
        """Start without rows."""
        super().__init__()
        self.by_row: dict[int, list[Pod]] = {}

    def fill(self, snapshot: Snapshot) -> None:
        """Look at all rows."""
        self.by_row = {}
        for index, row in enumerate(snapshot.all_rows):
            self.update(index, row)

    def update(self, index: int, row: Row) -> None:
        """Look at one row."""
        pods = [pod for pod in row.pods.values() if (pod.claims or pod.extended) and not pod.node_name]
        if pods:
            self.by_row[index] = pods
        else:
            self.by_row.pop(index, None)


def claimants_of(snapshot: Snapshot) -> Claimants:
    """Return the claimants of a snapshot, up to date."""
    return snapshot.follower("claimants of devices", Claimants)


def others_for(
    world: World, pod: Pod | None, claims: Sequence[DeviceClaim], index: int, nodes: Nodes
) -> list[Claimant]:
    """Return the pods but this one that are placed and have no devices yet, as far as they matter for claims on a row."""
    known, rows = claimants_of(nodes.snapshot).by_row, nodes.snapshot.all_rows
    if not known:
        return []
    where = [index] if _is_local(world, claims) else sorted(known)
    placed = ((other, rows[row].node) for row in where for other in known.get(row, ()))
    return waiting(world, (pair for pair in placed if pod is None or pair[0].uid != pod.uid))


def others_everywhere(world: World, claims: Sequence[DeviceClaim], nodes: Nodes) -> list[Claimant] | None:
    """Return those others at once if they are the same for every node; else None."""
    open_claims = [claim for claim in claims if claim.allocation is None]
    return None if _is_local(world, open_claims) else others_for(world, None, open_claims, -1, nodes)


def lifted(live: Row | None, row: Row) -> list[Pod]:
    """Return the pods that a what-if has taken off a node; `live` is the node as it is."""
    if live is None or len(live.pods) <= len(row.pods):
        return []
    return [pod for uid, pod in live.pods.items() if uid not in row.pods and pod.node_name]


def _is_local(world: World, claims: Sequence[DeviceClaim]) -> bool:
    """Tell whether only pods on a node itself matter for what claims get there: no device and no claim is shared."""
    return not world.catalog.has_shared and all(claim.controller is not None for claim in claims)
