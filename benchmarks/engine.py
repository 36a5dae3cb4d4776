"""What the decision core costs, against its budgets: medians of several runs, in one process, without any I/O.

    python -m benchmarks.engine [--nodes 5000] [--rounds 5]

Every figure is the processor time from the input to the effects, decisions recorded.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from scheduler.config import default
from scheduler.engine import inputs as i
from scheduler.engine.engine import Engine
from scheduler.framework.effects import BindPod, EvictPod
from tests.builders import a_gang, a_node, a_pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduler.engine.decision import Decision
    from scheduler.framework.effects import Effect
    from scheduler.model import Pod


@dataclass
class Bench:
    """A cluster of equal GPU nodes in cliques of 18, and an engine."""

    size: int

    def __post_init__(self) -> None:
        """Fill the engine."""
        self.decisions: list[Decision] = []
        self.engine = Engine(default(), lambda: 1_000_000.0, 0, self.decisions.append)
        for k in range(self.size):
            node = (
                a_node(f"n{k:05}")
                .gpus(8)
                .cpu(128)
                .memory("2Ti")
                .label("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3")
            )
            node.label("nvidia.com/gpu.clique", f"fabric.{k // 18}").label("topology.kubernetes.io/zone", f"z{k % 3}")
            self.engine.handle(i.NodeChanged(node.build()))
        self.work()

    def put(self, pods: Iterable[Pod]) -> None:
        """Let pods be seen."""
        for pod in pods:
            self.engine.handle(i.PodChanged(pod))

    def fill(self, priority: Callable[[int], int], gpus: int = 8) -> None:
        """Put one running pod on each node."""
        for k in range(self.size):
            pod = a_pod(f"full-{k}").gpus(gpus).cpu(8).priority(priority(k)).on(f"n{k:05}")
            self.engine.handle(i.PodChanged(pod.build()))
        self.work()

    def work(self) -> list[Effect]:
        """Work to the end; return the effects."""
        while self.engine.step():
            pass
        return self.engine.take_effects()

    def confirm(self, effects: Iterable[Effect], pods: dict[str, Pod]) -> None:
        """Let bindings be seen."""
        for effect in effects:
            if isinstance(effect, BindPod):
                bound = msgspec.structs.replace(pods[effect.pod.uid], node_name=effect.node_name, shape=b"")
                self.engine.handle(i.BindingSucceeded(effect.pod.uid))
                self.engine.handle(i.PodChanged(bound))


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return seconds of processor time and the result."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def single(bench: Bench, rounds: int, shape: Callable[[int], Any]) -> float:
    """Return the median of one pod after the other, bound and seen."""
    times = []
    for k in range(rounds * 20):
        pod = shape(k).build()
        bench.put([pod])
        seconds, effects = timed(bench.work)
        assert any(isinstance(effect, BindPod) for effect in effects)
        times.append(seconds)
        bench.confirm(effects, {pod.uid: pod})
    return statistics.median(times)


def gang(bench: Bench, name: str, size: int, priority: int = 0, **asks: int) -> tuple[float, list[Effect]]:
    """Return how long one gang takes, and what comes of it."""
    bench.engine.handle(i.GangChanged(a_gang(name, size).build()))
    pods = [
        a_pod(f"{name}-{k}").gang(name).gpus(8).cpu(asks.get("cpu", 16)).priority(priority).build() for k in range(size)
    ]
    bench.put(pods)
    seconds, effects = timed(bench.work)
    for pod in pods:
        bench.engine.handle(i.PodRemoved(pod.uid))
    bench.engine.handle(i.GangRemoved(a_gang(name, size).build().key))
    bench.work()
    return seconds, effects


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    size, rounds = options.nodes, options.rounds
    bench = Bench(size)
    say(
        "one pod, new shape each time",
        0.3,
        single(bench, rounds, lambda k: a_pod(f"a{k}").cpu(f"{100 + k}m").memory("1Gi")),
    )
    say(
        "one GPU pod, new shape each time",
        0.3,
        single(bench, rounds, lambda k: a_pod(f"b{k}").gpus(1).cpu(f"{100 + k}m")),
    )
    say("one pod, the same shape again", 0.1, single(bench, rounds, lambda k: a_pod(f"c{k}").cpu("100m").memory("1Gi")))
    say("one GPU pod, the same shape again", 0.1, single(bench, rounds, lambda k: a_pod(f"d{k}").gpus(1).cpu("100m")))
    wide = min(512, size // 8)
    fresh = [gang(Bench(size), "wide", wide) for _ in range(rounds)]
    assert all(sum(isinstance(e, BindPod) for e in effects) == wide for _, effects in fresh)
    say(f"gang of {wide} x 8 GPUs, {size} nodes, first", 500, statistics.median(s for s, _ in fresh))
    bench = Bench(size)
    again = [gang(bench, f"wide{k}", wide)[0] for k in range(rounds)]
    say(f"gang of {wide} x 8 GPUs, {size} nodes, again", 500, statistics.median(again))
    bench.fill(lambda k: 10 if k % 10 else 0)
    short = size // 10 + 12
    refused = [gang(bench, f"no{k}", short, priority=5) for k in range(rounds)]
    assert not any(isinstance(e, BindPod | EvictPod) for _, effects in refused for e in effects)
    say(f'"no" to {short} x 8, {size // 10} victims: first', 10, refused[0][0])
    say(f'"no" to {short} x 8, {size // 10} victims: median', 10, statistics.median(s for s, _ in refused))
    never = [gang(bench, f"never{k}", wide, cpu=129) for k in range(rounds)]
    say(f'"never" to {wide} x 8 GPUs and 129 cores', 10, statistics.median(s for s, _ in never))
    took = [gang(bench, f"take{k}", size // 20, priority=5) for k in range(1)]
    assert sum(isinstance(e, EvictPod) for e in took[0][1]) == size // 20
    say(f"gang of {size // 20} x 8 evicts {size // 20}", 500, took[0][0])
    lone = []
    for k in range(rounds):
        bench.put([a_pod(f"lone{k}").gpus(8).cpu(1).priority(0).build()])
        lone.append(timed(bench.work)[0])
    say("one pod refused by a full cluster", 10, statistics.median(lone))


def say(what: str, budget_milliseconds: float, seconds: float) -> None:
    """Print a line."""
    print(f"{what:52} {seconds * 1000:9.3f} ms   budget {budget_milliseconds:6.1f} ms")


if __name__ == "__main__":
    main()
