"""Regions: in which domains a part of a gang may be placed, the best first.

For the placer.  A domain is looked at only if it might hold the part by what is counted (`bounds`): from the tightest level to
the widest that is allowed, on each level the nearest to members that are placed, then the one that needs the fewest leaves, then the
one with the least room, then the one that plugins rate best.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.topology.fabric import ROOT

from .bounds import places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scheduler.model.topology_constraint import TopologyConstraint
    from scheduler.state.snapshot import Bools, Ints, Nodes
    from scheduler.topology.fabric import Fabric

    from .candidates import Candidate
    from .parts import Part

#: How many domains of one level are compared by plugins.
MOST_DOMAINS = 8


class Region(NamedTuple):
    """A domain that might do."""

    level: int
    number: int


class Kind(NamedTuple):
    """Pods that ask for the same, and so compete for the same places."""

    pods: int
    #: Places by row, shape (rows,).
    slots: Ints


def kinds_of(
    wanted: Sequence[tuple[Candidate, int]], nodes: Nodes, mask: Bools | None, *, is_empty: bool = False
) -> list[Kind]:
    """Return the kinds among candidates (with how many pods each has), the largest pods first.

    `is_empty`: as if the nodes were empty, counting rows that evictions may help.
    """
    found: dict[tuple[tuple[str, int], ...] | None, tuple[int, Bools, Candidate]] = {}
    for candidate, count in wanted:
        key = None if candidate.asks is None else tuple(sorted(candidate.asks.items()))
        where = candidate.curable() if is_empty else candidate.feasible
        if key in found:
            number, open_, first = found[key]
            found[key] = number + count, open_ | where, first
        else:
            found[key] = count, where, candidate
    kinds = []
    for count, where, candidate in found.values():
        slots = places(candidate.asks, nodes, where if mask is None else where & mask, is_empty=is_empty)
        kinds.append(Kind(count, np.minimum(slots, count)))
    return sorted(kinds, key=lambda kind: int(kind.slots.sum()))


def room_at(fabric: Fabric, level: int, kinds: Sequence[Kind], segment: tuple[int, int]) -> Ints:
    """Return how many of the pods each domain of a level could hold at most, shape (domains,).

    `segment` is the size of segments (0 for none) and the level whose domains hold one whole.
    """
    room = np.zeros(fabric.count(level), dtype=np.int64)
    size, segment_level = segment
    for kind in kinds:
        if size and level < segment_level and len(kinds) == 1:
            below = fabric.totals(segment_level, kind.slots)
            whole = np.where(below >= size, below // size * size, 0)
            totals = _lifted(fabric, segment_level, level, whole) + kind.pods % size
        else:
            totals = fabric.totals(level, kind.slots)
        room += np.minimum(totals, kind.pods)
    return room


def required_level(fabric: Fabric, constraint: TopologyConstraint) -> int:
    """Return the widest level that a domain may have: that of `required` or `exclusive`; the whole cluster without them."""
    found = [
        level
        for name in (constraint.required, constraint.exclusive)
        if name and (level := fabric.level_of(name)) is not None
    ]
    return max(found, default=ROOT)


def levels_to_try(fabric: Fabric, constraint: TopologyConstraint) -> list[int]:
    """Return the levels in order: preferred ones, wider ones up to what is required; without preference from the tightest."""
    widest = required_level(fabric, constraint)
    preferred = [
        level for name in constraint.preferred if (level := fabric.level_of(name)) is not None and level >= widest
    ]
    if preferred:
        wider = range(preferred[-1] - 1, widest - 1, -1)
        return list(dict.fromkeys([*preferred, *wider]))
    if constraint.spread:
        return [widest]
    return list(range(len(fabric.levels) - 1, widest - 1, -1))


def regions_of(part: Part, kinds: Sequence[Kind], count: int, rate: Callable[[Ints], int] | None) -> Iterator[Region]:
    """Yield the domains that might hold `count` pods of a part, the best first. O(levels × rows)."""
    fabric, constraint = part.fabric, part.constraint
    assert fabric is not None
    segment = segment_of(part, count)
    home = part.home
    widest = required_level(fabric, constraint)
    for level in levels_to_try(fabric, constraint):
        room = room_at(fabric, level, kinds, segment)
        fitting = np.flatnonzero(room >= count)
        if len(home) and level != ROOT:
            if level == widest or not constraint.preferred:
                fitting = fitting[np.isin(fitting, fabric.of_rows[level][home])]
            elif widest != ROOT:
                above = _above(fabric, level, fitting, widest)
                fitting = fitting[np.isin(above, fabric.of_rows[widest][home])]
        if not len(fitting):
            continue
        left = fabric.totals(level, kinds[0].slots)[fitting]
        near = _nearness(fabric, level, fitting, home if len(home) else part.former)
        span = _leaves(fabric, level, fitting, kinds[0].slots, min(count, kinds[0].pods))
        order = np.lexsort((fitting, left, span, -near))[:MOST_DOMAINS]
        chosen = fitting[order].tolist()
        if rate is not None and len(chosen) > 1:
            keys = {n: (-int(near[i]), int(span[i]), int(left[i])) for n, i in zip(chosen, order.tolist(), strict=True)}
            ties = {n for n in chosen if keys[n] == keys[chosen[0]]}
            rated = {n: -rate(fabric.rows(level, n)) if n in ties else 0 for n in chosen}
            chosen.sort(key=lambda n: (keys[n], rated[n], n))
        tried = set(chosen)
        rest = (n for n in fitting[np.lexsort((fitting, left, span, -near))].tolist() if n not in tried)
        for number in (*chosen, *rest):
            yield Region(level, number)


def _leaves(fabric: Fabric, level: int, numbers: Ints, slots: Ints, count: int) -> Ints:
    """Return how many of the tightest domains each domain of a wider level would need for so many pods."""
    leaf = len(fabric.levels) - 2
    if level == ROOT or level >= leaf:
        return np.zeros(len(numbers), dtype=np.int64)
    totals = fabric.totals(leaf, slots)
    above = np.arange(len(totals))
    for depth in range(leaf, level, -1):
        above = fabric.parents[depth][above]
    found = []
    for number in numbers.tolist():
        filled = np.cumsum(np.sort(totals[above == number])[::-1])
        found.append(int(np.searchsorted(filled, count)))
    return np.array(found, dtype=np.int64)


def segment_of(part: Part, count: int) -> tuple[int, int]:
    """Return the size of a part's segments, 0 for none, and the level whose domains hold one whole, if `count` pods are placed."""
    fabric, constraint = part.fabric, part.constraint
    level = fabric.level_of(constraint.segment_required) if fabric is not None and constraint.segment_required else None
    if part.placed or count < sum(
        1 for _ in part.all_pods()
    ):  # not all segments are whole: any number of places may do
        return 0, ROOT
    return (constraint.segment_size, level) if constraint.segment_size and level is not None else (0, ROOT)


def _nearness(fabric: Fabric, level: int, numbers: Ints, home: Ints) -> Ints:
    """Return the depth of the tightest domain that each domain shares with the one that most members are in."""
    near = np.zeros(len(numbers), dtype=np.int64)
    if not len(home):
        return near
    above = numbers
    for depth in range(level, ROOT, -1):
        mine = np.bincount(fabric.of_rows[depth][home]).argmax()
        near = np.maximum(near, np.where(above == mine, depth + 1, 0))
        above = fabric.parents[depth][above]
    return near


def _above(fabric: Fabric, level: int, numbers: Ints, above: int) -> Ints:
    """Return the domains of a wider level that domains lie in, by number."""
    while level > above:
        numbers = fabric.parents[level][numbers]
        level -= 1
    return numbers


def _lifted(fabric: Fabric, level: int, above: int, totals: Ints) -> Ints:
    """Return sums over domains as sums over the wider domains that they lie in."""
    while level > above:
        if level - 1 == ROOT:
            return np.array([totals.sum()], dtype=np.int64)
        totals = np.bincount(fabric.parents[level], weights=totals, minlength=fabric.count(level - 1)).astype(np.int64)
        level -= 1
    return totals
