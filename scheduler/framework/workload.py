"""Workload: what the queue holds; one pod, or all pending pods of one gang.

For the queue, the engine and plugins that work on gangs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.model import Gang, Pod
    from scheduler.model.needs import Needs


@dataclass(slots=True, eq=False)
class Workload:
    """One pod, or the pending pods of one gang, with what the queue knows of it."""

    #: "namespace/name" of the pod or of the gang with its dialect; unique and sortable.
    key: str
    #: Pending pods by uid.
    pods: dict[str, Pod] = field(default_factory=dict)
    gang: Gang | None = None
    #: How many of the pending pods must be placed together.
    needed: int = 1
    #: Which of them, where a gang has roles; None for single pods.
    needs: Needs | None = None
    #: It replaces members that a running gang lost: it comes before other work of its priority.
    is_repair: bool = False
    #: Effective priority: never above the lowest of its members.
    priority: int = 0
    #: When it was first seen, seconds.
    since: float = 0.0
    #: Failed attempts, which set the backoff.
    attempts: int = 0

    def with_pods(self, pods: dict[str, Pod]) -> Workload:
        """Return a copy with other pods."""
        return Workload(
            self.key, pods, self.gang, self.needed, self.needs, self.is_repair, self.priority, self.since, self.attempts
        )

    def ordered(self) -> list[Pod]:
        """Return the pending pods by priority, age, name and uid."""
        if len(self.pods) == 1:
            return list(self.pods.values())
        return sorted(self.pods.values(), key=lambda pod: (-pod.priority, pod.created, pod.name, pod.uid))
