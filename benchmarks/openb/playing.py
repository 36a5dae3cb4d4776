"""One run: the pods of a stream submitted one by one to an engine with the default profile.

For `benchmarks.openb`.  Nothing ever leaves; a pod that does not fit is taken away again and counts as arrived.  Nodes are given
names with a seeded random prefix first, as the authors do, so that ties which end at a fixed rule end at another one for each seed.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import msgspec

from scheduler.config import SchedulerConfiguration
from scheduler.engine import inputs as i
from scheduler.engine.engine import Engine
from scheduler.framework.effects import BindPod
from scheduler.topology import GPUS_ANNOTATION, gpus_of_mask, parse_gpus
from tests.builders import a_node, a_pod, term

from .ledger import Ledger
from .workload import WHOLE, stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model import Node, Pod

    from .workload import NodeLine, PodLine

#: Counts thousandths of GPUs (`GPUFragmentation`).
SHARES = "scheduling.ai-scheduler.io/gpu-milli"
MODEL = "openb/gpu-model"
ALLOC_POINTS, FRAG_POINTS = (90, 95, 100, 130), (50, 80, 90)
#: What a seed means for the order of nodes, apart from that of pods.
_NODE_SALT = 1_000_003


class Run:
    """An engine that has seen the nodes."""

    def __init__(self, nodes: Sequence[NodeLine], pods: Sequence[PodLine], seed: int, ties: str) -> None:
        """Start empty; `ties` is fixed or random."""
        self._ledger = Ledger(nodes, pods)
        self._pods, self._seed = list(pods), seed
        configuration = SchedulerConfiguration.model_validate({"tieBreak": "random" if ties == "random" else "name"})
        self._clock = 1_000_000.0
        self._engine = Engine(configuration, lambda: self._clock, seed)
        order = list(range(len(nodes)))
        random.Random(seed * _NODE_SALT).shuffle(order)
        self._listed = {f"n{order[n]:05}-{node.name}": node.name for n, node in enumerate(nodes)}
        for name, node in zip(self._listed, nodes, strict=True):
            self._engine.handle(i.NodeChanged(_node(name, node)))
        self._work()
        #: Seconds that the engine took, and how many pods it decided.
        self.seconds, self.decided = 0.0, 0

    def play(self) -> dict[str, Any]:
        """Submit all pods; return the allocation and the fragments, in percent, by how much had been asked for."""
        arrived = 0
        alloc: dict[int, list[float]] = {point: [] for point in ALLOC_POINTS}
        frag: dict[int, list[float]] = {point: [] for point in FRAG_POINTS}
        for number, pod in enumerate(stream(self._pods, self._ledger.capacity_milli, self._seed)):
            arrived += pod.asked_milli
            self._submit(number, pod)
            point = round(100 * arrived / self._ledger.capacity_milli)
            if point in alloc:
                alloc[point].append(self._ledger.allocated())
            if point in frag:
                frag[point].append(self._ledger.fragmented())
        return {"alloc_pct": _means(alloc), "frag_ratio": _means(frag)}

    def _submit(self, number: int, line: PodLine) -> None:
        """Let one pod be decided and, if it is bound, seen so."""
        pod = _pod(f"{number:06}-{line.name}", line)
        began = time.perf_counter()
        self._engine.handle(i.PodChanged(pod))
        effects = self._work()
        bound = next((effect for effect in effects if isinstance(effect, BindPod)), None)
        if bound is None:
            self._engine.handle(i.PodRemoved(pod.uid))
        else:
            annotations = {**pod.annotations, **bound.annotations}
            seen = msgspec.structs.replace(pod, node_name=bound.node_name, annotations=annotations, shape=b"")
            self._engine.handle(i.BindingSucceeded(pod.uid))
            self._engine.handle(i.PodChanged(seen))
        self.seconds += (
            time.perf_counter() - began
        )  # the clock of processor time costs as much as a decision on some machines
        self.decided += 1
        if bound is not None:
            told = bound.annotations.get(GPUS_ANNOTATION)
            gpus = gpus_of_mask(parse_gpus(told)[0]) if told is not None else ()
            self._ledger.place(line, self._listed[bound.node_name], gpus)

    def _work(self) -> list[Any]:
        while self._engine.step():
            pass
        return self._engine.take_effects()


def _node(name: str, line: NodeLine) -> Node:
    node = a_node(name).cpu(f"{line.cpu_milli}m").memory(f"{line.memory_mib}Mi").pods(1000).label(MODEL, line.model)
    return node.offer(SHARES, line.gpus * WHOLE).build()


def _pod(name: str, line: PodLine) -> Pod:
    pod = a_pod(name).cpu(f"{line.cpu_milli}m").memory(f"{line.memory_mib}Mi").preemption_policy("Never")
    if line.gpus:
        pod.request(SHARES, line.asked_milli)
    if line.models and line.gpus:
        pod.require(term((MODEL, "In", list(line.models))))
    return pod.build()


def _means(by_point: dict[int, list[float]]) -> dict[str, float | None]:
    """Return the mean at each point; None where no pod arrived, as a single pod may ask for more than a percent."""
    return {str(point): sum(found) / len(found) if found else None for point, found in by_point.items()}
