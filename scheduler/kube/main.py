"""What a replica runs in: the garbage collector, and the API server that the configuration names.

For `ai-scheduler run`; what the process does stands in `run`.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from .auth import load_connection
from .collector import THRESHOLDS, settle
from .event_loop import new_runner
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


def main(configuration: SchedulerConfiguration) -> int:
    """Run one replica in an event loop of its own, and return its exit code."""
    gc.set_threshold(*THRESHOLDS)
    settle()  # what the modules are made of: a hundred thousand objects
    with new_runner() as runner:
        return runner.run(run(configuration))
