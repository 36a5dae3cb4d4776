"""Collector: when Python's garbage collector looks at what, so that it never holds up the process for long.

For the process.  Views of objects are structs that the collector does not know; what it has to look at are the objects of
libraries, of one request or event, and some per node.  What lives on is frozen, and never looked at again.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .metrics import Metrics

#: New objects before the youngest are looked at; how often that, before the middle ones are; how often those, before all are.
THRESHOLDS = (10_000, 20, 50)


def settle() -> None:
    """Clear up and freeze what is left: call it when what lives on has been made, and nothing is urgent."""
    gc.collect()
    gc.freeze()


class CollectorPauses:
    """Observes each pause of the collector from `start` to `stop`."""

    def __init__(self, metrics: Metrics) -> None:
        """Keep the metrics."""
        self._metrics = metrics
        self._began = 0.0

    def start(self) -> None:
        """Begin to observe."""
        gc.callbacks.append(self._happened)

    def stop(self) -> None:
        """Observe no more."""
        if self._happened in gc.callbacks:
            gc.callbacks.remove(self._happened)

    def _happened(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        else:
            seconds = time.perf_counter() - self._began
            self._metrics.observe("ai_scheduler_collector_pause_seconds", seconds, str(info["generation"]))
