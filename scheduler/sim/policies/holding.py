"""Holding: the semantics of a cluster: a job keeps its GPUs until it ends or is preempted, and every start takes its time.

For policies that decide whom to start and whom to preempt.  A job that fits a node takes the fullest node with room; a larger one
whole nodes.  Victims are chosen so that few GPUs change hands, and nobody is preempted for a job that does not fit then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from .work import work_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.sim.traces.trace import ClusterShape, Trace

    from .work import Work


class HoldingPolicy(Protocol):
    """Whom to start first, and whom to preempt."""

    #: Jobs that fit may pass one before them that does not.
    passes: bool

    def rank(self, work: Work) -> float:
        """Return what decides who starts first, the lowest first; of equals the one that came first."""

    def may_preempt(self, work: Work, victim: Work) -> bool:
        """Tell whether a job that waits may take the GPUs of one that runs."""

    def seconds_to_change(self, work: Work) -> float:
        """Return for how long a job may hold GPUs until its rank, or who may preempt it, changes; infinite if for ever."""

    def ended(self, work: Work) -> None:
        """Learn from a job that has ended."""


@dataclass(slots=True)
class Room:
    """Free GPUs of each node, and who holds the others."""

    shape: ClusterShape
    free: list[int]
    #: By node: job number to the job and how many GPUs it holds there.
    held: list[dict[int, tuple[Work, int]]]
    #: Job number to its nodes with the GPUs that it holds there.
    places: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, shape: ClusterShape) -> Room:
        """Return an idle cluster."""
        return cls(shape, [shape.gpus_per_node] * shape.nodes, [{} for _ in range(shape.nodes)])

    def take(self, work: Work, nodes: Sequence[int]) -> None:
        """Let a job hold GPUs of nodes that have them."""
        sizes = self.shape.pods_of(work.job.gpus)
        self.places[work.number] = list(zip(nodes, sizes, strict=True))
        for node, size in self.places[work.number]:
            self.free[node] -= size
            self.held[node][work.number] = (work, size)

    def give_back(self, work: Work) -> None:
        """Free what a job holds."""
        for node, size in self.places.pop(work.number):
            self.free[node] += size
            del self.held[node][work.number]


def hold_trace(trace: Trace, shape: ClusterShape, policy: HoldingPolicy) -> list[Work]:
    """Run all jobs of a trace to their ends. O(events × jobs that are there)."""
    every = [work_of(job, number) for number, job in enumerate(trace.jobs)]
    room = Room.of(shape)
    waiting: list[Work] = []
    running: list[Work] = []
    coming, now = 0, 0.0
    while coming < len(every) or running:
        arrival = every[coming].job.submit_seconds if coming < len(every) else math.inf
        end = min((now + work.starting_seconds + work.remaining for work in running), default=math.inf)
        changes = (now + policy.seconds_to_change(work) for work in running) if waiting else ()
        moment = min(arrival, end, *changes)
        ended = [work for work in running if now + work.starting_seconds + work.remaining <= moment]
        _progress(running, moment - now)
        for work in ended:
            work.finish(moment)
            running.remove(work)
            room.give_back(work)
            policy.ended(work)
        now = moment
        while coming < len(every) and every[coming].job.submit_seconds <= now:
            waiting.append(every[coming])
            coming += 1
        _start(waiting, running, room, policy, now)
    return every


def _progress(running: Sequence[Work], seconds: float) -> None:
    for work in running:
        starting = min(seconds, work.starting_seconds)
        work.starting_seconds -= starting
        work.remaining -= seconds - starting
        work.hold(seconds)


def _start(waiting: list[Work], running: list[Work], room: Room, policy: HoldingPolicy, now: float) -> None:
    """Start whom the policy wants to start, with whom that preempts; the victims wait from now on."""
    refused: set[tuple[int, float]] = set()
    for work in sorted(waiting, key=lambda work: (policy.rank(work), work.number)):
        kind = work.job.gpus, policy.rank(work)
        found = None if kind in refused else _find(work, room, policy)
        if found is None:
            refused.add(kind)  # those that come later in the order and ask for the same fare no better
            if policy.passes:
                continue
            break
        nodes, victims = found
        for victim in victims:
            victim.preempt(now)
            room.give_back(victim)
            running.remove(victim)
            waiting.append(victim)
        room.take(work, nodes)
        waiting.remove(work)
        running.append(work)
        work.start(now)


def _find(work: Work, room: Room, policy: HoldingPolicy) -> tuple[list[int], list[Work]] | None:
    """Return the nodes for a job and whom it preempts there; None if it cannot start. O(nodes + jobs that run)."""
    nodes = range(room.shape.nodes)
    sizes = room.shape.pods_of(work.job.gpus)
    fitting = sorted((node for node in nodes if room.free[node] >= sizes[0]), key=lambda node: (room.free[node], node))
    if len(fitting) >= len(sizes):
        return fitting[: len(sizes)], []
    freed = {node: victims for node in nodes if (victims := _victims(work, node, sizes[0], room, policy)) is not None}
    if len(freed) < len(sizes):
        return None
    cheapest = sorted(freed, key=lambda node: (sum(_share(victim, node, room) for victim in freed[node]), node))
    chosen = cheapest[: len(sizes)]
    preempted = {victim.number: victim for node in chosen for victim in freed[node]}
    return chosen, list(preempted.values())


def _victims(work: Work, node: int, size: int, room: Room, policy: HoldingPolicy) -> list[Work] | None:
    """Return whom a job preempts for so many GPUs of a node, nobody in vain; None if they cannot be had."""
    free = room.free[node]
    taken: list[tuple[Work, int]] = []
    held = sorted(
        room.held[node].values(), key=lambda entry: (-policy.rank(entry[0]), -entry[0].since, entry[0].number)
    )
    for victim, count in held:
        if free >= size:
            break
        if policy.may_preempt(work, victim):
            taken.append((victim, count))
            free += count
    if free < size:
        return None
    for entry in taken[::-1]:
        if free - entry[1] >= size:
            taken.remove(entry)
            free -= entry[1]
    return [victim for victim, _ in taken]


def _share(victim: Work, node: int, room: Room) -> float:
    """Return how many GPUs a victim loses by one node: those elsewhere, too, though other nodes may share the loss."""
    here = room.held[node][victim.number][1]
    return here + (victim.job.gpus - here) / 2
