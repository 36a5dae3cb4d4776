"""Lines of a watch stream from chunks of bytes, with a watchdog.

For the reflector.  A line may be of any size (aiohttp's own line iteration refuses more than 128 KB).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp


class SilenceError(Exception):
    """Nothing came for too long; the connection is taken for dead."""


class LineSplitter:
    """Cuts chunks into lines; keeps the incomplete rest as parts, so that a big line costs O(its size)."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that a chunk completes, without their ends and without empty ones."""
        first, *others = chunk.split(b"\n")
        self._parts.append(first)
        if not others:
            return []
        lines = [b"".join(self._parts), *others[:-1]]
        self._parts = [others[-1]]
        return [line for line in lines if line]

    @property
    def has_rest(self) -> bool:
        """A line has begun and not ended: the stream was cut if it ends here."""
        return any(self._parts)


async def read_lines(content: aiohttp.StreamReader, silence_seconds: float) -> AsyncIterator[list[bytes]]:
    """Yield the complete lines of each chunk until the stream ends; an incomplete last line is dropped.

    Raises SilenceError if nothing came for `silence_seconds`: bookmarks come about every minute on a healthy stream.
    """
    splitter = LineSplitter()
    while True:
        try:
            async with asyncio.timeout(silence_seconds):
                chunk = await content.readany()
        except TimeoutError as error:
            raise SilenceError(f"nothing came for {silence_seconds:g} s") from error
        if not chunk:
            return
        if lines := splitter.feed(chunk):
            yield lines
