"""The event loop: a connection that the peer resets at once leaves no socket that owns another's file descriptor."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import sys
import threading
from collections import Counter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from scheduler.kube.event_loop import new_runner

if TYPE_CHECKING:
    from collections.abc import Iterator

TURNS, AT_ONCE = 20, 40
#: `SO_LINGER` on and no seconds: closing sends a reset.
RESETS = struct.pack("ii", 1, 0)


@contextmanager
def resetting_server() -> Iterator[tuple[str, int]]:
    """A server that accepts each connection and resets it, as an API server does that stops or starts."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=AT_ONCE)

    def serve() -> None:
        with suppress(OSError):
            while True:
                accepted, _ = listening.accept()
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESETS)
                accepted.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listening.getsockname()
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


async def connect(address: tuple[str, int], context: ssl.SSLContext | None) -> str:
    """Connect as aiohttp does; tell what became of the connection and of the socket that was handed over."""
    loop = asyncio.get_running_loop()
    sock = socket.socket()
    sock.settimeout(0)
    try:
        await loop.sock_connect(sock, address)
    except OSError:
        sock.close()
        return "never connected"
    name = None if context is None else "localhost"
    try:
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=sock, ssl=context, server_hostname=name)
    except OSError:
        end = "failed"
    else:
        end = "closing" if transport.is_closing() else "open"
        transport.abort()
        await asyncio.sleep(0.01)
    return f"{end}, owned" if sock.fileno() >= 0 else end


@pytest.mark.skipif(sys.platform == "win32", reason="uvloop does not exist there")
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_socket_of_a_reset_connection_owns_nothing(*, is_encrypted: bool) -> None:
    """Else its collection closes the watch, or the connection in the making, that has the number since."""
    context = ssl.create_default_context() if is_encrypted else None
    ends: Counter[str] = Counter()

    async def storm(address: tuple[str, int]) -> None:
        for _ in range(TURNS):
            found = await asyncio.gather(*(connect(address, context) for _ in range(AT_ONCE)))
            ends.update(found)

    with resetting_server() as address, new_runner() as runner:
        runner.run(storm(address))
    assert not [end for end in ends if end.endswith("owned")], ends
    assert set(ends) != {"never connected"}
