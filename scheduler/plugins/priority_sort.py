"""PrioritySort orders the queue: higher priority first, then gangs that lost members, then whoever has waited longer.

At QueueSort, for workloads.  A gang has waited since its group was created, so one that was evicted keeps its place; ties end at the key, so that the order is the same every time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from scheduler.framework.plugin import Plugin

if TYPE_CHECKING:
    from scheduler.framework.workload import Workload

NAME = "PrioritySort"


class PrioritySort(Plugin):
    """Sort by priority, then need of repair, then age."""

    NAME: ClassVar[str] = NAME

    def sort_key(self, workload: Workload) -> tuple[int, bool, float, str]:
        """Return the place in the queue; the lowest goes first."""
        gang, since = workload.gang, workload.since
        if gang is not None and gang.created:
            since = min(since, gang.created)
        return -workload.priority, not workload.is_repair, since, workload.key
