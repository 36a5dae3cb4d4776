"""Reflector: lists one resource, watches it, and tells a sink what was added, changed or removed.

For the feeds.  It keeps no objects, only their keys and versions, so that after a lost watch it can compare: what
disappeared in the gap is reported as removed, what stayed the same is not reported at all.

| what happens | what follows |
|---|---|
| the stream ends or is cut, silence | watch again from the last version, after a backoff if it brought nothing |
| 410, an ERROR event, a version that is refused (etcd was restored) | list again and compare |
| 404 (no such API or CRD) | one log line; the resource counts as empty, after a minute if it had been there; tried again |
| discovery says that the API is not served | the same, and nothing is tried until it says that it is |
| 403 | the same for an optional resource; a required one stays unsynced until it is allowed |
| 429 | wait as long as the server says |
| an object that cannot be used | reported to the sink with its name, and skipped |

Lists are consistent reads in pages: an old list from a cache could hide a binding of the previous leader.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import aiohttp
import msgspec
import structlog

from .client import (
    BAD_REQUEST,
    FORBIDDEN,
    GONE,
    NOT_FOUND,
    PAGE_SIZE,
    ApiError,
    Client,
    Sleep,
    UnreachableError,
    api_error,
    backoff_seconds,
)
from .lines import SilenceError, read_lines
from .wire import ObjectKey, change_reader, decode_page, key_in, other_event

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from scheduler.model.api import ObjectMeta

    from .discovery import Served
    from .wire import Page

log = structlog.stdlib.get_logger("reflector")

#: Reason of an error that discovery foretells.
NOT_SERVED = "NotServed"
#: Decoding and delivering pauses this often, so that the Lease and bindings are not kept waiting.
PAUSE_EVERY_SECONDS = 0.005


class HasMetadata(Protocol):
    """Every API object."""

    @property
    def metadata(self) -> ObjectMeta:
        """Name, uid and version."""


T = TypeVar("T", bound=HasMetadata)
T_contra = TypeVar("T_contra", bound=HasMetadata, contravariant=True)


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """What is listed and watched, and as which type it is decoded."""

    name: str
    #: Empty where discovery finds it.
    path: str
    type: type[T]
    field_selector: str = ""
    label_selector: str = ""
    #: Neither readiness nor anybody's health depends on it.
    is_optional: bool = False

    @property
    def params(self) -> dict[str, str]:
        """The selectors as query parameters."""
        both = {"fieldSelector": self.field_selector, "labelSelector": self.label_selector}
        return {name: value for name, value in both.items() if value}


class Sink(Protocol[T_contra]):
    """Whom a reflector tells.  Called in the event loop, in the order of the stream; must not block."""

    def changed(self, obj: T_contra) -> None:
        """Take an object that is new or different."""

    def removed(self, key: ObjectKey, last: T_contra | None) -> None:
        """Take that an object is gone; `last` is what DELETED carried: the state before, None after a relist."""

    def refused(self, key: ObjectKey, problem: str) -> None:
        """Take that an object could not be decoded or converted; an earlier version of it still counts."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long to wait for what, in seconds; and the means to wait, for tests."""

    #: Without a line for this long a watch is cut; the API server sends a bookmark about every 60 s.
    silence: float = 70.0
    #: The server ends a watch after a time from this range, so that not all are renewed at once.
    watch: tuple[int, int] = (300, 600)
    absent: float = 30.0
    #: A resource that was there is believed to be gone after this long: an API server that starts answers 403 and 404
    #: for a while.
    absent_after: float = 60.0
    first_backoff: float = 0.2
    longest_backoff: float = 30.0
    #: A watch that ends sooner and brought nothing counts as a failure.
    shortest_watch: float = 1.0
    sleep: Sleep = field(default=asyncio.sleep)
    clock: Callable[[], float] = field(default=time.monotonic)


class _RelistError(Exception):
    """The version is of no use any more."""


