"""EngineLoop: feeds the engine with inputs, lets it decide in small steps, and hands its effects on.

For the process.  It yields to the event loop about every 5 ms, so that watches, bindings and the Lease never wait behind
a big gang; how much work fits into a step is measured, not guessed.  Of a burst it takes what comes in together.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Protocol

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduler.engine.inputs import Input
    from scheduler.framework.effects import Effect

    from .inbox import Inbox

log = structlog.stdlib.get_logger("loop")

#: How long the event loop may be kept at a stretch, in seconds.
STEP_SECONDS = 0.005
FEWEST_UNITS, MOST_UNITS = 500, 200_000
#: For how long inputs that come in one after the other are gathered before the engine is asked.
GATHER_SECONDS = 0.01
#: The loop turns at least this often, to show that it is alive.
LONGEST_WAIT_SECONDS = 10.0
#: A deadline that has passed without anything to do is not asked about more often than this.
SHORTEST_WAIT_SECONDS = 0.01


class Deciding(Protocol):
    """The part of the engine that the loop drives."""

    def handle(self, happened: Input, /) -> None:
        """Take an input."""

    def step(self, work_units: int = ..., /) -> bool:
        """Decide a little; True if there is more to do now."""

    def take_effects(self) -> Iterable[Effect]:
        """Return what is to be done outside, and forget it."""

    def next_deadline(self) -> float | None:
        """Return when `step` must be called even without input."""


class StepObserver(Protocol):
    """Looks on, for metrics."""

    def input(self, item: Input) -> None:
        """Take an input, before the engine does."""

    def step_began(self) -> None:
        """Take that the engine begins to work."""

    def step_ended(self, *, has_more: bool) -> None:
        """Take that it pauses."""


class EngineLoop:
    """Runs one engine until it is stopped."""

    def __init__(
        self,
        engine: Deciding,
        inbox: Inbox,
        carry_out: Callable[[Iterable[Effect]], None],
        *,
        clock: Callable[[], float] = time.time,
        may_decide: Callable[[], bool] = lambda: True,
        observer: StepObserver,
    ) -> None:
        """Keep the parts; `clock` is the engine's."""
        self._engine = engine
        self._inbox = inbox
        self._carry_out = carry_out
        self._clock = clock
        self._may_decide = may_decide
        self._observer = observer
        self._units = 5_000
        self._is_stopping = False
        #: When the loop turned last, monotonic seconds.
        self.turned_at = time.monotonic()

    async def run(self) -> None:
        """Decide until `stop`; an exception of the engine ends it."""
        has_more = False
        while not self._is_stopping:
            self.turned_at = time.monotonic()
            if not has_more:
                await self._gather()
            await self._take_inputs()
            has_more = False
            if self._may_decide() and not self._is_stopping:
                has_more = self._step()
                self._carry_out(self._engine.take_effects())
            if has_more or self._inbox:
                await asyncio.sleep(0)
            else:
                await self._inbox.wait(self._wait_seconds())

    async def feed(self, inputs: Iterable[Input]) -> None:
        """Give the engine many inputs at once, before `run`, with pauses."""
        paused_at = time.perf_counter()
        for item in inputs:
            self._engine.handle(item)
            if time.perf_counter() - paused_at > STEP_SECONDS:
                await asyncio.sleep(0)
                paused_at = time.perf_counter()

    def stop(self) -> None:
        """Make no more decisions."""
        self._is_stopping = True
        self._inbox.wake()

    async def _gather(self) -> None:
        """Let more come in while each turn of the event loop brings some, for GATHER_SECONDS at most.

        One pod after the other finds everything in the processor's caches; between other work it costs up to twice as much.
        """
        known, ends = 0, time.perf_counter() + GATHER_SECONDS
        while len(self._inbox) > known and time.perf_counter() < ends:
            known = len(self._inbox)
            await asyncio.sleep(0)

    async def _take_inputs(self) -> None:
        inputs = self._inbox.take()
        for item in inputs:
            self._observer.input(item)
        await self.feed(inputs)

    def _step(self) -> bool:
        """Let the engine work for about STEP_SECONDS."""
        began = time.perf_counter()
        self._observer.step_began()
        has_more = self._engine.step(self._units)
        self._observer.step_ended(has_more=has_more)
        seconds = time.perf_counter() - began
        if seconds > STEP_SECONDS:
            self._units = max(FEWEST_UNITS, self._units // 2)
        elif has_more and seconds < STEP_SECONDS / 2:
            self._units = min(MOST_UNITS, self._units * 2)
        return has_more

    def _wait_seconds(self) -> float:
        """Return how long to wait for inputs at most."""
        deadline = self._engine.next_deadline() if self._may_decide() else None
        if deadline is None:
            return LONGEST_WAIT_SECONDS
        return min(LONGEST_WAIT_SECONDS, max(SHORTEST_WAIT_SECONDS, deadline - self._clock()))
