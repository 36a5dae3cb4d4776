"""Backfill: who among those that wait for room has something reserved, and what others may do about it.

For the engine.  A workload that is refused for want of room is *due* for a reservation if it is a head, the first of those that wait
for the same nodes in the order in which they are tried, or if everyone has one (`conservative`).  Whoever comes after it is then placed only where
that does not delay it.  Without anybody that waits it costs nothing; the head changes are found once a second at most.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scheduler.framework.status import ClusterEvent, Code, Kind
from scheduler.queues.admission import is_for_quota
from scheduler.queues.keeping import is_kept_quota

from .delays import Delays
from .foresight import Foresight
from .kept_quota import KeptQuota
from .lack import places_on
from .promises import Promises
from .reservations import Reservation, looks_at
from .run_times import RunTimes
from .waiters import Waiter, pool_of

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable

    from scheduler.config import Backfill as Wishes
    from scheduler.framework.change import Change
    from scheduler.framework.status import Status
    from scheduler.framework.workload import Workload

    from .core import Core
    from .kept_quota import Refusal
    from .looks import Look
    from .placement import Placer
    from .queue import Entry

#: How long after somebody who waited has left it takes until the next head is looked for, in seconds.
HEAD_DELAY = 1.0
#: A look ahead is repeated no sooner than this after the last one for the same workload, in seconds.
LEAST_SECONDS_BETWEEN = 1.0
#: … and than this if nothing could be told then, and nodes cannot be held instead.
SECONDS_AFTER_VAIN = 30.0
#: So long after a promised start that has passed it is looked again, in seconds: those that end just then have been seen to end.
LATENESS = 1.0


class Backfill:
    """Reservations of one engine."""

    def __init__(self, core: Core, wishes: Wishes, exempt: Collection[str]) -> None:
        """Take the engine's parts, what the configuration says, and the profiles for whose pods nothing is ever reserved."""
        self._core = core
        self._exempt = exempt
        self._wishes = wishes
        self.run_times = RunTimes(core.cluster, learns=wishes.learn_run_times)
        self.promises = Promises()
        self.quotas = KeptQuota(core, wishes, self.run_times, self._comes_before)
        self._waiters: dict[str, Waiter] = {}
        #: The head of each set of nodes that somebody waits for.
        self._heads: dict[bytes, str] = {}
        #: When the head is looked for, or looked at, next.
        self._look_at: float | None = None
        self._reservations: dict[str, Reservation] = {}
        #: Node name → keys of the reservations that it is in.
        self._on: dict[str, dict[str, None]] = {}
        #: The reservations that bind the workload that is tried.
        self._binding: tuple[Reservation, ...] = ()

    # What the queue and the cycle ask.

    def begin(self, entry: Entry, workload: Workload) -> None:
        """Show the engine's Handle what is reserved before and for the workload that is tried now."""
        access = self._core.access
        access.reserved, access.promised, self._binding = {}, {}, ()
        if not self._reservations:
            return
        own = self._reservations.get(entry.workload.key)
        access.promised = own.places if own is not None else {}
        self._binding = tuple(self._bind(entry))
        now, rows = self._core.clock(), access.snapshot.row_of
        end = self._end_of(workload, now)
        found: dict[int, list[Look]] = {}
        for name in sorted({name for one in self._binding for name in one.nodes} & rows.keys()):
            row = access.snapshot.all_rows[rows[name]]
            if looks := looks_at(row, self._binding, self.run_times, now, now, end):
                found[rows[name]] = looks
        access.reserved = found

    def delays(self, workload: Workload) -> Delays:
        """Return whom a workload could delay that is tried now, after `begin`."""
        return Delays(self._core, self.run_times, workload, self._binding, self._end_of(workload, self._core.clock()))

    def quota_refusal(self, entry: Entry, workload: Workload) -> Refusal | None:
        """Return why a workload that is within its quota may not use it now, as it is kept for others."""
        return self.quotas.refusal(entry, workload, self._bind(entry) if self._reservations else ())

    def leaves_room(self, entry: Entry, change: Change) -> bool:
        """Tell whether a node that gained room may have some that is not reserved before a workload. O(pods of the node)."""
        if change.node_name not in self._on or change.event != ClusterEvent.POD_REMOVED:
            return True
        row = self._core.cluster.view(change.node_name)
        binding = tuple(self._bind(entry, among=self._on[change.node_name]))
        if row is None or not binding:
            return True
        now = self._core.clock()
        looks = looks_at(row, binding, self.run_times, now, now, self._end_of(entry.workload, now))
        runtime = self._core.runtime_of(entry.workload)
        shapes = [runtime.counted_requests(p) for p in {p.shape: p for p in entry.workload.pods.values()}.values()]
        for look in looks:
            pods = [pod for uid, pod in row.pods.items() if uid not in look.away] + list(look.pods)
            if not any(asks is None or places_on(row, asks, pods) for asks in shapes):
                return False
        return True

    # What becomes of workloads.

    def found(self, key: str, start: float | None) -> None:
        """Take up the start that a former process promised a workload."""
        if start is not None and self._wishes.policy != "none":
            self.promises.found(key, start)

    def refused(self, entry: Entry, status: Status, placer: Placer, *, has_plan: bool) -> bool:
        """Take that a workload was refused; tell whether it is to be looked ahead for now."""
        key, now = entry.workload.key, self._core.clock()
        if self._wishes.policy == "none" or not self._waits_for_room(entry, status):
            self._waits_for_else(entry, status, has_plan=has_plan)
            return False
        self.quotas.left(key)  # it has quota; while nodes are reserved for it, that is kept with them
        waiter = self._waiting(key, pool_of(placer), now)
        if has_plan:
            self._drop(key)
            return False
        head = self._heads.get(waiter.pool)
        if head is None or (head != key and self._comes_before(key, head)):
            self._heads[waiter.pool] = key
            self._look_by(waiter.since + self._wishes.hold_after_seconds)
            if self._wishes.policy == "easy" and head is not None:
                self._drop(head)
        reservation = self._reservations.get(key)
        if reservation is not None and not reservation.is_stale and not self._is_over(reservation, now):
            return False
        if not self._is_head(key) and (self._wishes.policy != "conservative" or not self.run_times.are_known):
            if reservation is None:
                self._drop(key)  # what a former process promised
            return False
        if self._may_hold(key, waiter, now):
            return True
        due = waiter.planned_at + (SECONDS_AFTER_VAIN if waiter.is_in_vain else LEAST_SECONDS_BETWEEN)
        if due > now and reservation is not None:
            self._look_by(due)
        return self.run_times.are_known and due <= now

    def look_ahead(self, workload: Workload) -> Generator[int, None, Reservation | None]:
        """Return the steps of a look ahead for a workload that is due."""
        waiter = self._waiters[workload.key]
        before = [one for one in self._reservations.values() if self._comes_before(one.key, workload.key)]
        holds = self._may_hold(workload.key, waiter, self._core.clock())
        return Foresight(self._core, self.run_times, workload, before, holds=holds).run()

    def planned(self, workload: Workload, found: Reservation | None) -> None:
        """Take what a look ahead came to."""
        core, key, now = self._core, workload.key, self._core.clock()
        waiter, entry = self._waiters.get(key), core.queue.get(key)
        if waiter is None or entry is None or entry.workload.pods.keys() != workload.pods.keys():
            return
        waiter.planned_at, waiter.is_in_vain = now, found is None
        former = self._reservations.get(key)
        if found is not None and found.start is None:
            found.until = now + self._wishes.hold_seconds * 2**waiter.holds
            self._look_by(found.until)
        elif found is not None:
            self._look_by((found.start or now) + LATENESS)
        if former is not None:
            is_same = found is not None and (former.start, former.places) == (found.start, found.places)
            self._drop(key, is_told=found is None or found.start is None, released=() if is_same else former.nodes)
        elif found is None or found.start is None:
            self._drop(key)
        if found is None:
            return
        self._put(found)
        self._disturb(found)
        if found.start is not None and self.promises.plan(key, found.start, now):
            core.reporter.promised(entry.workload, found.start, now)

    def placed(self, workload: Workload, node_names: Iterable[str]) -> None:
        """Take that a workload has its room."""
        names = dict.fromkeys(node_names)
        bound = {one.key for one in self._binding}
        for name in names:
            for key in self._on.get(name, ()):
                if key not in bound and key != workload.key:
                    self._stale(self._reservations[key])
        one = self._reservations.get(workload.key)
        self.promises.forget(workload.key)  # it was kept, or broken: what was written stands
        self._drop(workload.key, released=[name for name in one.nodes if name not in names] if one is not None else ())
        self.left(workload.key)

    def left(self, key: str) -> None:
        """Take that a workload does not wait for room any more."""
        self.quotas.left(key)
        self._waits_no_more(key)

    def _waits_no_more(self, key: str) -> None:
        waiter = self._waiters.pop(key, None)
        if waiter is None:
            return
        self._drop(key)
        self._leave(key, waiter)

    # What happens in the cluster.

    def note(self, change: Change) -> None:
        """Look at a change: one of a reserved node that nobody foresaw makes it worth another look ahead."""
        keys = self._on.get(change.node_name)
        if not keys:
            return
        is_node = bool(change.event & ClusterEvent.NODE_ANY)
        pod = self._core.cluster.pods.get(change.pod_uid)
        is_foreign = (
            change.event == ClusterEvent.POD_ASSIGNED
            and pod is not None
            and pod.scheduler_name not in self._core.runtimes
        )
        if is_node or is_foreign:
            for key in list(keys):
                self._stale(self._reservations[key])

    def next_time(self) -> float | None:
        """Return when `expire` has something to do next."""
        if not self._waiters:
            return None
        times = [time for time in (self._look_at, self.promises.next_time(self._core.clock())) if time is not None]
        return min(times, default=None)

    def expire(self, now: float) -> None:
        """Do what is due: end holds, look for the head, look ahead again, and tell what was promised."""
        for key in self.promises.due(now):
            entry, start = self._core.queue.get(key), self.promises.told(key)
            if entry is not None and start is not None:
                self._core.reporter.promised(entry.workload, start, now)
        if self._look_at is None or self._look_at > now:
            return
        self._look_at = None
        for key, one in list(self._reservations.items()):
            if one.start is None and one.until <= now:
                self._end_hold(key, now)
            elif one.is_stale or self._is_over(one, now):
                self._retry(key, now)
            else:
                self._look_by(one.until if one.start is None else one.start + LATENESS)
        self._find_heads(now)

    def promised_start(self, key: str) -> float | None:
        """Return the start that a workload was told last."""
        return self.promises.told(key)

    def reservation(self, key: str) -> Reservation | None:
        """Return what is reserved for a workload."""
        return self._reservations.get(key)

    # Inside.

    def _waits_for_room(self, entry: Entry, status: Status) -> bool:
        """Tell whether room is all that a workload waits for, which will be there in time."""
        is_final = status.code is not Code.UNSCHEDULABLE or (status.reasons and status.reasons[0].kind is Kind.NEVER)
        return self._is_ours(entry) and not is_final and not is_for_quota(status) and not is_kept_quota(status)

    def _waits_for_else(self, entry: Entry, status: Status, *, has_plan: bool) -> None:
        """Take that what a workload waits for is not room: quota may be kept for it."""
        self._drop(entry.workload.key)
        self._waits_no_more(entry.workload.key)
        if self._wishes.policy != "none" and self._is_ours(entry):
            self.quotas.refused(entry, status, has_plan=has_plan)

    def _is_ours(self, entry: Entry) -> bool:
        """Tell whether something may be reserved for a workload at all."""
        return next(iter(entry.workload.pods.values())).scheduler_name not in self._exempt

    def _comes_before(self, key: str, other: str) -> bool:
        """Tell whether a workload is tried before another; one that is not in the queue is before nobody."""
        first, second = self._core.queue.get(key), self._core.queue.get(other)
        if first is None or second is None or first is second:
            return second is None and first is not None
        if first.group == second.group:
            return (first.sort_key, key) < (second.sort_key, other)
        return self._core.choose([first, second]) is first

    def _bind(self, entry: Entry, among: Iterable[str] | None = None) -> Generator[Reservation, None, None]:
        """Yield the reservations that a workload has to respect: of those before it; if it has one itself, of all."""
        key = entry.workload.key
        has_own = key in self._reservations and self._wishes.policy == "conservative"
        for other in list(self._reservations if among is None else among):
            if other != key and (has_own or self._comes_before(other, key)):
                yield self._reservations[other]

    def _end_of(self, workload: Workload, now: float) -> float:
        seconds = self.run_times.longest_of(workload.pods.values())
        return math.inf if seconds is None else now + seconds

    def _is_over(self, one: Reservation, now: float) -> bool:
        return one.until <= now if one.start is None else one.start + LATENESS <= now

    def _may_hold(self, key: str, waiter: Waiter, now: float) -> bool:
        """Tell whether nodes may be held for a workload without a start that could be promised."""
        has_waited = now - waiter.since >= self._wishes.hold_after_seconds
        return self._is_head(key) and has_waited and waiter.rests_until <= now

    def _end_hold(self, key: str, now: float) -> None:
        """Free the nodes that were held in vain, for as long as they were held."""
        waiter = self._waiters[key]
        waiter.rests_until = now + self._wishes.hold_seconds * 2**waiter.holds
        waiter.holds += 1
        self._drop(key)
        self._look_by(waiter.rests_until)

    def _find_heads(self, now: float) -> None:
        """Find who is first of those that wait for the same nodes, and let it be looked ahead for if it is time. O(waiting)."""
        self._heads = {}
        for key, waiter in self._waiters.items():
            head = self._heads.get(waiter.pool)
            if head is None or self._comes_before(key, head):
                self._heads[waiter.pool] = key
        for head in self._heads.values():
            waiter = self._waiters[head]
            if head in self._reservations:
                continue
            if self._may_hold(head, waiter, now) or (self.run_times.are_known and waiter.planned_at == -math.inf):
                self._retry(head, now)
            else:
                self._look_by(max(waiter.since + self._wishes.hold_after_seconds, waiter.rests_until))

    def _waiting(self, key: str, pool: bytes, now: float) -> Waiter:
        """Return what is known of a workload that waits, which may have come to wait for other nodes than before."""
        waiter = self._waiters.get(key)
        if waiter is None:
            waiter = self._waiters[key] = Waiter(now, pool)
        elif waiter.pool != pool:
            self._leave(key, waiter)
            waiter.pool = pool
        return waiter

    def _leave(self, key: str, waiter: Waiter) -> None:
        """Let others be the head of those that wait for the same nodes."""
        if self._heads.get(waiter.pool) == key:
            del self._heads[waiter.pool]
            if self._waiters:
                self._look_by(self._core.clock() + HEAD_DELAY)

    def _is_head(self, key: str) -> bool:
        return self._heads.get(self._waiters[key].pool) == key

    def _retry(self, key: str, now: float) -> None:
        """Let a workload be tried again, and looked ahead for if it is refused."""
        waiter = self._waiters[key]
        due = waiter.planned_at + LEAST_SECONDS_BETWEEN
        if due > now:
            self._look_by(due)
        else:
            self._core.queue.retry(key, now)

    def _stale(self, one: Reservation) -> None:
        one.is_stale = True
        self._look_by(self._core.clock())

    def _disturb(self, one: Reservation) -> None:
        """Let those be looked ahead for again whose promises a new one may break: later ones that share a node."""
        for name in one.nodes:
            for key in list(self._on[name]):
                if key != one.key and self._comes_before(one.key, key):
                    self._stale(self._reservations[key])

    def _look_by(self, time: float) -> None:
        self._look_at = time if self._look_at is None else min(self._look_at, time)

    def _put(self, one: Reservation) -> None:
        self._reservations[one.key] = one
        for name in one.nodes:
            self._on.setdefault(name, {})[one.key] = None

    def _drop(self, key: str, *, is_told: bool = True, released: Iterable[str] | None = None) -> None:
        """Forget a reservation; nodes that are free of it now may be used by others. `is_told`: so is what was promised."""
        one = self._reservations.pop(key, None)
        if one is not None:
            for name in one.nodes:
                on_node = self._on[name]
                del on_node[key]
                if not on_node:
                    del self._on[name]
            self._core.cluster.released.extend(one.nodes if released is None else released)
        if is_told and self.promises.forget(key) and (entry := self._core.queue.get(key)) is not None:
            self._core.reporter.promised(entry.workload, None, self._core.clock())
