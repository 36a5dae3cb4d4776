"""Operator: the Kopf part; it watches our own PodGroups and, unless `intake: reflector` is set, pending pods of ours.

For the process; the only module that imports kopf, so that it can be replaced.  Handlers hand an event over and return:
nothing is decided and nothing written here, no object gets a finalizer or an annotation of Kopf's.

Kopf is embedded in our event loop with its own registry and settings.  Its root tasks are supervised here instead of by
`kopf.operator`, because that one cancels *every* younger task of the loop when it ends.  When Kopf gives up (an odd
ERROR event, a long outage), it is started again after a backoff; the reconciler mends what was missed.  It looks for our
CRD when it starts, no later (its own look-out needs rights on all CRDs), so it is also started again when that appears.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp
import kopf
import msgspec
import structlog

from scheduler.model.dialects import DIALECTS

from .client import Client, RequestError, Sleep, UnreachableError, backoff_seconds
from .pending import GROUP, PLURAL, VERSION, OnGroup, OnRefused, PendingView, pending_selector

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from scheduler.model.dialects import Dialect

    from .auth import Login
    from .inbox import Put
    from .views import PodViews

log = structlog.stdlib.get_logger("operator")

#: How often to look whether our CRD has appeared.
LOOK_SECONDS = 15.0
LONGEST_RESTART_SECONDS = 5.0
#: After a run of this length a failure of Kopf is the first one again.
HEALTHY_SECONDS = 60.0


class _Named(msgspec.Struct):
    name: str


class _Groups(msgspec.Struct):
    """What discovery says of API groups."""

    groups: list[_Named]


class _Resources(msgspec.Struct):
    """What discovery says of the resources of one group and version."""

    resources: list[_Named]


class _NoEssence(kopf.DiffBaseStorage):
    """Spares the deep copy that Kopf makes of each object at each event; only handlers of changes, not ours, need it."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> kopf.BodyEssence:
        """Return nothing to compare."""
        del body, extra_fields
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        """Return nothing."""
        del body
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Store nothing."""
        del body, patch, essence


class Operator:
    """Runs Kopf and the reconciler that guards it."""

    def __init__(
        self,
        login: Login,
        client: Client,
        put: Put,
        views: PodViews,
        scheduler_names: Collection[str],
        *,
        dialects: Sequence[Dialect] = DIALECTS,
        on_refused: OnRefused = lambda *_: None,
        on_group: OnGroup = lambda _: None,
        on_spawned: Callable[[], None] = lambda: None,
        has_pods: bool = True,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Prepare; `run` starts it.  `on_spawned` is called when Kopf has just taken over the signal handlers.

        Without `has_pods`, Kopf watches PodGroups alone.
        """
        self._login = login
        self._client = client
        self._selector = pending_selector(scheduler_names)
        self._on_spawned = on_spawned
        self._has_pods = has_pods
        self._sleep = sleep
        self._view = PendingView(
            client,
            put,
            views,
            scheduler_names,
            dialects=dialects,
            on_refused=on_refused,
            on_group=on_group,
            has_pods=has_pods,
            sleep=sleep,
        )
        #: Set once everything that was there at the start has come.
        self.synced = self._view.synced
        self._given: str | None = None
        self._sessions: list[aiohttp.ClientSession] = []
        #: Whether the Kopf that runs knows our CRD; None while there is none.
        self._knows_groups: bool | None = None
        self._groups_appeared = asyncio.Event()

    async def run(self) -> None:
        """Run until cancelled."""
        asyncio.get_running_loop().set_exception_handler(_loop_complained)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._supervise(), name="kopf")
            group.create_task(self._view.first_sync(), name="operator sync")
            group.create_task(self._view.reconciler.run(), name="reconciler")
            group.create_task(self._look_for_groups(), name="look for PodGroups")

    async def _supervise(self) -> None:
        """Keep Kopf running."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began = loop.time()
            self._groups_appeared.clear()
            self._knows_groups = None
            await self._wait_for_server()
            self._knows_groups = await self._serves_groups()
            problem = await self._run_kopf()
            if self._groups_appeared.is_set():
                log.info("resource_appeared", resource=PLURAL)
                continue
            failures = 0 if loop.time() - began > HEALTHY_SECONDS else failures + 1
            log.warning("operator_restarts", problem=problem)
            await self._sleep(backoff_seconds(failures, 0.5, LONGEST_RESTART_SECONDS))
            self._view.reconciler.ask()

    async def _wait_for_server(self) -> None:
        """Wait until the API server answers anything: Kopf would report each attempt at length, the watches say it once."""
        failures = 0
        while True:
            try:
                await self._client.discover("/apis", _Groups, attempts=1)
            except UnreachableError:
                failures += 1
                await self._sleep(backoff_seconds(failures, 0.5, LONGEST_RESTART_SECONDS))
            except RequestError:
                return
            else:
                return

    async def _run_kopf(self) -> str:
        """Run Kopf until one of its root tasks ends or our CRD appears, and return why."""
        roots = await kopf.spawn_tasks(
            registry=self._registry(), settings=self._settings(), clusterwide=True, standalone=True, priority=0
        )
        self._on_spawned()
        appeared = asyncio.create_task(self._groups_appeared.wait())
        try:
            done, _ = await asyncio.wait([*roots, appeared], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*roots, appeared):
                task.cancel()
            await asyncio.gather(*roots, appeared, return_exceptions=True)
            while self._sessions:
                await self._sessions.pop().close()
        errors = [task.exception() for task in done if not task.cancelled()]
        return ", ".join(str(error) or repr(error) for error in errors if error is not None) or "a root task ended"

    async def _look_for_groups(self) -> None:
        """Have Kopf started again when our CRD has appeared."""
        while True:
            await self._sleep(LOOK_SECONDS)
            if self._knows_groups is False and await self._serves_groups() and self._knows_groups is False:
                self._groups_appeared.set()

    async def _serves_groups(self) -> bool:
        """Tell whether discovery, where Kopf looks, shows our PodGroups."""
        try:
            found = await self._client.discover("/apis", _Groups, attempts=1)
            if not any(group.name == GROUP for group in found.groups):
                return False
            served = await self._client.discover(f"/apis/{GROUP}/{VERSION}", _Resources, attempts=1)
        except RequestError:
            return False
        return any(resource.name == PLURAL for resource in served.resources)

    def _settings(self) -> kopf.OperatorSettings:
        settings = kopf.OperatorSettings()
        settings.posting.enabled = False
        settings.scanning.disabled = True
        settings.process.ultimate_exiting_timeout = None  # it would kill the process minutes after a restart of Kopf
        settings.watching.initial_streaming = False  # a stream cut before its bookmark would lose objects (1.45.2)
        settings.watching.chunk_size = 500
        if self._has_pods:
            settings.watching.field_selectors["", "v1", "pods"] = self._selector
        settings.queueing.idle_timeout = 0.2  # a task per pod lives on this long; 5 s would keep thousands of them
        settings.networking.error_backoffs = (0.5, 1, 2, 2, 2, 2)  # beyond an outage of 10 s it is started anew
        settings.persistence.diffbase_storage = _NoEssence()
        settings.persistence.progress_storage = (
            kopf.StatusProgressStorage()
        )  # nothing is stored; two of them clear twice
        settings.persistence.finalizer = f"{GROUP}/unused"
        return settings

    def _registry(self) -> kopf.OperatorRegistry:
        """Return a registry with the login and one handler per kind."""
        registry = kopf.OperatorRegistry()

        @kopf.on.login(registry=registry)  # type: ignore[misc, unused-ignore]
        async def login(**_: Any) -> kopf.AiohttpSession:
            return await self._connection()

        async def pods(event: Mapping[str, Any], **_: Any) -> None:
            self._view.pod_event(event)

        async def groups(event: Mapping[str, Any], **_: Any) -> None:
            self._view.group_event(event)

        if self._has_pods:
            kopf.on.event("", "v1", "pods", registry=registry)(pods)
        kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)(groups)
        return registry

    async def _connection(self) -> kopf.AiohttpSession:
        """Return a session to the API server; asked for again when what was given has been refused.

        It is ours to close: Kopf forgets one of its own when it is stopped at a bad moment.
        """
        if self._given is not None:
            await self._login.renew(self._given)
        header = self._given = await self._login.header()
        connection = self._login.connection
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._login.ssl or True),
            headers={"Authorization": header} if header else None,
            proxy=connection.proxy,
        )
        self._sessions.append(session)
        return kopf.AiohttpSession(server=connection.server, aiohttp_session=session)


def _loop_complained(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Hold back that a task inside Kopf failed unheard: why Kopf ended is said once, where it is started again."""
    task = context.get("future")
    code = getattr(task.get_coro(), "cr_code", None) if isinstance(task, asyncio.Task) else None
    if code is not None and "/kopf/" in code.co_filename.replace("\\", "/"):
        log.debug("operator_task_failed", problem=repr(context.get("exception")))
    else:
        loop.default_exception_handler(context)
