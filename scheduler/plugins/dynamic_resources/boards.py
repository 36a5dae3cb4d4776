"""Boards: what every node can do for claims that ask for the same, kept until something changes that it depends on.

For the plugin beside it.  A board is read by Filter and Score; only rows that changed since are asked again, and of nodes that
are alike, with the same devices in use, one is asked for all.

| what changed | rows that are asked again |
|---|---|
| a row of the snapshot: its pods, also in a what-if, or its node | that row |
| a claim with devices: what it has, or who uses it | those that see the pools of these devices |
| a claim of a pod that is placed on a row and waits for devices | that row |
| what is told of a node's machine (NodeTopology) | that row |
| slices, rules for taints, classes | all |
| rows where pods wait for devices, or were taken off in a what-if | those rows, every time |
| where a claim is at fault | those rows, for another claim: the message names it |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.devices.alike import use_of
from scheduler.framework.status import Code, Reason, Status
from scheduler.framework.verdicts import Verdicts
from scheduler.model.node_topology import NodeTopology

from .answers import FULL_FOR_NOW, Answer, without
from .asking import is_refused
from .scoring import connection, preference

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from scheduler.model.device_claims import DeviceClaim
    from scheduler.state.change_log import Mark
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Bools, Ints, Nodes, Snapshot

    from .answers import Claimant
    from .asking import Asking
    from .claimants import Claimants
    from .world import Place

MOST_IN_VAIN = 3
"""On so many nodes the search for devices may give up; then it is not tried on others."""

#: So many boards are kept, and so many answers of each about nodes that are alike.
_MOST_BOARDS = 64
_MOST_ALIKE = 8_192
_OPEN = 0


class Standing(NamedTuple):
    """What a node can do: why not, if it cannot; else how early the alternatives stand, and how well the GPUs are linked."""

    status: Status | None = None
    preferred: int = 0
    linked: int = 0
    gave_up: bool = False


class Boards:
    """Boards by what claims ask for."""

    def __init__(self, asking: Asking) -> None:
        """Start without any."""
        self._asking = asking
        self._kept: dict[tuple[bytes, ...], Board] = {}

    def board(self, claims: Sequence[DeviceClaim], snapshot: Snapshot) -> Board:
        """Return the board for unallocated claims, which knows of every change."""
        key = tuple([self._asking.world.wish(claim) for claim in claims])
        board = self._kept.pop(key, None) or Board(self._asking)
        while len(self._kept) >= _MOST_BOARDS:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = board
        board.attend(claims, snapshot)
        return board


class Board:
    """What every row can do for claims that ask for the same."""

    def __init__(self, asking: Asking) -> None:
        """Start with no row."""
        self._asking = asking
        self._claims: Sequence[DeviceClaim] = ()
        #: By row: 0 if there are devices, else the number of why not; and the scores.
        self._kinds: Ints = _NONE
        self._preferred: Ints = _NONE
        self._linked: Ints = _NONE
        self._numbers: dict[tuple[Code, Reason], int] = {}
        #: Rows to be asked; those that are to be asked every time; those where a claim is at fault, and where the search gave up.
        self._stale: set[int] = set()
        self._unsure: set[int] = set()
        self._errors: set[int] = set()
        self._gave_up: set[int] = set()
        self._alike: dict[Hashable, Standing] = {}
        self._stamps: Hashable = None
        self._claimants: Claimants | None = None
        self._read: tuple[Mark | None, ...] = (None, None, None, None)

    def attend(self, claims: Sequence[DeviceClaim], snapshot: Snapshot) -> None:
        """Take the claims of the pod that is asked for now, and note which rows changed."""
        asking, world = self._asking, self._asking.world
        if self._errors and [claim.key for claim in claims] != [claim.key for claim in self._claims]:
            self._stale |= self._errors
        self._claims = claims
        stamps, claimants = world.stamps(), asking.waiters.sync(snapshot)
        if stamps != self._stamps:
            self._alike.clear()
        is_new = stamps != self._stamps or claimants is not self._claimants
        self._stamps, self._claimants = stamps, claimants
        read = (None, None, None, None) if is_new else self._read
        rows = claimants.changed.since(read[0])
        pools = world.assumed.changed_pools.since(read[1])
        used = world.assumed.changed_claims.since(read[2])
        told = world.objects.changes(NodeTopology).since(read[3])
        self._read = rows[1], pools[1], used[1], told[1]
        if rows[0] is None or pools[0] is None or used[0] is None or told[0] is None or self._is_overfull():
            self._begin(len(snapshot.all_rows))
            return
        stale, row_of = self._stale, snapshot.row_of
        stale.update(rows[0])
        for pool in pools[0]:
            names = world.catalog.nodes_of(pool)
            if names is None:
                stale.update(range(len(self._kinds)))
            else:
                stale.update([row_of[name] for name in names if name in row_of])
        for key in used[0]:
            stale |= claimants.rows_of(key)
        stale.update([row_of[name] for _, name in told[0] if name in row_of])
        stale |= self._unsure
        if world.extended.are_any:
            stale |= claimants.extended
        self._unsure.clear()

    def verdicts(self, nodes: Nodes) -> Verdicts:
        """Return which of some nodes have devices, and why others have none."""
        cut = self._look(nodes)
        verdicts, kinds = Verdicts(len(nodes)), nodes.at(self._kinds)
        if cut is not None:
            kinds = kinds.copy()
            kinds[cut + 1 :] = kinds[cut]
        found = dict.fromkeys(kinds.tolist()) if kinds.any() else {}
        found.pop(_OPEN, None)
        names = list(self._numbers)
        for kind in found:
            code, reason = names[kind - 1]
            where: Bools = kinds == kind
            verdicts.reject(where, code, reason)
        return verdicts

    def scores(self, nodes: Nodes) -> tuple[Ints, Ints]:
        """Return for some nodes how early the alternatives stand, and how well the GPUs are linked; both shapes (len(nodes),)."""
        self._look(nodes)
        return nodes.at(self._preferred), nodes.at(self._linked)

    def _is_overfull(self) -> bool:
        return len(self._numbers) > 2 * len(self._kinds) + _MOST_BOARDS

    def _begin(self, size: int) -> None:
        self._kinds, self._preferred, self._linked = (np.zeros(size, dtype=np.int64) for _ in range(3))
        self._numbers.clear()
        for rows in (self._unsure, self._errors, self._gave_up):
            rows.clear()
        self._stale = set(range(size))

    def _look(self, nodes: Nodes) -> int | None:
        """Ask those of some nodes that have to be asked; return the position after which it is in vain, None if it is not."""
        stale, rows = self._stale, nodes.snapshot.all_rows
        if not stale and not self._gave_up:
            return None
        places = range(len(rows)) if nodes.is_whole else nodes.rows.tolist()
        in_vain = 0
        for position, index in enumerate(places) if self._gave_up or not nodes.is_whole else _both(sorted(stale)):
            if index in stale:
                self._note(index, self._ask(index, rows[index]))
            in_vain += index in self._gave_up
            if in_vain == MOST_IN_VAIN:
                return position
        return None

    def _note(self, index: int, standing: Standing) -> None:
        self._stale.discard(index)
        status, kind = standing.status, _OPEN
        if status is not None:
            kind = self._numbers.setdefault((status.code, status.reasons[0]), len(self._numbers) + 1)
        self._kinds[index], self._preferred[index], self._linked[index] = kind, standing.preferred, standing.linked
        _keep(self._errors, index, is_in=status is not None and status.code is Code.ERROR)
        _keep(self._gave_up, index, is_in=standing.gave_up)

    def _ask(self, index: int, row: Row) -> Standing:
        """Return what a row can do, as everything is now."""
        asking = self._asking
        place, others = asking.world.place(row.node), asking.waiters.on(index)
        freed = asking.freed(row) if asking.releases else []
        if others or freed:
            self._unsure.add(index)
        found = self._standing(place, others, freed)
        if asking.releases and is_refused(found.status) and (gone := asking.releasable(row)):
            emptied = self._standing(place, others, [*freed, *gone])
            if emptied.status is None:
                return Standing(Status.unschedulable(FULL_FOR_NOW))
        return found

    def _standing(self, place: Place, others: Sequence[Claimant], freed: Sequence[DeviceClaim]) -> Standing:
        """Return what a node can do with others served as well, and claims free; from what one that is alike was asked."""
        asking, ledger = self._asking, self._asking.world.assumed.ledger
        if others or not place.model:
            return self._judged(place, asking.answers.ask(self._claims, place, others, freed))
        used = use_of(place.devices(), ledger)
        left = use_of(place.devices(), without(ledger, freed, [place])) if freed else used
        key = (place.model, used, left)
        known = self._alike.get(key)
        if known is None:
            answer = asking.answers.serve(self._claims, place, (), freed)
            known = self._judged(place, answer)
            if answer.is_error:  # it names the node
                return known
            if len(self._alike) >= _MOST_ALIKE:
                self._alike.clear()
            self._alike[key] = known
        return known

    def _judged(self, place: Place, answer: Answer) -> Standing:
        if answer.status is not None:
            return Standing(answer.status, gave_up=answer.gave_up)
        linked = 0
        if self._asking.prefers_connected:
            linked = connection(place, (), answer.given, self._asking.world.assumed.ledger)
        return Standing(None, preference(self._claims, answer.given), linked)


def _keep(rows: set[int], index: int, *, is_in: bool) -> None:
    if is_in:
        rows.add(index)
    elif rows:
        rows.discard(index)


def _both(rows: Sequence[int]) -> list[tuple[int, int]]:
    return [(row, row) for row in rows]


_NONE: Ints = np.zeros(0, dtype=np.int64)
