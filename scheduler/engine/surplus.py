"""Surplus: places what a gang has beyond its minimum, as far as there is room where its parts may be.

For the gathering, when the minimum is placed.  Surplus is worth no search: what finds no place waits.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from .parts import Part, segments_of

if TYPE_CHECKING:
    from scheduler.state.snapshot import Bools

    from .candidates import Candidate
    from .gathering import Gathering
    from .masks import Masks
    from .placement import Placer

Costs = Generator[int, None, None]


class Surplus:
    """Pods of a gathering that may be left out."""

    def __init__(self, gathering: Gathering, placer: Placer, masks: Masks, most: int | None = None) -> None:
        """Take who places parts, where they may be, and how many pods are enough; None for as many as there is room for."""
        self._gathering = gathering
        self._placer = placer
        self._masks = masks
        self._is_limited = most is not None
        self._end = len(placer.placed) + (placer.total_pods if most is None else most)

    def place(self, part: Part, mask: Bools | None) -> Costs:
        """Place what is beyond the minimum as far as there is room, where its part may be."""
        mask = self._masks.open_to(part, mask)
        if part.parts and part.is_divided:
            yield from self._common_surplus(part, mask)
            return
        for below in part.parts:
            if self._is_enough():
                return
            inside = self._masks.at_home(part, self._masks.apart(part, below, mask))
            if below.minimum and not any(pod.uid in self._placer.placed for pod in below.all_pods()):
                is_there = not self._is_limited and (
                    yield from self._gathering.place_part(below, inside, is_whole=True)
                )
                if not is_there and not (yield from self._gathering.place_part(below, inside, is_whole=False)):
                    continue  # less than its minimum is no use
            yield from self.place(below, inside)
        if part.fabric is not None and part.is_divided:
            yield from self._divided_surplus(part, mask)
            return
        for pod in part.pods:
            if pod.uid not in self._placer.placed and not self._is_enough():
                before = self._placer.evaluations
                if (
                    row := self._placer.choose(pod, self._masks.at_home(part, self._masks.apart(part, None, mask)))
                ) is not None:
                    self._placer.put(pod, row)
                yield self._placer.evaluations - before

    def _is_enough(self) -> bool:
        return len(self._placer.placed) >= self._end

    def _common_surplus(self, part: Part, mask: Bools | None) -> Costs:
        """Place what is beyond the minimum of a part that is divided across those below: pod by pod, or whole segments."""
        placer, placed = self._placer, self._placer.placed
        useless = {
            pod.uid for below in part.parts if below.minimum and not any(p.uid in placed for p in below.all_pods())
            for pod in below.all_pods()
        }  # fmt: skip
        units = [[pod] for pod in part.all_pods() if pod.uid not in placed]
        if part.constraint.segment_size:
            units = [segment.pods for segment in segments_of(part) if not any(p.uid in placed for p in segment.pods)]
        for unit in units:
            if self._is_enough():
                return
            if any(pod.uid in useless for pod in unit):
                continue  # less than its minimum is no use
            before, states = set(placed), self._gathering.rules().after(list(placed.values()))
            for pod in unit:
                spent, row = placer.evaluations, None
                if states is not None:
                    row = placer.choose(pod, self._gathering.rules().open(states, pod, mask))
                yield max(1, placer.evaluations - spent)
                if row is None or states is None:
                    break
                placer.put(pod, row)
                states = self._gathering.rules().put(states, self._gathering.rules().of(pod), row)
            if any(pod.uid not in placed for pod in unit) or not self._gathering.rules().holds(list(placed.values())):
                placer.take_back(before)

    def _divided_surplus(self, part: Part, mask: Bools | None) -> Costs:
        """Place what is beyond the minimum of a part that is spread pod by pod, or in segments each as a whole."""
        placed = self._placer.placed
        rest = [pod for pod in part.pods if pod.uid not in placed]
        units = [[pod] for pod in rest]
        if part.constraint.segment_size:
            units = [segment.pods for segment in segments_of(part) if not any(p.uid in placed for p in segment.pods)]
        refused: set[frozenset[Candidate]] = set()
        for unit in units:
            if self._is_enough():
                return
            shapes = frozenset(self._placer.shapes_of(unit))
            if shapes in refused:
                continue
            before = set(placed)
            there = [*part.placed, *(placed[pod.uid] for pod in part.pods if pod.uid in placed)]
            some = Part(part.name, unit, len(unit), constraint=part.constraint, fabric=part.fabric, placed=there)
            if not (yield from self._gathering.place_own(some, None, self._masks.at_home(part, mask), unit)):
                self._placer.take_back(before)
                refused.add(shapes)
