"""Limits of what is written: a rate that the configuration sets, and a brake that the API server pulls.

For the client.  The brake holds all writes back while the server says that it is too busy, and lets them go one by one
afterwards.  Priority and Fairness answers one request with 429; without a brake shared by all, the others would be sent all the
same and refused as well, and all would be repeated at the same moment.

| state | a write | ends by |
|---|---|---|
| free | goes out at once | a 429 |
| closed | waits | Retry-After is over |
| careful | goes out a step after the one before; each further 429 doubles the step | CAREFUL_SECONDS without a 429 |
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

CAREFUL_SECONDS = 2.0
FIRST_STEP_SECONDS, LONGEST_STEP_SECONDS = 0.005, 0.32


class TokenBucket:
    """A rate limit with bursts, as client-go's: qps tokens a second, at most `burst` saved; qps <= 0 is no limit."""

    def __init__(
        self,
        qps: float,
        burst: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Start with a full bucket."""
        self._qps = qps
        self._burst = max(1, burst)
        self._clock = clock
        self._sleep = sleep
        self._tokens = float(self._burst)
        self._at = clock()

    async def take(self) -> None:
        """Take a token, waiting for it if need be; later callers wait longer."""
        if self._qps <= 0:
            return
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps) - 1
        self._at = now
        if self._tokens < 0:
            await self._sleep(-self._tokens / self._qps)


class Brake:
    """When the next write may go out."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        """Start free."""
        self._clock = clock
        self._sleep = sleep
        self._open_at = float("-inf")
        self._free_at = float("-inf")
        self._step_seconds = 0.0

    def refused(self, seconds: float) -> None:
        """Take that a write was refused, and that the server wants none for so many seconds.

        Of many that were under way together only the first counts: the others say nothing new.
        """
        now = self._clock()
        if now >= self._free_at:
            self._step_seconds = FIRST_STEP_SECONDS
        elif now >= self._open_at - self._step_seconds:
            self._step_seconds = min(LONGEST_STEP_SECONDS, self._step_seconds * 2)
        self._open_at = max(self._open_at, now + seconds)
        self._free_at = self._open_at + CAREFUL_SECONDS

    async def wait(self) -> None:
        """Return when a write may go out."""
        now = self._clock()
        if now >= self._free_at:
            return
        turn = max(now, self._open_at)
        self._open_at = turn + self._step_seconds
        if turn > now:
            await self._sleep(turn - now)
