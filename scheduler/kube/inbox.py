"""Inbox: inputs on their way to the engine.

For everything that watches, which puts, and for the loop, which takes all at once.  Unbounded: what comes in was asked
for, and dropping any of it would falsify the engine's picture.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from scheduler.engine.inputs import Input

Put: TypeAlias = Callable[[Input], None]


class Inbox:
    """A queue that is emptied as a whole."""

    def __init__(self) -> None:
        """Start empty."""
        self._inputs: list[Input] = []
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        """Return how many inputs wait."""
        return len(self._inputs)

    def put(self, item: Input) -> None:
        """Add an input and wake the loop."""
        self._inputs.append(item)
        self._filled.set()

    def wake(self) -> None:
        """Wake the loop although nothing came in."""
        self._filled.set()

    def take(self) -> list[Input]:
        """Return all inputs in order and forget them."""
        taken, self._inputs = self._inputs, []
        self._filled.clear()
        return taken

    async def wait(self, timeout_seconds: float | None) -> None:
        """Return when there is an input, when woken, or after the time; at most a moment if it is not positive."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._filled.wait()
        except TimeoutError:
            return
