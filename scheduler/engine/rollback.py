"""Rollback: sees to it that no gang is left half bound: completed in time, or its bound members are evicted.

For the commit and the engine.  It concerns gangs that have not had their minimum on nodes yet; one that has and loses a
member is not a failed start, and its members run on (`health`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.effects import EvictPod

from .gangs import is_bound, needs_with
from .reporter import WRITTEN, gang_ref, pod_key

if TYPE_CHECKING:
    from scheduler.framework.workload import Workload
    from scheduler.model import Gang, GangKey, Pod

    from .core import Core
    from .flights import Flight

REASON = "GangRolledBack"
#: How long to wait, beyond the deadline, for bindings that are on their way, in seconds.
GRACE_SECONDS = 1.0


class Rollback:
    """Deadlines of gangs whose start went wrong."""

    def __init__(self, core: Core) -> None:
        """Take the parts to work on; the deadlines are kept in the core."""
        self._core = core

    def watch(self, workload: Workload) -> None:
        """A member of a gang could not be bound: from now on the gang has its schedule timeout to be completed."""
        gang = self._core.cluster.gangs.get(workload.gang.key) if workload.gang is not None else None
        if gang is not None:
            self._watch(gang)

    def found(self, gang: Gang) -> None:
        """Take up a gang as a former process left it."""
        if gang.was_complete:
            self._core.completed.add(gang.key)

    def saw(self, gang: Gang, members: list[Pod]) -> None:
        """Note which members are on nodes: all is well, nobody is left, or the gang has its timeout to be completed.

        It goes by the facts, not by what this process did: whoever bound some members, and whatever became of the others.
        """
        bound = [pod for pod in members if is_bound(pod)]
        if not bound:
            self._core.completed.discard(gang.key)
            if not any(self._core.cluster.counts_as_placed(pod) for pod in members):
                self._core.partial.pop(gang.key, None)  # nobody is held: the next start has all of its time
        elif not needs_with(gang, bound, self._core.cluster).missing() or (gang.expected_parts and gang.was_complete):
            self._core.completed.add(gang.key)  # a gang group that was complete once stays so
            self._core.partial.pop(gang.key, None)
        elif self._shows_that_it_was_complete(gang, members):
            self._core.completed.add(gang.key)
        else:
            self._watch(gang)

    def forget(self, key: GangKey) -> None:
        """Forget a group that is gone."""
        self._core.partial.pop(key, None)
        self._core.completed.discard(key)

    def expire(self, now: float) -> list[Flight]:
        """Roll back the gangs whose time is up; return the flights of theirs that are to be abandoned."""
        core = self._core
        flights: list[Flight] = []
        for key in [key for key, deadline in core.partial.items() if deadline <= now]:
            gang, members = core.cluster.gangs.get(key), core.cluster.members(key)
            bound = [pod for pod in members if is_bound(pod)]
            if gang is None or not bound or not needs_with(gang, bound, core.cluster).missing():
                del core.partial[key]
                core.reporter.gang_changed(key, now)
            elif is_on_its_way(core, gang, members):
                core.partial[key] = now + GRACE_SECONDS
            else:
                del core.partial[key]
                message = f"gang {gang.key} could not be completed after a failed binding"
                flights += evict_members(core, gang, members, REASON, message)
        return flights

    def _shows_that_it_was_complete(self, gang: Gang, members: list[Pod]) -> bool:
        """Tell whether pods bear witness of what no status of ours says: enough have been on nodes, lost ones among them.

        So a restart takes no gang that has lost a member for a failed start.  Of a member that was deleted nothing is known.
        """
        if gang.key.dialect in WRITTEN or gang.key in self._core.partial:
            return False
        placed = [pod for pod in members if (pod.node_name or is_bound(pod)) and not _was_rolled_back(pod)]
        return not needs_with(gang, placed, self._core.cluster).missing()

    def _watch(self, gang: Gang) -> None:
        if gang.key not in self._core.completed:
            self._core.partial.setdefault(gang.key, self._core.clock() + gang.schedule_timeout_seconds)


def _was_rolled_back(pod: Pod) -> bool:
    """Tell whether a pod was evicted as a member of a gang that was never complete."""
    return any(condition.type == "DisruptionTarget" and condition.reason == REASON for condition in pod.conditions)


def is_on_its_way(core: Core, gang: Gang, members: list[Pod]) -> bool:
    """Tell whether a gang has its minimum once all of its members that are assumed are bound."""
    placed = [pod for pod in members if core.cluster.counts_as_placed(pod)]
    return not needs_with(gang, placed, core.cluster).missing()


def evict_members(core: Core, gang: Gang, members: list[Pod], reason: str, message: str) -> list[Flight]:
    """Evict the members that are on nodes, or on their way there; return the flights that can still be stopped."""
    core.reporter.event(gang_ref(gang, members), "Warning", reason, "Scheduling", message, "ai-scheduler")
    flights: dict[int, Flight] = {}
    for pod in members:
        if pod.is_terminal or core.cluster.is_going(pod) or core.cluster.node_of(pod.uid) is None:
            continue
        flight = core.flights.of(pod.uid)
        if flight is not None and not flight.is_binding:
            flights[id(flight)] = flight
        else:
            core.cluster.expect_leave(pod.uid)
            core.emit(EvictPod(pod_key(pod), reason, message, pod.grace_period_seconds))
    return list(flights.values())
