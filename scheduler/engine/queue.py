"""WorkQueue: which workload is tried next, and what wakes those that were refused.

For the engine.  It holds workloads, not pods, so a hopeless gang of a thousand costs as much as one pod.

| state | means | leaves by |
|---|---|---|
| gated | pods or the group are missing, or a PreEnqueue plugin objects | `put` with no gate |
| active | to be tried, in the order of QueueSort | `pop` |
| backoff | to be tried, but not before a time | time; if it is no accident, nothing else to do |
| unschedulable | refused; waits for an event that could cure a stated reason | `wake`, flush after 5 minutes |
| in flight | being tried | `conclude`, then `refuse`, `fail` or `remove` |

Whatever moves a workload, a gate holds it: nothing that is gated becomes active.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from scheduler.framework.status import ClusterEvent, Code

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scheduler.framework.change import Change
    from scheduler.framework.status import Reason, Status
    from scheduler.framework.workload import Workload

    from .lack import Lack


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
    sort_key: tuple[Any, ...]
    #: Workloads of one group are in the order of their sort keys; whose turn it is among groups is for `pop` to be told.
    group: Hashable = ()
    state: QueueState = QueueState.GATED
    #: What keeps it from being tried; None if nothing does.
    gate: Status | None = None
    #: What the workload looked like when it was put here last: equal ones are no news.
    look: Hashable = None
    #: What it asks for at once, by resource; None until somebody counts it, and again when it looks different.
    asks: Mapping[str, int] | None = None
    #: What it was refused for; None before the first attempt.
    refusal: Status | None = None
    #: When the state began, when backoff or flush ends, and before when it is not tried again (seconds).
    since: float = 0.0
    until: float = 0.0
    rest_until: float = 0.0
    flush_at: float = 0.0
    #: Which plugin gave which reason, for the hints; what a refused gang lacked.
    blame: tuple[tuple[str, Reason], ...] = ()
    lack: Lack | None = None
    #: It rests because of an accident: it is not tried before, however idle the scheduler is.
    is_accident: bool = False
    #: Changes that arrived while it was in flight, and those that made it active.
    missed: dict[Change, None] = field(default_factory=dict)
    cured_by: dict[Change, None] = field(default_factory=dict)
    #: It changed while it was in flight: whatever comes of the attempt, it is worth another one.
    is_stale: bool = False
    #: Bits of the events that may concern it now.
    listens_to: int = 0
    #: Heap items of former states are recognised by an older number.
    version: int = 0

    @property
    def status(self) -> Status | None:
        """What it waits for."""
        return self.gate or self.refusal

    @property
    def cures(self) -> ClusterEvent:
        """The events that may end the wait."""
        if self.gate is not None:
            return _cures(self.gate) if self.gate.plugin else ClusterEvent.NONE
        return ClusterEvent.TIME | _cures(self.refusal)


#: Says whose turn it is among the first entries of several groups.
Choose = Callable[[list[Entry]], Entry]


class WorkQueue:
    """Workloads by state. All times are seconds of the engine's clock."""

    def __init__(self, initial_backoff: float, max_backoff: float, flush_after: float) -> None:
        """Take the three times, in seconds."""
        self._initial_backoff = initial_backoff
        self._max_backoff = max_backoff
        self._flush_after = flush_after
        self._entries: dict[str, Entry] = {}
        self._active: dict[Hashable, list[tuple[tuple[Any, ...], str, int]]] = {}
        self._timed: list[tuple[float, Hashable, tuple[Any, ...], str, int]] = []
        #: What rests, but not because of an accident: by the second in which the rest ends, then in the queue's order.
        self._resting: list[tuple[float, Hashable, tuple[Any, ...], str, int]] = []
        #: Bit of a ClusterEvent to the workloads that it may concern.
        self._listening: dict[int, dict[str, None]] = {int(event): {} for event in ClusterEvent}
        #: The one workload that is being tried.
        self._tried: Entry | None = None
        self._versions = 0

    def __len__(self) -> int:
        """Count the workloads."""
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        """Walk over all entries in the order of arrival."""
        return iter(self._entries.values())

    @property
    def version(self) -> int:
        """A number that grows whenever a workload moves."""
        return self._versions

    def get(self, key: str) -> Entry | None:
        """Return a workload's entry."""
        return self._entries.get(key)

    def put(
        self, workload: Workload, sort_key: tuple[Any, ...], gate: Status | None, look: Hashable, now: float,
        *, is_own: bool = False, group: Hashable = (),
    ) -> Entry:  # fmt: skip
        """Add a workload, or bring it up to date; one that looks different is worth another attempt.

        `is_own`: what is different is the engine's own doing, and no news.
        """
        entry = self._entries.get(workload.key)
        if entry is None:
            entry = self._entries[workload.key] = Entry(workload, sort_key, group, look=look, gate=gate)
            self._move(entry, QueueState.ACTIVE, now)
            return entry
        if entry.look != look:
            entry.asks = None
        is_news = entry.look != look and not is_own
        is_elsewhere = entry.sort_key != sort_key or entry.group != group
        is_moved = entry.gate != gate or (entry.state is QueueState.ACTIVE and is_elsewhere)
        entry.workload, entry.sort_key, entry.gate, entry.look = workload, sort_key, gate, look
        entry.group = group
        if is_news:
            entry.cured_by = {}
        if entry.state is QueueState.IN_FLIGHT:
            entry.is_stale |= is_news
        elif is_moved or (is_news and entry.state is not QueueState.ACTIVE):
            self._activate(entry, now)
        return entry

    def remove(self, key: str) -> None:
        """Forget a workload."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._unlist(entry)
            entry.version = 0
            self._versions += 1
            if self._tried is entry:
                self._tried = None

    def pop(
        self, now: float, could_cure: Callable[[Entry, Change], bool], choose: Choose | None = None
    ) -> Entry | None:
        """Return the next workload to try, which is in flight from then on; if none is active, one that rests.

        One that was woken goes back if what woke it has passed: others were served first.  `choose` says whose turn it is
        where there are several groups.
        """
        self._mature(now)
        while (heads := self._heads()) or self._wake_one(now):
            if not heads:
                continue
            entry = heads[0] if len(heads) == 1 or choose is None else choose(heads)
            heapq.heappop(self._active[entry.group])
            cured_by, entry.cured_by = entry.cured_by, {}
            if cured_by and not any(could_cure(entry, change) for change in cured_by):
                self._move(entry, QueueState.UNSCHEDULABLE, now)
                continue
            self._move(entry, QueueState.IN_FLIGHT, now)
            entry.missed.clear()
            entry.is_stale = False
            self._tried = entry
            return entry
        return None

    def conclude(self, entry: Entry) -> bool:
        """End an attempt; whoever concludes it says next what becomes of the workload. False if that left meanwhile."""
        if self._entries.get(entry.workload.key) is not entry:
            return False
        entry.state = QueueState.UNSCHEDULABLE
        self._tried = None
        return True

    def has_active(self, now: float) -> bool:
        """Tell whether there is something for `pop`."""
        self._mature(now)
        return bool(self._heads()) or self._first_resting() is not None

    def refuse(
        self, key: str, status: Status, blame: tuple[tuple[str, Reason], ...], now: float,
        could_cure: Callable[[Entry, Change], bool], *, lack: Lack | None = None, rests: bool = False,
        retry_at: float | None = None,
    ) -> None:  # fmt: skip
        """Put a workload that was tried in vain aside; changes that it missed may wake it at once.

        `rests`: it came far, and held others up: it is not tried again before its backoff has ended.  `retry_at`: then it
        is tried again, whatever happens.
        """
        entry = self._entries.get(key)
        if entry is None or self._is_being_tried(entry):
            return
        entry.refusal, entry.blame, entry.lack, entry.is_accident = status, blame, lack, False
        entry.workload.attempts += 1
        entry.flush_at = now + self._flush_after if retry_at is None else min(retry_at, now + self._flush_after)
        entry.rest_until = now + self.backoff(entry.workload.attempts) if rests else 0.0
        missed, entry.missed = entry.missed, {}
        is_stale, entry.is_stale = entry.is_stale, False
        self._move(entry, QueueState.UNSCHEDULABLE, now)
        entry.cured_by = {c: None for c in missed if c.event & entry.cures and could_cure(entry, c)}
        if is_stale:
            entry.cured_by = {}
        if is_stale or entry.cured_by:
            self._activate(entry, now)

    def fail(self, key: str, status: Status, now: float, *, rests: bool) -> None:
        """Put a workload that failed through no fault of its own back, with or without a backoff."""
        entry = self._entries.get(key)
        if entry is None or self._is_being_tried(entry):
            return
        entry.refusal, entry.blame, entry.lack = status, (), None
        entry.missed, entry.cured_by, entry.is_stale = {}, {}, False
        entry.is_accident = status.code is Code.ERROR
        entry.workload.attempts += 1
        entry.rest_until = now + self.backoff(entry.workload.attempts) if rests else 0.0
        self._activate(entry, now)

    def retry(self, key: str, now: float) -> None:
        """Let a workload be tried again, rested or not; one that is being tried, once more after that."""
        entry = self._entries.get(key)
        if entry is None or self._is_being_tried(entry):
            return
        entry.rest_until = 0.0
        if entry.state is not QueueState.ACTIVE or entry.cured_by:
            entry.cured_by = {}
            self._activate(entry, now)

    def wake(self, change: Change, now: float, could_cure: Callable[[Entry, Change], bool]) -> list[str]:
        """Make those active that the change could cure; return the gated ones that it may concern.

        Without `rests` a cured workload skips its backoff: room that came free is not left to sleep. O(workloads whose
        stated reasons name the event).
        """
        happened, gated = int(change.event), []
        if self._tried is not None:
            self._tried.missed[change] = None
        if (one := self._listening.get(happened)) is not None:
            keys = list(one)
        else:
            keys = [key for event, listening in self._listening.items() if event & happened for key in listening]
        for key in dict.fromkeys(keys):
            entry = self._entries[key]
            if entry.state is QueueState.GATED:
                gated.append(key)
            elif entry.state is QueueState.ACTIVE:
                entry.cured_by[change] = None
            elif could_cure(entry, change):
                entry.cured_by = {change: None}
                self._activate(entry, now)
        return gated

    def next_time(self) -> float | None:
        """Return when the next backoff or flush ends."""
        while self._timed:
            until, _, _, key, version = self._timed[0]
            entry = self._entries.get(key)
            if entry is not None and entry.version == version:
                return until
            heapq.heappop(self._timed)
        return None

    def backoff(self, attempts: int) -> float:
        """Return the pause after so many failed attempts, in seconds: 1, 2, 4, 8, 10, 10 … by default."""
        return float(min(self._max_backoff, self._initial_backoff * 2 ** min(max(attempts - 1, 0), 32)))

    def _is_being_tried(self, entry: Entry) -> bool:
        """Tell whether an attempt is under way; whatever happens to its workload meanwhile, it is worth another one."""
        entry.is_stale |= entry.state is QueueState.IN_FLIGHT
        return entry.state is QueueState.IN_FLIGHT

    def _mature(self, now: float) -> None:
        """Make those active whose backoff or patience has ended."""
        while (until := self.next_time()) is not None and until <= now:
            _, _, _, key, _ = heapq.heappop(self._timed)
            self._move(self._entries[key], QueueState.ACTIVE, now)

    def _heads(self) -> list[Entry]:
        """Return the first active entry of each group; what is out of date is dropped on the way."""
        found: list[Entry] = []
        for group, heap in list(self._active.items()):
            while heap:
                _, key, version = heap[0]
                entry = self._entries.get(key)
                if entry is not None and entry.version == version:
                    found.append(entry)
                    break
                heapq.heappop(heap)
            else:
                del self._active[group]
        return found

    def _first_resting(self) -> Entry | None:
        """Return what is tried first of all that rests, accidents aside."""
        while self._resting:
            _, _, _, key, version = self._resting[0]
            entry = self._entries.get(key)
            if entry is not None and entry.version == version:
                return entry
            heapq.heappop(self._resting)
        return None

    def _wake_one(self, now: float) -> bool:
        """Cut one rest short, as there is nothing else to do."""
        entry = self._first_resting()
        if entry is None:
            return False
        entry.rest_until = 0.0
        self._move(entry, QueueState.ACTIVE, now)
        return True

    def _activate(self, entry: Entry, now: float) -> None:
        """Make an entry active as soon as it has rested; after a rest it is tried whatever woke it."""
        if entry.rest_until > now:
            entry.cured_by = {}
            self._move(entry, QueueState.BACKOFF, now)
        else:
            self._move(entry, QueueState.ACTIVE, now)

    def _move(self, entry: Entry, state: QueueState, now: float) -> None:
        self._unlist(entry)
        self._versions += 1
        entry.version = self._versions
        if entry.gate is not None and state is not QueueState.IN_FLIGHT:
            state = QueueState.GATED
        entry.state, entry.since = state, now
        key = entry.workload.key
        match state:
            case QueueState.ACTIVE:
                heapq.heappush(self._active.setdefault(entry.group, []), (entry.sort_key, key, entry.version))
                if entry.cured_by:
                    self._listen(entry, entry.cures)
            case QueueState.BACKOFF:
                self._sleep(entry, entry.rest_until)
                if not entry.is_accident:
                    second = math.floor(entry.rest_until)
                    heapq.heappush(self._resting, (second, entry.group, entry.sort_key, key, entry.version))
            case QueueState.UNSCHEDULABLE:
                self._sleep(entry, entry.flush_at)
                self._listen(entry, entry.cures)
            case QueueState.GATED:
                self._listen(entry, entry.cures)

    def _sleep(self, entry: Entry, until: float) -> None:
        entry.until = until
        heapq.heappush(self._timed, (until, entry.group, entry.sort_key, entry.workload.key, entry.version))

    def _listen(self, entry: Entry, events: ClusterEvent) -> None:
        entry.listens_to, key = int(events), entry.workload.key
        for event, listening in self._listening.items():
            if event & entry.listens_to:
                listening[key] = None

    def _unlist(self, entry: Entry) -> None:
        if entry.listens_to:
            for listening in self._listening.values():
                listening.pop(entry.workload.key, None)
            entry.listens_to = 0


def _cures(status: Status | None) -> ClusterEvent:
    events = ClusterEvent.NONE
    for reason in status.reasons if status is not None else ():
        events |= reason.cures
    return events
