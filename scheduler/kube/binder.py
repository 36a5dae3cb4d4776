"""Binder: carries out effects; per object in order, many objects at once, and nothing without the Lease.

For the loop.  What an effect means in requests is in `writer.py`; events go to the recorder.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from scheduler.engine.inputs import AwaitedDone, BindingFailed, BindingSucceeded, EvictionFailed
from scheduler.framework.effects import (
    AllocateClaim,
    AnnotatePod,
    BindPod,
    BindVolume,
    DeleteClaim,
    Effect,
    EmitEvent,
    EvictPod,
    MakeClaim,
    NominatePod,
    PrepareBinding,
    ReleaseClaim,
    SelectNode,
    SetGangStatus,
    SetPodScheduled,
    SetPromisedStart,
    SetQueueStatus,
    SetTopologyStatus,
)

from .client import CONFLICT, INVALID, NOT_FOUND, ApiError, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .device_claims import DeviceClaimWriter
    from .inbox import Put
    from .native_groups import GroupWriters
    from .queue_writer import QueueWriter
    from .topology_writer import TopologyWriter
    from .traffic import Traffic
    from .volumes import VolumeWriter
    from .writer import GangWriter, PodWriter

log = structlog.stdlib.get_logger("binder")

#: How many bindings and deletions are in flight at once, and how many status patches beside them.
BINDINGS_AT_ONCE = 64
STATUSES_AT_ONCE = 16
#: How long a status waits for the end of a burst of bindings.
STATUS_PATIENCE_SECONDS = 1.0
_URGENT = (AnnotatePod, BindPod, DeleteClaim, EvictPod, PrepareBinding, ReleaseClaim)


class Recorder(Protocol):
    """Takes events to record."""

    def record(self, event: EmitEvent) -> None:
        """Record an event some time soon, or drop it."""


class Watcher(Protocol):
    """Is told what happened, for metrics."""

    def __call__(self, effect: Effect, outcome: str, seconds: float) -> None:
        """Take an effect, its outcome (done, skipped, failed) and how long it took."""


class Binder:
    """Takes effects, answers bindings and failed evictions through the inbox."""

    def __init__(
        self,
        pods: PodWriter,
        gangs: GangWriter | GroupWriters,
        volumes: VolumeWriter,
        topologies: TopologyWriter,
        queues: QueueWriter,
        devices: DeviceClaimWriter,
        recorder: Recorder,
        put: Put,
        *,
        may_write: Callable[[], bool],
        traffic: Traffic,
        on_bound: Callable[[BindPod], None] = lambda _: None,
        on_done: Watcher = lambda *_: None,
    ) -> None:
        """Keep the writers; `on_bound` is called before the engine learns of a binding.

        Bindings, evictions and what they wait for are on the road of `traffic` until they are done.
        """
        self._pods = pods
        self._gangs = gangs
        self._volumes = volumes
        self._topologies = topologies
        self._queue_objects = queues
        self._devices = devices
        self._recorder = recorder
        self._put = put
        self._may_write = may_write
        self._traffic = traffic
        self._on_bound = on_bound
        self._on_done = on_done
        self._queues: dict[str, deque[Effect]] = {}
        self._workers: dict[str, asyncio.Task[None]] = {}
        #: Who waits for the end of a burst, by object.
        self._lulls: dict[str, asyncio.Task[None]] = {}
        self._bindings = asyncio.Semaphore(BINDINGS_AT_ONCE)
        self._statuses = asyncio.Semaphore(STATUSES_AT_ONCE)
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        """Return how many objects have something to be written."""
        return len(self._workers)

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Start carrying out effects; returns at once.  Without the Lease they are dropped: whoever leads decides anew."""
        for effect in effects:
            if isinstance(effect, EmitEvent):
                self._recorder.record(effect)
            elif (key := _key(effect)) is None:
                log.error("effect_unknown", effect=type(effect).__name__)
            else:
                self._enqueue(key, effect)

    def group_seen(self, group: Mapping[str, Any]) -> None:
        """Take a PodGroup as it came in, and write its status again if somebody else has overwritten it."""
        effect = self._gangs.seen(group)
        if effect is not None and f"gang {effect.uid}" not in self._workers:  # what waits there is newer
            self.carry_out([effect])

    async def finish(self, timeout_seconds: float) -> bool:
        """Drop what has not begun except bindings, and wait for the rest; tell whether all was finished in time."""
        for queue in self._queues.values():
            kept = [effect for effect in queue if isinstance(effect, BindPod | EvictPod | ReleaseClaim | DeleteClaim)]
            queue.clear()
            queue.extend(kept)
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def stop(self) -> None:
        """Cancel everything, at once."""
        workers = list(self._workers.values())
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    def _enqueue(self, key: str, effect: Effect) -> None:
        queue = self._queues.setdefault(key, deque())
        kept = [earlier for earlier in queue if not _supersedes(effect, earlier)]
        queue.clear()
        queue.extend(kept)
        queue.append(effect)
        if isinstance(effect, _URGENT) and key in self._lulls:
            self._lulls[key].cancel()
        if key not in self._workers:
            self._idle.clear()
            self._workers[key] = asyncio.create_task(self._work(key, queue), name=f"write {key}")

    async def _work(self, key: str, queue: deque[Effect]) -> None:
        """Carry out the effects of one object, one after the other, until there are none."""
        try:
            while queue:
                if isinstance(queue[0], _URGENT):
                    with self._traffic:
                        await self._next(queue, self._bindings)
                else:
                    await self._lull(key)
                    if queue and not isinstance(queue[0], _URGENT):
                        await self._next(queue, self._statuses)
        finally:
            del self._workers[key], self._queues[key]
            if not self._workers:
                self._idle.set()

    async def _lull(self, key: str) -> None:
        """Let bindings go first, for a while, and unless something urgent about the same object comes."""
        waiting = self._lulls[key] = asyncio.create_task(self._traffic.lull(STATUS_PATIENCE_SECONDS))
        try:
            await asyncio.wait([waiting])
        finally:
            waiting.cancel()
            del self._lulls[key]

    async def _next(self, queue: deque[Effect], lane: asyncio.Semaphore) -> None:
        """Carry out the first effect of a queue when there is room in a lane."""
        async with lane:
            if queue:  # it may have been superseded or dropped meanwhile
                await self._carry_out(queue.popleft())

    async def _carry_out(self, effect: Effect) -> None:
        """Carry out one effect; an accident fails this effect only."""
        if not self._may_write():
            return
        began = time.perf_counter()
        try:
            outcome = await self._dispatch(effect)
        except RequestError as error:
            is_gone = isinstance(error, ApiError) and _means_gone(effect, error)
            outcome = "gone" if is_gone else "failed"
            if not is_gone:
                log.warning("write_failed", effect=type(effect).__name__, object=_key(effect), problem=str(error))
        except Exception as error:  # a bound or evicted pod must be answered, whatever happened
            log.exception("write_crashed", effect=type(effect).__name__, object=_key(effect))
            self._answer_accident(effect, repr(error))
            outcome = "failed"
        self._on_done(effect, outcome, time.perf_counter() - began)

    async def _dispatch(self, effect: Effect) -> str:  # noqa: C901, PLR0911, PLR0912 - one return per kind of answer
        match effect:
            case BindPod():
                return await self._bind(effect)
            case EvictPod():
                failure = await self._pods.evict(effect)
                if failure is not None:
                    self._put(failure)
                return "done" if failure is None else "failed"
            case AnnotatePod():
                await self._pods.annotate(effect)
            case NominatePod():
                await self._pods.nominate(effect)
            case SetPodScheduled():
                return "done" if await self._pods.set_scheduled(effect) else "skipped"
            case SetPromisedStart():
                await self._pods.set_promised_start(effect)
            case SetGangStatus():
                return "done" if await self._gangs.set_status(effect) else "skipped"
            case SetTopologyStatus():
                return "done" if await self._topologies.set_status(effect) else "skipped"
            case SetQueueStatus():
                return "done" if await self._queue_objects.set_status(effect) else "skipped"
            case EmitEvent():
                self._recorder.record(effect)
            case PrepareBinding():
                return await self._prepare(effect)
            case ReleaseClaim():
                await self._devices.release(effect)
            case DeleteClaim():
                await self._devices.delete(effect)
        return "done"

    async def _prepare(self, effect: PrepareBinding) -> str:
        """Carry out what a pod needs before its binding, one after the other; answer once, with the first failure."""
        failure = ""
        for wanted in effect.effects:
            failure = await self._wanted(wanted)
            if failure:
                break
        self._put(AwaitedDone(effect.pod.uid, effect.key, failure))
        return "failed" if failure else "done"

    async def _wanted(self, wanted: Effect) -> str:  # noqa: PLR0911 - one return per effect
        """Carry out one effect that a pod needs before its binding; return why it failed, or nothing."""
        if not self._may_write():
            return "this replica is not the leader any more"
        try:
            match wanted:
                case BindVolume():
                    return await self._volumes.bind_volume(wanted)
                case SelectNode():
                    return await self._volumes.select_node(wanted)
                case AllocateClaim():
                    return await self._devices.allocate(wanted)
                case MakeClaim():
                    return await self._devices.make(wanted)
            return f"{type(wanted).__name__} failed" if await self._dispatch(wanted) == "failed" else ""
        except RequestError as error:
            return f"{type(wanted).__name__} failed: {error}"

    async def _bind(self, effect: BindPod) -> str:
        answer = await self._pods.bind(effect)
        if isinstance(answer, BindingSucceeded):
            self._pods.forget(effect.pod.uid)
            self._on_bound(effect)
        self._put(answer)
        return "done" if isinstance(answer, BindingSucceeded) else "failed"

    def _answer_accident(self, effect: Effect, message: str) -> None:
        if isinstance(effect, BindPod):
            self._put(BindingFailed(effect.pod.uid, message))
        elif isinstance(effect, EvictPod):
            self._put(EvictionFailed(effect.pod.uid, message))
        elif isinstance(effect, PrepareBinding):
            self._put(AwaitedDone(effect.pod.uid, effect.key, message))


