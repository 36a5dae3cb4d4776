"""Exact search: finds a placement of a small gang of mixed shapes whenever there is one.

For the placer, when quicker ways have failed.  Nodes are gone through one after the other; what matters on the way is only which
pods are left, so each such remainder is tried once per node (dynamic programming).  Every set on a node is tried on the real
Filters.  Where pods look at each other across nodes (affinity, spread) that does not hold: then remainders are tried with all
that was placed before, within a budget.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from scheduler.model import Pod
    from scheduler.model.needs import Needs
    from scheduler.state.snapshot import Bools

    from .candidates import Candidate
    from .placement import Placer

#: Gangs and sets of nodes up to this size are searched.
MOST_PODS, MOST_ROWS = 8, 16
#: How many nodes may be filled in how many ways, in all, before the search gives up.
MOST_STEPS = 100_000

_Kind = tuple["Candidate", str]


def place_exactly(
    placer: Placer, pods: Sequence[Pod], needs: Needs | None, mask: Bools | None
) -> Generator[int, None, bool]:
    """Place all pods, or, with `needs`, enough of them; False leaves none of them placed."""
    if len(pods) > MOST_PODS or len({placer.candidate(pod) for pod in pods}) == 1:
        return False
    yield from placer.evaluate()
    open_ = np.logical_or.reduce([placer.candidate(pod).feasible for pod in pods])
    rows = np.flatnonzero(open_ if mask is None else open_ & mask).tolist()
    if not rows or len(rows) > MOST_ROWS:
        return False
    return (yield from _Search(placer, pods, needs, rows).run())


class _Search:
    """The search over one set of rows."""

    def __init__(self, placer: Placer, pods: Sequence[Pod], needs: Needs | None, rows: Sequence[int]) -> None:
        self._placer = placer
        self._needs = needs
        self._rows = rows
        self._roles = needs.roles if needs is not None else {}
        self._left: dict[_Kind, list[Pod]] = {}
        for pod in pods:
            self._left.setdefault((placer.candidate(pod), self._roles.get(pod.uid, "")), []).append(pod)
        self._seen: set[tuple[int, tuple[int, ...]]] = set()
        self._steps = 0
        self._is_independent = True

    def run(self) -> Generator[int, None, bool]:
        self._is_independent = yield from self._try_independence()
        found = yield from self._from(0)
        if not found and self._steps >= MOST_STEPS:
            self._placer.gave_up = True
        return found

    def _try_independence(self) -> Generator[int, None, bool]:
        """Tell whether a pod of each kind, placed on some row, changes nothing for any kind on other rows."""
        placer, is_independent = self._placer, True
        for candidate, role in self._left:
            pod = self._left[candidate, role][0]
            yield max(1, candidate.sync())
            row = next((row for row in self._rows if candidate.feasible[row]), None)
            if row is not None:
                placer.put(pod, row)
                is_independent &= all(other.is_independent() for other, _ in self._left)
                placer.take(pod)
        return is_independent

    def _from(self, at: int) -> Generator[int, None, bool]:
        """Fill the rows from one on; leaves the pods placed if that ends well."""
        if self._is_done():
            return True
        if at == len(self._rows):
            return False
        state = at, tuple(len(pods) for pods in self._left.values())
        if self._is_independent and state in self._seen:
            return False
        self._seen.add(state)
        return (yield from self._fill(at, 0))

    def _fill(self, at: int, first: int) -> Generator[int, None, bool]:
        """Put one more pod on a row, of the kinds from one on, in every way; then go on to the next row."""
        placer, row = self._placer, self._rows[at]
        for i, (candidate, _) in list(enumerate(self._left))[first:]:
            pods = list(self._left.values())[i]
            if not pods or self._steps >= MOST_STEPS:
                continue
            self._steps += 1
            yield max(1, candidate.sync())
            if not candidate.feasible[row]:
                continue
            pod = pods.pop()
            placer.put(pod, row)
            if (yield from self._fill(at, i)):
                return True
            placer.take(pod)
            pods.append(pod)
        return (yield from self._from(at + 1))

    def _is_done(self) -> bool:
        if not any(self._left.values()):
            return True
        if self._needs is None:
            return False
        return not self._needs.missing(Counter(self._roles.get(uid, "") for uid in self._placer.placed))
