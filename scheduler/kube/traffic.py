"""Traffic: tells what can wait when what cannot wait is over.

For the binder, which enters with each binding and eviction, and for events, which are written after a burst of them and not
beside it: they cost the API server and this process as much as the bindings do.
"""

from __future__ import annotations

import asyncio

#: The road counts as free only after so many seconds without anybody: between two decisions of a burst is no pause.
LULL_SECONDS = 0.05


class Traffic:
    """Counts who is on the road; a context manager that may be entered many times at once."""

    def __init__(self) -> None:
        """Start with nobody."""
        self._count = 0
        self._ended_at = float("-inf")
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    def __enter__(self) -> None:
        """Take the road."""
        self._count += 1
        self._is_empty.clear()

    def __exit__(self, *_: object) -> None:
        """Leave it."""
        self._count -= 1
        if not self._count:
            self._ended_at = asyncio.get_running_loop().time()
            self._is_empty.set()

    async def lull(self, longest_seconds: float) -> None:
        """Wait until the road has been free for a moment, but no longer than so many seconds."""
        if longest_seconds <= 0 or self._seconds_to_lull() == 0:
            return
        try:
            async with asyncio.timeout(longest_seconds):
                while (left := self._seconds_to_lull()) != 0:
                    if left is None:
                        await self._is_empty.wait()
                    else:
                        await asyncio.sleep(left)
        except TimeoutError:
            return

    def _seconds_to_lull(self) -> float | None:
        """Return how long until the road counts as free if nobody comes; None while somebody is on it."""
        if self._count:
            return None
        return max(0.0, self._ended_at + LULL_SECONDS - asyncio.get_running_loop().time())
