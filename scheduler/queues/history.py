"""History: what queues used lately, fading by half in every half-life, for an order that remembers.

For the ledger, which tells the time before anything changes.  It is a running average in whole numbers, moved on sixteen times in a
half-life: who has used as much as now for long has a history of as much.  It is kept in memory alone: after a restart it begins anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduler.model.queue import QueueKey

    from .ledger import Use
    from .tree import Node

TICKS = 16
_ONE = 2**32
#: What is left of 2**32 after a tick: 2**32 · 2**(-1/16), rounded down.
_KEPT = 4_112_874_773
#: Averages are kept in so many parts of a unit, so that small ones do not vanish in rounding.
_SCALE = 2**16
#: After so many ticks nothing is left of what was before.
_MOST_TICKS = 64 * TICKS


class History:
    """Averages by queue and resource."""

    def __init__(self, half_life_seconds: float) -> None:
        """Take the half-life; 0 remembers nothing."""
        self._tick_seconds = half_life_seconds / TICKS
        self._tick: int | None = None
        self._averages: dict[QueueKey, dict[str, int]] = {}
        #: Grows with every tick.
        self.version = 0

    def past(self, node: Node, resource: str) -> int:
        """Return what a queue used of a resource lately, in its unit."""
        return self._averages.get(node.key, {}).get(resource, 0) // _SCALE

    def advance(self, now: float, nodes: Iterable[Node], use_of: Callable[[Node], Use]) -> None:
        """Let time pass in which queues used what they use now. O(1) within a tick, else O(queues · ticks)."""
        if not self._tick_seconds:
            return
        tick = int(now / self._tick_seconds)
        if self._tick is None:
            self._tick = tick
        ticks, self._tick = min(tick - self._tick, _MOST_TICKS), tick
        if ticks <= 0:
            return
        self.version += 1
        for node in nodes:
            use, averages = use_of(node), self._averages.setdefault(node.key, {})
            for resource in {*averages, *use.used, *use.kept}:
                average, present = averages.get(resource, 0), use.fair(resource) * _SCALE
                for _ in range(ticks):
                    average = (average * _KEPT + present * (_ONE - _KEPT)) // _ONE
                averages[resource] = average
