"""Placer: places the pods of one workload on a snapshot, shape by shape, and can take everything back.

For the cycle and for preemption.  Methods that may take long are generators that yield the number of node evaluations
since the last yield, so that the engine can pause between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from scheduler.framework.status import Reason
    from scheduler.model import Pod
    from scheduler.state.snapshot import Bools, Snapshot

    from .candidates import Candidate

Costs = Generator[int, None, bool]

#: How many node evaluations the search for another order may take before it gives up.
SEARCH_BUDGET = 50_000


class Halt(NamedTuple):
    """Where an attempt to place pods came to a halt."""

    placed: int
    #: Rows that were refused by then, by plugin and reason.
    counts: dict[tuple[str, Reason], int]
    available: int


class Placer:
    """Pods of one workload, where they may go, and where they were put so far."""

    def __init__(
        self, snapshot: Snapshot, pods: Sequence[Pod], candidates: Mapping[str, Candidate],
        nominations: Mapping[str, int], avoided: Mapping[str, set[int]],
    ) -> None:  # fmt: skip
        """Take the pods, their candidates by uid, the rows they are nominated to, and rows where binding them failed."""
        self.snapshot = snapshot
        self.pods = list(pods)
        self.placed: dict[str, tuple[Pod, int]] = {}
        #: The search was cut short by its budget.
        self.gave_up = False
        #: Where the last attempt over all rows came to a halt: how many pods were placed, and what rows were refused for.
        self.halt: Halt | None = None
        #: One for each shape, in the order of the pods.
        self.candidates = list(dict.fromkeys(candidates[pod.uid] for pod in pods))
        self.total_pods = len(self.pods)
        self._of = candidates
        self._nominations = nominations
        self._avoided = avoided
        self._counts = Counter(candidates[pod.uid] for pod in pods)
        self._evaluated_before = sum(candidate.evaluations for candidate in self.candidates)

    @property
    def evaluations(self) -> int:
        """How many node evaluations were made since the beginning."""
        return sum(candidate.evaluations for candidate in self.candidates) - self._evaluated_before

    def count(self, candidate: Candidate) -> int:
        """Return how many pods have a shape."""
        return self._counts[candidate]

    def candidate(self, pod: Pod) -> Candidate:
        """Return the candidate of a pod's shape."""
        return self._of[pod.uid]

    def evaluate(self) -> Generator[int, None, None]:
        """Bring every shape up to date with the snapshot."""
        for candidate in self.candidates:
            yield max(1, candidate.sync())

    def place_all(self, needed: int, allowed: Bools | None = None, most: int | None = None) -> Costs:
        """Place all pods (or `most`), or at least `needed`; in several orders if shapes differ.

        False leaves nothing placed.
        """
        spent = self.evaluations
        for order in self._orders():
            if (yield from self._place_in_order(order, needed, allowed, most)):
                return True
            self.clear()
            if self.evaluations - spent > SEARCH_BUDGET:
                self.gave_up = True
                return False
        return False

    def place_rest(self) -> Generator[int, None, None]:
        """Place the pods that found no place among the allowed rows anywhere, as far as there is room."""
        for pod in self.pods:
            if pod.uid not in self.placed:
                before = self.evaluations
                if (row := self.choose(pod)) is not None:
                    self.put(pod, row)
                yield self.evaluations - before

    def put(self, pod: Pod, row: int) -> None:
        """Place one pod."""
        self.snapshot.place(pod, row)
        self.placed[pod.uid] = (pod, row)

    def take(self, pod: Pod) -> int:
        """Take one pod back; return the row where it was."""
        _, row = self.placed.pop(pod.uid)
        self.snapshot.take_back(pod.uid, row)
        return row

    def clear(self) -> None:
        """Take all pods back: the exact inverse of every `put`."""
        for pod, _ in reversed(list(self.placed.values())):
            self.take(pod)

    def choose(self, pod: Pod, allowed: Bools | None = None) -> int | None:
        """Return the row for a pod: the one it is nominated to if that is feasible, else the best.

        Rows where binding the pod failed come last.
        """
        candidate = self.candidate(pod)
        nominated, avoided = self._nominations.get(pod.uid), self._avoided.get(pod.uid)
        if nominated is not None:
            candidate.sync()
            if candidate.feasible[nominated] and (allowed is None or allowed[nominated]):
                return nominated
        if avoided:
            others = np.ones(len(self.snapshot.all_rows), dtype=np.bool_) if allowed is None else allowed.copy()
            others[list(avoided)] = False
            if (row := candidate.best(others)) is not None:
                return row
        return candidate.best(allowed)

    def nominated_rows(self) -> Bools | None:
        """Return the rows that our pods are nominated to, shape (rows,); None if no pod is."""
        if not self._nominations:
            return None
        mask = np.zeros(len(self.snapshot.all_rows), dtype=np.bool_)
        mask[list(self._nominations.values())] = True
        return mask

    def curable(self, pod: Pod) -> Bools:
        """Return the rows that a pod fits on or would after evictions."""
        candidate = self.candidate(pod)
        candidate.sync()
        return candidate.curable()

    def asks(self, pod: Pod) -> dict[str, int] | None:
        """Return what a pod counts against free resources; None if nobody counts."""
        return self.candidate(pod).asks

    def passes(self, pod: Pod, row: int) -> bool:
        """Tell whether a placed pod still passes every Filter on its row, as the snapshot is now."""
        undo = self.snapshot.remove(pod.uid, row)
        candidate = self.candidate(pod)
        candidate.sync()
        undo()
        return bool(candidate.feasible[row])

    def _place_in_order(self, order: Sequence[Pod], needed: int, allowed: Bools | None, most: int | None) -> Costs:
        is_hopeless, is_halted = False, False
        for i, pod in enumerate(order):
            if most is not None and len(self.placed) >= most:
                break
            before = self.evaluations
            row = self.choose(pod, allowed)
            if row is not None:
                self.put(pod, row)
            elif len(self.candidates) == 1 or not self._swap_in(pod, allowed):
                if allowed is None and self.placed and not is_halted:
                    is_halted, candidate = True, self.candidate(pod)
                    self.halt = Halt(len(self.placed), candidate.reasons(), int(np.count_nonzero(candidate.feasible)))
                is_hopeless = len(self.placed) + len(order) - i - 1 < needed
            yield self.evaluations - before
            if is_hopeless:
                return False
        return len(self.placed) >= needed

    def _swap_in(self, pod: Pod, allowed: Bools | None) -> bool:
        """Move one placed pod of another shape elsewhere to make room; at most one move, every pod tried once."""
        candidate, before = self.candidate(pod), self.evaluations
        for other, row in list(self.placed.values()):
            if self.candidate(other) is candidate or (allowed is not None and not allowed[row]):
                continue
            if self.evaluations - before > SEARCH_BUDGET:
                self.gave_up = True
                return False
            self.take(other)
            candidate.sync()
            if candidate.feasible[row]:
                self.put(pod, row)
                elsewhere = self.choose(other, allowed)
                if elsewhere is not None:
                    self.put(other, elsewhere)
                    return True
                self.take(pod)
            self.put(other, row)
        return False

    def _orders(self) -> list[list[Pod]]:
        """Return the orders to try: the shapes with the fewest places first, the largest first, and its reverse."""
        if len(self.candidates) == 1:
            return [self.pods]
        turn = {candidate: i for i, candidate in enumerate(self.candidates)}
        found = {candidate: int(np.count_nonzero(candidate.feasible)) for candidate in self.candidates}
        size = {candidate: self._size(candidate.pod) for candidate in self.candidates}
        scarce = sorted(self.candidates, key=lambda c: (found[c], -size[c], turn[c]))
        large = sorted(self.candidates, key=lambda c: (-size[c], turn[c]))
        members: dict[Candidate, list[Pod]] = {candidate: [] for candidate in self.candidates}
        for pod in self.pods:
            members[self.candidate(pod)].append(pod)
        orders: list[list[Candidate]] = []
        for order in (scarce, large, large[::-1]):
            if order not in orders:
                orders.append(order)
        return [[pod for candidate in order for pod in members[candidate]] for order in orders]

    def _size(self, pod: Pod) -> float:
        """Return how large a shape is: its largest share of what the whole cluster offers."""
        nodes = self.snapshot.nodes
        return max((n / max(1, int(nodes.allocatable(r).sum())) for r, n in pod.requests.items()), default=0.0)
