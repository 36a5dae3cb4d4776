"""Claimants: pods that stand on nodes of the snapshot, also in a what-if only, and use claims.

For the plugin beside it.  Those whose claims have no devices yet are placed in a what-if, or about to be reserved: they
will want devices, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.state.change_log import ChangeLog
from scheduler.state.row_cache import RowFollower

from .answers import waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model import Pod
    from scheduler.model.device_claims import DeviceClaim
    from scheduler.state.change_log import Mark
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Snapshot

    from .answers import Claimant
    from .world import World

    Key = tuple[str, str]


class Claimants(RowFollower):
    """Pods that use claims, or ask for extended resources, by row; those left out that are assigned: they have what they have."""

    def __init__(self) -> None:
        """Start without rows."""
        super().__init__()
        self.by_row: dict[int, list[Pod]] = {}
        #: Rows where some of them asks for extended resources.
        self.extended: set[int] = set()
        #: Rows that changed, whoever stands there.
        self.changed: ChangeLog[int] = ChangeLog()
        self._rows_of: dict[Key, set[int]] = {}

    def fill(self, snapshot: Snapshot) -> None:
        """Look at all rows."""
        self.by_row.clear()
        self.extended.clear()
        self._rows_of.clear()
        for index, row in enumerate(snapshot.all_rows):
            self.update(index, row)
        self.changed.restart()

    def update(self, index: int, row: Row) -> None:
        """Look at one row."""
        self.changed.note(index)
        for pod in self.by_row.pop(index, ()):
            for key in _names(pod):
                if (rows := self._rows_of.get(key)) is not None:
                    rows.discard(index)
                    if not rows:
                        del self._rows_of[key]
        self.extended.discard(index)
        pods = [pod for pod in row.pods.values() if (pod.claims or pod.extended) and not pod.node_name]
        if not pods:
            return
        self.by_row[index] = pods
        for pod in pods:
            for key in _names(pod):
                self._rows_of.setdefault(key, set()).add(index)
            if pod.extended:
                self.extended.add(index)

    def rows_of(self, claim: Key) -> set[int] | frozenset[int]:
        """Return the rows with a claimant that uses a claim."""
        return self._rows_of.get(claim, frozenset())


class Waiters:
    """Those claimants whose claims have no devices yet, by row; looked at again where a row or a claim changed."""

    def __init__(self, world: World) -> None:
        """Start without rows."""
        self._world = world
        self._claimants: Claimants | None = None
        self._classes = -1
        self._read: tuple[Mark | None, Mark | None] = (None, None)
        self._by_row: dict[int, list[Claimant]] = {}

    def sync(self, snapshot: Snapshot) -> Claimants:
        """Bring everything in line with the snapshot and the claims; return the claimants."""
        world = self._world
        claimants = claimants_of(snapshot)
        if self._claimants is not claimants or self._classes != world.extended.generation:
            self._claimants, self._classes, self._read = claimants, world.extended.generation, (None, None)
        rows, rows_read = claimants.changed.since(self._read[0])
        claims, claims_read = world.assumed.changed_claims.since(self._read[1])
        self._read = rows_read, claims_read
        if rows is None or claims is None:
            self._by_row.clear()
            todo = set(claimants.by_row)
        elif rows or claims or claimants.extended:
            todo = {*rows, *(row for claim in claims for row in claimants.rows_of(claim))}
            if world.extended.are_any:
                todo |= claimants.extended
        else:
            return claimants
        for index in todo:
            self._look(index, claimants, snapshot)
        return claimants

    def on(self, index: int) -> list[Claimant]:
        """Return those on a row."""
        return self._by_row.get(index, [])

    def everywhere(self) -> list[Claimant]:
        """Return all, in the order of rows."""
        return [each for index in sorted(self._by_row) for each in self._by_row[index]] if self._by_row else []

    @property
    def are_any(self) -> bool:
        """There are some."""
        return bool(self._by_row)

    def _look(self, index: int, claimants: Claimants, snapshot: Snapshot) -> None:
        pods = claimants.by_row.get(index)
        node = snapshot.all_rows[index].node
        found = waiting(self._world, ((pod, node) for pod in pods)) if pods else []
        if found:
            self._by_row[index] = found
        else:
            self._by_row.pop(index, None)


def claimants_of(snapshot: Snapshot) -> Claimants:
    """Return the claimants of a snapshot, up to date."""
    return snapshot.follower("claimants of devices", Claimants)


def others_for(
    world: World, waiters: Waiters, pod: Pod, claims: Sequence[DeviceClaim], index: int, snapshot: Snapshot
) -> list[Claimant]:
    """Return the pods but this one that are placed and have no devices yet, as far as they matter for claims on a row."""
    waiters.sync(snapshot)
    found = waiters.on(index) if is_local(world, claims) else waiters.everywhere()
    return [other for other in found if other.pod.uid != pod.uid]


def others_everywhere(
    world: World, waiters: Waiters, claims: Sequence[DeviceClaim], snapshot: Snapshot
) -> list[Claimant] | None:
    """Return those others at once if they are the same for every node; else None."""
    waiters.sync(snapshot)
    open_claims = [claim for claim in claims if claim.allocation is None]
    return None if is_local(world, open_claims) else waiters.everywhere()


def lifted(live: Row | None, row: Row) -> list[Pod]:
    """Return the pods that a what-if has taken off a node; `live` is the node as it is."""
    if live is None or len(live.pods) <= len(row.pods):
        return []
    return [pod for uid, pod in live.pods.items() if uid not in row.pods and pod.node_name]


def is_local(world: World, claims: Sequence[DeviceClaim]) -> bool:
    """Tell whether only pods on a node itself matter for what claims get there: no device and no claim is shared."""
    return not world.catalog.has_shared and all(claim.controller is not None for claim in claims)


def _names(pod: Pod) -> list[Key]:
    return [(pod.namespace, use.claim_name) for use in pod.claims if use.claim_name is not None]
