"""Holders: members of other gangs that keep a gang out of domains, as theirs ask for domains of their own.

For the placer and for preemption, which may take them off the snapshot: a domain is free again when the last one is away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.model import Pod
    from scheduler.model.topology_constraint import TopologyConstraint
    from scheduler.state.snapshot import Bools, Ints, Snapshot

    from .parts import Part


class Holder(NamedTuple):
    """A member of a gang that has a domain for itself."""

    pod: Pod
    row: int
    #: It is not there yet: room is being made for it.
    is_nominated: bool


class Holders:
    """The holders of domains, by what a gang asks for."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Begin without any; holders count as long as they are on the snapshot."""
        self._snapshot = snapshot
        self._held: dict[tuple[str, str], tuple[Ints, list[Holder]]] = {}

    def add(self, constraint: TopologyConstraint, numbers: Ints, holders: Iterable[Holder]) -> None:
        """Say who holds domains of the level that a constraint asks for one of; `numbers` are the domains of the rows."""
        self._held[constraint.topology, constraint.exclusive] = numbers, list(holders)

    def taken(self) -> dict[tuple[str, str], Bools]:
        """Return the rows of domains that are held now, by topology and level, shape (rows,). O(holders + rows)."""
        found = {}
        for key, (numbers, holders) in self._held.items():
            rows = [holder.row for holder in holders if self._is_there(holder)]
            found[key] = np.isin(numbers, numbers[np.array(rows, dtype=np.int64)])
        return found

    def within(self, mask: Bools | None) -> Sequence[tuple[Pod, int]]:
        """Return the holders of domains that rows of a mask are in, each once, with their rows."""
        found: dict[str, tuple[Pod, int]] = {}
        for numbers, holders in self._held.values():
            some = None if mask is None else set(numbers[mask].tolist())
            for holder in holders:
                if self._is_there(holder) and (some is None or int(numbers[holder.row]) in some):
                    found[holder.pod.uid] = holder.pod, holder.row
        return list(found.values())

    def keeps_out(self, part: Part, placed: dict[str, tuple[Pod, int]]) -> bool:
        """Tell whether something of a part, or of one below, is placed in a domain that is held now."""
        taken = self.taken()
        return bool(taken) and part.is_any(
            lambda one: (
                bool(one.constraint.exclusive)
                and any(
                    taken[one.constraint.topology, one.constraint.exclusive][placed[pod.uid][1]]
                    for pod in one.all_pods()
                    if pod.uid in placed
                )
            )
        )

    def _is_there(self, holder: Holder) -> bool:
        return holder.is_nominated or holder.pod.uid in self._snapshot.all_rows[holder.row].pods
