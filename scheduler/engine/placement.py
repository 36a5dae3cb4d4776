"""Placer: places the pods of one workload on a snapshot, shape by shape, and can take everything back.

For the cycle and for preemption.  Methods that may take long are generators that yield the number of node evaluations
since the last yield, so that the engine can pause between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.topology.fabric import ROOT

from .bounds import places, size_of
from .gathering import Gathering
from .holders import Holders
from .quality import summary_of
from .regions import kinds_of, required_level, room_at, segment_of

if TYPE_CHECKING:
    from scheduler.framework.effects import PlacementSummary
    from scheduler.framework.status import Reason
    from scheduler.model import Pod
    from scheduler.model.needs import Needs
    from scheduler.state.cluster import ClusterState
    from scheduler.state.snapshot import Bools, Ints, Snapshot

    from .candidates import Candidate
    from .parts import Part

Costs = Generator[int, None, bool]

#: How many node evaluations the search for another order may take before it gives up.
SEARCH_BUDGET = 50_000
#: How many steps of exact search, and how many turns back from a domain that was chosen, there are for all attempts together.
MOST_STEPS, MOST_TURNS = 200_000, 64


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
        #: What is left of `MOST_STEPS` and `MOST_TURNS`.
        self.steps_left, self.turns_left = MOST_STEPS, MOST_TURNS
        #: Where the last attempt over all rows came to a halt: how many pods were placed, and what rows were refused for.
        self.halt: Halt | None = None
        #: One for each shape, in the order of the pods.
        self.candidates: list[Candidate] = []
        self.total_pods = len(self.pods)
        #: How a gang is put together, for one that is placed in domains; None for all others (`in_parts`).
        self.parts: Part | None = None
        self.needs: Needs | None = None
        #: A level that is not there: the gang cannot be placed before that is mended.
        self.problem = ""
        #: Members of other gangs that keep this one out of domains.
        self.holders = Holders(snapshot)
        self.rate: Callable[[Ints], int] | None = None
        #: Rows that members were refused on by their kubelets not long ago.
        self.shunned: frozenset[int] = frozenset()
        #: Rows where nobody is evicted for the pods, as binding one failed there, and until when that holds.
        self.barred: frozenset[int] = frozenset()
        self.barred_until: float | None = None
        #: The path of the domain that the last `place_all` placed the gang in; empty for the whole cluster.
        self.region = ""
        self._of = candidates
        self._nominations = nominations
        self._avoided = avoided
        self._counts: dict[Candidate, int] = {}
        for pod in pods:
            candidate = candidates[pod.uid]
            self._counts[candidate] = self._counts.get(candidate, 0) + 1
        self.candidates = list(self._counts)
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

    def shapes_of(self, pods: Sequence[Pod]) -> list[Candidate]:
        """Return the candidates of some pods, each once."""
        return list(dict.fromkeys(self._of[pod.uid] for pod in pods))

    def has_room(self, pods: Sequence[Pod], mask: Bools | None, needed: int) -> bool:
        """Tell whether rows have places for so many of the pods, for each shape by itself: no "no" is certain then."""
        room = 0
        for candidate, count in Counter(self._of[pod.uid] for pod in pods).items():
            where = candidate.feasible if mask is None else candidate.feasible & mask
            room += min(count, int(places(candidate.asks, self.snapshot.nodes, where).sum()))
        return room >= needed

    def evaluate(self) -> Generator[int, None, None]:
        """Bring every shape up to date with the snapshot."""
        for candidate in self.candidates:
            yield max(1, candidate.sync())

    def place_all(self, needed: int, allowed: Bools | None = None, most: int | None = None) -> Costs:
        """Place all pods (or `most`), or at least `needed`; gangs in the domains that they want, others one by one.

        False leaves nothing placed.
        """
        self.region = ""
        if self.parts is None or self.needs is None:
            return (yield from self.place_in_orders(self.pods, needed, allowed, most))
        masks = [allowed]
        if self._avoided or self.shunned:
            masks = self._masks(allowed)
        made = self.nominated_rows()
        if made is not None:
            masks.insert(0, made if masks[0] is None else made & masks[0])
        for number, mask in enumerate(masks):
            gathering = Gathering(self, self.parts, self.needs, self.holders.taken(), self.rate)
            if (yield from gathering.place(mask, most)):
                if made is not None and number == 0 and most is None:  # what room was made for stands; others anywhere
                    yield from gathering.surplus(masks[1])
                if gathering.region is not None and self.parts.fabric is not None:
                    self.region = "/".join(self.parts.fabric.path(*gathering.region))
                return True
        return False

    def _masks(self, allowed: Bools | None) -> list[Bools | None]:
        """Return the rows to try: without those that members were refused on, then, if bindings failed there, with them."""
        mask = np.ones(len(self.snapshot.all_rows), dtype=np.bool_) if allowed is None else allowed.copy()
        mask[list(self.shunned)] = False
        strict = mask.copy()
        strict[[row for rows in self._avoided.values() for row in rows]] = False
        return [strict, mask] if self._avoided else [mask]

    def place_lone(self) -> Costs:
        """Place one pod that is no gang's and nominated nowhere, without any search; False if it found no node, or is not such."""
        if self.total_pods != 1 or self.needs is not None or self._nominations:
            return False
        pod, before = self.pods[0], self.evaluations
        if (row := self.choose(pod)) is None:
            return False
        self.put(pod, row)
        yield self.evaluations - before
        return True

    def place_in_orders(
        self, pods: Sequence[Pod], needed: int, allowed: Bools | None = None, most: int | None = None
    ) -> Costs:
        """Place pods one by one where they score best, at least `needed` of them; in several orders if shapes differ.

        False leaves nothing placed of what was not before.
        """
        spent, before = self.evaluations, set(self.placed)
        for order in self._orders(pods):
            if (yield from self._place_in_order(order, needed, allowed, most)):
                return True
            self.take_back(before)
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

    def keep(self, cluster: ClusterState) -> bool:
        """Let a lone pod stay on the snapshot that is assumed now where it was placed; False if it cannot, or is not alone."""
        if len(self.placed) != 1 or not all(cluster.keep(pod) for pod, _ in self.placed.values()):
            return False
        self.placed.clear()
        return True

    def take(self, pod: Pod) -> int:
        """Take one pod back; return the row where it was."""
        _, row = self.placed.pop(pod.uid)
        self.snapshot.take_back(pod.uid, row)
        return row

    def take_back(self, kept: Collection[str]) -> None:
        """Take back every pod that was placed since others were."""
        for pod, _ in reversed(list(self.placed.values())):
            if pod.uid not in kept:
                self.take(pod)

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
        found = candidate.curable()
        if self.barred:
            found = found.copy()
            found[list(self.barred)] = False
        return found

    def regions(self) -> list[Bools | None]:
        """Return the domains of which one has to hold the gang, those with most room first; just None if any rows will do."""
        part = self.parts
        if part is None or part.fabric is None or (level := required_level(part.fabric, part.constraint)) == ROOT:
            return [None]
        fabric, numbers = part.fabric, np.arange(part.fabric.count(level))
        if len(part.home):
            numbers = np.unique(fabric.of_rows[level][part.home])
        wanted = list(Counter(map(self.candidate, part.all_pods())).items())
        room = room_at(fabric, level, kinds_of(wanted, self.snapshot.nodes, None), segment_of(part, part.minimum))
        order = numbers[np.argsort(-room[numbers], kind="stable")]
        return [fabric.of_rows[level] == number for number in order.tolist()]

    def keepers(self, within: Bools | None) -> Sequence[tuple[Pod, int]]:
        """Return members of other gangs, with their rows, that keep this one out of domains that rows are in."""
        return self.holders.within(within)

    def is_kept_out(self) -> bool:
        """Tell whether something is placed in a domain that another gang has for itself, as the snapshot is now."""
        return self.parts is not None and self.holders.keeps_out(self.parts, self.placed)

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
        is_hopeless, is_halted, start = False, False, len(self.placed)
        for i, pod in enumerate(order):
            if most is not None and len(self.placed) - start >= most:
                break
            before = self.evaluations
            row = self.choose(pod, allowed)
            if row is not None:
                self.put(pod, row)
            elif len(self.candidates) == 1 or not self._swap_in(pod, allowed):
                if allowed is None and self.placed and not is_halted:
                    is_halted = True
                    self.halted(self.candidate(pod))
                is_hopeless = len(self.placed) - start + len(order) - i - 1 < needed
            yield self.evaluations - before
            if is_hopeless:
                return False
        return len(self.placed) - start >= needed

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

    def largest_first(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return shapes by size, the largest first."""
        return sorted(candidates, key=lambda candidate: -self._size(candidate.pod))

    def halted(self, candidate: Candidate) -> None:
        """Note where an attempt came to a halt with some pods placed; what came farthest, and that the last time, counts."""
        if self.placed and (self.halt is None or self.halt.placed <= len(self.placed)):
            self.halt = Halt(len(self.placed), candidate.reasons(), int(np.count_nonzero(candidate.feasible)))

    def summary(self) -> PlacementSummary | None:
        """Return how near together the gang is with what is placed now; None for one that is not placed in domains."""
        if self.parts is None or self.parts.fabric is None or not self.placed:
            return None
        rows = [row for _, row in self.placed.values()] + self.parts.home.tolist()
        largest = self.largest_first(self.candidates)[0]
        slots = places(largest.asks, self.snapshot.nodes, largest.curable(), is_empty=True)
        return summary_of(self.parts.fabric, np.array(rows, dtype=np.int64), np.minimum(slots, len(rows)))

    def domain_of(self, row: int) -> str:
        """Return the path of the domain that a node of a gang is in, from the widest level to the one above nodes."""
        fabric = self.parts.fabric if self.parts is not None else None
        if fabric is None or len(fabric.levels) == 1:
            return ""
        level = len(fabric.levels) - 2
        return "/".join(fabric.path(level, int(fabric.of_rows[level][row])))

    def _orders(self, pods: Sequence[Pod]) -> list[list[Pod]]:
        """Return the orders to try: the shapes with the fewest places first, the largest first, and its reverse."""
        members: dict[Candidate, list[Pod]] = {}
        for pod in pods:
            members.setdefault(self.candidate(pod), []).append(pod)
        if len(members) <= 1:
            return [list(pods)]
        turn = {candidate: i for i, candidate in enumerate(members)}
        found = {candidate: int(np.count_nonzero(candidate.feasible)) for candidate in members}
        size = {candidate: self._size(candidate.pod) for candidate in members}
        scarce = sorted(members, key=lambda c: (found[c], -size[c], turn[c]))
        large = sorted(members, key=lambda c: (-size[c], turn[c]))
        orders: list[list[Candidate]] = []
        for order in (scarce, large, large[::-1]):
            if order not in orders:
                orders.append(order)
        return [[pod for candidate in order for pod in members[candidate]] for order in orders]

    def _size(self, pod: Pod) -> float:
        return size_of(pod.requests, self.snapshot.nodes)
