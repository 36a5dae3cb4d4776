"""WorkQueue: which workload is tried next, and what wakes those that were refused.

For the engine.  It holds workloads, not pods, so a hopeless gang of a thousand costs as much as one pod.

| state | means | leaves by |
|---|---|---|
| gated | pods or the group are missing, or a PreEnqueue plugin objects | `put` with no gate |
| active | to be tried, in the order of QueueSort | `pop` |
| backoff | to be tried, but not before a time | time |
| unschedulable | refused; waits for an event that could cure a stated reason | `wake`, flush after 5 minutes |
| in flight | being tried, waiting at Permit, or being bound | `done`, `refuse` |
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from scheduler.framework.change import Change
from scheduler.framework.status import ClusterEvent, Reason, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scheduler.framework.workload import Workload


class QueueState(Enum):
    """Where a workload stands in the queue."""

    GATED = "gated"
    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    IN_FLIGHT = "in-flight"


@dataclass(slots=True, eq=False)
class Entry:
    """A workload in the queue."""

    workload: Workload
    state: QueueState
    sort_key: tuple[Any, ...]
    #: What it was refused for; None before the first attempt.
    status: Status | None = None
    cures: ClusterEvent = ClusterEvent.NONE
    #: When the state began, and when backoff or flush ends (seconds).
    since: float = 0.0
    until: float = 0.0
    #: Which plugin gave which reason, for the hints.
    blame: tuple[tuple[str, Reason], ...] = ()
    #: Changes that arrived while it was in flight.
    missed: list[Change] = field(default_factory=list)
    #: Heap items of former states are recognised by an older number.
    version: int = 0


class WorkQueue:
    """Workloads by state. All times are seconds of the engine's clock."""

    def __init__(self, initial_backoff: float, max_backoff: float, flush_after: float) -> None:
        """Take the three times, in seconds."""
        self._initial_backoff = initial_backoff
        self._max_backoff = max_backoff
        self._flush_after = flush_after
        self._entries: dict[str, Entry] = {}
        self._active: list[tuple[tuple[Any, ...], str, int]] = []
        self._timed: list[tuple[float, tuple[Any, ...], str, int]] = []
        self._refused: dict[ClusterEvent, dict[str, None]] = {}
        self._in_flight: dict[str, None] = {}

    def __len__(self) -> int:
        """Count the workloads."""
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        """Walk over all entries in the order of arrival."""
        return iter(self._entries.values())

    def get(self, key: str) -> Entry | None:
        """Return a workload's entry."""
        return self._entries.get(key)

    def put(self, workload: Workload, sort_key: tuple[Any, ...], gate: Status | None, now: float) -> Entry:
        """Add a workload, or tell that its pods, group or gate changed: then it is worth another look."""
        entry = self._entries.get(workload.key)
        if entry is None:
            entry = self._entries[workload.key] = Entry(workload, QueueState.GATED, sort_key, since=now)
        elif entry.state is QueueState.IN_FLIGHT:
            entry.workload, entry.sort_key = workload, sort_key
            entry.missed.append(Change(ClusterEvent.POD_UPDATED))
            return entry
        entry.workload, entry.sort_key = workload, sort_key
        if gate is not None:
            if entry.state is not QueueState.GATED or entry.status != gate:
                self._move(entry, QueueState.GATED, now)
                entry.status = gate
        elif entry.state is QueueState.BACKOFF and entry.until > now:
            pass
        else:
            self._move(entry, QueueState.ACTIVE, now)
        return entry

    def remove(self, key: str) -> None:
        """Forget a workload."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            entry.version += 1
            self._unlist(entry)

    def pop(self, now: float) -> Workload | None:
        """Return the next workload to try, which is in flight from then on."""
        self._mature(now)
        while self._active:
            _, key, version = heapq.heappop(self._active)
            entry = self._entries.get(key)
            if entry is not None and entry.version == version:
                self._move(entry, QueueState.IN_FLIGHT, now)
                entry.missed.clear()
                return entry.workload
        return None

    def has_active(self, now: float) -> bool:
        """Tell whether `pop` would return something."""
        self._mature(now)
        return any(
            (entry := self._entries.get(key)) is not None and entry.version == version
            for _, key, version in self._active
        )

    def refuse(
        self, key: str, status: Status, blame: tuple[tuple[str, Reason], ...], now: float,
        could_cure: Callable[[Entry, Change], bool],
    ) -> None:  # fmt: skip
        """Put a workload that was tried in vain aside; changes that it missed may wake it at once."""
        entry = self._entries.get(key)
        if entry is None:
            return
        entry.status, entry.blame = status, blame
        entry.cures = ClusterEvent.TIME
        for reason in status.reasons:
            entry.cures |= reason.cures
        entry.workload.attempts += 1
        missed, entry.missed = entry.missed, []
        self._move(entry, QueueState.UNSCHEDULABLE, now)
        if any(change.event & entry.cures and could_cure(entry, change) for change in missed):
            self._move(entry, QueueState.ACTIVE, now)

    def retry(self, key: str, now: float, *, with_backoff: bool) -> None:
        """Put a workload that failed through no fault of its own back."""
        entry = self._entries.get(key)
        if entry is None:
            return
        if with_backoff:
            entry.workload.attempts += 1
            self._move(entry, QueueState.BACKOFF, now)
        else:
            self._move(entry, QueueState.ACTIVE, now)

    def wake(self, change: Change, now: float, could_cure: Callable[[Entry, Change], bool]) -> int:
        """Make those active that the change could cure; return how many.

        A cured workload skips its backoff (once per change): room that came free is not left to sleep. O(workloads
        whose stated reasons name the event).
        """
        candidates = [key for event in ClusterEvent if event & change.event for key in self._refused.get(event, ())]
        woken = 0
        for key in dict.fromkeys(candidates):
            entry = self._entries[key]
            if could_cure(entry, change):
                self._move(entry, QueueState.ACTIVE, now)
                woken += 1
        for key in self._in_flight:
            self._entries[key].missed.append(change)
        return woken

    def next_time(self) -> float | None:
        """Return when the next backoff or flush ends."""
        while self._timed:
            until, _, key, version = self._timed[0]
            entry = self._entries.get(key)
            if entry is not None and entry.version == version:
                return until
            heapq.heappop(self._timed)
        return None

    def _mature(self, now: float) -> None:
        """Make those active whose backoff or patience has ended."""
        while (until := self.next_time()) is not None and until <= now:
            _, _, key, _ = heapq.heappop(self._timed)
            self._move(self._entries[key], QueueState.ACTIVE, now)

    def _move(self, entry: Entry, state: QueueState, now: float) -> None:
        self._unlist(entry)
        entry.version += 1
        entry.state, entry.since = state, now
        key = entry.workload.key
        match state:
            case QueueState.ACTIVE:
                heapq.heappush(self._active, (entry.sort_key, key, entry.version))
            case QueueState.BACKOFF:
                entry.until = now + self.backoff(entry.workload.attempts)
                heapq.heappush(self._timed, (entry.until, entry.sort_key, key, entry.version))
            case QueueState.UNSCHEDULABLE:
                entry.until = now + self._flush_after
                heapq.heappush(self._timed, (entry.until, entry.sort_key, key, entry.version))
                for event in ClusterEvent:
                    if event & entry.cures:
                        self._refused.setdefault(event, {})[key] = None
            case QueueState.IN_FLIGHT:
                self._in_flight[key] = None

    def _unlist(self, entry: Entry) -> None:
        key = entry.workload.key
        if entry.state is QueueState.UNSCHEDULABLE:
            for keys in self._refused.values():
                keys.pop(key, None)
        self._in_flight.pop(key, None)

    def backoff(self, attempts: int) -> float:
        """Return the pause after so many failed attempts, in seconds: 1, 2, 4, 8, 10, 10 … by default."""
        return float(min(self._max_backoff, self._initial_backoff * 2 ** min(max(attempts - 1, 0), 32)))
