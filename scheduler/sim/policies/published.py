"""The published policies that deal all GPUs anew: the shortest remaining time or GPU-time first, and Tiresias-L.

For `dealing`.  SRTF and SRSF know how long jobs run; Tiresias (NSDI 2019; its L, for least attained service) does not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.sim.traces.trace import ClusterShape

    from .work import Work

#: GPU-seconds of service after which a job of Tiresias-L falls into the second and the third queue, as in Muri's simulations.
TIRESIAS_LIMITS = (3250.0, 7200.0)
#: A demotion is due when so little service is missing: sums of times are not exact.
_TOLERANCE = 1e-6


class Shortest:
    """The smallest key first; each job that fits gets whole nodes, or a part of the first node with room."""

    def __init__(self, shape: ClusterShape, key: Callable[[Work], float]) -> None:
        """Take the cluster and the key."""
        self._shape = shape
        self._key = key
        #: In the order of the last deal, as ties stay in it.
        self._jobs: list[Work] = []

    def arrived(self, work: Work) -> None:
        """Put a job behind the others."""
        self._jobs.append(work)

    def ended(self, work: Work) -> None:
        """Drop a job."""
        self._jobs.remove(work)

    def progressed(self, work: Work) -> None:
        """Nothing follows from it before the next deal."""

    def deal(self) -> Sequence[Work]:
        """Return the jobs that find room, the smallest key first."""
        self._jobs.sort(key=self._key)
        free = [self._shape.gpus_per_node] * self._shape.nodes
        return [work for work in self._jobs if _take(free, work.job.gpus, self._shape.gpus_per_node)]

    def next_change(self, now: float) -> float:  # noqa: ARG002 - the policies' signature
        """Nothing changes the order between arrivals and ends: the others have no more to wait for."""
        return math.inf


def _take(free: list[int], gpus: int, per_node: int) -> bool:
    """Take GPUs of the first node with room, or whole idle nodes; False if they are not there."""
    if gpus <= per_node:
        node = next((number for number, count in enumerate(free) if count >= gpus), None)
        if node is None:
            return False
        free[node] -= gpus
        return True
    idle = [number for number, count in enumerate(free) if count == per_node][: -(-gpus // per_node)]
    if len(idle) * per_node < gpus:
        return False
    for number in idle:
        free[number] = 0
    return True


def srtf(shape: ClusterShape) -> Shortest:
    """Return the shortest remaining time first."""
    return Shortest(shape, lambda work: work.remaining)


def srsf(shape: ClusterShape) -> Shortest:
    """Return the shortest remaining service first: time × GPUs."""
    return Shortest(shape, lambda work: work.remaining * work.job.gpus)


class TiresiasL:
    """Queues by the service that jobs have had; in each, those that run before those that wait.  It counts GPUs, not nodes."""

    def __init__(self, shape: ClusterShape, limits: Sequence[float] = TIRESIAS_LIMITS) -> None:
        """Take the cluster, and after how many GPU-seconds a job falls into the next queue."""
        self._gpus = shape.gpus
        self._limits = tuple(limits)
        self._queues: list[list[Work]] = [[] for _ in range(len(limits) + 1)]
        self._queue_of: dict[int, int] = {}

    def arrived(self, work: Work) -> None:
        """Put a job into the first queue."""
        self._queues[0].append(work)
        self._queue_of[work.number] = 0

    def ended(self, work: Work) -> None:
        """Drop a job."""
        self._queues[self._queue_of.pop(work.number)].remove(work)

    def progressed(self, work: Work) -> None:
        """Demote a job that has had its share."""
        queue = self._queue_of[work.number]
        if queue < len(self._limits) and work.attained >= self._limits[queue] - _TOLERANCE:
            self._queues[queue].remove(work)
            self._queues[queue + 1].append(work)
            self._queue_of[work.number] = queue + 1

    def deal(self) -> Sequence[Work]:
        """Return the jobs that find enough GPUs, queue by queue."""
        free = self._gpus
        chosen: dict[int, Work] = {}
        for work in (work for queue in self._queues for work in queue):
            if work.job.gpus <= free:
                free -= work.job.gpus
                chosen[work.number] = work
        for queue in self._queues:
            queue.sort(key=lambda work: work.number not in chosen)
        return list(chosen.values())

    def next_change(self, now: float) -> float:
        """Return when the next job falls into another queue; whole seconds of service, as its authors count."""
        return min(
            (
                math.ceil(self._limits[number] / work.job.gpus) - work.held_seconds + now
                for number, queue in enumerate(self._queues[:-1])
                for work in queue
                if work.is_running
            ),
            default=math.inf,
        )
