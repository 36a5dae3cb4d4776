"""Foresight: when and where a workload that waits for room will start, if nobody comes before it.

For backfill.  The pods that stand in its way are taken off the snapshot in the order in which they are expected to end, until the
workload fits; then everything is put back.  It is a generator, as a cycle is, and never places more than it needs.
"""

from __future__ import annotations

from bisect import bisect_right
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .cycle import Cycle
from .reservations import Reservation, looks_at
from .run_times import runs_on

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from scheduler.framework.workload import Workload
    from scheduler.model import Pod
    from scheduler.state.snapshot import Snapshot, Undo

    from .core import Core
    from .looks import Look
    from .placement import Placer
    from .run_times import RunTimes

#: Up to so many moments are tried one by one; of more, the first at which counting finds enough room, and some after it.
_FEW_MOMENTS = 32
_MOST_SEARCHES = 8
#: Ends that nobody knows come after all that somebody does, the oldest pod first.
_UNKNOWN = 1e12


class _End(NamedTuple):
    """When a pod is expected to have gone."""

    moment: float
    row: int
    uid: str


class _Departures:
    """Pods on a snapshot in the order of their ends; `go_to` takes those off that have gone by a moment."""

    def __init__(self, snapshot: Snapshot, ends: Sequence[_End]) -> None:
        self._snapshot = snapshot
        self._ends = sorted(ends)
        self._moments = [end.moment for end in self._ends]
        self._undo: list[Undo] = []

    def go_to(self, moment: float) -> int:
        """Let exactly those be off that have gone by then; return how many changed."""
        wanted, before = bisect_right(self._moments, moment), len(self._undo)
        while len(self._undo) > wanted:
            self._undo.pop()()
        for end in self._ends[len(self._undo) : wanted]:
            self._undo.append(self._snapshot.remove(end.uid, end.row))
        return abs(wanted - before)

    def gone_by(self, moment: float) -> list[_End]:
        return self._ends[: bisect_right(self._moments, moment)]


