"""What the protocol tests share: a scripted API server and a client that never really waits."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from scheduler.kube.auth import Connection, Login
from scheduler.kube.client import Client
from scheduler.kube.reflector import Timing
from tests.kube.scripted import PATIENCE_SECONDS, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Naps:
    """A sleep that returns at once and remembers what was asked for."""

    def __init__(self) -> None:
        """Start with none."""
        self.seconds: list[float] = []

    def clock(self) -> float:
        """Return what a clock would say had the naps been as long as asked for."""
        return time.monotonic() + sum(self.seconds)

    async def __call__(self, seconds: float) -> None:
        """Note the time and let others run."""
        self.seconds.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """A scripted API server with the usual collections."""
    async with ScriptedServer() as running:
        yield running


@pytest.fixture
def naps() -> Naps:
    """The sleep of client, writers and operator."""
    return Naps()


def login_to(server: ScriptedServer, token: str = "t") -> Login:
    """Return a login with a fixed token."""
    return Login(lambda: Connection(server.url, authorize=lambda: f"Bearer {token}"))


@pytest.fixture
async def client(server: ScriptedServer, naps: Naps) -> AsyncIterator[Client]:
    """A client of the scripted server."""
    made = Client(login_to(server), timeout_seconds=PATIENCE_SECONDS, sleep=naps, clock=naps.clock)
    yield made
    await made.close()


@pytest.fixture
def timing(naps: Naps) -> Timing:
    """Waits of a reflector that are over at once; silence is real but short."""
    return Timing(silence=0.3, absent=0.0, absent_after=0.0, sleep=naps, shortest_watch=0.0)
