"""EventRecorder: events.k8s.io/v1 Events about pods and gangs; repeated ones are counted, floods are cut.

For the binder.  Best effort: an event that cannot be written is dropped and counted, never a reason to wait.  They are written
after a burst of bindings, not beside it, but wait no longer than PATIENCE_SECONDS for its end; `eventTime` is when it happened.

The same event again (everything equal, the note too) within six minutes becomes a series: its count is raised, and
written at most once a minute.  A different note is news and becomes an event of its own, because the API server lets
nobody change a note.  Each object has a token bucket of 25 events that fills by one in five minutes, as in client-go.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from .client import NOT_FOUND, ApiError, Client, RequestError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scheduler.framework.effects import EmitEvent, ObjectRef

log = structlog.stdlib.get_logger("events")

BURST, REFILL_SECONDS = 25, 300.0
SERIES_SECONDS = 360.0
SERIES_WRITE_SECONDS = 60.0
REMEMBERED = 4096
#: Events that wait to be written; beyond it the oldest are dropped.
LONGEST_QUEUE = 10_000
#: How long an event waits for the end of a burst of bindings.
PATIENCE_SECONDS = 10.0
AT_ONCE = 4
LONGEST_NOTE_BYTES = 1024


@dataclass(slots=True)
class _Series:
    """An event that may come again."""

    namespace: str
    name: str
    count: int
    seen_at: float
    written_at: float


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


@dataclass(frozen=True, slots=True)
class _Write:
    """A request to make: a new event, or, without one, a new count of an old one."""

    series: _Series
    event: EmitEvent | None
    happened: datetime
    recorded_at: float


async def _no_wait(longest_seconds: float) -> None:
    """Wait for nothing."""
    del longest_seconds


class EventRecorder:
    """Records events in the background; `run` writes them."""

    def __init__(
        self,
        client: Client,
        *,
        instance: str = "",
        clock: Callable[[], float] = time.monotonic,
        may_write: Callable[[], bool] = lambda: True,
        on_dropped: Callable[[], None] = lambda: None,
        lull: Callable[[float], Awaitable[None]] = _no_wait,
    ) -> None:
        """Keep the client; `instance` names this process in each event, by default `ai-scheduler-<host name>`.

        `lull` waits for the end of a burst of bindings, at most so many seconds.
        """
        self._client = client
        self._instance = instance or f"ai-scheduler-{socket.gethostname()}"[:128]
        self._clock = clock
        self._may_write = may_write
        self._on_dropped = on_dropped
        self._lull = lull
        self._series: OrderedDict[EmitEvent, _Series] = OrderedDict()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._queue: deque[_Write] = deque()
        self._writing = 0
        self._filled = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def record(self, event: EmitEvent) -> None:
        """Take an event: a new one, one more of a series, or one too many."""
        now = self._clock()
        series = self._series.get(event)
        if series is not None and now - series.seen_at <= SERIES_SECONDS:
            self._repeat(event, series, now)
        elif self._may_speak(event.regarding, now):
            self._begin(event, now)
        else:
            self._on_dropped()

    async def run(self) -> None:
        """Write events until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._write_all())

    async def drain(self, timeout_seconds: float) -> None:
        """Wait until everything is written, at most this long."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._is_idle.wait()
        except TimeoutError:
            return

    def _begin(self, event: EmitEvent, now: float) -> None:
        namespace = event.regarding.namespace or "default"
        name = f"{event.regarding.name[:230]}.{secrets.token_hex(8)}"
        series = _Series(namespace, name, 1, now, now)
        self._series[event] = series
        self._series.move_to_end(event)
        while len(self._series) > REMEMBERED:
            self._series.popitem(last=False)
        self._enqueue(_Write(series, event, datetime.now(UTC), now))

    def _repeat(self, event: EmitEvent, series: _Series, now: float) -> None:
        series.count += 1
        series.seen_at = now
        self._series.move_to_end(event)
        if now - series.written_at >= SERIES_WRITE_SECONDS:
            series.written_at = now
            self._enqueue(_Write(series, None, datetime.now(UTC), now))

    def _may_speak(self, regarding: ObjectRef, now: float) -> bool:
        """Take a token of the object's bucket, if there is one."""
        bucket = self._buckets.setdefault(regarding.uid, _Bucket(BURST, now))
        self._buckets.move_to_end(regarding.uid)
        while len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.at) / REFILL_SECONDS)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _enqueue(self, write: _Write) -> None:
        self._queue.append(write)
        if len(self._queue) > LONGEST_QUEUE:
            self._queue.popleft()
            self._on_dropped()
        self._is_idle.clear()
        self._filled.set()

    async def _write_all(self) -> None:
        while True:
            while not self._queue:
                self._filled.clear()
                await self._filled.wait()
            await self._lull(self._queue[0].recorded_at + PATIENCE_SECONDS - self._clock())
            if not self._queue:  # others were quicker
                continue
            write = self._queue.popleft()
            self._writing += 1
            try:
                if self._may_write():
                    await self._write(write)
            finally:
                self._writing -= 1
                if not self._queue and not self._writing:
                    self._is_idle.set()

    async def _write(self, write: _Write) -> None:
        path = f"/apis/events.k8s.io/v1/namespaces/{write.series.namespace}/events"
        try:
            if write.event is not None:
                body = self._body(write.event, write.series, write.happened)
                await self._client.create(path, body, attempts=3)
            else:
                series = {"count": write.series.count, "lastObservedTime": _micro_time(write.happened)}
                await self._client.change(f"{path}/{write.series.name}", {"series": series}, attempts=3)
        except RequestError as error:
            self._on_dropped()
            if not (isinstance(error, ApiError) and error.status == NOT_FOUND):
                log.warning("event_dropped", name=write.series.name, problem=str(error))

    def _body(self, event: EmitEvent, series: _Series, happened: datetime) -> dict[str, Any]:
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": series.namespace, "name": series.name},
            "eventTime": _micro_time(happened),
            "reportingController": event.reporting_controller,
            "reportingInstance": self._instance,
            "action": event.action or event.reason,
            "reason": event.reason,
            "regarding": _reference(event.regarding),
            "note": shortened(event.note),
            "type": event.type,
        }
        if event.related is not None:
            body["related"] = _reference(event.related)
        return body


def shortened(note: str) -> str:
    """Return a note that fits into an Event: 1024 bytes, cut at a character."""
    encoded = note.encode()
    if len(encoded) <= LONGEST_NOTE_BYTES:
        return note
    return encoded[: LONGEST_NOTE_BYTES - 3].decode(errors="ignore") + "…"


def _reference(ref: ObjectRef) -> dict[str, str]:
    fields = {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "namespace": ref.namespace,
        "name": ref.name,
        "uid": ref.uid,
    }
    return {key: value for key, value in fields.items() if value}


def _micro_time(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
