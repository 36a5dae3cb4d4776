"""What a replica runs in: the event loop, the garbage collector, and the API server that the configuration names.

For `ai-scheduler run`; what the process does stands in `run`.
"""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from typing import TYPE_CHECKING

from .auth import load_connection
from .run import Process, make_engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.config import SchedulerConfiguration

    from .auth import Connection
    from .run import MakeEngine

#: The default collector would stop the process for long, and often, over objects that live on.
COLLECTOR_THRESHOLDS = (100_000, 50, 100)


async def run(
    configuration: SchedulerConfiguration, load: Callable[[], Connection] | None = None, make: MakeEngine = make_engine
) -> int:
    """Run one replica until it is stopped, and return its exit code."""
    kubeconfig = configuration.client_connection.kubeconfig
    return await Process(configuration, load or (lambda: load_connection(kubeconfig)), make).run()


def main(configuration: SchedulerConfiguration) -> int:
    """Run one replica in an event loop of its own (uvloop where it is installed), and return its exit code."""
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with suppress(ImportError):
        import uvloop  # noqa: PLC0415 - needed here only

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(run(configuration))
