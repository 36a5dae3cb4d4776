"""Gangs alone on an empty cluster, and gangs that come and go at 80 % load: what each way to place them makes of it.

For `benchmarks.fabric`.  Virtual time; everything that is drawn follows from the seed, and all ways get the same gangs.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from .fabric_layout import KINDS, Job, constraint, fewest_leaves, is_kept
from .fabric_placing import START, WAYS, Placed, way

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .fabric_layout import Layout
    from .fabric_placing import Placing

SIZES = (8, 16, 32, 64, 128, 256, 512)
GPUS = (8, 4, 2, 1)
LOAD = 0.8
#: Gangs run between half an hour and an hour and a half.
SECONDS = (1800.0, 5400.0)
#: No gang of the load takes more than this share of the cluster: it would have to wait until almost everything is idle.
LARGEST_SHARE = 1 / 4
#: Gangs that arrive before this share of them has arrived only fill the cluster.
WARM_UP = 1 / 3


@dataclass(frozen=True)
class Result:
    """What became of one gang."""

    job: Job
    leaves: int
    #: The fewest leaves if everything were idle, and with what was free at that moment.
    idle_minimum: int
    minimum: int | None
    #: Domains of the next level, used and at least.
    blocks: int
    is_kept: bool
    wait: float
    at: float


def judged(layout: Layout, placed: Placed) -> Result:
    """Measure a placement."""
    job = placed.job
    idle = fewest_leaves(layout, layout.idle(), job)
    assert idle is not None
    return Result(
        job=job,
        leaves=layout.used("tier-0", placed.rows),
        idle_minimum=idle,
        minimum=fewest_leaves(layout, placed.free, job),
        blocks=layout.used("tier-1", placed.rows),
        is_kept=is_kept(layout, job, placed.rows),
        wait=max(0.0, placed.at - START - job.arrival),
        at=placed.at - START,
    )


def alone(layout: Layout) -> list[Job]:
    """Return every gang that fits into the empty cluster, of every kind."""
    jobs = []
    for kind in KINDS:
        for pods in SIZES:
            for gpus in GPUS:
                job = Job(f"{kind}-{pods}x{gpus}", pods, gpus, kind, constraint(layout, kind, pods, gpus))
                if fewest_leaves(layout, layout.idle(), job) is not None:
                    jobs.append(job)
    return jobs


def place_alone(layout: Layout, name: str, seed: int) -> list[Result]:
    """Place each gang on the empty cluster, one after the other; a gang that is refused is missing in what is returned."""
    results, placing = [], way(name, layout, seed)
    for job in alone(layout):
        placing.submit(job)
        placed = placing.run()
        results += [judged(layout, one) for one in placed]
        if placed:
            placing.finish(job)
            placing.run()
        else:
            placing = way(name, layout, seed)
    return results


def arrivals(layout: Layout, count: int, seed: int) -> list[Job]:
    """Draw gangs that arrive by chance; what they ask for together is 80 % of what the cluster offers in that time.

    Small ones are more frequent: each size has half the weight of the one before.
    """
    draw = random.Random(f"{layout.name} {seed}")
    most = layout.capacity * LARGEST_SHARE
    shapes = [(pods, gpus) for pods in SIZES for gpus in GPUS if pods * gpus <= most]
    now, jobs = 0.0, []
    for k in range(count):
        now += draw.expovariate(1.0)
        [(pods, gpus)] = draw.choices(shapes, [1 / pods for pods, _ in shapes])
        kind, seconds = draw.choice(KINDS), draw.uniform(*SECONDS)
        jobs.append(Job(f"g{k}", pods, gpus, kind, constraint(layout, kind, pods, gpus), now, seconds))
    pace = sum(job.total * job.seconds for job in jobs) / (LOAD * layout.capacity * now)
    return [replace(job, arrival=job.arrival * pace) for job in jobs]


@dataclass
class Played:
    """A simulation to its end: what became of the gangs, and the share of GPUs in use while gangs still arrived."""

    results: list[Result]
    load: float


def play(layout: Layout, jobs: Sequence[Job], placing: Placing) -> Played:
    """Let gangs arrive, run and leave until all have run, or nothing more happens."""
    results: list[Result] = []
    leaving: list[tuple[float, str, Job]] = []
    coming, busy, area, last = list(jobs)[::-1], 0, 0.0, 0.0
    begin, end = jobs[int(len(jobs) * WARM_UP)].arrival, jobs[-1].arrival

    def take(placed: Sequence[Placed]) -> None:
        nonlocal busy, area, last
        for one in placed:
            result = judged(layout, one)
            results.append(result)
            heapq.heappush(leaving, (result.at + one.job.seconds, one.job.name, one.job))
            area += busy * _overlap(last, result.at, begin, end)
            busy, last = busy + one.job.total, result.at

    while coming or leaving:
        due = min([*(job.arrival for job in coming[-1:]), *(time for time, _, _ in leaving[:1])])
        before = len(results)
        take(placing.run(START + due))
        if len(results) > before and leaving[0][0] < due:
            continue  # a gang that was placed meanwhile may leave before
        area += busy * _overlap(last, due, begin, end)
        last = due
        if leaving and leaving[0][0] <= due:
            _, _, job = heapq.heappop(leaving)
            placing.finish(job)
            busy -= job.total
        else:
            placing.submit(coming.pop())
        take(placing.run())
    return Played(results, area / ((end - begin) * layout.capacity))


def _overlap(since: float, until: float, begin: float, end: float) -> float:
    return max(0.0, min(until, end) - max(since, begin))


def summary(jobs: Sequence[Job], results: Sequence[Result], end: float | None = None) -> dict[str, Any]:
    """Return the figures of some gangs; only those that were placed until `end` count as placed and are measured."""
    names = {job.name for job in jobs}
    mine = [result for result in results if result.job.name in names]
    placed = [result for result in mine if end is None or result.at <= end]
    now = [result.leaves / result.minimum for result in placed if result.minimum]
    idle = [result.leaves / result.idle_minimum for result in placed]
    waits = sorted(result.wait for result in mine)
    return {
        "gangs": len(jobs),
        "placed": len(placed),
        "placedInTheEnd": len(mine),
        "kept": sum(result.is_kept for result in placed),
        "leavesPerMinimum": _figures(now),
        "leavesPerIdleMinimum": _figures(idle),
        "blocksMean": round(fmean(result.blocks for result in placed), 3) if placed else None,
        "waitSeconds": {
            "median": round(median(waits), 1),
            "mean": round(fmean(waits), 1),
            "p90": round(waits[int(len(waits) * 0.9)], 1),
        }
        if waits
        else None,
    }


def _figures(ratios: Sequence[float]) -> dict[str, float] | None:
    if not ratios:
        return None
    return {"median": round(median(ratios), 4), "mean": round(fmean(ratios), 4), "worst": round(max(ratios), 4)}


def on_empty(layout: Layout, seed: int) -> dict[str, Any]:
    """Return the figures for gangs alone on the empty cluster, by kind and way."""
    jobs, found = alone(layout), {name: place_alone(layout, name, seed) for name in WAYS}
    return {
        kind: {name: summary([job for job in jobs if job.kind == kind], found[name]) for name in WAYS} for kind in KINDS
    }


def under_load(layout: Layout, count: int, seed: int) -> dict[str, Any]:
    """Return the figures for gangs that come and go, by kind and way, with the load that each way reached."""
    jobs = arrivals(layout, count, seed)
    counted, end = jobs[int(count * WARM_UP) :], jobs[-1].arrival
    played = {name: play(layout, jobs, way(name, layout, seed)) for name in WAYS}
    kinds: dict[str, Any] = {"all": {name: summary(counted, played[name].results, end) for name in WAYS}}
    for kind in KINDS:
        of_kind = [job for job in counted if job.kind == kind]
        kinds[kind] = {name: summary(of_kind, played[name].results, end) for name in WAYS}
    return {"load": {name: round(played[name].load, 4) for name in WAYS}, "kinds": kinds}
