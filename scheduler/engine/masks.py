"""Masks: on which rows a part of a gang may stand, for what other gangs, its siblings and its own members are on.

For the gathering and for surplus members.  A mask is an array of bools over the rows, or None for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.topology.fabric import ROOT

from .regions import required_level

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.state.snapshot import Bools, Ints

    from .parts import Part
    from .placement import Placer


class Masks:
    """The rows that are open to parts, with what a placer has placed."""

    def __init__(self, placer: Placer, taken: Mapping[tuple[str, str], Bools]) -> None:
        """Take what is placed; `taken` says, by topology and level, which rows other gangs have for themselves."""
        self._placer = placer
        self._taken = taken

    def open_to(self, part: Part, mask: Bools | None) -> Bools | None:
        """Return the mask without the domains that other gangs have for themselves."""
        if part.constraint.exclusive:
            taken = self._taken.get((part.constraint.topology, part.constraint.exclusive))
            if taken is not None:
                return ~taken if mask is None else mask & ~taken
        return mask

    def at_home(self, part: Part, mask: Bools | None) -> Bools | None:
        """Return the mask within the domain that a part has to stay in, if it is in one already."""
        fabric = part.fabric
        if fabric is None or (level := required_level(fabric, part.constraint)) == ROOT:
            return mask
        placed = self._placer.placed
        mine = [row for _, row in part.placed] + [placed[p.uid][1] for p in part.all_pods() if p.uid in placed]
        if not mine:
            return mask
        inside = np.isin(fabric.of_rows[level], fabric.of_rows[level][np.array(mine, dtype=np.int64)])
        return inside if mask is None else inside & mask

    def apart(self, above: Part, part: Part | None, mask: Bools | None) -> Bools | None:
        """Return the mask without the domains that siblings have for themselves, or that a part may not share with them.

        `part` is one of those directly below; None or `above` for the own pods of the part above.
        """
        part = None if part is above else part
        for sibling in above.parts:
            if sibling is not part:
                for exclusive in (sibling, part) if part is not None else (sibling,):
                    mask = self._without(self._exclusive(exclusive), self._rows_of(sibling), mask)
        if part is not None and (numbers := self._exclusive(part)) is not None:
            mine = {pod.uid for pod in above.pods}
            rows = [row for uid, (_, row) in self._placer.placed.items() if uid in mine]
            mask = self._without(numbers, rows, mask)
        return mask

    def _exclusive(self, part: Part) -> Ints | None:
        """Return the domain of each row on the level of which a part has one for itself; None if it does not ask for it."""
        fabric, level = part.fabric, None
        if fabric is not None and part.constraint.exclusive:
            level = fabric.level_of(part.constraint.exclusive)
        return fabric.of_rows[level] if fabric is not None and level is not None else None

    def _rows_of(self, part: Part) -> list[int]:
        placed = self._placer.placed
        return [row for _, row in part.placed] + [placed[p.uid][1] for p in part.all_pods() if p.uid in placed]

    def _without(self, numbers: Ints | None, rows: list[int], mask: Bools | None) -> Bools | None:
        if numbers is None or not rows:
            return mask
        free = ~np.isin(numbers, numbers[np.array(rows, dtype=np.int64)])
        return free if mask is None else mask & free
