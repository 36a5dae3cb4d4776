"""Candidate: a node, whom to evict there, and the figures by which candidates are compared.

For DefaultPreemption and for explanations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .prices import Price

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.model import Pod

_OFFSET = 2**31
_NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node and whom to evict there, most important first."""

    row: int
    node_name: str
    victims: tuple[Pod, ...]
    violations: int
    violating: frozenset[str]
    #: Victims on other nodes: the rest of gangs.
    dragged: tuple[tuple[Pod, str], ...]
    #: Those of all victims that count, as they are not going anyway.
    paid: tuple[Pod, ...]

    def figures(self) -> tuple[int, int, int, int, float, bool]:
        """Return what does not depend on the time.

        Violations, highest priority, sum of priorities, number of victims; of the most important victims the earliest start
        (infinite if none has one), and whether one of them, or nobody, has none: such a one counts as just started.
        """
        pods = self.paid
        highest = max((pod.priority for pod in pods), default=-_OFFSET)
        starts = [pod.started for pod in pods if pod.priority == highest]
        known = [start for start in starts if start is not None]
        total = sum(pod.priority for pod in pods) + _OFFSET * len(pods)
        return (
            self.violations,
            highest,
            total,
            len(pods),
            min(known, default=_NEVER),
            len(known) < len(starts) or not pods,
        )

    def cost(self, now: float) -> tuple[float, ...]:
        """Return the criteria in their order, lowest wins: violations, highest priority, sum, number, latest start."""
        violations, highest, total, number, start, has_unstarted = self.figures()
        return violations, highest, total, number, -(min(start, now) if has_unstarted else start)


@dataclass(frozen=True, slots=True)
class PricedCandidate(Candidate):
    """A candidate that is compared by what is lost with its victims."""

    price: Price = field(default_factory=Price)

    def cost(self, now: float) -> tuple[float, ...]:
        """Return what is lost at a time, lowest wins."""
        return self.price.at(math.floor(now))


def best_of(candidates: Iterable[Candidate], now: float) -> list[Candidate]:
    """Return the candidates that no criterion tells apart, by name; kube-scheduler draws one of them."""
    rated = [(candidate.cost(now), candidate) for candidate in candidates]
    lowest = min((cost for cost, _ in rated), default=None)
    return sorted((candidate for cost, candidate in rated if cost == lowest), key=lambda c: c.node_name)
