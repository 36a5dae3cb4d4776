"""Delays: whether a workload that is placed beside what is reserved would still keep somebody from starting when it was promised.

For backfill.  Reserved nodes are looked at by every Filter (`looks`); this is about work elsewhere that spoils a spread, an affinity or a
domain of its own.  Whoever minds nothing but its own nodes costs nothing here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.cycle_state import CycleState

from .foresight import Foresight

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from scheduler.framework.workload import Workload
    from scheduler.model import Pod

    from .core import Core
    from .reservations import Reservation
    from .run_times import RunTimes


class Delays:
    """One attempt of a workload, and the promises that bind it; it may have ended before some of them."""

    def __init__(
        self, core: Core, run_times: RunTimes, workload: Workload, promises: Sequence[Reservation], ends: float
    ) -> None:
        """Take the workload, when it will have ended, in seconds since the epoch, and what is reserved before it."""
        self._core = core
        self._run_times = run_times
        self._workload = workload
        self._promises = [one for one in promises if one.start is not None and core.clock() < one.start < ends]
        self._all = promises

    def __bool__(self) -> bool:
        """Tell whether there is anybody whom it could delay."""
        return bool(self._promises)

    def whom(self, placed: Mapping[str, tuple[Pod, int]]) -> Generator[int, None, str]:
        """Return whom it would delay where it is placed now; empty for nobody. The snapshot has its pods."""
        for one in self._promises:
            entry = self._core.queue.get(one.key)
            if entry is None or one.start is None or not self._minds(entry.workload):
                continue
            before = [other for other in self._all if other is not one]
            foresight = Foresight(self._core, self._run_times, entry.workload, before, holds=False)
            if not (yield from foresight.is_possible(one.start, placed)):
                self._core.backfill.quotas.keep_from(one.key, self._workload.key)
                return one.whom
        return ""

    def _minds(self, other: Workload) -> bool:
        """Tell whether it matters to another workload who stands on nodes that are not its own."""
        if _wants_a_domain(other) and _wants_a_domain(self._workload):
            return True
        runtime, nodes = self._core.runtime_of(other), self._core.access.snapshot.nodes
        for pod in {pod.shape: pod for pod in other.pods.values()}.values():
            state = CycleState()
            runtime.pre_filter(state, pod, nodes)
            if runtime.has_far_filter(state):
                return True
        return False


def _wants_a_domain(workload: Workload) -> bool:
    """Tell whether a gang, or a part of it, wants a domain for itself."""
    gang = workload.gang
    if gang is None:
        return False
    wishes = [gang.topology, *(subgroup.topology for subgroup in gang.subgroups)]
    return any(wish is not None and wish.exclusive for wish in wishes)
