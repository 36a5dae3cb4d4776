"""What a replica runs in: the event loop, the garbage collector, and the API server that the configuration names.

For `ai-scheduler run`; what the process does stands in `run`.
"""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from typing import TYPE_CHECKING

from .auth import load_connection
from .collector import THRESHOLDS, settle
from .run import Process, make_engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.config import SchedulerConfiguration

    from .auth import Connection
    from .run import MakeEngine


async def run(
    configuration: SchedulerConfiguration, load: Callable[[], Connection] | None = None, make: MakeEngine = make_engine
) -> int:
    """Run one replica until it is stopped, and return its exit code."""
    kubeconfig = configuration.client_connection.kubeconfig
    return await Process(configuration, load or (lambda: load_connection(kubeconfig)), make).run()


def new_runner() -> asyncio.Runner:
    """Return what runs an event loop: uvloop's where it is installed, which is everywhere but on Windows."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with suppress(ImportError):
        import uvloop  # noqa: PLC0415 - needed here only

        factory = uvloop.new_event_loop
    return asyncio.Runner(loop_factory=factory)


def main(configuration: SchedulerConfiguration) -> int:
    """Run one replica in an event loop of its own, and return its exit code."""
    gc.set_threshold(*THRESHOLDS)
    settle()  # what the modules are made of: a hundred thousand objects
    with new_runner() as runner:
        return runner.run(run(configuration))
