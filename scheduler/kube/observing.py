"""Observer: turns Decisions, inputs and effects into one log line each and into metrics.

For the process.  It looks and counts; nothing depends on it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeVar

import structlog

from scheduler.engine.inputs import BindingSucceeded, Input, PodChanged, PodRemoved

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.engine.decision import Decision

    from .metrics import Metrics

T = TypeVar("T")

log = structlog.stdlib.get_logger("decisions")

#: How many pods and workloads are remembered between first sight and binding.
REMEMBERED = 100_000
_MOST_NODES_LOGGED = 8


class Observer:
    """Measures from what passes by."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        """Keep the metrics."""
        self._metrics = metrics
        self._clock = clock
        self._step_began = 0.0
        #: Since when, and how long in earlier steps, the attempt that comes next has been worked on.
        self._mark = 0.0
        self._spent = 0.0
        self._first_seen: OrderedDict[str, float] = OrderedDict()
        self._attempts: OrderedDict[str, int] = OrderedDict()
        self._placed: OrderedDict[str, int] = OrderedDict()

    def step_began(self) -> None:
        """Take that the engine begins to work."""
        self._step_began = self._mark = self._clock()

    def step_ended(self, *, has_more: bool) -> None:
        """Take that it pauses; what was spent on an attempt that is not decided yet is kept for it."""
        now = self._clock()
        self._metrics.observe("ai_scheduler_step_duration_seconds", now - self._step_began)
        self._spent = self._spent + now - self._mark if has_more else 0.0

    def decided(self, decision: Decision) -> None:
        """Take a Decision, as the engine makes it."""
        now = self._clock()
        seconds = self._spent + now - self._mark
        self._mark, self._spent = now, 0.0
        self._metrics.decided(decision, seconds)
        attempts = self._attempts.get(decision.workload, 0) + 1
        _remember(self._attempts, decision.workload, attempts)
        if decision.result in ("scheduled", "waiting"):
            for placed in decision.placements:
                _remember(self._placed, placed.uid, attempts)
        self._log(decision, seconds)

    def input(self, item: Input) -> None:
        """Take an input, before the engine does."""
        self._metrics.count("ai_scheduler_inputs_total", 1)
        match item:
            case PodChanged(pod) if not pod.node_name and not pod.gates and pod.uid not in self._first_seen:
                _remember(self._first_seen, pod.uid, self._clock())
            case BindingSucceeded(uid) if uid in self._first_seen:
                waited = self._clock() - self._first_seen.pop(uid)
                self._metrics.bound(waited, self._placed.pop(uid, 1))
            case PodRemoved(uid):
                self._first_seen.pop(uid, None)
                self._placed.pop(uid, None)

    def _log(self, decision: Decision, seconds: float) -> None:
        fields = {
            "cycle": decision.cycle,
            "workload": decision.workload,
            "result": decision.result,
            "pods": decision.pods,
            "nodes": [placed.node for placed in decision.placements[:_MOST_NODES_LOGGED]],
            "victims": [victim.pod for victim in decision.victims],
            "domain": decision.domain,
            "reason": decision.reason,
            "message": decision.message,
            "evaluations": decision.evaluations,
            "milliseconds": round(seconds * 1000, 3),
        }
        log.info("decision", **{name: value for name, value in fields.items() if value not in ("", [])})


def _remember(table: OrderedDict[str, T], key: str, value: T) -> None:
    """Put a value at the end of a bounded table."""
    table[key] = value
    table.move_to_end(key)
    while len(table) > REMEMBERED:
        table.popitem(last=False)
