"""Api and PodWatch: the one client that creates the pods of every workload and sees what becomes of them.

The same for all schedulers: aiohttp, 64 connections, bodies encoded beforehand, and of each watched pod only what is
measured is decoded.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import TYPE_CHECKING, Any, Self

import aiohttp
import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

CONNECTIONS = 64
PODS = "/api/v1/namespaces/default/pods"


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Condition(msgspec.Struct):
    type: str
    status: str = ""
    reason: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Pod(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    type: str
    object: _Pod


class _Head(msgspec.Struct):
    metadata: _Meta


class Api:
    """Requests to one API server as its administrator; a context manager."""

    def __init__(self, server: str, token: str, certificate_authority: str) -> None:
        """Prepare the session; must run inside the event loop."""
        self._server = server
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=ssl.create_default_context(cadata=certificate_authority)),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            read_bufsize=2**22,
            timeout=aiohttp.ClientTimeout(total=120),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(self, path: str) -> bytes:
        """Return what is at a path."""
        async with self._session.get(self._server + path) as response:
            return await _checked(response)

    async def post(self, path: str, body: bytes) -> None:
        """Create an object."""
        async with self._session.post(self._server + path, data=body) as response:
            await _checked(response)

    async def delete(self, path: str) -> None:
        """Delete an object, or all of a collection, at once."""
        async with self._session.delete(self._server + path, data=b'{"gracePeriodSeconds":0}') as response:
            await _checked(response)

    async def version(self, path: str = PODS) -> str:
        """Return the version from which a watch sees all that is made from now on."""
        return msgspec.json.decode(await self.get(f"{path}?limit=1"), type=_Head).metadata.resource_version

    async def post_all(self, path: str, bodies: Iterable[bytes]) -> None:
        """Create many objects, as many at once as there are connections."""
        await self.each(bodies, lambda body: self.post(path, body))

    async def each(self, items: Iterable[Any], do: Callable[[Any], Any]) -> None:
        """Do something with each item in order, as many at once as there are connections."""
        left = iter(items)

        async def work() -> None:
            for item in left:
                await do(item)

        async with asyncio.TaskGroup() as group:
            for _ in range(CONNECTIONS):
                group.create_task(work())

    async def stream(self, path: str, version: str) -> Any:
        """Yield the lines of a watch until the server ends it."""
        url = f"{self._server}{path}&watch=1&resourceVersion={version}"
        rest = b""
        async with self._session.get(url, timeout=aiohttp.ClientTimeout(total=None)) as response:
            if response.status >= 400:
                await _checked(response)
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                if lines:
                    yield lines


async def _checked(response: aiohttp.ClientResponse) -> bytes:
    body = await response.read()
    if response.status >= 400:
        raise RuntimeError(f"{response.method} {response.url}: {response.status} {body.decode(errors='replace')[:500]}")
    return body


class PodWatch:
    """Notes when pods are first seen with a node, and when pods without one are first told why."""

    def __init__(self, api: Api) -> None:
        self._api = api
        #: By name, seconds of `time.perf_counter`.
        self.bound: dict[str, float] = {}
        self.refused: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()
        self._wanted: frozenset[str] = frozenset()

    async def start(self, *, with_refusals: bool = False) -> Self:
        """Watch from now on."""
        version = await self._api.version()
        self._tasks = [asyncio.create_task(self._watch("spec.nodeName!=", version, self._assigned))]
        if with_refusals:
            self._tasks.append(asyncio.create_task(self._watch("spec.nodeName=", version, self._unassigned)))
        return self

    async def stop(self) -> None:
        """End the watches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def wait_bound(self, names: Iterable[str], longest_seconds: float) -> None:
        """Wait until all pods of these names have a node."""
        await self._wait(self.bound, names, longest_seconds, "bound")

    async def wait_refused(self, names: Iterable[str], longest_seconds: float, enough: int | None = None) -> None:
        """Wait until so many (or all) pods of these names were told that they cannot be placed."""
        await self._wait(self.refused, names, longest_seconds, "refused", enough)

    async def next_change(self) -> None:
        """Wait until something is seen."""
        self._changed.clear()
        waiter = asyncio.create_task(self._changed.wait())
        await asyncio.wait([waiter, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        self._check()

    def _check(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    async def _wait(
        self, seen: dict[str, float], names: Iterable[str], seconds: float, what: str, enough: int | None = None
    ) -> None:
        wanted = set(names)
        enough = len(wanted) if enough is None else enough
        try:
            async with asyncio.timeout(seconds):
                while len(wanted & seen.keys()) < enough:
                    await self.next_change()
        except TimeoutError:
            raise TimeoutError(f"{len(wanted & seen.keys())} of {enough} pods {what} after {seconds:.0f} s") from None

    async def _watch(self, selector: str, version: str, note: Callable[[_Pod, float], None]) -> None:
        """Follow the watch; a stream that the server ends, as it does with slow readers, is resumed."""
        decode = msgspec.json.Decoder(_Event).decode
        while True:
            async for lines in self._api.stream(f"{PODS}?fieldSelector={selector.replace('=', '%3D')}", version):
                now = time.perf_counter()
                for line in lines:
                    event = decode(line)
                    if event.type == "ERROR":
                        raise RuntimeError(f"the watch of pods failed: {line.decode()}")
                    version = event.object.metadata.resource_version
                    if event.type != "DELETED":
                        note(event.object, now)
                self._changed.set()

    def _assigned(self, pod: _Pod, now: float) -> None:
        self.bound.setdefault(pod.metadata.name, now)

    def _unassigned(self, pod: _Pod, now: float) -> None:
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable":
                self.refused.setdefault(pod.metadata.name, now)


def percentile(values: Sequence[float], hundredths: int) -> float:
    """Return a percentile by the nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * hundredths // 100) - 1)]
