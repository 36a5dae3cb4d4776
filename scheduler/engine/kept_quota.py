"""KeptQuota: quota that is kept for those who come first in their queues, so that nobody behind them uses it up.

For backfill.  Who has nodes reserved has its quota from then on as well.  Of those in a queue that wait for nothing but quota the first one is
looked after: others may use what it waits for only if they have ended by the time it is free, or if they leave enough.

| ends of those that have to go first | what is kept |
|---|---|
| are known | the quota, from the last of them on |
| are not, and it has waited for `holdAfterSeconds` | the quota, from now on, for `holdSeconds`; if that was in vain not for as long, then for twice as long, and so on |
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from scheduler.framework.status import Code
from scheduler.model.promise import time_text
from scheduler.queues.admission import is_for_quota
from scheduler.queues.keeping import clash, free_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scheduler.config import Backfill as Wishes
    from scheduler.framework.status import Status
    from scheduler.framework.workload import Workload
    from scheduler.queues.keeping import Claim
    from scheduler.queues.ledger import Charge

    from .core import Core
    from .queue import Entry
    from .reservations import Reservation
    from .run_times import RunTimes

#: So long after a start that has passed whoever it was kept from is tried again, in seconds.
LATENESS = 1.0


class _Kept(NamedTuple):
    """Quota that is kept for a workload."""

    key: str
    claim: Claim
    #: From when on, seconds since the epoch; None for a hold: until all of it is free.
    start: float | None
    whom: str
    #: When it ends in vain.
    until: float = math.inf


class Refusal(NamedTuple):
    """Why a workload may not use quota now, and when it is worth another attempt though nothing happens."""

    status: Status
    retry_at: float | None


class KeptQuota:
    """Quota that is kept in one engine."""

    def __init__(
        self, core: Core, wishes: Wishes, run_times: RunTimes, comes_before: Callable[[str, str], bool]
    ) -> None:
        """Take the engine's parts, what the configuration says, expected ends, and who is tried before whom."""
        self._core = core
        self._wishes = wishes
        self._run_times = run_times
        self._comes_before = comes_before
        #: Since when workloads wait for quota, by queue and key, seconds since the epoch.
        self._since: dict[str, dict[str, float]] = {}
        self._queue_of: dict[str, str] = {}
        #: The first of each queue; left out when it has to be found again.
        self._heads: dict[str, str] = {}
        #: Who was kept from using quota, by whom it is kept for.
        self._kept_from: dict[str, dict[str, None]] = {}

    def refused(self, entry: Entry, status: Status, *, has_plan: bool) -> None:
        """Take that a workload was refused: if it waits for quota and nothing else, some may be kept for it."""
        workload, key = entry.workload, entry.workload.key
        claim = self._core.queues.claim_of(workload)
        if claim is None or has_plan or status.code is not Code.UNSCHEDULABLE or not is_for_quota(status):
            self.left(key)
            return
        queue = str(claim.node.key)
        if self._queue_of.get(key, queue) != queue:
            self.left(key)
        self._queue_of[key] = queue
        self._since.setdefault(queue, {}).setdefault(key, self._core.clock())
        head = self._heads.get(queue)
        if head is not None and head != key and self._comes_before(key, head):
            self._heads[queue] = key

    def left(self, key: str) -> None:
        """Take that a workload does not wait for quota any more, or has its room: others may use what was kept for it."""
        queue = self._queue_of.pop(key, None)
        if queue is not None:
            del self._since[queue][key]
            if not self._since[queue]:
                del self._since[queue]
            if self._heads.get(queue) == key:
                del self._heads[queue]
        for other in self._kept_from.pop(key, ()):
            if self._core.queue.get(other) is not None:
                self._core.queue.retry(other, self._core.clock())

    def keep_from(self, key: str, other: str) -> None:
        """Try a workload again, which is kept back for another one, as soon as that has left."""
        self._kept_from.setdefault(key, {})[other] = None

    def refusal(self, entry: Entry, workload: Workload, reserved: Iterable[Reservation]) -> Refusal | None:
        """Return why a workload, which has quota, may not use it; None if it may. `reserved` are the reservations that bind it."""
        core, reserved = self._core, tuple(reserved)
        if not core.queues.is_on or not (self._since or reserved):
            return None
        claim = core.queues.claim_of(workload)
        if claim is None:
            return None
        ledger = core.queues.ledger()
        if any((charge := ledger.charge_of(uid)) is not None and charge.is_kept for uid in claim.uids):
            return None  # others were evicted for it, or are about to be: that must not be in vain
        now = core.clock()
        seconds = self._run_times.longest_of(workload.pods.values())
        end = math.inf if seconds is None else now + seconds
        for kept in self._kept(entry, reserved, now):
            if kept.start is not None and end <= kept.start:
                continue
            found = clash(kept.claim, claim, ledger, self._gone_by(kept.start, now))
            if found is not None:
                self.keep_from(kept.key, workload.key)
                when = "until it fits" if kept.start is None else f"from {time_text(kept.start)} on"
                retry_at = kept.until if kept.start is None else kept.start + LATENESS
                return Refusal(found.status(kept.whom, when), retry_at if now < retry_at < math.inf else None)
        return None

    def _kept(self, entry: Entry, reserved: Iterable[Reservation], now: float) -> Iterator[_Kept]:
        """Yield what is kept before a workload."""
        for one in reserved:
            claim = self._claim(one.key)
            if claim is not None:
                yield _Kept(one.key, claim, one.start, one.whom, one.until)
        for queue in list(self._since):
            head = self._head(queue)
            if head == entry.workload.key or not self._comes_before(head, entry.workload.key):
                continue
            claim = self._claim(head)
            if claim is None:
                continue
            whom = head.split(":")[2 if head.startswith("gang:") else 1]
            start = free_at(claim, self._core.queues.ledger(), self._end_of(now), now)
            if start is not None:
                yield _Kept(head, claim, start, whom)
            elif (until := self._hold_until(now - self._since[queue][head])) is not None:
                yield _Kept(head, claim, None, whom, now + until)

    def _hold_until(self, waited: float) -> float | None:
        """Return for how much longer quota is held for who has waited so long, in seconds; None if it is not now."""
        past, length = waited - self._wishes.hold_after_seconds, float(self._wishes.hold_seconds)
        while past >= 2 * length:
            past, length = past - 2 * length, 2 * length
        return length - past if 0 <= past < length else None

    def _head(self, queue: str) -> str:
        head = self._heads.get(queue)
        if head is None:
            keys = iter(self._since[queue])
            head = next(keys)
            for key in keys:
                if self._comes_before(key, head):
                    head = key
            self._heads[queue] = head
        return head

    def _claim(self, key: str) -> Claim | None:
        entry = self._core.queue.get(key)
        return self._core.queues.claim_of(entry.workload) if entry is not None else None

    def _end_of(self, now: float) -> Callable[[str, Charge], float | None]:
        pods = self._core.cluster.pods
        return lambda uid, charge: None if charge.is_kept else self._run_times.end_of(pods[uid], now)

    def _gone_by(self, start: float | None, now: float) -> Callable[[str], bool]:
        """Return how to tell who will have ended by a start."""
        if start is None:
            return lambda _: False
        pods, node_of = self._core.cluster.pods, self._core.cluster.node_of

        def is_gone(uid: str) -> bool:
            end = self._run_times.end_of(pods[uid], now) if node_of(uid) is not None else None
            return end is not None and end <= start

        return is_gone
