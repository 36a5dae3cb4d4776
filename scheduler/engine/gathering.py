"""Gathering: places the parts of a gang in the domains of the fabric, each as near together as it can be or must be.

For the placer.  Parts are placed in domains from the tightest to the widest, their pods divided so that few domains are used, and
neighbours in rank on neighbouring nodes.  What counts is checked by every Filter as it is placed; where what is counted was too
hopeful, the rest is divided anew, and where shapes differ other orders are tried before the next domain is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import TYPE_CHECKING

import numpy as np

from scheduler.topology.dividing import divide, even
from scheduler.topology.fabric import ROOT

from .bounds import places
from .exact import place_exactly
from .parts import Part, segments_of
from .regions import Region, kinds_of, regions_of, required_level

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.model import Pod
    from scheduler.model.needs import Needs
    from scheduler.state.snapshot import Bools, Ints

    from .candidates import Candidate
    from .placement import Placer

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
        #: The domain that the gang as a whole was placed in.
        self.region: Region | None = None

    def place(self, mask: Bools | None, most: int | None) -> Costs:
        """Place all pods if that is possible in one go, else those that are needed and then what else there is room for.

        `mask` limits the rows; with `most` no more than what is needed is placed.  False leaves nothing placed.
        """
        for is_whole in (True, False) if most is None else (False,):
            pods = list(self._root.all_pods()) if is_whole else self._root.needed_pods()
            if is_whole and len(pods) == len(self._root.needed_pods()):
                continue
            if (yield from self._place(self._root, mask, is_whole=is_whole)) and not self._missing():
                if not is_whole and most is None:
                    yield from self.surplus(mask)
                if self._placer.placed:
                    return True
            self._placer.clear()
        return False

    def surplus(self, mask: Bools | None) -> Generator[int, None, None]:
        """Place what is beyond the minimum as far as there is room, where its part may be."""
        yield from self._surplus(self._root, mask)

    def _missing(self) -> int:
        roles = self._needs.roles
        return self._needs.missing(Counter(roles.get(uid, "") for uid in self._placer.placed))

    def _place(self, part: Part, mask: Bools | None, *, is_whole: bool) -> Costs:
        """Place a part in the first domain that does; False leaves of it nothing placed."""
        pods = list(part.all_pods()) if is_whole else part.needed_pods()
        if not pods:
            return True
        mask = self._open_to(part, mask)
        before = set(self._placer.placed)
        if part.fabric is None:
            if (yield from self._within(part, None, mask, pods, is_whole=is_whole)):
                return True
            self._take_back(before)
            return False
        for candidate in dict.fromkeys(map(self._placer.candidate, pods)):
            yield candidate.sync()
        wanted = Counter(map(self._placer.candidate, pods))
        kinds = kinds_of(list(wanted.items()), self._placer.snapshot.nodes, mask)
        for region in regions_of(part, kinds, len(pods), self._rate):
            if (yield from self._within(part, region, mask, pods, is_whole=is_whole)):
                if part is self._root:
                    self.region = region
                return True
            self._take_back(before)
            if self._placer.evaluations - self._spent_before > SEARCH_BUDGET:
                self._placer.gave_up = True
                return False
        return False

    def _within(
        self, part: Part, region: Region | None, mask: Bools | None, pods: Sequence[Pod], *, is_whole: bool
    ) -> Costs:
        """Place a part inside one domain."""
        inside = mask
        if region is not None and region.level != ROOT:
            assert part.fabric is not None
            inside = part.fabric.of_rows[region.level] == region.number
            inside = inside if mask is None else inside & mask
        if not part.parts:
            return (yield from self._own(part, region, inside, pods))
        largest = sorted(
            part.parts, key=lambda below: -len(list(below.all_pods()) if is_whole else below.needed_pods())
        )
        for order in _different(largest, largest[::-1], sorted(largest, key=self._choice)):
            before = set(self._placer.placed)
            if (yield from self._below(part, region, inside, order, is_whole=is_whole)):
                return True
            self._take_back(before)
        needs = None if is_whole else self._needs
        return (yield from place_exactly(self._placer, pods, needs, inside)) if self._is_free(part) else False

    def _choice(self, part: Part) -> int:
        """Return on how few nodes the pickiest pod of a part may stand."""
        candidates = dict.fromkeys(map(self._placer.candidate, part.all_pods()))
        return min((int(np.count_nonzero(candidate.feasible)) for candidate in candidates), default=0)

    def _below(
        self, part: Part, region: Region | None, mask: Bools | None, order: Sequence[Part], *, is_whole: bool
    ) -> Costs:
        """Place the parts below in an order, as many as are wanted, then a part's own pods."""
        wanted = len(part.parts) if is_whole or part.wanted is None else part.wanted
        if not is_whole and part.wanted is not None:
            order = sorted(order, key=lambda below: below.minimum)
        done = 0
        for below in order:
            if done >= wanted and not is_whole:
                break
            if (yield from self._place(below, mask, is_whole=is_whole)):
                done += 1
                mask = self._without_siblings(below, mask)
        if done < wanted:
            return False
        count = len(part.pods)
        if not is_whole:
            roles = self._needs.roles
            count = min(count, self._needs.missing(Counter(roles.get(uid, "") for uid in self._placer.placed)))
        return (yield from self._own(part, region, mask, part.pods[:count]))

    def _own(self, part: Part, region: Region | None, mask: Bools | None, pods: Sequence[Pod]) -> Costs:
        """Place pods of one part that has none below it."""
        if not pods:
            return True
        constraint, fabric = part.constraint, part.fabric
        if (
            fabric is not None
            and constraint.segment_size
            and (constraint.segment_required or constraint.segment_preferred)
        ):
            chosen = {pod.uid for pod in pods}
            for segment in segments_of(part):
                segment.pods = [pod for pod in segment.pods if pod.uid in chosen]
                segment.minimum = len(segment.pods)
                if not (yield from self._place(segment, mask, is_whole=True)):
                    return False
            return True
        if fabric is not None and constraint.spread:
            return (yield from self._spread(part, mask, pods))
        return (yield from self._fill(part, region, mask, pods))

    def _spread(self, part: Part, mask: Bools | None, pods: Sequence[Pod]) -> Costs:
        """Divide pods evenly among the domains of a level."""
        fabric = part.fabric
        assert fabric is not None
        level = fabric.level_of(part.constraint.spread)
        assert level is not None
        wanted = Counter(map(self._placer.candidate, pods))
        kinds = kinds_of(list(wanted.items()), self._placer.snapshot.nodes, mask)
        room = np.sum([fabric.totals(level, kind.slots) for kind in kinds], axis=0)
        there = (
            np.bincount(fabric.of_rows[level][part.home], minlength=fabric.count(level)) if len(part.home) else 0 * room
        )
        open_ = np.flatnonzero((room > 0) | (there > 0))
        shares = even(there[open_], room[open_], len(pods))
        if shares is None:
            return False
        left = list(pods)
        for number, share in zip(open_.tolist(), shares.tolist(), strict=True):
            mine, left = left[:share], left[share:]
            inside = fabric.of_rows[level] == number
            inside = inside if mask is None else inside & mask
            if mine and not (yield from self._fill(part, Region(level, number), inside, mine)):
                return False
        return True

    def _fill(self, part: Part, region: Region | None, mask: Bools | None, pods: Sequence[Pod]) -> Costs:
        """Place pods on the rows of a domain: divided by shape, else one by one in several orders, else by exact search."""
        placer, before = self._placer, set(self._placer.placed)
        if part.fabric is not None and region is not None:
            by_shape: dict[Candidate, list[Pod]] = {}
            for pod in pods:
                by_shape.setdefault(placer.candidate(pod), []).append(pod)
            shapes = placer.largest_first(list(by_shape))
            for order in (shapes, shapes[::-1]) if len(shapes) > 1 else (shapes,):
                is_done = True
                for candidate in order:
                    if not (yield from self._divide(part, region, mask, candidate, by_shape[candidate])):
                        is_done = False
                        break
                if is_done:
                    return True
                self._take_back(before)
            if len(shapes) == 1:
                return False
        if (yield from placer.place_in_orders(pods, len(pods), mask)):
            return True
        self._take_back(before)
        return (yield from place_exactly(placer, pods, None, mask))

    def _divide(
        self, part: Part, region: Region, mask: Bools | None, candidate: Candidate, pods: Sequence[Pod]
    ) -> Costs:
        """Place equal pods on a domain's rows, as `divide` says; what a Filter refuses is divided anew."""
        placer, fabric = self._placer, part.fabric
        assert fabric is not None
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

    def _surplus(self, part: Part, mask: Bools | None) -> Generator[int, None, None]:
        """Place what is beyond the minimum as far as there is room, where its part may be."""
        mask = self._open_to(part, mask)
        for below in part.parts:
            inside = self._at_home(part, mask)
            if below.minimum and not any(pod.uid in self._placer.placed for pod in below.all_pods()):
                is_there = (yield from self._place(below, inside, is_whole=True)) or (
                    yield from self._place(below, inside, is_whole=False)
                )
                if not is_there:
                    continue  # less than its minimum is no use
            yield from self._surplus(below, inside)
        if part.fabric is not None and (part.constraint.segment_size or part.constraint.spread):
            yield from self._divided_surplus(part, mask)
            return
        for pod in part.pods:
            if pod.uid not in self._placer.placed:
                before = self._placer.evaluations
                if (row := self._placer.choose(pod, self._at_home(part, mask))) is not None:
                    self._placer.put(pod, row)
                yield self._placer.evaluations - before

    def _divided_surplus(self, part: Part, mask: Bools | None) -> Generator[int, None, None]:
        """Place what is beyond the minimum of a part that is spread pod by pod, or in segments each as a whole."""
        placed = self._placer.placed
        rest = [pod for pod in part.pods if pod.uid not in placed]
        units = [[pod] for pod in rest]
        if part.constraint.segment_size:
            units = [segment.pods for segment in segments_of(part) if not any(p.uid in placed for p in segment.pods)]
        for unit in units:
            before = set(placed)
            there = [*part.placed, *(placed[pod.uid] for pod in part.pods if pod.uid in placed)]
            some = Part(part.name, unit, len(unit), constraint=part.constraint, fabric=part.fabric, placed=there)
            if not (yield from self._own(some, None, self._at_home(part, mask), unit)):
                self._take_back(before)
                return

    def _at_home(self, part: Part, mask: Bools | None) -> Bools | None:
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

    def _open_to(self, part: Part, mask: Bools | None) -> Bools | None:
        """Return the mask without the domains that other gangs have for themselves."""
        if part.constraint.exclusive:
            taken = self._taken.get((part.constraint.topology, part.constraint.exclusive))
            if taken is not None:
                return ~taken if mask is None else mask & ~taken
        return mask

    def _without_siblings(self, part: Part, mask: Bools | None) -> Bools | None:
        """Return the mask without the domains that a part has for itself among its siblings."""
        fabric = part.fabric
        level = fabric.level_of(part.constraint.exclusive) if fabric is not None and part.constraint.exclusive else None
        if fabric is None or level is None:
            return mask
        rows = [self._placer.placed[pod.uid][1] for pod in part.all_pods() if pod.uid in self._placer.placed]
        taken = np.isin(fabric.of_rows[level], fabric.of_rows[level][np.array(rows, dtype=np.int64)])
        return ~taken if mask is None else mask & ~taken

    def _is_free(self, part: Part) -> bool:
        """Tell whether nothing below a part asks for a domain of its own: then any node will do for any pod."""
        return all(not below.constraint.levels and self._is_free(below) for below in part.parts)

    def _take_back(self, kept: set[str]) -> None:
        """Take back every pod that was placed since."""
        for pod, _ in reversed(list(self._placer.placed.values())):
            if pod.uid not in kept:
                self._placer.take(pod)


def _different(*orders: list[Part]) -> list[list[Part]]:
    """Return orders without those that stood before."""
    return [order for number, order in enumerate(orders) if order not in orders[:number]]
