"""Reconciler: compares what came through Kopf with what is there, now and then.

For the operator.  After a lost watch Kopf lists again but never compares (measured with 1.45.2), so what was deleted in
the gap would stay for ever.  A list of names alone is cheap: a consistent read of metadata in pages, no specs.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from scheduler.model.api import ObjectMeta

from .client import METADATA_LIST, NOT_FOUND, PAGE_SIZE, ApiError, Client, RequestError, Sleep, backoff_seconds
from .wire import ObjectKey, decode_page, key_in

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

log = structlog.stdlib.get_logger("reconciler")

EVERY_SECONDS = 60.0
#: How long what has just left may take to be told by the view itself.
SETTLE_SECONDS = 1.0
#: For each object the next look is put off by this, so that lists of many thousands cost little.
SECONDS_PER_OBJECT = 0.005


class _Named(msgspec.Struct):
    metadata: ObjectMeta = ObjectMeta()


@dataclass(frozen=True, slots=True)
class View:
    """One kind of object as it came through Kopf."""

    name: str
    path: str
    params: Mapping[str, str]
    #: The uids that the view holds.
    uids: Callable[[], Collection[str]]
    #: Is told of a uid that is not there any more.
    left: Callable[[str], None]
    #: Is given an object that is there and not in the view, as JSON; it may come through Kopf as well.
    unseen: Callable[[dict[str, Any]], None]


class Reconciler:
    """Looks after the views, every minute and when asked."""

    def __init__(self, client: Client, views: Collection[View], sleep: Sleep = asyncio.sleep) -> None:
        """Keep the views; `run` compares them."""
        self._client = client
        self._views = views
        self._sleep = sleep
        self._asked = asyncio.Event()
        self._suspects: dict[str, set[str]] = {view.name: set() for view in views}
        self._absent: set[str] = set()

    def ask(self) -> None:
        """Compare soon: something hints at a lost watch."""
        self._asked.set()

    async def run(self) -> None:
        """Compare until cancelled."""
        while True:
            count = sum(len(view.uids()) for view in self._views)
            await self._wait(EVERY_SECONDS + count * SECONDS_PER_OBJECT)
            for view in self._views:
                await self.compare(view)

    async def compare(self, view: View) -> int:
        """Compare one view with the API server; return how many differences were mended.

        What the view held before the list began, the list lacks and the view still holds a second later has left.  What the list has and the view lacks may
        only be late; it is read and handed over if that is still so at the next comparison.
        """
        before = set(view.uids())
        try:
            present = await self._present(view)
        except (RequestError, msgspec.MsgspecError):
            return 0
        ghosts = sorted(before - present.keys())
        if ghosts:  # most of them have just been bound, and the news is on its way
            await self._sleep(SETTLE_SECONDS)
            ghosts = sorted(set(ghosts) & set(view.uids()))
        for uid in ghosts:
            view.left(uid)
        held = set(view.uids())
        late = {uid for uid in present if uid not in held}
        missed = sorted(late & self._suspects[view.name])
        self._suspects[view.name] = late - set(missed)
        for uid in missed:
            await self._fetch(view, present[uid])
        if ghosts or missed:
            log.warning("view_mended", view=view.name, left=len(ghosts), unseen=len(missed))
        return len(ghosts) + len(missed)

    async def names(self, view: View) -> set[str]:
        """Return the uids of what is there now, trying until an answer comes."""
        attempt = 0
        while True:
            try:
                return set(await self._present(view))
            except (RequestError, msgspec.MsgspecError):
                await self._sleep(backoff_seconds(attempt, 0.5, 30.0))
                attempt += 1

    async def _present(self, view: View) -> dict[str, ObjectKey]:
        """Return what is there, by uid; nothing if the kind itself does not exist."""
        found: dict[str, ObjectKey] = {}
        params = {**view.params, "limit": str(PAGE_SIZE)}
        while True:
            try:
                body = await self._client.get_bytes(view.path, params, accept=METADATA_LIST)
            except ApiError as error:
                if error.status != NOT_FOUND:
                    raise
                self._is_absent(view, str(error))
                return {}
            page = decode_page(body, _Named)
            found.update({key.uid: key for key in (key_in(item.metadata) for item in page.items)})
            if not page.next_page:
                self._absent.discard(view.name)
                return found
            params["continue"] = page.next_page
            await asyncio.sleep(0)

    def _is_absent(self, view: View, problem: str) -> None:
        """Say once that a kind does not exist; Kopf picks it up when it appears."""
        if view.name not in self._absent:
            self._absent.add(view.name)
            log.info("resource_absent", resource=view.name, reason=problem)

    async def _fetch(self, view: View, key: ObjectKey) -> None:
        """Read one object and hand it over."""
        prefix, kind = view.path.rsplit("/", 1)
        try:
            obj = await self._client.get(f"{prefix}/namespaces/{key.namespace}/{kind}/{key.name}")
        except RequestError:
            return
        if obj["metadata"].get("uid") == key.uid:
            view.unseen(obj)

    async def _wait(self, seconds: float) -> None:
        """Wait for the time to pass, or to be asked."""
        waits: list[Awaitable[Any]] = [self._sleep(seconds), self._asked.wait()]
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            self._asked.clear()
