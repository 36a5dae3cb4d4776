"""Filling: puts pods of one part on the rows of domains: divided by counting, spread evenly, one by one where counting was wrong.

For the gathering, which has chosen the domain.  What counts is checked by every Filter as it is placed; where what is counted was
too hopeful, the rest is divided anew.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import numpy as np

from scheduler.topology.dividing import divide, even

from .bounds import places
from .exact import place_exactly
from .regions import Region, kinds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model import Pod
    from scheduler.state.snapshot import Bools, Ints
    from scheduler.topology.fabric import Fabric

    from .candidates import Candidate
    from .parts import Part
    from .placement import Placer

Costs = Generator[int, None, bool]


class Filling:
    """Fills domains with pods of a placer."""

    def __init__(self, placer: Placer) -> None:
        """Take whose pods."""
        self._placer = placer

    def fill(self, fabric: Fabric | None, region: Region | None, mask: Bools | None, pods: Sequence[Pod]) -> Costs:
        """Place pods on the rows of a domain: divided by shape, else one by one in several orders, else by exact search."""
        placer, before = self._placer, set(self._placer.placed)
        if fabric is not None and region is not None:
            by_shape: dict[Candidate, list[Pod]] = {}
            for pod in pods:
                by_shape.setdefault(placer.candidate(pod), []).append(pod)
            shapes = placer.largest_first(list(by_shape))
            for order in (shapes, shapes[::-1]) if len(shapes) > 1 else (shapes,):
                is_done = True
                for candidate in order:
                    if not (yield from self._divide(fabric, region, mask, candidate, by_shape[candidate])):
                        is_done = False
                        break
                if is_done:
                    return True
                placer.take_back(before)
            if len(shapes) == 1:
                return False
        if (yield from placer.place_in_orders(pods, len(pods), mask)):
            return True
        placer.take_back(before)
        return (yield from place_exactly(placer, pods, mask))

    def shares(self, part: Part, mask: Bools | None, open_: Bools, pods: Sequence[Pod]) -> tuple[Ints, Ints] | None:
        """Return the domains of the level that a part is spread over, and how many pods each takes; None if that cannot be.

        `open_` are the rows where a pod of the part could have stood when nothing was placed: their domains take part.
        """
        fabric = part.fabric
        assert fabric is not None
        level = fabric.level_of(part.constraint.spread)
        assert level is not None
        wanted = [(candidate, sum(self._placer.candidate(pod) is candidate for pod in pods))
                  for candidate in self._placer.shapes_of(pods)]  # fmt: skip
        kinds = kinds_of(wanted, self._placer.snapshot.nodes, mask)
        room = np.sum([fabric.totals(level, kind.slots) for kind in kinds], axis=0)
        numbers, there = _taking_part(part, level, mask, open_)
        taken = even(there, room[numbers], len(pods))
        return None if taken is None else (numbers, taken)

    def spread(self, part: Part, mask: Bools | None, open_: Bools, pods: Sequence[Pod]) -> Costs:
        """Divide pods evenly among the domains of a level: by counting, else one by one."""
        fabric, before = part.fabric, set(self._placer.placed)
        assert fabric is not None
        level = fabric.level_of(part.constraint.spread)
        assert level is not None
        found = self.shares(part, mask, open_, pods)
        left, is_done = list(pods), found is not None
        for number, share in zip(*(array.tolist() for array in found), strict=True) if found is not None else ():
            mine, left = left[:share], left[share:]
            inside = _inside(fabric.of_rows[level] == number, mask)
            if mine and not (yield from self.fill(fabric, Region(level, number), inside, mine)):
                is_done = False
                break
        if is_done:
            return True
        self._placer.take_back(before)
        return (yield from self._deal(part, level, mask, open_, pods))

    def _deal(self, part: Part, level: int, mask: Bools | None, open_: Bools, pods: Sequence[Pod]) -> Costs:
        """Place pods one by one, the largest first, each in one of the domains that have the fewest."""
        fabric, placer = part.fabric, self._placer
        assert fabric is not None
        numbers, there = _taking_part(part, level, mask, open_)
        turn = {candidate: k for k, candidate in enumerate(placer.largest_first(placer.shapes_of(pods)))}
        left = sorted(pods, key=lambda pod: turn[placer.candidate(pod)])
        while left:
            lowest = numbers[there == there.min()] if len(there) else numbers
            inside = _inside(np.isin(fabric.of_rows[level], lowest), mask)
            for pod in {placer.candidate(pod): pod for pod in reversed(left)}.values():
                before = placer.evaluations
                row = placer.choose(pod, inside)
                yield max(1, placer.evaluations - before)
                if row is not None:
                    placer.put(pod, row)
                    left.remove(pod)
                    there[numbers == fabric.of_rows[level][row]] += 1
                    break
            else:
                return False
        return True

    def _divide(
        self, fabric: Fabric, region: Region, mask: Bools | None, candidate: Candidate, pods: Sequence[Pod]
    ) -> Costs:
        """Place equal pods on a domain's rows, as `divide` says; what a Filter refuses is divided anew."""
        placer = self._placer
        left, refused = list(pods), np.zeros(len(placer.snapshot.all_rows), dtype=np.bool_)
        while left:
            yield candidate.sync()
            where = candidate.feasible & ~refused
            where = where if mask is None else where & mask
            slots = np.minimum(places(candidate.asks, placer.snapshot.nodes, where), len(left))
            shares = divide(fabric, region.level, region.number, slots, len(left), candidate.worth())
            if shares is None:
                placer.halted(candidate)
                return False
            rows = fabric.order[shares[fabric.order] > 0]
            seats = np.repeat(rows, shares[rows]).tolist()
            left = yield from self._seat(candidate, list(zip(left, seats, strict=True)), refused)
        return True

    def _seat(
        self, candidate: Candidate, seats: list[tuple[Pod, int]], refused: Bools
    ) -> Generator[int, None, list[Pod]]:
        """Put pods on rows, one on each at a time; return those that some Filter refused, and mark the rows."""
        placer = self._placer
        homeless: list[Pod] = []
        while seats:
            later: list[tuple[Pod, int]] = []
            touched: set[int] = set()
            is_independent = True
            for pod, row in seats:
                if row in touched or not is_independent:
                    later.append((pod, row))
                elif refused[row] or not candidate.feasible[row]:
                    refused[row] = True
                    homeless.append(pod)
                else:
                    placer.put(pod, row)
                    is_independent = bool(touched) or candidate.is_independent()
                    touched.add(row)
            seats = later
            yield candidate.sync() if seats else 1
        return homeless


def _taking_part(part: Part, level: int, mask: Bools | None, open_: Bools) -> tuple[Ints, Ints]:
    """Return the domains that a part is spread over, sorted, and how many members of it each has."""
    fabric = part.fabric
    assert fabric is not None
    numbers = fabric.of_rows[level]
    members = numbers[part.home]
    domains = np.union1d(numbers[_inside(open_, mask)], members).astype(np.int64)
    return domains, np.bincount(np.searchsorted(domains, members), minlength=len(domains)).astype(np.int64)


def _inside(rows: Bools, mask: Bools | None) -> Bools:
    return rows if mask is None else rows & mask
