"""How long the engine takes for large gangs with topology, and for the "no" to a gang that misses by one GPU.

For `benchmarks.fabric`.  Processor time from the pods, which the engine has seen, to the effects; decisions are not recorded.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

from scheduler.engine import inputs as i
from scheduler.framework.effects import BindPod, EvictPod
from tests.builders import a_pod
from tests.fabrics import nodes_of_tree

from .fabric_layout import GPUS_PER_NODE, Job, constraint, tree
from .fabric_placing import ByEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduler.framework.effects import Effect

    from .fabric_layout import Layout

PODS = 512
#: Budgets of DESIGN §10, in milliseconds.
GANG_BUDGET, NO_BUDGET = 500.0, 10.0
NEAR_MISS_PODS = 10
URGENT = 5


def timed(placing: ByEngine, job: Job) -> tuple[float, list[Effect]]:
    """Return the seconds of processor time for one gang, and what comes of it; it is still there afterwards."""
    placing.submit(job)
    began = time.process_time()
    effects = placing.decide()
    return time.process_time() - began, effects


def large(layout: Layout, kind: str, rounds: int) -> dict[str, Any]:
    """Place a gang of 512 × 8 GPUs on an empty cluster: by a new engine each time, and again by one that knows the shape."""
    first, again = [], []
    asked = constraint(layout, kind, PODS, GPUS_PER_NODE)
    placing = None
    for _ in range(rounds):
        placing = ByEngine(layout)
        seconds, effects = timed(placing, Job("wide", PODS, GPUS_PER_NODE, kind, asked))
        assert sum(isinstance(effect, BindPod) for effect in effects) == PODS
        first.append(seconds)
    assert placing is not None
    [placed] = placing.carry_out(effects)
    for number in range(rounds):
        placing.finish(placed.job)
        placing.run()
        seconds, effects = timed(placing, Job(f"wide{number}", PODS, GPUS_PER_NODE, kind, asked))
        [placed] = placing.carry_out(effects)
        again.append(seconds)
    what = f"{PODS} x {GPUS_PER_NODE} GPUs, {kind}, {len(layout.nodes)} nodes"
    return line(what, GANG_BUDGET, first, again)


def near_miss(reachable: int, kind: str, rounds: int) -> dict[str, Any]:
    """Ask for 10 × 8 GPUs on 500 full nodes where so many GPUs could be had by evictions: 79 are one too few, 80 do.

    Every GPU has a pod of its own; those on the first GPUs are less important than the gang, all others are its equals.
    The engine has refused a gang of another shape before, so that its tables of pods stand, as they do in a running one.
    """
    layout = tree("full", nodes_of_tree(zones=1, blocks=10, racks=25, nodes=2))
    asked = constraint(layout, kind, NEAR_MISS_PODS, GPUS_PER_NODE)
    is_enough = reachable >= NEAR_MISS_PODS * GPUS_PER_NODE
    first, again = [], []
    for number in range(rounds):
        placing = _full(layout, reachable)
        for times in (first,) if is_enough else (first, again):
            name = f"no{number}-{len(times)}"
            job = Job(name, NEAR_MISS_PODS, GPUS_PER_NODE, kind, asked, priority=URGENT)
            seconds, effects = timed(placing, job)
            evicted = sum(isinstance(effect, EvictPod) for effect in effects)
            assert evicted == (NEAR_MISS_PODS * GPUS_PER_NODE if is_enough else 0), f"{evicted} pods were evicted"
            assert not any(isinstance(effect, BindPod) for effect in effects)
            times.append(seconds)
            placing.finish(job)
            placing.run()
    what = f"{NEAR_MISS_PODS} x {GPUS_PER_NODE} GPUs, {kind}, 500 full nodes, {reachable} GPUs could be had"
    return line(what, GANG_BUDGET if is_enough else NO_BUDGET, first, again)


def _full(layout: Layout, reachable: int) -> ByEngine:
    placing = ByEngine(layout)
    for row, name in enumerate(layout.names):
        for gpu in range(GPUS_PER_NODE):
            number = row * GPUS_PER_NODE + gpu
            pod = a_pod(f"full-{number}").gpus(1).cpu(1).priority(0 if number < reachable else URGENT).on(name)
            placing.engine.handle(i.PodChanged(pod.build()))
    other = Job("other", len(layout.nodes), GPUS_PER_NODE - 1, "none", None)
    timed(placing, other)
    placing.finish(other)
    placing.run()
    return placing


def line(what: str, budget: float, first: list[float], again: list[float]) -> dict[str, Any]:
    """Return one measurement, in milliseconds."""
    return {
        "what": what,
        "budgetMilliseconds": budget,
        "firstMilliseconds": round(median(first) * 1000, 3),
        "againMilliseconds": round(median(again) * 1000, 3) if again else None,
    }


def speed(rounds: int) -> Iterator[dict[str, Any]]:
    """Yield the measurements, one after the other."""
    small = tree("4096", nodes_of_tree())
    wide = tree("5000", nodes_of_tree(zones=4, blocks=25, racks=25, nodes=2))
    for layout, kinds in (
        (small, ("none", "preferred", "segmented")),
        (wide, ("none", "preferred", "required", "segmented")),
    ):
        for kind in kinds:
            yield large(layout, kind, rounds)
    for kind in ("none", "required"):
        yield near_miss(NEAR_MISS_PODS * GPUS_PER_NODE - 1, kind, rounds)
        yield near_miss(NEAR_MISS_PODS * GPUS_PER_NODE, kind, rounds)
