"""The event loop that a replica runs in: uvloop's, mended where it closes the sockets of others.

For `main` and the benchmarks.  aiohttp connects a Python socket and hands it to `create_connection(sock=...)`, which gives
its file descriptor to libuv.  If the peer resets the connection before uvloop has noted that the two belong together (an
API server that stops or starts does so), libuv closes the descriptor and the Python socket believes that it still owns it.
When that is collected, it closes whatever has been given the same number since: a watch then never hears anything again,
the next connection fails with `RuntimeError: File descriptor N is used by transport`, or libuv aborts the process.
uvloop 0.23.0 detaches the socket where the wait itself fails (its pull request 740), not in this window.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    from uvloop import Loop
else:
    try:
        from uvloop import Loop
    except ImportError:  # it does not exist for Windows
        Loop = None

if Loop is None:
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
else:

    class SafeLoop(Loop):
        """uvloop's loop; a socket whose connection has ended owns no file descriptor any more."""

        async def create_connection(self, *arguments: Any, sock: socket | None = None, **options: Any) -> Any:
            """Connect as asyncio does; `sock` belongs to the transport from here on, whether it lives or not."""
            if sock is None:
                return await super().create_connection(*arguments, **options)
            try:
                made: tuple[Any, Any] = await super().create_connection(*arguments, sock=sock, **options)
            except BaseException:
                sock.detach()
                raise
            if made[0].is_closing():
                sock.detach()
            return made

    factory = SafeLoop


def new_runner() -> asyncio.Runner:
    """Return what runs an event loop: uvloop's where it is installed, which is everywhere but on Windows."""
    return asyncio.Runner(loop_factory=factory)
