"""Work: what the engine does for a pod, counted instead of timed, so that any machine counts the same.

Counted are node evaluations (a Filter or Score that looks at a node), rows that something kept by rows looked at again,
calls of plugins at their points, and searches for devices on a node.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks.engine import Bench
from scheduler.devices.allocator import allocate
from scheduler.engine import inputs as i
from scheduler.framework.effects import BindPod
from scheduler.state.row_cache import RowFollower
from tests.builders import a_gang, a_node, a_pod
from tests.devices.cases import gpus
from tests.engine.device_world import DeviceWorld, claiming, node_slice, shared_claim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from scheduler.model import Pod

    from .stage import Figures

#: Methods by which plugins are called: one node or many, for each point.
POINTS = frozenset(
    [
        "pre_enqueue",
        "sort_key",
        "pre_filter",
        "filter",
        "filter_all",
        "post_filter",
        "pre_score",
        "score",
        "score_all",
        "normalize",
        "reserve",
        "unreserve",
        "permit",
        "pre_bind",
        "bind",
        "post_bind",
        "generate_domains",
        "score_placement",
        "is_settled",
    ]
)


@dataclass
class Counter:
    """What was counted."""

    rows: int = 0
    calls: int = 0
    searches: int = 0


@contextmanager
def counting() -> Iterator[Counter]:
    """Count rows and calls inside."""
    counter = Counter()
    catch_up = RowFollower.catch_up

    def counted(follower: RowFollower, snapshot: Any, changes: list[int]) -> None:
        if follower.seen is None:
            counter.rows += len(snapshot.all_rows)
        else:
            counter.rows += min(len(set(changes[follower.seen :])), len(snapshot.all_rows))
        catch_up(follower, snapshot, changes)

    def called(frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code.co_name in POINTS and "/scheduler/plugins/" in code.co_filename:
            counter.calls += 1
        elif code is allocate.__code__:
            counter.searches += 1

    RowFollower.catch_up = counted  # type: ignore[method-assign]
    sys.setprofile(called)
    try:
        yield counter
    finally:
        sys.setprofile(None)
        RowFollower.catch_up = catch_up  # type: ignore[method-assign]


def measured(bench: Bench, pods: list[Pod], *, placed: bool = True) -> Figures:
    """Return what a burst of pods costs, per pod; all must be placed, or none."""
    bench.decisions.clear()
    with counting() as counter:
        bench.put(pods)
        effects = bench.work()
        bench.confirm(effects, {pod.uid: pod for pod in pods})
        bench.work()
    bound = sum(isinstance(effect, BindPod) for effect in effects)
    if bound != (len(pods) if placed else 0):
        raise RuntimeError(f"{bound} of {len(pods)} pods were placed")
    number = len(pods)
    return {
        "node_evaluations_per_pod": sum(decision.evaluations for decision in bench.decisions) / number,
        "rows_per_pod": counter.rows / number,
        "plugin_calls_per_pod": counter.calls / number,
    }


def one_by_one(bench: Bench, pods: list[Pod]) -> Figures:
    """Return what pods cost that are bound and seen before the next one comes."""
    found = [measured(bench, [pod]) for pod in pods]
    return {figure: sum(each[figure] for each in found) / len(found) for figure in found[0]}


def gang(bench: Bench, name: str, size: int, gpus: int) -> list[Pod]:
    """Let a group be seen, and return its members."""
    bench.engine.handle(i.GangChanged(a_gang(name, size).build()))
    return [a_pod(f"{name}-{k}").gpus(gpus).gang(name, size).build() for k in range(size)]


def singles() -> Figures:
    """100 plain pods, one after the other, on 100 nodes."""
    return one_by_one(Bench(100), [a_pod(f"p{k}").cpu("100m").build() for k in range(100)])


def gangs() -> Figures:
    """50 gangs of 4 pods with 2 GPUs, which fill 50 nodes."""
    bench = Bench(50)
    found = [measured(bench, gang(bench, f"g{k}", 4, 2)) for k in range(50)]
    return {figure: sum(each[figure] for each in found) / len(found) for figure in found[0]}


def whole() -> Figures:
    """One gang of 64 pods with 8 GPUs on 64 nodes."""
    bench = Bench(64)
    return measured(bench, gang(bench, "g", 64, 8))


def refused() -> Figures:
    """One gang of 10 pods with 8 GPUs on 64 full nodes."""
    bench = Bench(64)
    bench.fill(lambda _: 0)
    return measured(bench, gang(bench, "g", 10, 8), placed=False)


def claims() -> Figures:
    """40 pods, one after the other, with claims that somebody made for them, on 20 nodes with 4 devices."""
    nodes = [a_node(f"n{k:02}").cpu(8) for k in range(20)]
    world = DeviceWorld(nodes, slices=[node_slice(f"n{k:02}", *gpus(4)) for k in range(20)])
    with counting() as counter:
        for k in range(40):
            world.claim(shared_claim(f"c{k}")).add(claiming(a_pod(f"p{k}").cpu("10m"), f"c{k}")).run()
    if len(world.placed) != 40:
        raise RuntimeError(f"{len(world.placed)} of 40 pods were placed")
    return {"device_searches_per_pod": counter.searches / 40}


SCENARIOS: dict[str, Callable[[], Figures]] = {
    "engine: plain pods one by one": singles,
    "engine: gangs of 4 × 2 GPUs": gangs,
    "engine: one gang of 64": whole,
    "engine: a gang without room": refused,
    "engine: pods with claims": claims,
}


def counters() -> dict[str, Figures]:
    """Return what all scenarios cost."""
    return {name: scenario() for name, scenario in SCENARIOS.items()}


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(counters())) + b"\n")
