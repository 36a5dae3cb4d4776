"""Losses: what an eviction costs, in the order in which it counts.

For GangPreemption, which takes the cheapest victims, spares the dearest first, and chooses among whole plans by the same measure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scheduler.model.checkpoints import accelerators, restart_seconds, saved_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.framework.handle import Handle, Rules

    from .victims import Unit

#: Below every priority and rank: nobody is taken.
NOTHING = -(2**62)


class Loss(NamedTuple):
    """What is lost with some units; the smallest is the cheapest."""

    #: How many pods go against a budget.
    violations: int = 0
    #: The most important queue that is taken from, and the highest priority.
    rank: int = NOTHING
    priority: int = NOTHING
    #: Work since the last checkpoint, or else since the start: GPUs times seconds.
    gpu_seconds: float = 0.0
    #: How many pods go.
    pods: int = 0
    #: How long the pods take to start anew, altogether.
    restart_seconds: float = 0.0
    #: How many pods go that make no room for the preemptor: the rest of gangs.
    cascade: int = 0
    #: How long the pods ran altogether, which decides where nobody has a GPU.
    pod_seconds: float = 0.0


class Losses:
    """What each unit costs; remembered for one attempt."""

    def __init__(self, handle: Handle, rules: Rules | None) -> None:
        """Take the cluster; `rules` rank queues."""
        self._cluster = handle.cluster
        self._now = handle.now()
        self._rules = rules
        self._known: dict[int, tuple[Unit, Loss]] = {}

    def of(self, unit: Unit) -> Loss:
        """Return what a unit costs by itself, budgets and cascade aside; nothing if it is going anyway. O(1) when known."""
        known = self._known.get(id(unit))
        if known is None:
            known = self._known[id(unit)] = unit, self._count(unit)
        return known[1]

    def together(self, units: Iterable[Unit], violations: int, cascade: int) -> Loss:
        """Return what units cost together."""
        losses = [self.of(unit) for unit in units if not unit.is_going]
        if not losses:
            return Loss(violations, cascade=cascade)
        _, ranks, priorities, work, pods, restarts, _, seconds = zip(*losses, strict=True)
        return Loss(
            violations, max(ranks), max(priorities), sum(work), sum(pods), sum(restarts), cascade, sum(seconds)
        )  # fmt: skip

    def _count(self, unit: Unit) -> Loss:
        if unit.is_going:
            return Loss()
        work = restart = seconds = 0.0
        for pod in unit.members:
            key = self._cluster.gang_of(pod)
            gang = self._cluster.gangs.get(key) if key is not None else None
            held, lost = accelerators(pod), self._now - saved_at(pod, gang, self._now)
            work += held * lost
            restart += restart_seconds(pod, gang)
            seconds += lost
        rank = 0 if self._rules is None else self._rules.rank(unit.members)
        return Loss(0, rank, unit.priority, work, len(unit.pods), restart, 0, seconds)
