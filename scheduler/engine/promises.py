"""Promises: which start each workload was told, and when it is told another one.

For backfill.  A start is told at once; another one only if it differs by more than a tenth of what was left to wait, and not within a
minute of the last.
"""

from __future__ import annotations

from dataclasses import dataclass

#: A promise that moves by less than this part of the wait that is left is not written again.
LEAST_MOVE = 0.1
#: A workload is told no more often than this, in seconds.
LEAST_SECONDS = 60.0


@dataclass(slots=True)
class _Told:
    """What a workload was told when, and what there is to tell; seconds since the epoch."""

    start: float
    planned: float
    at: float

    @property
    def due(self) -> float:
        return self.at + LEAST_SECONDS


class Promises:
    """Starts by workload."""

    def __init__(self) -> None:
        """Start with none."""
        self._told: dict[str, _Told] = {}
        #: Starts that a former process told, by workload, until one is planned here.
        self._found: dict[str, float] = {}

    def found(self, key: str, start: float) -> None:
        """Take the start that a former process told a workload, seconds since the epoch: it stands unless it moves."""
        if key not in self._told:
            self._found[key] = start

    def told(self, key: str) -> float | None:
        """Return the start that a workload was told last, seconds since the epoch."""
        known = self._told.get(key)
        return known.start if known is not None else self._found.get(key)

    def plan(self, key: str, start: float, now: float) -> bool:
        """Take when a workload will start; return whether it is to be told now."""
        known, found = self._told.get(key), self._found.pop(key, None)
        if known is None and found is not None:
            known = self._told[key] = _Told(found, found, now)
        if known is None:
            self._told[key] = _Told(start, start, now)
            return True
        known.planned = start
        return self._tell(known, now)

    def due(self, now: float) -> list[str]:
        """Return the workloads that are to be told now that they will start at another time; they are not returned again."""
        return [key for key, known in self._told.items() if self._tell(known, now)]

    def next_time(self, now: float) -> float | None:
        """Return when somebody is to be told next."""
        return min(
            (known.due for known in self._told.values() if self._is_news(known, max(now, known.due))), default=None
        )

    def forget(self, key: str) -> bool:
        """Forget a workload; return whether it had been told a start."""
        was_found = self._found.pop(key, None) is not None
        return self._told.pop(key, None) is not None or was_found

    def _tell(self, known: _Told, now: float) -> bool:
        if known.due > now or not self._is_news(known, now):
            return False
        known.start, known.at = known.planned, now
        return True

    def _is_news(self, known: _Told, now: float) -> bool:
        return abs(known.planned - known.start) > LEAST_MOVE * max(0.0, known.start - now)