class Reflector(Generic[T]):
    """Keeps a sink in step with one resource, for ever."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        sink: Sink[T],
        timing: Timing | None = None,
        served: Served | None = None,
    ) -> None:
        """Prepare; `run` starts it.  With `served`, discovery tells the path of an optional API, and whether there is one."""
        self.resource = resource
        self._served = served
        self._path = resource.path
        self._timing = timing or Timing()
        self._clock = self._timing.clock
        #: Set once the first list is complete, or the resource is known to be absent; never cleared.
        self.synced = asyncio.Event()
        #: What is wrong now, or empty.
        self.problem = ""
        #: Set while the API server does not serve the resource, or does not let us see it.
        self.is_absent = False
        #: When the last line or answer came, by the clock of the timing.
        self.heard_at = float("-inf")
        #: When it last did anything; the wait between two tries is bounded, so this shows that it is alive.
        self.turned_at = self._clock()
        #: How often everything was listed.
        self.lists = 0
        self._client = client
        self._sink = sink
        self._change = change_reader(resource.type)
        self._known: dict[tuple[str, str], ObjectKey] = {}
        self._version = ""
        self._failures = 0
        self._missing_since = float("inf")
        self._paused_at = 0.0

    def __len__(self) -> int:
        """Return how many objects there are."""
        return len(self._known)

    async def run(self) -> None:
        """List and watch until cancelled; no failure of the API server ends it."""
        while True:
            self.turned_at = self._clock()
            try:
                if not self._version:
                    await self._find()
                    await self._list()
                await self._watch()
            except _RelistError as error:
                self._version = ""
                await self._failed(str(error))
            except ApiError as error:
                await self._refused(error)
            except (UnreachableError, SilenceError, aiohttp.ClientError, msgspec.MsgspecError, OSError) as error:
                await self._failed(str(error) or repr(error))

    async def _find(self) -> None:
        """Take the path from discovery, without a request for an API that is not served."""
        if self._served is None:
            return
        while not self._served.is_known:
            await self._turn()
        path = self._served.path()
        if path is None:
            raise ApiError(NOT_FOUND, NOT_SERVED, f"the API server does not serve {self.resource.name}")
        self._path = path

    async def _turn(self) -> None:
        """Wait until it makes sense to look for an absent API again."""
        self.turned_at = self._clock()
        if self._served is None:
            await self._timing.sleep(self._timing.absent)
        else:
            await self._served.turn()
            self.turned_at = self._clock()

    async def _list(self) -> None:
        """Fetch all pages, deliver what is new, and report as removed what is not there any more."""
        present: set[tuple[str, str]] = set()
        version = ""
        async with aclosing(self._pages()) as pages:
            async for page in pages:
                for key, problem in page.refused:
                    present.add(key.name_key)
                    self._sink.refused(key, problem)
                for obj in page.items:
                    key = key_in(obj.metadata)
                    present.add(key.name_key)
                    self._take(key, obj)
                    if time.perf_counter() - self._paused_at > PAUSE_EVERY_SECONDS:
                        await self._pause()
                version = page.version
        for name in [name for name in self._known if name not in present]:
            self._sink.removed(self._known.pop(name), None)
        self._version = version
        self.lists += 1
        self._is_synced()

    async def _pages(self) -> AsyncGenerator[Page[T], None]:
        """Yield the pages of a list; while one is dealt with, the next one is on its way."""
        params = {**self.resource.params, "limit": str(PAGE_SIZE)}
        coming = self._fetch(params)
        try:
            while True:
                page = decode_page(await coming, self.resource.type)
                self._heard()
                if page.next_page:
                    coming = self._fetch({**params, "continue": page.next_page})
                    await asyncio.sleep(0)  # the request goes out before the page is dealt with
                yield page
                if not page.next_page:
                    return
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)

    def _fetch(self, params: dict[str, str]) -> asyncio.Task[bytes]:
        return asyncio.create_task(self._client.get_bytes(self._path, params, attempts=1), name="page of a list")

    async def _watch(self) -> None:
        """Follow the changes until the stream ends."""
        began = self._clock()
        heard_before = self.heard_at
        params = {
            **self.resource.params,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(random.randint(*self._timing.watch)),  # noqa: S311 - no secret
        }
        async with self._client.stream(self._path, params, self._timing.silence) as content:
            async for lines in read_lines(content, self._timing.silence):
                for line in lines:
                    self._event(line)
                    if time.perf_counter() - self._paused_at > PAUSE_EVERY_SECONDS:
                        await self._pause()
        if self.heard_at == heard_before and self._clock() - began < self._timing.shortest_watch:
            await self._failed("the watch ended at once")

    def _event(self, line: bytes) -> None:
        """Take one line of the stream."""
        change = self._change(line)
        if change is None:
            self._other_event(line)
            return
        kind, obj = change
        key = key_in(obj.metadata)
        self._heard()
        if key.version:
            self._version = key.version
        if kind == "DELETED":
            self._drop(key, obj)
        else:
            self._take(key, obj)

    def _other_event(self, line: bytes) -> None:
        """Take a line that carries no whole object: a bookmark, an error, an object that cannot be decoded, or no event."""
        event = other_event(line, self.resource.type)
        if event.key is not None or event.error is not None:
            self._heard()
        if event.error is not None:
            raise _RelistError(f"the watch ended: {api_error(event.error.code, event.raw)}")
        if event.key is not None and event.key.version:
            self._version = event.key.version
        if event.key is None or event.type == "BOOKMARK":
            if event.problem and event.problem != self.problem:  # not each line of a proxy's page
                self.problem = event.problem
                log.warning("watch_line_unreadable", resource=self.resource.name, problem=event.problem)
        else:
            self._sink.refused(event.key, event.problem)
            if event.type == "DELETED":
                self._drop(event.key, None)

    def _take(self, key: ObjectKey, obj: T) -> None:
        """Deliver an object unless this very version is known; a namesake with another uid goes first."""
        known = self._known.get(key.name_key)
        if known is not None and known.uid != key.uid:
            self._drop(known, None)
        elif known is not None and known.version == key.version:
            return
        self._known[key.name_key] = key
        try:
            self._sink.changed(obj)
        except ValueError as error:  # such as QuantityError: the object makes no sense
            self._sink.refused(key, str(error))

    def _drop(self, key: ObjectKey, last: T | None) -> None:
        known = self._known.get(key.name_key)
        if known is not None and known.uid == key.uid:
            del self._known[key.name_key]
            self._sink.removed(key, last)

    async def _refused(self, error: ApiError) -> None:
        """Draw the consequences of a refusal."""
        if error.status in (GONE, BAD_REQUEST) or "Too large resource version" in error.message:
            self._version = ""
            await self._failed(str(error))
        elif error.status == NOT_FOUND or (error.status == FORBIDDEN and self.resource.is_optional):
            self._missing_since = min(self._missing_since, self._clock())
            if self.lists and self._clock() - self._missing_since < self._timing.absent_after:
                await self._failed(str(error))
            else:
                self._is_missing(str(error), is_news=self.lists > 0 or error.reason != NOT_SERVED)
                await self._turn()
        else:
            await self._failed(str(error), error.retry_after)

    def _is_missing(self, problem: str, *, is_news: bool) -> None:
        """Treat the resource as empty, and say so once; what is absent from the start, discovery says of all at once."""
        if not self.is_absent:
            self.is_absent = True
            if is_news:
                log.info("resource_absent", resource=self.resource.name, reason=problem)
        self._version = ""
        for name in list(self._known):
            self._sink.removed(self._known.pop(name), None)
        self.problem = problem
        if self.resource.is_optional:
            self.synced.set()

    async def _failed(self, problem: str, retry_after: float | None = None) -> None:
        """Remember and log the first of a row of failures, then back off."""
        if not self._failures:
            log.warning("watch_interrupted", resource=self.resource.name, problem=problem)
        self.problem = problem
        self._failures += 1
        timing = self._timing
        wait = backoff_seconds(self._failures - 1, timing.first_backoff, timing.longest_backoff)
        await timing.sleep(wait if retry_after is None else max(wait, retry_after))

    def _heard(self) -> None:
        """Note a sign of life, which ends a row of failures."""
        self.heard_at = self.turned_at = self._clock()
        if not self._failures and not self.problem:
            return
        if self._failures > 1:
            log.info("watch_resumed", resource=self.resource.name, failures=self._failures)
        self._failures = 0
        self._missing_since = float("inf")
        self.problem = ""

    def _is_synced(self) -> None:
        if self.is_absent:
            log.info("resource_appeared", resource=self.resource.name, objects=len(self._known))
        self.is_absent = False
        self.synced.set()

    async def _pause(self) -> None:
        """Let others run."""
        await asyncio.sleep(0)
        self._paused_at = time.perf_counter()
