"""Looks: a node as it will be at a moment: with pods that room is kept for, and without those that will have ended by then.

For candidates and the engine's Handle: a row takes a pod only if every look at it does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.framework.status import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.runtime import Runtime
    from scheduler.model import Pod
    from scheduler.state.snapshot import Snapshot, Undo


class Look(NamedTuple):
    """What is different on a row at some moment."""

    #: Pods that are there.
    pods: Sequence[Pod]
    #: Uids of pods on the row that are gone.
    away: Sequence[str] = ()
    #: Whom room is reserved for, in words; empty for nominated pods.
    whom: str = ""


def imagine(snapshot: Snapshot, row: int, look: Look) -> list[Undo]:
    """Let a row be as a look says; return how to undo it, to be called in the reverse order."""
    there = snapshot.all_rows[row].pods
    undo = [snapshot.remove(uid, row) for uid in look.away if uid in there]
    undo += [snapshot.place(pod, row) for pod in look.pods if pod.uid not in there]
    return undo


def looks_on(row: int, nominated: Mapping[int, Sequence[Pod]], reserved: Mapping[int, Sequence[Look]]) -> list[Look]:
    """Return the looks at a row: with those nominated there, if there are any, and as it is reserved; they are there in all of them."""
    first = nominated.get(row, ())
    looks = [Look(first)] if first else []
    looks += [Look((*look.pods, *first), look.away, look.whom) if first else look for look in reserved.get(row, ())]
    return looks


def refused_by(
    runtime: Runtime, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Sequence[int], kept: Mapping[int, Sequence[Look]]
) -> dict[int, Status]:  # fmt: skip
    """Return the rows that some look at them refuses a pod on, with what Filter says then."""
    refused: dict[int, Status] = {}
    for turn in range(max((len(kept[row]) for row in rows), default=0)):
        left = [row for row in rows if len(kept[row]) > turn and row not in refused]
        if not left:
            break
        mark = snapshot.mark()
        undo = [step for row in left for step in imagine(snapshot, row, kept[row][turn])]
        try:
            result = runtime.filter(state, pod, snapshot.nodes.select(np.array(left)))
        finally:
            for step in reversed(undo):
                step()
            snapshot.is_as_at(mark)
        for position, row in enumerate(left):
            if (status := result.status_at(position)) is not None:
                refused[row] = _told(status, kept[row][turn].whom)
    return refused


def _told(status: Status, whom: str) -> Status:
    """Return what Filter says of room that is reserved, with whom it is reserved for."""
    if not whom:
        return status
    reasons = [replace(reason, text=f"{reason.text} beside what is reserved for {whom}") for reason in status.reasons]
    return Status(status.code, tuple(reasons), status.plugin)
