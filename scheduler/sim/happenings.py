"""Happenings: what a reader of a log wants to know of workloads, with what happens at one moment drawn together.

For the history, which tells what happens pod by pod.  A pod is not its workload: a line says how many pods of how many it
is about unless it is about all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .history import PodRecord, WorkloadRecord


@dataclass(frozen=True, slots=True)
class Happening:
    """Something a reader of a log wants to know of a workload.

    | what | text | pods, of_pods |
    |---|---|---|
    | submitted | | |
    | found: it ran before the simulation began | | how many, of how many it needs |
    | started | | how many, of how many it needs |
    | grew: more run than ever before | | how many came |
    | restarted, after an eviction | | how many came, of how many that run now; all if it was down |
    | evicted | for whom | how many went, of how many |
    | pods failed | why | how many; the name of a single one is in `pod` |
    | finished, failed | why | |
    """

    moment: float
    what: str
    workload: WorkloadRecord
    text: str = ""
    #: Where it runs, or where the pods run that the line is about.
    nodes: tuple[str, ...] = ()
    pods: int = 0
    of_pods: int = 0
    pod: str = ""


@dataclass
class _Moment:
    """What has happened to the pods of one workload and is not told yet."""

    #: How many of its pods ran before the first of them had to go.
    up: int = 0
    evicted: dict[str, int] = field(default_factory=dict)
    failed: dict[str, list[PodRecord]] = field(default_factory=dict)
    bound: list[PodRecord] = field(default_factory=list)
    is_adopted: bool = False


class Happenings:
    """All happenings; what concerns pods is held back until the moment is over, or something follows from it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start with nothing."""
        self._clock = clock
        self.told: list[Happening] = []
        self._untold: dict[int, tuple[WorkloadRecord, _Moment]] = {}

    def tell(self, what: str, record: WorkloadRecord, text: str = "") -> None:
        """Tell something of a whole workload, after what led to it."""
        if (untold := self._untold.get(id(record))) is not None:
            self._tell_losses(*untold)
        self._add(what, record, record.placed, text)

    def pod_bound(self, record: WorkloadRecord, life: PodRecord, *, is_adopted: bool) -> None:
        """Keep that a pod got its place; `is_adopted`: it had it before the simulation began."""
        moment = self._moment(record)
        moment.bound.append(life)
        moment.is_adopted = is_adopted

    def pod_evicted(self, record: WorkloadRecord, preempted_for: str) -> None:
        """Keep that a pod has to go; called before it counts as gone."""
        moment = self._moment(record)
        moment.up = moment.up or len(record.up)
        moment.evicted[preempted_for] = moment.evicted.get(preempted_for, 0) + 1

    def pod_failed(self, record: WorkloadRecord, life: PodRecord, why: str) -> None:
        """Keep that a pod failed."""
        self._moment(record).failed.setdefault(why, []).append(life)

    def settle(self) -> None:
        """Tell what was held back: the moment is over."""
        untold, self._untold = list(self._untold.values()), {}
        for record, moment in untold:
            self._tell_losses(record, moment)
        for record, moment in untold:
            if moment.bound:
                self._tell_bound(record, moment)

    def _moment(self, record: WorkloadRecord) -> _Moment:
        return self._untold.setdefault(id(record), (record, _Moment()))[1]

    def _tell_losses(self, record: WorkloadRecord, moment: _Moment) -> None:
        for why, lives in moment.failed.items():
            name = lives[0].pod.name if len(lives) == 1 else ""
            self._add("pods failed", record, lives, why, pods=len(lives), pod=name)
        for preempted_for, pods in moment.evicted.items():
            self._add("evicted", record, record.up, preempted_for, pods=pods, of_pods=moment.up)
        if moment.evicted and not record.up:
            record.was_down = True
        moment.failed, moment.evicted, moment.up = {}, {}, 0

    def _tell_bound(self, record: WorkloadRecord, moment: _Moment) -> None:
        """Tell that pods got places, unless they only take those of others that have ended."""
        up, new = len(record.up), len(moment.bound)
        is_first, record.is_told = not record.is_told, record.started is not None
        back = min(new, record.missing)
        record.missing -= back
        if is_first:
            # Further pods than it needs may have come with the first ones.
            pods = max(record.needed, up) if record.started is not None else record.covered
            what = "found" if moment.is_adopted else "started"
            self._add(what, record, record.placed, pods=pods, of_pods=max(record.needed, pods))
        elif back:
            is_whole = record.was_down and not record.missing
            lives = record.placed if is_whole else moment.bound
            self._add("restarted", record, lives, pods=back, of_pods=back if is_whole else max(up, back + 1))
        elif up > record.most_up:
            self._add("grew", record, moment.bound, pods=new)
        record.was_down = record.was_down and bool(record.missing)
        record.most_up = max(record.most_up, up)

    def _add(
        self, what: str, record: WorkloadRecord, lives: Iterable[PodRecord], text: str = "", *,
        pods: int = 0, of_pods: int = 0, pod: str = "",
    ) -> None:  # fmt: skip
        nodes = tuple(sorted({life.pod.node_name for life in lives}))
        self.told.append(Happening(self._clock(), what, record, text, nodes, pods, of_pods, pod))
