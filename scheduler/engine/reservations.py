"""Reservation: nodes, and if it can be told a start, that are kept for a workload which waits for room.

For backfill.  A *promise* has a start, by when whoever has to go will have ended; a *hold* has none: its nodes are kept clear until
those that stand there have ended, whenever that is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .looks import Look

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.model import Pod
    from scheduler.state.rows import Row

    from .run_times import RunTimes


@dataclass(slots=True, eq=False)
class Reservation:
    """What is kept for one workload."""

    key: str
    #: Node name → the pods that will stand there.
    nodes: Mapping[str, Sequence[Pod]]
    #: Seconds since the epoch; None for a hold.
    start: float | None
    #: How long they will run at most, in seconds; infinite if nobody says.
    seconds: float = math.inf
    #: Of a hold, the pods that have to end, by uid; of a promise, nobody: all that end before its start do.
    leaving: frozenset[str] = frozenset()
    #: Of a hold, when it ends in vain.
    until: float = math.inf
    #: Something happened that may have made it impossible: it is to be planned again.
    is_stale: bool = False
    _looks: dict[str, tuple[Row, Look]] = field(default_factory=dict)

    @property
    def end(self) -> float:
        """When what it is for will have ended."""
        return math.inf if self.start is None else self.start + self.seconds

    @property
    def whom(self) -> str:
        """Namespace and name of the workload, as messages show it."""
        return self.key.split(":")[2 if self.key.startswith("gang:") else 1]

    @property
    def places(self) -> dict[str, str]:
        """Pod uid → node name."""
        return {pod.uid: name for name, pods in self.nodes.items() for pod in pods}


def looks_at(
    row: Row, reservations: Iterable[Reservation], run_times: RunTimes, now: float, begin: float, end: float
) -> list[Look]:
    """Return how a node looks at each moment between two that something is reserved from, for who would be there then.

    The pods on the row are those that are there at `begin`.
    """
    name = row.node.name
    mine = [one for one in reservations if name in one.nodes]
    looks = [
        Look(one.nodes[name], [uid for uid in row.pods if uid in one.leaving], one.whom)
        for one in mine
        if one.start is None
    ]
    dated = [one for one in mine if one.start is not None]
    moments = sorted({max(one.start or 0.0, begin) for one in dated if one.end > begin})
    for moment in moments:
        if moment >= end:
            break
        there = [one for one in dated if (one.start or 0.0) <= moment < one.end]
        pods = [pod for one in there for pod in one.nodes[name]]
        whom = " and ".join(one.whom for one in there)
        looks.append(Look(pods, _gone(row, run_times, now, begin, moment), whom))
    return looks


def _gone(row: Row, run_times: RunTimes, now: float, begin: float, moment: float) -> list[str]:
    """Return the pods of a row that will have ended by a moment."""
    if moment <= begin:
        return []
    return [uid for uid, pod in row.pods.items() if (end := run_times.end_of(pod, now)) is not None and end <= moment]
