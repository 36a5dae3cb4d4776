"""PendingWorkload: what the outside sees of a workload that is not yet placed.

For views, reports and metrics.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PendingWorkload:
    """A workload that waits, and why."""

    key: str
    #: pod or gang.
    kind: str
    namespace: str
    name: str
    #: gated, active, backoff, unschedulable, in-flight, waiting, nominated or binding.
    phase: str
    priority: int
    pods: int
    needed: int
    #: Seconds since the epoch.
    since: float
    attempts: int
    #: Code and sentence.
    reason: str
    message: str
    #: Names of the groups in a gang of several that its pods name.
    parts: tuple[str, ...] = ()
