"""Three ways to place gangs, with one face: the engine, the engine without FabricTopology, and chance.

For `benchmarks.fabric`.  Each keeps count of the GPUs that are free; what it placed, and what was free before, it returns.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec
import numpy as np

from scheduler.config import SchedulerConfiguration
from scheduler.engine import inputs as i
from scheduler.engine.engine import Engine
from scheduler.framework.effects import BindPod
from tests.builders import a_gang, a_pod

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.framework.effects import Effect
    from scheduler.model import Pod

    from .fabric_layout import Ints, Job, Layout

RANK = "scheduling.ai-scheduler.io/rank"
START = 1_000_000.0
#: The configuration in which gangs are placed by the scores of nodes alone.
NODE_SCORES = {"plugins": {"placementGenerate": {"disabled": [{"name": "FabricTopology"}]}}}


class Placed(NamedTuple):
    """A gang that got its place."""

    job: Job
    #: The rows of its pods, in the order of ranks.
    rows: Sequence[int]
    #: GPUs by row that were free just before.
    free: Ints
    at: float


class Placing(Protocol):
    """A way to place gangs in the order in which they arrive; those that do not fit wait, and others may go before them."""

    def submit(self, job: Job) -> None:
        """Take a gang into the queue."""

    def finish(self, job: Job) -> None:
        """Let a gang that was placed leave its nodes."""

    def run(self, until: float | None = None) -> list[Placed]:
        """Place what can be placed now, or until a time; the clock stands there afterwards."""


class ByEngine:
    """The real engine, on a cluster that does what it says at once.

    Without `fabric` the plugin is off and gangs ask for nothing, as the engine itself keeps what they ask for.
    """

    def __init__(self, layout: Layout, *, fabric: bool = True) -> None:
        self.layout, self.fabric = layout, fabric
        self.now = START
        self.free = layout.idle()
        profile = {} if fabric else NODE_SCORES
        self.engine = Engine(SchedulerConfiguration.model_validate({"profiles": [profile]}), lambda: self.now, 0)
        self._row_of = {name: row for row, name in enumerate(layout.names)}
        self._jobs: dict[str, Job] = {}
        self._pods: dict[str, dict[str, Pod]] = {}
        self._rows: dict[str, dict[str, int]] = {}
        for node in layout.nodes:
            self.engine.handle(i.NodeChanged(node.build()))
        self.run()

    def submit(self, job: Job) -> None:
        gang = a_gang(job.name, job.pods).created(self.now).build()
        if self.fabric:
            gang = msgspec.structs.replace(gang, topology=job.topology)
        self.engine.handle(i.GangChanged(gang))
        template = a_pod(job.name).gpus(job.gpus).cpu(job.gpus).gang(job.name).created(self.now).priority(job.priority)
        pods = [pod.label(RANK, str(rank)).build() for rank, pod in enumerate(template.times(job.pods))]
        by_uid = {pod.uid: pod for pod in pods}
        self._jobs[job.name], self._pods[job.name], self._rows[job.name] = job, by_uid, {}
        for pod in pods:
            self.engine.handle(i.PodChanged(pod))

    def finish(self, job: Job) -> None:
        for row in self._rows.pop(job.name).values():
            self.free[row] += job.gpus
        for uid in self._pods.pop(job.name):
            self.engine.handle(i.PodRemoved(uid))
        self.engine.handle(i.GangRemoved(a_gang(job.name, 1).build().key))
        del self._jobs[job.name]

    def run(self, until: float | None = None) -> list[Placed]:
        placed = self._work()
        while until is not None and (due := self.engine.next_deadline()) is not None and due < until:
            self.now = max(self.now + 1e-3, due)
            placed += self._work()
        self.now = self.now if until is None else until
        return placed

    def decide(self) -> list[Effect]:
        """Let the engine work until it has nothing more to do; return what it wants done."""
        while self.engine.step():
            pass
        return self.engine.take_effects()

    def _work(self) -> list[Placed]:
        placed: list[Placed] = []
        while effects := self.decide():
            placed += self.carry_out(effects)
        return placed

    def carry_out(self, effects: Sequence[Effect]) -> list[Placed]:
        """Bind pods; return the gangs that are complete with that."""
        placed = []
        for effect in effects:
            if not isinstance(effect, BindPod):
                continue
            name = effect.pod.name.rpartition("-")[0]
            rows = self._rows[name]
            rows[effect.pod.uid] = self._row_of[effect.node_name]
            self.engine.handle(i.BindingSucceeded(effect.pod.uid))
            bound = msgspec.structs.replace(self._pods[name][effect.pod.uid], node_name=effect.node_name, shape=b"")
            self.engine.handle(i.PodChanged(bound))
            job = self._jobs[name]
            if len(rows) == job.pods:
                in_order = [rows[uid] for uid in self._pods[name]]
                placed.append(Placed(job, in_order, self.free.copy(), self.now))
                np.subtract.at(self.free, in_order, job.gpus)
                assert (self.free >= 0).all(), f"{name} was put where there is no room"
        return placed


class ByChance:
    """Each pod on a node with room that is drawn at random; all pods of a gang or none."""

    def __init__(self, layout: Layout, seed: int) -> None:
        self.layout = layout
        self.now = START
        self.free = layout.idle()
        self._random = random.Random(seed)
        self._waiting: list[Job] = []
        self._rows: dict[str, list[int]] = {}

    def submit(self, job: Job) -> None:
        self._waiting.append(job)

    def finish(self, job: Job) -> None:
        np.add.at(self.free, self._rows.pop(job.name), job.gpus)

    def run(self, until: float | None = None) -> list[Placed]:
        placed = []
        for job in list(self._waiting):
            if int((self.free // job.gpus).sum()) >= job.pods:
                before, rows = self.free.copy(), []
                for _ in range(job.pods):
                    rows.append(self._random.choice(np.flatnonzero(self.free >= job.gpus).tolist()))
                    self.free[rows[-1]] -= job.gpus
                self._rows[job.name] = rows
                self._waiting.remove(job)
                placed.append(Placed(job, rows, before, self.now))
        self.now = self.now if until is None else until
        return placed


#: The ways by name; the first is ours.
WAYS = ("engine", "node scores", "random")


def way(name: str, layout: Layout, seed: int) -> Placing:
    """Return a way to place gangs on an empty cluster."""
    return ByChance(layout, seed) if name == "random" else ByEngine(layout, fabric=name == "engine")
