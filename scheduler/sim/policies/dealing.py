"""Dealing: the semantics of the Muri simulations: at every arrival and every end all GPUs are dealt anew, in a policy's order.

For the published policies, whose published figures show that trace reader, clock, overheads and metrics here are right.  As in
the authors' simulator (Rivendile/Muri, SIGCOMM 2022): a job that ran makes progress from one deal to the next, less the seconds
that it takes to start, even if it keeps its GPUs; its end is foreseen without them.  So GPUs are moved for nothing but that
loss, which no cluster offers; `holding` has the semantics of one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from .work import work_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.sim.traces.trace import Trace

    from .work import Work


class DealingPolicy(Protocol):
    """Who gets GPUs when all are dealt anew."""

    def arrived(self, work: Work) -> None:
        """Take a job that has come."""

    def ended(self, work: Work) -> None:
        """Drop a job that has ended."""

    def progressed(self, work: Work) -> None:
        """Look at a job that has held its GPUs since the last deal."""

    def deal(self) -> Sequence[Work]:
        """Return the jobs that hold GPUs from now on."""

    def next_change(self, now: float) -> float:
        """Return when GPUs have to be dealt again even if nothing comes or ends; infinite if never."""


def deal_trace(trace: Trace, policy: DealingPolicy) -> list[Work]:
    """Run all jobs of a trace to their ends. O(events × jobs that are there)."""
    every = [work_of(job, number) for number, job in enumerate(trace.jobs)]
    present: list[Work] = []
    coming, now, change = 0, 0.0, math.inf
    while coming < len(every) or present:
        arrival = every[coming].job.submit_seconds if coming < len(every) else math.inf
        end = min((now + work.remaining for work in present if work.is_running), default=math.inf)
        moment = min(arrival, end, change)
        if math.isinf(moment):
            break  # what is left can never run
        if moment == end and end <= change:
            for work in [w for w in present if w.is_running and now + w.remaining == end]:
                work.hold(end - now)
                work.finish(end)
                present.remove(work)
                policy.ended(work)
        if moment == arrival and arrival <= change:
            while coming < len(every) and every[coming].job.submit_seconds == arrival:
                present.append(every[coming])
                policy.arrived(every[coming])
                coming += 1
        _progress(present, moment - now, policy)
        now = moment
        _deal(present, policy, now)
        change = policy.next_change(now)
    return every


def _progress(present: Sequence[Work], seconds: float, policy: DealingPolicy) -> None:
    for work in present:
        if work.is_running:
            work.remaining -= max(seconds - work.overhead_seconds, 0.0)
            work.hold(seconds)
            policy.progressed(work)


def _deal(present: Sequence[Work], policy: DealingPolicy, now: float) -> None:
    chosen = {work.number for work in policy.deal()}
    for work in present:
        if work.number in chosen and not work.is_running:
            work.start(now)
        elif work.number not in chosen and work.is_running:
            work.preempt(now)
