"""Placer: places the pods of one workload on a snapshot, shape by shape, and can take everything back.

For the cycle and for preemption.  Methods that may take long are generators that yield the number of node evaluations
since the last yield, so that the engine can pause between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .candidates import Candidate

if TYPE_CHECKING:
    from scheduler.framework.runtime import Runtime
    from scheduler.model import Pod
    from scheduler.state.snapshot import Bools, Ints, Snapshot

Costs = Generator[int, None, bool]

#: How many node evaluations the search for another order may take before it gives up.
SEARCH_BUDGET = 50_000


class Placer:
    """Pods of one workload, where they may go, and where they were put so far."""

    def __init__(
        self, runtime: Runtime, snapshot: Snapshot, pods: Sequence[Pod], nominated: dict[int, list[Pod]],
        nominations: dict[str, int], ties: Ints,
    ) -> None:  # fmt: skip
        """Take the pods, others' nominations by row, and the rows that our own pods are nominated to."""
        self.snapshot = snapshot
        self.pods = list(pods)
        self.placed: dict[str, tuple[Pod, int]] = {}
        self.evaluations = 0
        #: The search was cut short by its budget.
        self.gave_up = False
        self._nominations = nominations
        self.candidates: dict[bytes, Candidate] = {}
        for pod in pods:
            shape = self._shape(runtime, pod)
            if shape not in self.candidates:
                self.candidates[shape] = Candidate(runtime, snapshot, pod, nominated, ties)
        self._shape_of = {pod.uid: self._shape(runtime, pod) for pod in pods}
        self._counts = Counter(self._shape_of.values())
        self.total_pods = len(self.pods)

    def count(self, shape: bytes) -> int:
        """Return how many pods have a shape."""
        return self._counts[shape]

    def candidate(self, pod: Pod) -> Candidate:
        """Return the candidate of a pod's shape."""
        return self.candidates[self._shape_of[pod.uid]]

    def evaluate(self) -> Generator[int, None, None]:
        """Run PreFilter and Filter for every shape."""
        for candidate in self.candidates.values():
            yield self._count(candidate.evaluate())

    def place_all(self, needed: int, allowed: Bools | None = None) -> Costs:
        """Place all pods, or at least `needed`; in several orders if shapes differ. False leaves nothing placed."""
        spent = self.evaluations
        for order in self._orders():
            if (yield from self._place_in_order(order, needed, allowed)):
                return True
            self.clear()
            if self.evaluations - spent > SEARCH_BUDGET:
                self.gave_up = True
                return False
        return False

    def put(self, pod: Pod, row: int) -> None:
        """Place one pod, and evaluate its row again for every shape."""
        self.snapshot.place(pod, row)
        self.placed[pod.uid] = (pod, row)
        self.touch([row])

    def take(self, pod: Pod) -> int:
        """Take one pod back; return the row where it was."""
        _, row = self.placed.pop(pod.uid)
        self.snapshot.remove(pod.uid, row)
        self.touch([row])
        return row

    def clear(self) -> None:
        """Take all pods back: the exact inverse of every `put`."""
        rows = []
        for uid, (_, row) in reversed(list(self.placed.items())):
            self.snapshot.remove(uid, row)
            rows.append(row)
        self.placed.clear()
        self.touch(dict.fromkeys(rows))

    def touch(self, rows: Iterable[int]) -> None:
        """Evaluate rows again for every shape."""
        for row in rows:
            for candidate in self.candidates.values():
                self._count(candidate.touch(row))

    def choose(self, pod: Pod, allowed: Bools | None = None) -> int | None:
        """Return the row for a pod: the one it is nominated to if that is feasible, else the best."""
        candidate = self.candidate(pod)
        nominated = self._nominations.get(pod.uid)
        if nominated is not None and candidate.feasible[nominated] and (allowed is None or allowed[nominated]):
            return nominated
        return candidate.best(allowed)

    def candidate_of(self, uid: str) -> Candidate:
        """Return the candidate of a pod's shape, by the pod's uid."""
        return self.candidates[self._shape_of[uid]]

    def curable(self, pod: Pod) -> Bools:
        """Return the rows that a pod fits on or would after evictions."""
        return self.candidate(pod).curable()

    def passes(self, pod: Pod, row: int) -> bool:
        """Tell whether a placed pod still passes every Filter on its row, as the snapshot is now."""
        undo = self.snapshot.remove(pod.uid, row)
        candidate = self.candidate(pod)
        self._count(candidate.touch(row))
        undo()
        return bool(candidate.feasible[row])

    def total(self) -> int:
        """Return the mean node score of what is placed, as it was rated when the last pod was put."""
        if not self.placed:
            return 0
        return sum(int(self.candidate(pod).totals()[row]) for pod, row in self.placed.values()) // len(self.placed)

    def _place_in_order(self, order: Sequence[Pod], needed: int, allowed: Bools | None) -> Costs:
        missing: list[Pod] = []
        for i, pod in enumerate(order):
            before = self.evaluations
            row = self.choose(pod, allowed)
            if row is not None:
                self.put(pod, row)
            elif len(self.candidates) > 1 and self._swap_in(pod, allowed):
                pass
            else:
                missing.append(pod)
                if len(self.placed) + len(order) - i - 1 < needed:
                    yield self.evaluations - before
                    return False
            yield self.evaluations - before
        return len(self.placed) >= needed

    def _swap_in(self, pod: Pod, allowed: Bools | None) -> bool:
        """Move one placed pod of another shape elsewhere to make room; at most one move, every pod tried once."""
        candidate = self.candidate(pod)
        for other, row in list(self.placed.values()):
            if self._shape_of[other.uid] == self._shape_of[pod.uid] or (allowed is not None and not allowed[row]):
                continue
            if self.evaluations > SEARCH_BUDGET:
                self.gave_up = True
                return False
            self.take(other)
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
        places = {shape: int(np.count_nonzero(c.feasible)) for shape, c in self.candidates.items()}
        shapes = list(self.candidates)
        scarce = sorted(shapes, key=lambda s: (places[s], -self._size(s), shapes.index(s)))
        large = sorted(shapes, key=lambda s: (-self._size(s), shapes.index(s)))
        orders: list[list[bytes]] = []
        for order in (scarce, large, large[::-1]):
            if order not in orders:
                orders.append(order)
        by_shape = {s: [pod for pod in self.pods if self._shape_of[pod.uid] == s] for s in shapes}
        return [[pod for s in order for pod in by_shape[s]] for order in orders]

    def _size(self, shape: bytes) -> float:
        """Return how large a shape is: its largest share of what the whole cluster offers."""
        pod, nodes = self.candidates[shape].pod, self.snapshot.nodes
        return max((n / max(1, int(nodes.allocatable(r).sum())) for r, n in pod.requests.items()), default=0.0)

    def _shape(self, runtime: Runtime, pod: Pod) -> bytes:
        return pod.shape if runtime.shares_shapes and pod.shape else pod.uid.encode()

    def _count(self, evaluations: int) -> int:
        self.evaluations += evaluations
        return evaluations
