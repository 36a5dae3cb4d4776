"""Claimants: pods that stand on nodes of the snapshot, also in a what-if only, and use claims.

For the plugin beside it.  Those whose claims have no devices yet are placed in a what-if, or about to be reserved: they
will want devices, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.state.row_cache import RowFollower

if TYPE_CHECKING:
    from scheduler.model import Pod
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Snapshot


class Claimants(RowFollower):
    """Pods with claims by row, those left out that are assigned: they have what they have."""

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
        pods = [pod for pod in row.pods.values() if pod.claims and not pod.node_name]
        if pods:
            self.by_row[index] = pods
        else:
            self.by_row.pop(index, None)


def claimants_of(snapshot: Snapshot) -> Claimants:
    """Return the claimants of a snapshot, up to date."""
    return snapshot.follower("claimants of devices", Claimants)
