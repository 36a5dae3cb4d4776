"""Ages: what is made anew for an evicted pod keeps the place in the queue that the pod had.

For the engine.  A gang with an object is as old as that object (PrioritySort), whatever becomes of its pods.  For single pods with a
controller, the age of each that was evicted goes to the next pod that the controller makes; it is kept in memory, for an hour.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.model import Pod

#: How long an age waits for its heir, in seconds, and for how many pods.
KEPT_SECONDS = 3600.0
_MOST_KEPT = 20_000


class Ages:
    """Ages of evicted pods that nobody has inherited yet, by controller."""

    def __init__(self) -> None:
        """Begin without any."""
        self._by_owner: dict[str, deque[tuple[float, float]]] = {}
        self._count = 0

    def evicted(self, pod: Pod, now: float) -> None:
        """Note the age of a pod that is evicted; without a controller nothing replaces it."""
        owner = _controller(pod)
        if not owner or pod.membership is not None:
            return
        if self._count >= _MOST_KEPT:
            self._by_owner.clear()
            self._count = 0
        self._by_owner.setdefault(owner, deque()).append((pod.created, now + KEPT_SECONDS))
        self._count += 1

    def inherited(self, pod: Pod, now: float) -> float | None:
        """Return since when what a new pod replaces has been there, in seconds since the epoch; None if it replaces nothing."""
        owner = _controller(pod)
        waiting = self._by_owner.get(owner) if owner else None
        found = None
        while waiting and found is None:
            created, until = waiting.popleft()
            self._count -= 1
            found = created if until > now else None
        if waiting is not None and not waiting:
            del self._by_owner[owner]
        return found


def _controller(pod: Pod) -> str:
    """Return the uid of the pod's controller; empty if it has none."""
    return next((owner.uid for owner in pod.owners if owner.controller), "")
