"""Certificates: sound and cheap answers to "does some domain have the room": never, or not now, with the domain that comes nearest.

For the cycle, before it searches a gang that must stay inside domains.  They count by what Filter plugins say they count (`bounds`),
per domain and kind of pod, so a "no" is certain; a "perhaps" is for the search.  O(parts × levels × rows).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.topology.fabric import ROOT

from .bounds import LIMITLESS
from .regions import kinds_of, required_level, room_at, segment_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scheduler.state.snapshot import Ints

    from .candidates import Candidate
    from .parts import Part
    from .placement import Placer


class Shortfall(NamedTuple):
    """A part of a gang that no domain of its level has the room for."""

    part: str
    level: str
    #: The domain that comes nearest now, and how many of the part's pods it could take.
    domain: str
    now: int
    needed: int
    #: The most that any domain could take if nothing stood in it.
    ever: int
    #: The part, its level, and the domains that it may be in.
    of: Part
    depth: int
    open_domains: Ints

    @property
    def text(self) -> str:
        """The sentence; the numbers of "never" and "not now" differ."""
        if self.ever < self.needed:
            said = f"no {self.level} could ever take more than {self.ever} of the {self.needed} pods"
        else:
            short = self.needed - self.now
            said = f"the nearest {self.level}, {self.domain}, fits {self.now} of {self.needed}; short {short}"
        return f"Role {self.part}: {said}" if self.part else said[0].upper() + said[1:]

    def missing(self, placer: Placer, places: Mapping[Candidate, Ints]) -> tuple[Ints, Ints]:
        """Return the domain of each row, shape (rows,), and how many places each domain misses at least, shape (domains,).

        `places` are those of each shape by row, shape (rows,).  Domains that the part may not be in miss more than there can be.
        """
        fabric = self.of.fabric
        assert fabric is not None
        room = np.zeros(fabric.count(self.depth), dtype=np.int64)
        for candidate, count in Counter(map(placer.candidate, self.of.all_pods())).items():
            room += np.minimum(fabric.totals(self.depth, np.minimum(places[candidate], count)), count)
        missing = np.full(len(room), LIMITLESS, dtype=np.int64)
        missing[self.open_domains] = np.maximum(1, self.needed - room[self.open_domains])
        return fabric.of_rows[self.depth], missing


def shortfall_of(placer: Placer) -> Shortfall | None:
    """Return the first part that has to be in one domain and cannot be, worst first; None if all of them may."""
    if placer.parts is None:
        return None
    found = [short for part in _mandatory(placer.parts) if (short := _short(placer, part)) is not None]
    found.sort(key=lambda short: short.ever >= short.needed)
    return found[0] if found else None


def _mandatory(part: Part) -> Iterator[Part]:
    """Yield a part and those below that have to be complete."""
    if part.minimum:
        yield part
    if part.wanted is None or part.wanted >= len(part.parts):
        for below in part.parts:
            yield from _mandatory(below)


def _short(placer: Placer, part: Part) -> Shortfall | None:
    fabric = part.fabric
    if fabric is None or (level := required_level(fabric, part.constraint)) == ROOT:
        return None
    needed = part.minimum
    wanted = list(Counter(map(placer.candidate, part.all_pods())).items())
    nodes = placer.snapshot.nodes
    now = room_at(fabric, level, kinds_of(wanted, nodes, None), segment_of(part, needed))
    domains = np.arange(fabric.count(level))
    if len(part.home):
        domains = np.unique(fabric.of_rows[level][part.home])
    if not len(domains) or int(now[domains].max()) >= needed:
        return None
    ever = room_at(fabric, level, kinds_of(wanted, nodes, None, is_empty=True), segment_of(part, needed))
    best = int(domains[now[domains].argmax()])
    path = "/".join(fabric.path(level, best))
    return Shortfall(
        part.name,
        fabric.levels[level].name,
        path,
        int(now[best]),
        needed,
        int(ever[domains].max()),
        part,
        level,
        domains,
    )