class Foresight:
    """One look ahead for one workload."""

    def __init__(
        self, core: Core, run_times: RunTimes, workload: Workload, before: Sequence[Reservation], *, holds: bool
    ) -> None:
        """Take the workload, what those are promised that come before it, and whether a hold will do for a promise."""
        self._core = core
        self._run_times = run_times
        self._workload = workload
        self._pods = core.workloads.ready_pods(workload)
        self._before = before
        self._holds = holds
        self._now = core.clock()
        self._seconds = run_times.longest_of(self._pods)
        #: Pods that are only thought to be on the snapshot, with their rows.
        self._beside: Mapping[str, tuple[Pod, int]] = MappingProxyType({})

    def run(self) -> Generator[int, None, Reservation | None]:
        """Return what may be reserved; None if it cannot be told. The snapshot is left as it was."""
        core = self._core
        if not self._pods or core.queues.admit(self._workload, self._pods).status is not None:
            return None
        core.access.snapshot = snapshot = core.cluster.snapshot()
        core.access.promised, core.access.reserved = {}, {}
        rows = yield from self._open_rows()
        departures = _Departures(snapshot, list(self._ends(snapshot, rows)))
        moments = sorted(
            {end.moment for end in departures.gone_by(2 * _UNKNOWN)}
            | {one.end for one in self._before if self._now < one.end < _UNKNOWN}
        )
        try:
            return (yield from self._search(departures, moments))
        finally:
            departures.go_to(-1.0)
            core.access.reserved = {}

    def is_possible(self, moment: float, beside: Mapping[str, tuple[Pod, int]]) -> Generator[int, None, bool]:
        """Tell whether the workload would find a place at a moment beside pods that are on the snapshot as it is now.

        `beside` are those of them that are only thought to be there, with their rows. Everything is as it was then.
        """
        access, snapshot = self._core.access, self._core.access.snapshot
        former, self._beside = (access.reserved, access.promised), beside
        access.reserved, access.promised = {}, {}
        departures: _Departures | None = None
        try:
            rows = yield from self._open_rows()
            departures = _Departures(snapshot, [end for end in self._ends(snapshot, rows) if end.uid not in beside])
            return bool((yield from self._fits(departures, moment)))
        finally:
            if departures is not None:
                departures.go_to(-1.0)
            access.reserved, access.promised = former

    def _open_rows(self) -> Generator[int, None, list[int]]:
        """Return the rows where some pod of the workload could stand if others left."""
        placer = self._core.access.placer(self._workload, self._pods, self._beside)
        yield from placer.evaluate()
        return [int(row) for row in np.flatnonzero(np.logical_or.reduce([c.curable() for c in placer.candidates]))]

    def _ends(self, snapshot: Snapshot, rows: Sequence[int]) -> Generator[_End, None, None]:
        """Yield who may go from some rows, and when."""
        cluster, gang = self._core.cluster, self._workload.gang
        for row in rows:
            for pod in snapshot.all_rows[row].pods.values():
                if gang is not None and cluster.gang_of(pod) == gang.key:
                    continue
                moment = self._run_times.end_of(pod, self._now)
                if moment is not None:
                    yield _End(moment, row, pod.uid)
                elif self._holds and not runs_on(pod):
                    yield _End(_UNKNOWN + (pod.started or pod.created or self._now), row, pod.uid)

    def _search(self, departures: _Departures, moments: list[float]) -> Generator[int, None, Reservation | None]:
        """Return the reservation for the first moment at which the workload fits, as far as it is looked for."""
        for moment in (yield from self._promising(departures, moments)):
            placed = yield from self._fits(departures, moment)
            if placed:
                return self._reservation(departures, moment, placed)
        return None

    def _promising(self, departures: _Departures, moments: list[float]) -> Generator[int, None, list[float]]:
        """Return the moments that are worth a search."""
        if len(moments) <= _FEW_MOMENTS:
            return moments
        low, high = 0, len(moments) - 1
        if not (yield from self._may_fit(departures, moments[high])):
            return []
        while low < high:
            middle = (low + high) // 2
            if (yield from self._may_fit(departures, moments[middle])):
                high = middle
            else:
                low = middle + 1
        found: list[float] = []
        step = 1
        while low < len(moments) and len(found) < _MOST_SEARCHES:
            found.append(moments[low])
            low, step = low + step, step * 2
        return [*found, moments[-1]] if found[-1] != moments[-1] else found

    def _may_fit(self, departures: _Departures, moment: float) -> Generator[int, None, bool]:
        """Tell whether there is room at a moment as far as counting tells."""
        cycle, _ = yield from self._cycle_at(departures, moment)
        return cycle.bound() is None

    def _fits(self, departures: _Departures, moment: float) -> Generator[int, None, dict[str, tuple[Pod, int]]]:
        """Return where the workload would stand at a moment; nothing if it finds no place."""
        cycle, placer = yield from self._cycle_at(departures, moment)
        if cycle.bound() is not None or not (yield from cycle.fit()):
            return {}
        placed = dict(placer.placed)
        placer.clear()
        return placed

    def _cycle_at(self, departures: _Departures, moment: float) -> Generator[int, None, tuple[Cycle, Placer]]:
        """Return an attempt on the snapshot as it will be at a moment, with its shapes up to date."""
        core, snapshot = self._core, self._core.access.snapshot
        yield 1 + departures.go_to(moment) // 10
        core.access.reserved = self._reserved(snapshot, moment)
        placer = core.access.placer(self._workload, self._pods, self._beside)
        cycle = Cycle(core.runtime_of(self._workload), snapshot, self._workload, placer)
        yield from placer.evaluate()
        return cycle, placer

    def _reserved(self, snapshot: Snapshot, moment: float) -> dict[int, list[Look]]:
        """Return what is reserved for others from a moment on, for as long as the workload runs."""
        end = float("inf") if self._seconds is None else moment + self._seconds
        names = {name for one in self._before for name in one.nodes}
        found = {}
        for name in sorted(names & snapshot.row_of.keys()):
            row = snapshot.row_of[name]
            looks = looks_at(snapshot.all_rows[row], self._before, self._run_times, self._now, moment, end)
            if looks:
                found[row] = looks
        return found

    def _reservation(self, departures: _Departures, moment: float, placed: dict[str, tuple[Pod, int]]) -> Reservation:
        nodes: dict[str, list[Pod]] = {}
        for pod, row in placed.values():
            nodes.setdefault(self._core.access.snapshot.all_rows[row].node.name, []).append(pod)
        seconds = float("inf") if self._seconds is None else self._seconds
        if moment < _UNKNOWN:
            return Reservation(self._workload.key, nodes, moment, seconds)
        rows = {row for _, row in placed.values()}
        leaving = frozenset(end.uid for end in departures.gone_by(moment) if end.row in rows)
        return Reservation(self._workload.key, nodes, None, seconds, leaving)
