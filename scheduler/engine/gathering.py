"""Gathering: places the parts of a gang in the domains of the fabric, each as near together as it can be or must be.

For the placer.  Parts are placed in domains from the tightest to the widest, their pods divided so that few domains are used, and
neighbours in rank on neighbouring nodes (`filling`).  Where one part stands in another's way, other orders and other domains are
tried, a bounded number of them, and small gangs are searched exactly (`exact`) before the next domain of the gang is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import numpy as np

from scheduler.topology.fabric import ROOT

from .exact import place_exactly
from .filling import Filling
from .likeness import Likeness
from .masks import Masks
from .parts import Part, segments_of
from .regions import kinds_of, regions_of, required_level
from .rules import rules_of
from .surplus import Surplus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.model import Pod
    from scheduler.model.needs import Needs
    from scheduler.state.snapshot import Bools, Ints

    from .candidates import Candidate
    from .placement import Placer
    from .regions import Region
    from .rules import Rules

Costs = Generator[int, None, bool]

#: How many node evaluations all tries together may take before the search gives up.
SEARCH_BUDGET = 200_000


class Gathering:
    """One attempt to place a gang."""

    def __init__(
        self, placer: Placer, root: Part, needs: Needs, taken: Mapping[tuple[str, str], Bools],
        rate: Callable[[Ints], int] | None,
    ) -> None:  # fmt: skip
        """Take the gang; `taken` says, by topology and level, which rows other gangs have for themselves."""
        self._placer = placer
        self._root = root
        self._needs = needs
        self._taken = taken
        self._rate = rate
        self._spent_before = placer.evaluations
        self._filling = Filling(placer)
        self._masks = Masks(placer, taken)
        #: Where each shape could have stood when nothing was placed, shape (rows,); only where something is spread.
        self._at_first: dict[Candidate, Bools] = {}
        self._rules: Rules | None = None
        #: In some domain it is not certain that there is no placement.
        self._gave_up = False
        #: The domain that the gang as a whole was placed in.
        self.region: Region | None = None

    def place(self, mask: Bools | None, most: int | None) -> Costs:
        """Place all pods if that is possible in one go, else those that are needed and then what else there is room for.

        `mask` limits the rows; with `most` no more than what is needed is placed.  False leaves nothing placed.
        """
        if self._root.is_any(lambda part: bool(part.constraint.spread)):
            yield from self._placer.evaluate()
            self._at_first = {candidate: candidate.feasible.copy() for candidate in self._placer.candidates}
        for is_whole in (True, False) if most is None else (False,):
            pods = list(self._root.all_pods()) if is_whole else self._root.needed_pods()
            if is_whole and len(pods) == len(self._root.needed_pods()):
                continue
            self._gave_up = self._placer.gave_up = False
            is_placed = yield from self.place_part(self._root, mask, is_whole=is_whole)
            self._placer.gave_up = self._gave_up
            if is_placed and not self._missing():
                if not is_whole and most is None:
                    yield from self.surplus(mask)
                if self._placer.placed:
                    return True
            self._placer.clear()
        return False

    def surplus(self, mask: Bools | None) -> Generator[int, None, None]:
        """Place what is beyond the minimum as far as there is room, where its part may be."""
        yield from Surplus(self, self._placer, self._masks).place(self._root, mask)

    def _missing(self) -> int:
        roles = self._needs.roles
        return self._needs.missing(Counter(roles.get(uid, "") for uid in self._placer.placed))

    def place_part(self, part: Part, mask: Bools | None, *, is_whole: bool) -> Costs:
        """Place a part in the first domain that does; False leaves of it nothing placed."""
        pods = list(part.all_pods()) if is_whole else part.needed_pods()
        if not pods:
            return True
        mask, before = self._masks.open_to(part, mask), set(self._placer.placed)
        yield from self._look_at(part)
        likeness = (
            Likeness(self._placer, pods) if part is self._root and not part.parts and not part.is_divided else None
        )
        seen: set[bytes] = set()
        for region in self._regions(part, mask, len(pods)):
            if likeness is not None and region is not None and region.level != ROOT:
                look = likeness.look(self._rows(part, region, mask))
                if look is not None and look in seen:
                    continue
                seen.update(() if look is None else (look,))
            if (yield from self._within(part, region, mask, pods, is_whole=is_whole)):
                if part is self._root:
                    self.region = region
                return True
            self._placer.take_back(before)
            if self._is_spent():
                self._gave_up = True
                return False
        return False

    def _look_at(self, part: Part) -> Generator[int, None, None]:
        """Bring the shapes of a part's pods up to date."""
        for candidate in self._placer.shapes_of(list(part.all_pods())):
            yield candidate.sync()

    def _regions(self, part: Part, mask: Bools | None, count: int) -> Iterator[Region | None]:
        """Yield the domains to try for so many of a part's pods, any of them, the best first; just None where none are asked for."""
        if part.fabric is None:
            yield None
            return
        wanted = Counter(map(self._placer.candidate, part.all_pods()))
        kinds = kinds_of(list(wanted.items()), self._placer.snapshot.nodes, mask)
        yield from regions_of(part, kinds, count, self._rate)

    def _rows(self, part: Part, region: Region, mask: Bools | None) -> Bools:
        """Return the rows of a domain, of those of a mask."""
        assert part.fabric is not None
        inside: Bools = part.fabric.of_rows[region.level] == region.number
        return inside if mask is None else inside & mask

    def _is_spent(self) -> bool:
        """Tell whether the budget is used up: then the search gives up."""
        is_spent = self._placer.evaluations - self._spent_before > SEARCH_BUDGET
        self._placer.gave_up |= is_spent
        return is_spent

    def _within(
        self, part: Part, region: Region | None, mask: Bools | None, pods: Sequence[Pod], *, is_whole: bool
    ) -> Costs:
        """Place a part inside one domain; False leaves of it nothing placed."""
        inside = mask if region is None or region.level == ROOT else self._rows(part, region, mask)
        before = set(self._placer.placed)
        for order in _orders(part, self._choice, is_whole=is_whole) if part.parts else ((),):
            if part.parts and part.is_divided:
                is_placed = yield from self._across(part, inside, order, is_whole=is_whole)
            elif part.parts:
                wanted = len(part.parts) if is_whole or part.wanted is None else part.wanted
                is_placed = yield from self._joint(part, region, inside, order, wanted, is_whole=is_whole)
            else:
                is_placed = yield from self._own(part, region, inside, len(pods))
            if is_placed and (part is not self._root or not part.parts or self.rules().holds(self._now())):
                return True
            self._placer.take_back(before)
        return part is self._root and (yield from self._exactly(inside, pods, is_whole=is_whole))

    def _exactly(self, mask: Bools | None, pods: Sequence[Pod], *, is_whole: bool) -> Costs:
        """Search the whole gang on rows of a mask; what this finds or rules out is certain, whatever was given up before."""
        root, placer = self._root, self._placer
        some, needs = (pods, None) if is_whole else (list(root.all_pods()), self._needs)
        if not root.parts and not root.is_divided and len(placer.shapes_of(some)) == 1:
            return False  # counted, and refused by Filters: that is certain
        placer.gave_up = False
        is_placed = yield from place_exactly(placer, some, mask, self.rules(), needs)
        self._gave_up |= placer.gave_up
        return is_placed

    def rules(self) -> Rules:
        """Return what the gang demands of the fabric."""
        if self._rules is None:
            self._rules = rules_of(self._root, self._taken, self._open_at_first)
        return self._rules

    def _now(self) -> list[tuple[Pod, int]]:
        return list(self._placer.placed.values())

    def _open_at_first(self, part: Part) -> Bools:
        """Return the rows where some pod of a part could have stood when nothing was placed, shape (rows,)."""
        shapes = self._placer.shapes_of(list(part.all_pods()))
        if not shapes:
            return np.zeros(len(self._placer.snapshot.all_rows), dtype=np.bool_)
        found: Bools = np.logical_or.reduce([self._at_first[candidate] for candidate in shapes])
        return found

    def _choice(self, part: Part) -> int:
        """Return on how few nodes the pickiest pod of a part may stand."""
        candidates = self._placer.shapes_of(list(part.all_pods()))
        return min((int(np.count_nonzero(candidate.feasible)) for candidate in candidates), default=0)

    def _joint(
        self, part: Part, region: Region | None, mask: Bools | None, order: Sequence[Part], wanted: int,
        *, is_whole: bool,
    ) -> Costs:  # fmt: skip
        """Place so many of the parts below in an order, then a part's own pods.

        Where the rest finds no place, the first tries its next domain, as often as the placer has turns left.
        """
        if not wanted or not order:
            return not wanted and (yield from self._rest(part, region, mask, is_whole=is_whole))
        below, before = order[0], set(self._placer.placed)
        pods = list(below.all_pods()) if is_whole else below.needed_pods()
        yield from self._look_at(below)
        open_ = self._masks.apart(part, below, self._masks.open_to(below, mask))
        for there in self._regions(below, open_, len(pods)) if pods else (None,):
            is_placed = not pods or (yield from self._within(below, there, open_, pods, is_whole=is_whole))
            if is_placed:
                if (yield from self._joint(part, region, mask, order[1:], wanted - 1, is_whole=is_whole)):
                    return True
                self._placer.turns_left -= 1
            self._placer.take_back(before)
            if self._placer.turns_left <= 0 or self._is_spent():
                self._placer.gave_up = True
                return False
        if len(order) > wanted:
            return (yield from self._joint(part, region, mask, order[1:], wanted, is_whole=is_whole))
        return False

    def _rest(self, part: Part, region: Region | None, mask: Bools | None, *, is_whole: bool) -> Costs:
        """Place a part's own pods, when those below are placed, and what its minimum asks for beyond theirs, of any part."""
        count = len(part.pods) if is_whole else min(len(part.pods), self._short(part))
        if not (yield from self._own(part, region, self._masks.apart(part, None, mask), count)):
            return False
        if not is_whole and (short := self._short(part)):
            yield from Surplus(self, self._placer, self._masks, short).place(part, mask)
        return is_whole or not self._short(part)

    def _short(self, part: Part) -> int:
        """Return how many more pods of a part have to be placed for its minimum."""
        return max(0, part.minimum - sum(pod.uid in self._placer.placed for pod in part.all_pods()))

    def _own(self, part: Part, region: Region | None, mask: Bools | None, count: int) -> Costs:
        """Place so many of a part's own pods: the first ones, or any if those find no place; False may leave some placed."""
        before = set(self._placer.placed)
        if (yield from self.place_own(part, region, mask, part.pods[:count])):
            return True
        if count == len(part.pods) or part.is_divided or len(self._placer.shapes_of(part.pods)) == 1:
            return False
        self._placer.take_back(before)
        return (yield from self._placer.place_in_orders(part.pods, count, mask, count))

    def _across(self, part: Part, mask: Bools | None, order: Sequence[Part], *, is_whole: bool) -> Costs:
        """Place a part whose segments, or whose spread, go across the parts below."""
        chosen = list(part.all_pods()) if is_whole else part.needed_pods()
        if part.constraint.segment_size:
            return (yield from self._segments(part, mask, chosen))
        fabric = part.fabric
        assert fabric is not None
        found = self._filling.shares(part, mask, self._open_at_first(part), chosen)
        if found is None:
            return False
        level = fabric.level_of(part.constraint.spread)
        assert level is not None
        numbers, left = found
        wanted = {pod.uid for pod in chosen}
        for below in (*order, part):
            pods = [pod for pod in (part.pods if below is part else below.all_pods()) if pod.uid in wanted]
            while pods:
                slice_ = self._slice(below, pods, is_own=below is part)
                is_one = slice_.fabric is not None and required_level(slice_.fabric, slice_.constraint) != ROOT
                fitting = np.flatnonzero(left >= (len(pods) if is_one else 1))
                if not len(fitting):
                    return False
                some = fitting if is_one else fitting[:1]
                count = len(pods) if is_one else min(len(pods), int(left[some[0]]))
                slice_ = self._slice(below, pods[:count], is_own=below is part)
                inside = np.isin(fabric.of_rows[level], numbers[some])
                inside = inside if mask is None else inside & mask
                if not (yield from self.place_part(slice_, self._masks.apart(part, below, inside), is_whole=True)):
                    return False
                rows = [self._placer.placed[pod.uid][1] for pod in pods[:count]]
                np.subtract.at(left, np.searchsorted(numbers, fabric.of_rows[level][rows]), 1)
                pods = pods[count:]
        return True

    def _slice(self, below: Part, pods: list[Pod], *, is_own: bool) -> Part:
        """Return some pods of a part as a part that keeps to where the others are."""
        if is_own:
            return Part(below.name, pods, len(pods), fabric=below.fabric)
        placed = self._placer.placed
        there = [*below.placed, *(placed[pod.uid] for pod in below.all_pods() if pod.uid in placed)]
        return Part(below.name, pods, len(pods), constraint=below.constraint, fabric=below.fabric, placed=there)

    def _segments(self, part: Part, mask: Bools | None, pods: Sequence[Pod]) -> Costs:
        """Place the segments of a part, one after the other; with parts below, each in slices of these."""
        chosen = {pod.uid for pod in pods}
        for segment in segments_of(part):
            segment.pods = [pod for pod in segment.pods if pod.uid in chosen]
            segment.minimum = len(segment.pods)
            mine = {pod.uid for pod in segment.pods}
            for below in part.parts:
                some = [pod for pod in below.all_pods() if pod.uid in mine]
                if some and below.constraint.levels:
                    segment.parts.append(self._slice(below, some, is_own=False))
                    mine -= {pod.uid for pod in some}
            segment.pods = [pod for pod in segment.pods if pod.uid in mine]
            if not (yield from self.place_part(segment, mask, is_whole=True)):
                return False
        return True

    def place_own(self, part: Part, region: Region | None, mask: Bools | None, pods: Sequence[Pod]) -> Costs:
        """Place pods of one part that has none below it, or its own beside those below."""
        if not pods:
            return True
        constraint = part.constraint
        if part.fabric is not None and not part.parts:
            if constraint.segment_size and (constraint.segment_required or constraint.segment_preferred):
                return (yield from self._segments(part, mask, pods))
            if constraint.spread:
                return (yield from self._filling.spread(part, mask, self._open_at_first(part), pods))
        return (yield from self._filling.fill(part.fabric, region, mask, pods))


def _orders(part: Part, choice: Callable[[Part], int], *, is_whole: bool) -> list[list[Part]]:
    """Return the orders to try: the largest first, the reverse, those with the least choice first; the cheapest, if some will do."""
    largest = sorted(part.parts, key=lambda below: -len(list(below.all_pods()) if is_whole else below.needed_pods()))
    orders = [largest, largest[::-1], sorted(largest, key=choice)]
    if not is_whole and part.wanted is not None:
        orders = [sorted(order, key=lambda below: below.minimum) for order in orders]
    return [order for number, order in enumerate(orders) if order not in orders[:number]]
