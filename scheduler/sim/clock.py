"""Virtual time: a clock that only moves when told, and the agenda of what will happen.

For the embedded cluster and the engine in a simulation.  Two entries of one moment happen in the order in which they were made.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Where simulations start whose input tells no time: 2026-01-01T00:00:00Z, in seconds since the epoch.
DEFAULT_START = 1_767_225_600.0


class VirtualClock:
    """Tells the time of a simulation, in seconds since the epoch; call it, as one calls `time.time`."""

    def __init__(self, start: float = DEFAULT_START) -> None:
        """Start at a moment."""
        self.start = start
        self._now = start

    def __call__(self) -> float:
        """Return the time."""
        return self._now

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._now - self.start

    def advance_to(self, moment: float) -> None:
        """Move on; a moment that has passed leaves the clock where it is."""
        self._now = max(self._now, moment)


class Entry:
    """Something that will happen, unless it is cancelled."""

    __slots__ = ("action", "moment")

    def __init__(self, moment: float, action: Callable[[], None]) -> None:
        """Keep what will happen when."""
        self.moment = moment
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Take it off the agenda; idempotent."""
        self.action = None


class Agenda:
    """What will happen, by time."""

    def __init__(self) -> None:
        """Start empty."""
        self._heap: list[tuple[float, int, Entry]] = []
        self._made = 0

    def at(self, moment: float, action: Callable[[], None]) -> Entry:
        """Let something happen at a moment."""
        entry = Entry(moment, action)
        heapq.heappush(self._heap, (moment, self._made, entry))
        self._made += 1
        return entry

    def next_moment(self) -> float | None:
        """Return when the next thing happens, or None when nothing will."""
        while self._heap and self._heap[0][2].action is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run_due(self, now: float) -> int:
        """Let everything happen that is due, in order, and return how much that was."""
        count = 0
        while (moment := self.next_moment()) is not None and moment <= now:
            entry = heapq.heappop(self._heap)[2]
            action, entry.action = entry.action, None
            if action is not None:
                action()
                count += 1
        return count
