"""What it costs to plan who must make room: reclaim and preemption for large gangs, and the "no" when it does not suffice.

    python -m benchmarks.preemption [--rounds 3]

500 nodes of 8 GPUs are full of one-GPU pods, 4,000 in all.  The figures are processor time, the least of several runs, from the
input to the effects, of a scheduler that has decided something before; goals are a second for a plan and 10 ms for the "no".
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from typing import TYPE_CHECKING

from benchmarks.engine import timed
from scheduler.config import default
from scheduler.engine import inputs as i
from scheduler.engine.engine import Engine
from scheduler.framework.effects import EvictPod
from scheduler.model.queue import QUEUE_LABEL, Queue, Quota
from tests.builders import GPU, a_gang, a_node, a_pod

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.framework.effects import Effect

NODES, GPUS = 500, 8


def cluster(nodes: int, *, queues: bool, dear: int = 0) -> Engine:
    """Return an engine whose nodes are full of one-GPU pods, on `dear` nodes more important ones, of a queue that owns nothing."""
    engine = Engine(default(), lambda: 1_800_000_000.0, 0)
    if queues:
        for name, guaranteed in (("lender", nodes * GPUS), ("borrower", 0)):
            engine.handle(i.ObjectChanged(Queue(name=name, quotas={GPU: Quota(guaranteed, None, Fraction(1))})))
    for k in range(nodes):
        engine.handle(i.NodeChanged(a_node(f"n{k:04}").gpus(GPUS).cpu(128).build()))
        priority = 100 if k < dear else 0
        for slot in range(GPUS):
            pod = a_pod(f"one-{k}-{slot}").gpus(1).cpu(1).priority(priority).on(f"n{k:04}", started=k * GPUS + slot)
            engine.handle(i.PodChanged(pod.label(QUEUE_LABEL, "borrower").build()))
    finish(engine)
    engine.handle(i.PodChanged(a_pod("before").gpus(GPUS).cpu(1).preemption_policy("Never").build()))
    finish(engine)
    return engine


def finish(engine: Engine) -> Sequence[Effect]:
    """Work to the end; return the effects."""
    while engine.step():
        pass
    return engine.take_effects()


def planned(engine: Engine, size: int, gpus: int, name: str = "large") -> tuple[float, int]:
    """Return how long a gang that needs room takes, in seconds, and how many pods go for it."""
    engine.handle(i.GangChanged(a_gang(name, size).build()))
    for k in range(size):
        pod = a_pod(f"{name}-{k}").gang(name).gpus(gpus).cpu(8).priority(10).label(QUEUE_LABEL, "lender")
        engine.handle(i.PodChanged(pod.build()))
    seconds, effects = timed(lambda: finish(engine))
    return seconds, sum(isinstance(effect, EvictPod) for effect in effects)


def least(rounds: int, nodes: int, size: int, gpus: int, *, queues: bool) -> tuple[float, int]:
    """Return the least time of several runs on fresh clusters, and the victims of the last one."""
    found = [planned(cluster(nodes, queues=queues), size, gpus) for _ in range(rounds)]
    return min(seconds for seconds, _ in found), found[-1][1]


def refused(rounds: int, size: int) -> tuple[float, int]:
    """Return the least time of several gangs that are one node short, after a first one, and their victims."""
    engine = cluster(NODES, queues=False, dear=NODES - size + 1)
    found = [planned(engine, size, GPUS, f"large{k}") for k in range(rounds + 1)][1:]
    return min(seconds for seconds, _ in found), sum(victims for _, victims in found)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args(arguments).rounds
    print(f"\nWho makes room: {NODES} nodes of {GPUS} GPUs, full of {NODES * GPUS} one-GPU pods")
    for what, nodes, size, gpus, queues in (
        ("reclaim by a gang of 250 x 8 GPUs", NODES, 250, 8, True),
        ("preemption by a gang of 250 x 8 GPUs", NODES, 250, 8, False),
        ("reclaim by a gang of 512 x 4 GPUs", NODES, 512, 4, True),
        ("reclaim by a gang of 512 x 8 GPUs, twice the cluster", 2 * NODES, 512, 8, True),
    ):
        seconds, victims = least(rounds, nodes, size, gpus, queues=queues)
        assert victims == size * gpus, victims
        print(f"{what:58} {seconds * 1000:9.1f} ms (goal 1000), {victims} victims")
    seconds, victims = refused(rounds, 250)
    assert not victims
    print(f"{'no to 250 x 8 GPUs where 249 nodes could be cleared':58} {seconds * 1000:9.1f} ms (goal 10)")


if __name__ == "__main__":
    main()
