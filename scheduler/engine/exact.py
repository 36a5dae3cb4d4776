"""Exact search: finds a placement of a small gang whenever there is one, also where roles ask for domains of their own.

For the gathering, when quicker ways have failed.  Nodes are gone through one after the other; what matters on the way is only which
pods are left and what their rules have come to (`rules`), so each such remainder is tried once per node (dynamic programming).
Every set on a node is tried on the real Filters, once.  Where pods look at each other across nodes (affinity, spread) that does not
hold: then remainders are tried with all that was placed before, within the same budget.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from .rules import Ahead, Rules

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from scheduler.model import Pod
    from scheduler.model.needs import Needs
    from scheduler.state.snapshot import Bools

    from .candidates import Candidate
    from .placement import Placer
    from .rules import States

#: Gangs and sets of nodes up to this size are searched.
MOST_PODS, MOST_ROWS = 8, 16

_Of = tuple[tuple[int, bool], ...]
_Counts = tuple[int, ...]


def place_exactly(
    placer: Placer, pods: Sequence[Pod], mask: Bools | None, rules: Rules | None = None, needs: Needs | None = None
) -> Generator[int, None, bool]:
    """Place all pods on rows of the mask so that rules hold, or, with `needs`, enough of them; False leaves none placed.

    What is too large to be searched, or costs more steps than the placer has left, is given up.
    """
    if rules is None:
        if len(placer.shapes_of(pods)) == 1:
            return False
        rules = Rules()
    yield from placer.evaluate()
    open_ = np.logical_or.reduce([candidate.feasible for candidate in placer.shapes_of(pods)])
    rows = np.flatnonzero(open_ if mask is None else open_ & mask).tolist()
    if not rows:
        return False
    if len(pods) > MOST_PODS or len(rows) > MOST_ROWS:
        placer.gave_up |= placer.has_room(pods, mask, len(pods) if needs is None else needs.missing())
        return False
    rows.sort(key=lambda row: [int(rule.numbers[row]) for rule in rules.all])
    for chosen in _choices(placer, pods, rules, needs):
        search = _Search(placer, chosen, rules, rows)
        if (yield from search.run()):
            return True
        if placer.steps_left <= 0:
            placer.gave_up = True
            return False
    return False


def _choices(placer: Placer, pods: Sequence[Pod], rules: Rules, needs: Needs | None) -> Iterator[list[Pod]]:
    """Yield the pods to place: all, or each set of kinds that is just enough, the smallest first."""
    if needs is None:
        yield list(pods)
        return
    roles = needs.roles
    kinds: dict[tuple[object, ...], list[Pod]] = {}
    for pod in pods:
        kinds.setdefault((placer.candidate(pod), rules.of(pod), roles.get(pod.uid, "")), []).append(pod)
    groups = list(kinds.values())
    names = [roles.get(group[0].uid, "") for group in groups]

    def is_enough(counts: Sequence[int]) -> bool:
        total = Counter[str]()
        for name, count in zip(names, counts, strict=True):
            total[name] += count
        return not needs.missing(total)

    ways = itertools.product(*(range(len(group), -1, -1) for group in groups))
    for counts in sorted(filter(is_enough, ways), key=sum):
        fewer = ((*counts[:k], count - 1, *counts[k + 1 :]) for k, count in enumerate(counts) if count)
        if any(counts) and not any(map(is_enough, fewer)):
            yield [pod for group, count in zip(groups, counts, strict=True) for pod in group[:count]]


class _Search:
    """The search for places for some pods over one set of rows."""

    def __init__(self, placer: Placer, pods: Sequence[Pod], rules: Rules, rows: Sequence[int]) -> None:
        self._placer, self._rules, self._rows = placer, rules, rows
        kinds: dict[tuple[Candidate, _Of], list[Pod]] = {}
        for pod in pods:
            kinds.setdefault((placer.candidate(pod), rules.of(pod)), []).append(pod)
        self._pods = list(kinds.values())
        self._of = [of for _, of in kinds]
        self._candidates = list(dict.fromkeys(candidate for candidate, _ in kinds))
        self._shape = [self._candidates.index(candidate) for candidate, _ in kinds]
        self._total = tuple(map(len, self._pods))
        self._own, self._others = (
            [[k for k, of in enumerate(self._of) if (rule, is_own) in of] for rule in range(len(rules.all))]
            for is_own in (True, False)
        )
        self._last = [{int(rule.numbers[row]): at for at, row in enumerate(rows)} for rule in rules.all]
        self._seen: set[tuple[int, _Counts, States]] = set()
        #: By row and pods of each shape on it: whether all Filters let them stand there together.
        self._fits: dict[tuple[int, _Counts], bool] = {}
        self._chosen: list[tuple[Pod, int]] = []
        self._is_independent = True

    def run(self) -> Generator[int, None, bool]:
        """Search; True leaves the pods placed."""
        self._is_independent = yield from self._try_independence()
        if not (yield from self._from(0, self._total, self._rules.start())):
            return False
        if self._is_independent:
            for pod, row in self._chosen:
                self._placer.put(pod, row)
        yield len(self._chosen)
        return True

    def _try_independence(self) -> Generator[int, None, bool]:
        """Tell whether a pod of each shape, placed on some row, changes nothing for any shape on other rows."""
        placer, is_independent = self._placer, True
        for shape, candidate in enumerate(self._candidates):
            pod = self._pods[self._shape.index(shape)][0]
            yield max(1, candidate.sync())
            row = next((row for row in self._rows if candidate.feasible[row]), None)
            if row is not None:
                placer.put(pod, row)
                is_independent &= all(other.is_independent() for other in self._candidates)
                placer.take(pod)
        return is_independent

    def _from(self, at: int, left: _Counts, states: States) -> Generator[int, None, bool]:
        """Fill the rows from one on; leaves the pods chosen if that ends well."""
        settled = self._settled(at, left, states)
        if settled is None:
            return False
        if not any(left):
            return True
        if at == len(self._rows) or (at, left, settled) in self._seen:
            return False
        if self._is_independent:
            self._seen.add((at, left, settled))
        yield 1
        return (yield from self._fill(at, 0, (0,) * len(self._candidates), left, settled))

    def _fill(self, at: int, first: int, here: _Counts, left: _Counts, states: States) -> Generator[int, None, bool]:
        """Put one more pod on a row, of the kinds from one on, in every way; then go on to the next row."""
        row = self._rows[at]
        for kind in range(first, len(left)):
            if not left[kind] or self._placer.steps_left <= 0:
                continue
            self._placer.steps_left -= 1
            after = self._rules.put(states, self._of[kind], row)
            if after is None:
                continue
            pod, more = self._pods[kind][left[kind] - 1], _with(here, self._shape[kind], 1)
            if not (yield from self._stands(pod, row, more)):
                continue
            self._chosen.append((pod, row))
            if (yield from self._fill(at, kind, more, _with(left, kind, -1), after)):
                return True
            self._chosen.pop()
            if not self._is_independent:
                self._placer.take(pod)
        return (yield from self._from(at + 1, left, states))

    def _stands(self, pod: Pod, row: int, there: _Counts) -> Generator[int, None, bool]:
        """Tell whether a pod may stand on a row, `there` being the pods of each shape with it; if they look far, put it there."""
        placer, candidate = self._placer, self._placer.candidate(pod)
        if not self._is_independent:
            yield max(1, candidate.sync())
            if candidate.feasible[row]:
                placer.put(pod, row)
            return bool(candidate.feasible[row])
        if (row, there) not in self._fits:
            others = [other for other, at in self._chosen if at == row]
            for other in others:
                placer.put(other, row)
            yield max(1, candidate.sync())
            self._fits[row, there] = bool(candidate.feasible[row])
            for other in others:
                placer.take(other)
        return self._fits[row, there]

    def _settled(self, at: int, left: _Counts, states: States) -> States | None:
        """Return the states without what cannot matter any more; None if some rule cannot be kept any more."""
        settled = list(states)
        for number, rule in enumerate(self._rules.all):
            own = sum(left[kind] for kind in self._own[number])
            others = sum(left[kind] for kind in self._others[number])
            placed = sum(self._total[kind] for kind in self._own[number]) - own
            state = rule.settle(states, number, Ahead(own, others, placed, self._last[number], at))
            if state is None:
                return None
            settled[number] = state
        return tuple(settled)


def _with(counts: _Counts, position: int, more: int) -> _Counts:
    return (*counts[:position], counts[position] + more, *counts[position + 1 :])
