"""An independent replay: no engine, no pods, thirty lines of arithmetic; what the real one must agree with to the second.

Jobs are looked at in the order of arrival whenever something changes.  One that fits a node takes the fullest node with room
(of equal ones the first); a larger one takes whole idle nodes; one that does not fit is passed by.  So it knows only sizes
that are whole nodes beyond one.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.sim.traces.trace import ClusterShape, Trace, TraceJob


def ends_of(trace: Trace, shape: ClusterShape, delay: float) -> dict[str, float]:
    """Return when each job ends."""
    idle = [shape.gpus_per_node] * shape.nodes
    arriving = list(trace.jobs)
    waiting: list[TraceJob] = []
    running: list[tuple[float, str, list[int], int]] = []
    ends: dict[str, float] = {}
    while arriving or running:
        now = min([job.submit_seconds for job in arriving[:1]] + [entry[0] for entry in running[:1]])
        while running and running[0][0] <= now:
            _, name, nodes, count = heapq.heappop(running)
            ends[name] = now
            for node in nodes:
                idle[node] += count
        while arriving and arriving[0].submit_seconds <= now:
            waiting.append(arriving.pop(0))
        for job in tuple(waiting):
            count = min(job.gpus, shape.gpus_per_node)
            nodes = sorted((n for n in range(shape.nodes) if idle[n] >= count), key=lambda n: (idle[n], n))
            needed = job.gpus // count
            if len(nodes) >= needed:
                waiting.remove(job)
                for node in nodes[:needed]:
                    idle[node] -= count
                heapq.heappush(running, (now + delay + job.run_seconds, job.name, nodes[:needed], count))
    return ends