def _means_gone(effect: Effect, error: ApiError) -> bool:
    """Tell whether there is nothing to write about any more: the object is gone, or the pod has been bound by somebody."""
    if error.status == CONFLICT:
        return "precondition" in error.message.lower()  # a namesake has taken the name
    is_bound = error.status == INVALID and isinstance(effect, NominatePod) and "already bound" in error.message
    return error.status == NOT_FOUND or is_bound


def _key(effect: Effect) -> str | None:
    """Return what names the object that an effect writes, or None for an effect that is not known."""
    match effect:
        case (
            AnnotatePod()
            | BindPod()
            | EvictPod()
            | NominatePod()
            | SetPodScheduled()
            | SetPromisedStart()
            | PrepareBinding()
            | ReleaseClaim()
            | DeleteClaim()
        ):
            return f"pod {effect.pod.uid}"
        case SetGangStatus():
            return f"gang {effect.uid}"
        case SetTopologyStatus():
            return f"topology {effect.uid}"
        case SetQueueStatus():
            return f"queue {effect.uid}"
    return None


def _supersedes(new: Effect, old: Effect) -> bool:
    """Tell whether an effect makes an older, unsent one on the same object moot: a later status, or a binding."""
    if isinstance(new, BindPod):
        return isinstance(old, NominatePod | SetPodScheduled | SetPromisedStart)
    return type(new) is type(old) and isinstance(
        new,
        AnnotatePod
        | NominatePod
        | SetPodScheduled
        | SetPromisedStart
        | SetGangStatus
        | SetTopologyStatus
        | SetQueueStatus,
    )
