"""Complaints: tells the owners of pending pods that make no sense what is wrong with them.

For the process.  Such a pod never reaches the engine, so the edge itself answers: an event and the condition
PodScheduled=False with reason SchedulerError.  It is said once per problem, and again by a new leader.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import structlog

from scheduler.framework.effects import Effect, EmitEvent, ObjectRef, PodRef, SetPodScheduled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

log = structlog.stdlib.get_logger("complaints")

REMEMBERED = 1000


class Complaints:
    """Remembers what is wrong, for whoever may write it."""

    def __init__(self, carry_out: Callable[[Iterable[Effect]], None], may_write: Callable[[], bool]) -> None:
        """Keep the means to write."""
        self._carry_out = carry_out
        self._may_write = may_write
        self._problems: OrderedDict[PodRef, str] = OrderedDict()

    def take(self, namespace: str, name: str, uid: str, problem: str) -> None:
        """Take that a pod makes no sense."""
        ref = PodRef(namespace, name, uid)
        if self._problems.get(ref) == problem:
            return
        self._problems[ref] = problem
        self._problems.move_to_end(ref)
        while len(self._problems) > REMEMBERED:
            self._problems.popitem(last=False)
        log.warning("pod_unusable", pod=ref.key, problem=problem)
        if self._may_write():
            self._carry_out(_effects(ref, problem))

    def say_all(self) -> None:
        """Write everything: this replica has just begun to lead."""
        for ref, problem in self._problems.items():
            self._carry_out(_effects(ref, problem))


def _effects(ref: PodRef, problem: str) -> list[Effect]:
    about = ObjectRef("v1", "Pod", ref.namespace, ref.name, ref.uid)
    message = f"the pod cannot be read: {problem}"
    return [
        SetPodScheduled(ref, "SchedulerError", message),
        EmitEvent(about, "Warning", "FailedScheduling", "Scheduling", message),
    ]
