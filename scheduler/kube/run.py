"""The process: wires watches, engine, writes, Lease and health together, and ends in an orderly way.

For `main`, which runs it in an event loop.

| phase | what happens | ends by |
|---|---|---|
| gathering | watches fill the standby picture; the Lease is tried for | all views complete and the Lease held |
| leading | a fresh engine, fed with the picture, decides; the binder writes | SIGTERM, an accident; a lost Lease: gathering again |
| stopping | no more decisions; bindings in flight are finished, at most 10 s; the Lease is released | exit 0 |

A lost Lease (somebody else leads, or the API server was away for longer than the renew deadline) stops all writes at once
and drops the engine; the process stands by with its picture and may lead again.  An exception of a part ends the process
with exit code 1; its next start rebuilds everything from the API server.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import structlog

from scheduler.engine.engine import Engine
from scheduler.model.dialects import dialects_of

from .auth import Login
from .binder import Binder
from .client import Client
from .collector import CollectorPauses, settle
from .complaints import Complaints
from .confirm import Confirmations
from .device_claims import DeviceClaimWriter
from .discovery import Discovery
from .events import EventRecorder
from .feeds import feeds
from .health import HealthServer
from .inbox import Inbox
from .lease import LeaderElection, LeaseLostError, LeaseTerms, new_identity
from .loop import EngineLoop
from .metrics import Metrics
from .native_groups import GroupWriters, NativeGroup, NativeGroupWriter, native_groups
from .observing import Observer
from .operator import Operator
from .pending_feed import pending_feeds
from .queue_writer import QueueWriter, place_of
from .room_page import PATH, room_page, set_gauges
from .standby import Standby
from .topology_writer import TopologyWriter
from .traffic import Traffic
from .views import PodViews
from .volumes import VolumeWriter
from .writer import GangWriter, PodWriter

if TYPE_CHECKING:
    from scheduler.config import SchedulerConfiguration
    from scheduler.engine.decision import Decision
    from scheduler.engine.inputs import Input
    from scheduler.framework.effects import SetGangStatus

    from .auth import Connection

log = structlog.stdlib.get_logger("process")

FINISH_SECONDS = 10.0
DRAIN_SECONDS = 2.0
#: How long a start waits for optional resources that neither answer nor are absent.
OPTIONAL_SECONDS = 10.0
#: Without a sign of life for this long a part counts as dead.
DEAD_SECONDS = 300.0

MakeEngine = Callable[["SchedulerConfiguration", Callable[[], float], Callable[["Decision"], None]], "Engine"]


def steady_clock() -> Callable[[], float]:
    """Return a clock that tells seconds since the epoch and never jumps, as the wall clock may."""
    offset = time.time() - time.monotonic()
    return lambda: time.monotonic() + offset


def make_engine(
    configuration: SchedulerConfiguration, clock: Callable[[], float], on_decision: Callable[[Decision], None]
) -> Engine:
    """Return the real engine; logs and metrics tell no scores of its Decisions."""
    return Engine(configuration, clock, time.time_ns(), on_decision, shows_scores=False)


class Process:
    """One replica of the scheduler."""

    def __init__(
        self, configuration: SchedulerConfiguration, load: Callable[[], Connection], make: MakeEngine = make_engine
    ) -> None:
        """Make all parts; must run inside the event loop.  `load` finds the API server (blocking, once)."""
        self._configuration = configuration
        self._make = make
        self.stop = asyncio.Event()
        self.metrics = Metrics()
        self.engine: Engine | None = None
        self._loop: EngineLoop | None = None
        self._is_leading = False
        self._synced = asyncio.Event()
        self._standby = Standby()
        self._observer = Observer(self.metrics)
        self._pauses = CollectorPauses(self.metrics)
        self._inbox = Inbox()
        self._views = PodViews(self._inbox.put)
        self._connect(Login(load))
        self.health = HealthServer(
            configuration.healthz_bind_address, configuration.metrics_bind_address, self._exposition
        )
        self.health.alive = {"loop": self._loop_problem, "watches": self._watch_problem}
        self.health.ready = {"views": self._sync_problem}
        self.health.documents = {"/queues": self._queues}
        self.health.pages = {PATH: lambda query: room_page(self.engine, query)}

    def _connect(self, login: Login) -> None:
        """Make the parts that talk to the API server."""
        configuration = self._configuration
        wire = configuration.client_connection
        self._client = client = Client(login, qps=wire.qps, burst=wire.burst)
        self._lease_client = Client(login)
        self._election = self._new_election(self._lease_client)
        traffic = Traffic()
        self._recorder = EventRecorder(
            client,
            may_write=self.may_write,
            on_dropped=lambda: self._count("ai_scheduler_events_dropped_total"),
            lull=traffic.lull,
        )
        names = [profile.scheduler_name for profile in configuration.profiles]
        dialects = dialects_of(configuration.group_kinds)
        self._confirmations = Confirmations(client, self._views, dialects)
        self._binder = Binder(
            PodWriter(client, asyncio.sleep, self.may_write, self._pod_of),
            GroupWriters(GangWriter(client), NativeGroupWriter(client, self._native_groups_of)),
            VolumeWriter(client),
            TopologyWriter(client),
            QueueWriter(client),
            DeviceClaimWriter(client, self._inbox.put),
            self._recorder,
            self._inbox.put,
            may_write=self.may_write,
            traffic=traffic,
            on_bound=self._confirmations.expect,
            on_done=self.metrics.written,
        )
        self._complaints = Complaints(self._binder.carry_out, self.may_write)
        self._discovery = Discovery(client)
        self._feeds = feeds(
            client,
            self._inbox.put,
            self._views,
            self._discovery,
            dialects,
            names,
            learns=configuration.backfill.learn_run_times,
            on_refused=self._count_refused,
        )
        if configuration.intake == "reflector":
            self._feeds += pending_feeds(client, self._views, dialects, names, self._complaints.take)
        self._operator = Operator(
            login,
            client,
            self._inbox.put,
            self._views,
            names,
            dialects=dialects,
            on_refused=self._complaints.take,
            on_group=self._binder.group_seen,
            on_spawned=self._take_signals,
            has_pods=configuration.intake == "kopf",
        )

    async def run(self) -> int:
        """Run until stopped; return the exit code."""
        self._pauses.start()
        try:
            await self.health.start()
        except OSError as error:
            log.error("address_unusable", problem=str(error))  # noqa: TRY400 - the trace says nothing more
            await self._end([])
            return 1
        self._take_signals()
        lead = self._task(self._lead(), "lead")
        others = [self._task(coroutine, name) for name, coroutine in self._background()]
        election = self._task(self._elect(), "lease")
        stopped = self._task(self.stop.wait(), "stop")
        try:
            await asyncio.wait([lead, election, stopped, *others], return_when=asyncio.FIRST_COMPLETED)
            failure = next((e for task in (election, lead, *others) if (e := _failure(task)) is not None), None)
            if failure is not None or not self.stop.is_set():
                _log_failure(failure)
                return 1
            await self._finish(lead)
            election.cancel()
            await asyncio.gather(election, return_exceptions=True)
            if self._election is not None:
                await self._election.release()
            log.info("stopped")
            return 0
        finally:
            await self._end([lead, election, stopped, *others])

    def may_write(self) -> bool:
        """Tell whether this replica leads for sure, now."""
        return self._is_leading and (self._election is None or self._election.is_held())

    # ---- phases ----

    async def _elect(self) -> None:
        """Become the leader and stay it; after a lost Lease stand by and try again."""
        while True:
            if self._election is not None:
                await self._election.acquire()
            self._is_leading = True
            self.metrics.set("ai_scheduler_leader", 1)
            self._inbox.wake()
            try:
                await (asyncio.Event().wait() if self._election is None else self._election.hold())
            except LeaseLostError as lost:
                log.warning("lease_lost", problem=str(lost))
                self._is_leading = False
                self.metrics.set("ai_scheduler_leader", 0)
                if self._loop is not None:
                    self._loop.stop()

    async def _lead(self) -> None:
        """Gather until this replica may decide, then decide for as long as it may; and again."""
        while not self.stop.is_set():
            while not (self._is_leading and self._synced.is_set()):
                await self._inbox.wait(1.0)
                for item in self._inbox.take():
                    self.input(item)
            await self._decide()

    async def _decide(self) -> None:
        """Feed a fresh engine with the picture and let it decide until the Lease is lost or the process stops."""
        settle()
        clock = steady_clock()
        self.engine = self._make(self._configuration, clock, self._observer.decided)
        self._loop = EngineLoop(
            self.engine,
            self._inbox,
            self._binder.carry_out,
            clock=clock,
            may_decide=self.may_write,
            observer=self,
        )
        log.info("leading", objects=len(self._standby))
        await self._loop.feed(self._standby.inputs())
        self._complaints.say_all()
        await self._loop.run()
        self.engine = self._loop = None

    def input(self, item: Input) -> None:
        """Keep the picture and the metrics up to date; part of the loop's observer."""
        self._standby.handle(item)
        self._observer.input(item)

    def step_began(self) -> None:
        """Pass on to the metrics that the engine begins to work."""
        self._observer.step_began()

    def step_ended(self, *, has_more: bool) -> None:
        """Pass on to the metrics that it pauses."""
        self._observer.step_ended(has_more=has_more)

    async def _sync(self) -> None:
        """Wait until the views are complete."""
        began = time.monotonic()
        for reflector in self._feeds:
            if not reflector.resource.is_optional:
                await reflector.synced.wait()
        await self._operator.synced.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(OPTIONAL_SECONDS):
                for reflector in self._feeds:
                    await reflector.synced.wait()
        self._synced.set()
        self._inbox.wake()
        counts = {reflector.resource.name: len(reflector) for reflector in self._feeds if not reflector.is_absent}
        seconds = round(time.monotonic() - began, 3)
        log.info("views_synced", seconds=seconds, pending=len(self._views.pending), **counts)
        await asyncio.Event().wait()

    async def _finish(self, lead: asyncio.Task[Any]) -> None:
        """Stop deciding and let what is in flight come to its end."""
        log.info("stopping", writes=len(self._binder))
        if self._loop is not None:
            self._loop.stop()
            await asyncio.wait([lead], timeout=1.0)
        if not await self._binder.finish(FINISH_SECONDS):
            log.warning("writes_unfinished", writes=len(self._binder))
        await self._recorder.drain(DRAIN_SECONDS)

    async def _end(self, tasks: list[asyncio.Task[Any]]) -> None:
        """Cancel everything that runs and close what is open."""
        self._is_leading = False
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._pauses.stop()
        await self._binder.stop()
        await asyncio.gather(self.health.stop(), self._client.close(), self._lease_client.close())

    # ---- parts ----

    def _background(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        """Return what runs beside the loop; none of it ends by itself."""
        return [
            *((f"reflector of {reflector.resource.name}", reflector.run()) for reflector in self._feeds),
            ("discovery", self._discovery.run()),
            ("operator", self._operator.run()),
            ("events", self._recorder.run()),
            ("confirmations", self._confirmations.run()),
            ("sync", self._sync()),
        ]

    def _new_election(self, client: Client) -> LeaderElection | None:
        terms = self._configuration.leader_election
        if not terms.leader_elect:
            return None
        return LeaderElection(
            client,
            LeaseTerms(
                terms.resource_namespace,
                terms.resource_name,
                new_identity(),
                terms.lease_duration.total_seconds(),
                terms.renew_deadline.total_seconds(),
                terms.retry_period.total_seconds(),
            ),
        )

    def _task(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        return asyncio.create_task(coroutine, name=name)

    def _take_signals(self) -> None:
        """Let SIGTERM and SIGINT stop the process; Kopf takes them for itself each time it starts."""
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, self.stop.set)

    def _pod_of(self, uid: str) -> Any:
        return self.engine.state.pods.get(uid) if self.engine is not None else None

    def _native_groups_of(self, effect: SetGangStatus) -> list[NativeGroup] | None:
        names = {profile.scheduler_name for profile in self._configuration.profiles}
        return native_groups(self.engine.state, names, effect) if self.engine is not None else None

    # ---- health and metrics ----

    def _loop_problem(self) -> str:
        seconds = time.monotonic() - self._loop.turned_at if self._loop is not None else 0.0
        return f"the engine has not turned for {seconds:.0f} s" if seconds > DEAD_SECONDS else ""

    def _watch_problem(self) -> str:
        now = time.monotonic()
        dead = [r.resource.name for r in self._feeds if now - r.turned_at > DEAD_SECONDS]
        return f"no sign of life from: {', '.join(dead)}" if dead else ""

    def _sync_problem(self) -> str:
        if self._synced.is_set():
            return ""
        waits = [f"{r.resource.name} ({r.problem})" for r in self._feeds if not r.synced.is_set()]
        if not self._operator.synced.is_set():
            waits.append("pending pods")
        return f"not complete: {', '.join(waits)}"

    def _count(self, name: str, *labels: str) -> None:
        self.metrics.count(name, 1, *labels)

    def _count_refused(self, resource: str) -> None:
        self._count("ai_scheduler_objects_refused_total", resource)

    def _queues(self) -> dict[str, Any]:
        """Return every workload that waits in a queue, with its place; a replica that stands by knows of none."""
        found = self.engine.queue_positions() if self.engine is not None else {}
        return {"queues": {name: [place_of(place) for place in places] for name, places in found.items()}}

    def _exposition(self) -> tuple[bytes, str]:
        """Bring the gauges up to date and return all metrics."""
        self.metrics.set("ai_scheduler_writes_in_flight", len(self._binder))
        for reflector in self._feeds:
            self.metrics.set("ai_scheduler_reflected_objects", len(reflector), reflector.resource.name)
            self.metrics.set("ai_scheduler_reflector_lists", reflector.lists, reflector.resource.name)
        if self.engine is not None:
            self.metrics.pending(self.engine.pending())
            set_gauges(self.metrics, self.engine)
        return self.metrics.exposition()


def _failure(task: asyncio.Task[Any]) -> BaseException | None:
    """Return why a task ended that should not have."""
    if not task.done() or task.cancelled():
        return None
    return task.exception()


def _log_failure(failure: BaseException | None) -> None:
    log.error("part_failed", exc_info=failure)
