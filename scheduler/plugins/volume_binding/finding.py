"""Finding: on every node at once, whether a pod's claims can be served there, by which volumes, and what is in the way.

For the plugin beside it: what kube-scheduler's FindPodVolumes does node by node.  Of volumes that fit equally well the
one with the first name is taken, where kube-scheduler leaves it to chance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scheduler.model import CSIDriver, CSINode, StorageCapacity, StorageClass
from scheduler.model.csi_migration import MigrationError, migrated
from scheduler.model.storage import NO_PROVISIONER

from .matching import candidates

if TYPE_CHECKING:
    from scheduler.model import Claim, PersistentVolume
    from scheduler.state.snapshot import Bools, Ints, Snapshot

    from .assumed import Assumed
    from .claims import PodClaims
    from .reaches import Reaches

#: Stands for no volume, and for no statement about room.
NONE = -1
#: Equals no index and not NONE.
UNKNOWN = -2


@dataclass(slots=True)
class Binding:
    """A claim, and on each row the volume that it would get: an index into `volumes`, or NONE."""

    claim: Claim
    volumes: list[PersistentVolume]
    #: By the volume's name.
    index_of: dict[str, int]
    choice: Ints


@dataclass(slots=True)
class Provision:
    """A claim, the rows where a volume would be made for it, and how much room there is (bytes, or NONE)."""

    claim: Claim
    where: Bools
    room: Ints


@dataclass(slots=True)
class Found:
    """The answer for all rows of a snapshot; masks of shape (rows,)."""

    #: A bound volume cannot be used there.
    out_of_reach: Bools
    #: No volume fits, and none can be made.
    no_match: Bools
    no_room: Bools
    #: A claim's volume does not exist.
    is_lost: Bools
    #: What makes no sense, and where.
    broken: list[tuple[Bools, str]] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    provisions: list[Provision] = field(default_factory=list)


class Finder:
    """Serves the claims of one pod."""

    def __init__(self, assumed: Assumed, snapshot: Snapshot, reaches: Reaches) -> None:
        """Take where to look."""
        self._assumed = assumed
        self._snapshot = snapshot
        self._reaches = reaches
        self._size = len(snapshot.all_rows)

    def find(self, claims: PodClaims) -> Found:
        """Look for volumes; O(claims · (volumes of the class + nodes)) array work."""
        nowhere: Bools = np.zeros(self._size, dtype=np.bool_)
        found = Found(nowhere.copy(), nowhere.copy(), nowhere.copy(), nowhere)
        self._check_bound(claims.bound, found)
        if claims.waiting:
            selected = [claim for claim in claims.waiting if claim.selected_node is not None]
            open_ = np.ones(self._size, dtype=np.bool_)
            for claim in selected:
                open_ &= self._is_node(claim.selected_node or "")
            found.no_match |= ~open_
            lacking = [(claim, open_.copy()) for claim in selected]
            free = [claim for claim in claims.waiting if claim.selected_node is None]
            free.sort(key=lambda claim: claim.requested_bytes or 0)
            lacking += [(claim, self._match(claim, open_, found)) for claim in free]
            self._provide(lacking, found)
        return found

    def _check_bound(self, claims: tuple[Claim, ...], found: Found) -> None:
        """Check that bound volumes exist and can be used; of several in the way the first counts."""
        left = np.ones(self._size, dtype=np.bool_)
        for claim in claims:
            volume = self._assumed.volume(claim.volume_name)
            if volume is None:
                found.is_lost |= left
                return
            is_usable = self._usable(volume, left, found)
            found.out_of_reach |= left & ~is_usable
            left &= is_usable

    def _usable(self, volume: PersistentVolume, asked: Bools, found: Found) -> Bools:
        """Return where a volume can be used; an in-tree one as its driver's on nodes that have moved to that."""
        usable = self._reaches.mask(volume.reach)
        if volume.in_tree is None:
            return usable
        nodes, rows = self._assumed.objects.all(CSINode).values(), self._snapshot.row_of
        moved = [rows[n.name] for n in nodes if volume.in_tree.plugin in n.migrated_plugins and n.name in rows]
        has_moved = np.zeros(self._size, dtype=np.bool_)
        has_moved[moved] = True
        try:
            return np.where(has_moved, self._reaches.mask(migrated(volume).reach), usable)
        except MigrationError as error:
            found.broken.append((asked & has_moved, f"could not translate pv: {error}"))
            return usable | has_moved

    def _match(self, claim: Claim, open_: Bools, found: Found) -> Bools:
        """Choose the smallest volume that fits on each open row; return the rows where there is none."""
        assumed = self._assumed
        volumes = candidates(claim, assumed.volumes_meant_for(claim), assumed.free_volumes(claim.class_name))
        lacks, choice = open_.copy(), np.full(self._size, NONE, dtype=np.int64)
        left = int(np.count_nonzero(lacks))
        for index, volume in enumerate(volumes):
            if not left:
                break
            rows = np.flatnonzero(lacks) if volume.reach is None else self._reaches.rows(volume.reach)
            if len(rows) == 1:  # most volumes on nodes' own disks: quicker one by one
                row = int(rows[0])
                if not lacks[row] or self._is_taken(volume, row, found.bindings):
                    continue
            else:
                rows = self._without_taken(volume, rows[lacks[rows]], found.bindings)
            choice[rows] = index
            lacks[rows] = False
            left -= len(rows)
        index_of = {volume.name: index for index, volume in enumerate(volumes)}
        found.bindings.append(Binding(claim, volumes, index_of, choice))
        return lacks

    def _is_taken(self, volume: PersistentVolume, row: int, bindings: list[Binding]) -> bool:
        """Tell whether an earlier claim of the pod got the volume on a row."""
        return any(binding.choice[row] == binding.index_of.get(volume.name, UNKNOWN) for binding in bindings)

    def _without_taken(self, volume: PersistentVolume, rows: Ints, bindings: list[Binding]) -> Ints:
        """Return the rows where no earlier claim of the pod got the volume."""
        for binding in bindings:
            if (index := binding.index_of.get(volume.name)) is not None:
                rows = rows[binding.choice[rows] != index]
        return rows

    def _provide(self, lacking: list[tuple[Claim, Bools]], found: Found) -> None:
        """Check that the volumes that lack can be made; of several that cannot the first counts."""
        left = np.ones(self._size, dtype=np.bool_)
        for claim, asked in lacking:
            where = asked & left
            if not where.any():
                continue
            named = self._assumed.objects.get(StorageClass, "", claim.class_name)
            if named is None or named.provisioner in ("", NO_PROVISIONER):
                found.no_match |= where
                left &= ~where
                continue
            is_out = where & ~self._reaches.mask(named.allowed)
            found.no_match |= is_out
            where &= ~is_out
            room = self._room(claim, named)
            if room is None:
                room, is_full = np.full(self._size, NONE, dtype=np.int64), np.zeros(self._size, dtype=np.bool_)
            else:
                is_full = where & (room == NONE)
            found.no_room |= is_full
            left &= ~(is_out | is_full)
            found.provisions.append(Provision(claim, where & ~is_full, room))

    def _room(self, claim: Claim, named: StorageClass) -> Ints | None:
        """Return the room that each row has for a claim, NONE where it is too little; None if nobody counts it."""
        objects, size = self._assumed.objects, claim.requested_bytes
        driver = objects.get(CSIDriver, "", named.provisioner)
        if size is None or driver is None or not driver.has_storage_capacity:
            return None
        room = np.full(self._size, NONE, dtype=np.int64)
        for _, capacity in sorted(objects.all(StorageCapacity).items()):
            limit = capacity.limit_bytes
            if (
                capacity.class_name == named.name
                and capacity.topology is not None
                and limit is not None
                and limit >= size
            ):
                rows = self._reaches.rows(capacity.topology)
                room[rows[room[rows] == NONE]] = max(0, capacity.capacity_bytes or 0)
        return room

    def _is_node(self, name: str) -> Bools:
        """Return the mask of one node."""
        mask = np.zeros(self._size, dtype=np.bool_)
        if (row := self._snapshot.row_of.get(name)) is not None:
            mask[row] = True
        return mask
