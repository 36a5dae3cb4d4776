"""HealthServer: /metrics, /queues, pages for people, /healthz (also /livez) and /readyz over plain HTTP; all read-only.

For kubelets and Prometheus.  A check is a function that returns what is wrong, or an empty text; it must be quick, since
it runs in the event loop.  That the server answers at all shows that the loop turns.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import structlog
from aiohttp import web

if TYPE_CHECKING:
    import asyncio

log = structlog.stdlib.get_logger("health")

Check = Callable[[], str]
#: Takes the query; returns the HTTP status, the text and its content type.
Page = Callable[[Mapping[str, str]], tuple[int, str, str]]
SHUTDOWN_SECONDS = 1.0
_LARGEST_REQUEST_BYTES = 4096
_KEYS = ("healthzBindAddress", "metricsBindAddress")


class HealthServer:
    """One or two HTTP listeners with read-only pages."""

    def __init__(self, health_address: str, metrics_address: str, exposition: Callable[[], tuple[bytes, str]]) -> None:
        """Take addresses (`host:port`, empty for off; equal ones share a listener) and what /metrics shows."""
        self._addresses = (health_address, metrics_address)
        self._exposition = exposition
        self._runners: list[web.AppRunner] = []
        #: What is wrong with the process itself: a restart would help.
        self.alive: dict[str, Check] = {}
        #: What keeps it from working yet.
        self.ready: dict[str, Check] = {}
        #: Read-only documents by path, shown as JSON where the metrics are.
        self.documents: dict[str, Callable[[], dict[str, Any]]] = {}
        #: Further pages beside /metrics, by path; to be set before `start`.
        self.pages: dict[str, Page] = {}
        #: Where it listens, by address asked for: (host, port).
        self.bound: dict[str, tuple[str, int]] = {}

    async def start(self) -> None:
        """Listen; raises OSError, which names the configuration's key, if an address is taken."""
        health, metrics = self._addresses
        for address in dict.fromkeys(a for a in self._addresses if a):
            app = web.Application(client_max_size=_LARGEST_REQUEST_BYTES)
            if address == health:
                app.router.add_get("/healthz", self._page(lambda: self.alive))
                app.router.add_get("/livez", self._page(lambda: self.alive))
                app.router.add_get("/readyz", self._page(lambda: self.ready))
            if address == metrics:
                app.router.add_get("/metrics", self._metrics)
                for path, document in self.documents.items():
                    app.router.add_get(path, self._document(document))
                for path, page in self.pages.items():
                    app.router.add_get(path, _served(page))
            try:
                await self._listen(app, address)
            except OSError as error:
                keys = " and ".join(key for key, own in zip(_KEYS, self._addresses, strict=True) if own == address)
                reason = os.strerror(error.errno) if error.errno else str(error)
                raise OSError(f"{keys} {address}: {reason}; give another address in the configuration") from error

    async def stop(self) -> None:
        """Stop listening."""
        for runner in self._runners:
            await runner.cleanup()
        self._runners.clear()

    async def _listen(self, app: web.Application, address: str) -> None:
        host, _, port = address.rpartition(":")
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS, keepalive_timeout=30.0)
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(runner, host.strip("[]") or None, int(port))
        await site.start()
        first = runner.addresses[0]
        self.bound[address] = (first[0], first[1])
        log.info("serving", address=address, port=first[1])

    def _page(self, checks: Callable[[], Mapping[str, Check]]) -> Callable[[web.Request], asyncio.Future[web.Response]]:
        async def page(_: web.Request) -> web.Response:
            problems = {name: problem for name, check in checks().items() if (problem := check())}
            if not problems:
                return web.Response(text="ok")
            lines = [f"[-]{name}: {problem}" for name, problem in problems.items()]
            return web.Response(status=503, text="\n".join(lines) + "\n")

        return page  # type: ignore[return-value]

    def _document(
        self, document: Callable[[], dict[str, Any]]
    ) -> Callable[[web.Request], asyncio.Future[web.Response]]:
        async def page(_: web.Request) -> web.Response:
            return web.json_response(document())

        return page  # type: ignore[return-value]

    async def _metrics(self, _: web.Request) -> web.Response:
        body, content_type = self._exposition()
        return web.Response(body=body, headers={"Content-Type": content_type})


def _served(page: Page) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        status, text, content_type = page(request.query)
        return web.Response(status=status, text=text, content_type=content_type)

    return answer
