"""Prices: what evictions cost on one node, as whole numbers and straight lines over time.

For DefaultPreemption with `minimizeLoss`.  The order of what counts is that of `losses`.  Work since the last checkpoint grows with
time, for each at a rate of its own, so that it can be said until when one stays dearer than another.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from scheduler.model.checkpoints import accelerators, restart_seconds, saved_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.state.cluster import ClusterState

    from .victims import Unit

#: Below every priority: nobody is taken.
_NOBODY = -(2**62)
#: More devices of one pod are not counted, so that sums over a cluster stay whole numbers of 64 bits.
_MOST_DEVICES = 100_000
FOREVER = float("inf")


class Line(NamedTuple):
    """A number that grows by `rate` each second: `rate` times the seconds since the epoch, less `base`."""

    rate: int = 0
    base: int = 0

    def at(self, second: int) -> int:
        """Return the number at a second since the epoch."""
        return self.rate * second - self.base


class Price(NamedTuple):
    """What is lost with some units; the smallest at a second is the cheapest then. Seconds are whole ones."""

    #: How many pods go against a budget.
    violations: int = 0
    priority: int = _NOBODY
    #: GPUs times seconds since the last checkpoint, or else since the start.
    work: Line = Line()
    #: How many pods go.
    pods: int = 0
    restart_seconds: int = 0
    #: How many of them make no room for the preemptor: the rest of gangs.
    cascade: int = 0
    #: How long the pods ran altogether.
    run: Line = Line()

    def at(self, second: int) -> tuple[int, int, int, int, int, int, int]:
        """Return what is compared at a second since the epoch."""
        return (
            self.violations, self.priority, self.work.at(second), self.pods, self.restart_seconds, self.cascade,
            self.run.at(second),
        )  # fmt: skip


def price_of(unit: Unit, cluster: ClusterState, now: float, here: int) -> Price:
    """Return what a unit costs by itself, budgets aside; nothing if it is going anyway. `here` of its pods make room."""
    if unit.is_going:
        return Price()
    work_rate = work_base = restart = run_rate = run_base = 0
    for pod in unit.members:
        key = cluster.gang_of(pod)
        gang = cluster.gangs.get(key) if key is not None else None
        restart += math.ceil(restart_seconds(pod, gang))
        if pod.started is None or pod.started > now:
            continue  # it has not begun: nothing is lost however long that takes
        saved = math.floor(saved_at(pod, gang, now))
        held = min(accelerators(pod), _MOST_DEVICES)
        work_rate, work_base = work_rate + held, work_base + held * saved
        run_rate, run_base = run_rate + 1, run_base + saved
    pods = len(unit.pods)
    return Price(
        0, unit.priority, Line(work_rate, work_base), pods, restart, pods - here, Line(run_rate, run_base)
    )  # fmt: skip


def together(prices: Iterable[Price], violations: int) -> Price:
    """Return what units cost together that are not going anyway."""
    priority, pods, restart, cascade = _NOBODY, 0, 0, 0
    work_rate = work_base = run_rate = run_base = 0
    for price in prices:
        priority = max(priority, price.priority)
        work_rate, work_base = work_rate + price.work.rate, work_base + price.work.base
        pods, restart, cascade = pods + price.pods, restart + price.restart_seconds, cascade + price.cascade
        run_rate, run_base = run_rate + price.run.rate, run_base + price.run.base
    return Price(
        violations, priority, Line(work_rate, work_base), pods, restart, cascade, Line(run_rate, run_base)
    )  # fmt: skip


def changes_at(dear: Price, cheap: Price, second: int) -> float:
    """Return before which time one stays at least as dear as another, as it is now, if nothing but time goes by."""
    if (dear.violations, dear.priority) != (cheap.violations, cheap.priority):
        return FOREVER
    until = _meet(dear.work, cheap.work, second)
    if dear.work == cheap.work and dear[3:6] == cheap[3:6]:
        until = min(until, _meet(dear.run, cheap.run, second))
    return until


def _meet(high: Line, low: Line, second: int) -> float:
    """Return when the upper of two lines is the upper one no more, or the first second on which equal ones part."""
    ahead = high.at(second) - low.at(second)
    if high.rate == low.rate:
        return FOREVER
    if ahead == 0:
        return second + 1
    return FOREVER if high.rate > low.rate else second + math.ceil(ahead / (low.rate - high.rate))
