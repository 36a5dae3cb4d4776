"""Health: whether gangs that were complete still have their minimum, and what is done about those that have not.

For the engine.  A gang that never was complete is no business of this module, but of `rollback`.

| policy | after the grace |
|---|---|
| Replace | nothing: it goes on waiting for replacements |
| Shrink | the members go on with what is there; late ones join one by one, like those above a minimum |
| Evict | all members that are on nodes are evicted, once, so that the gang starts anew as a whole |

A new process takes up a shortfall where the status of the group says it stands; of a group without such a status the grace
starts anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.model.gang import BELOW_MINIMUM, SHRUNK
from scheduler.model.needs import minimum_of

from .gangs import is_bound, needs_with, progress
from .notices import text_of
from .reporter import gang_ref
from .rollback import GRACE_SECONDS, evict_members, is_on_its_way
from .workloads import workload_key_of

if TYPE_CHECKING:
    from scheduler.model import Gang, GangKey, Pod

    from .core import Core
    from .flights import Flight

REASON = "GangBelowMinimum"
#: The gang has its minimum, but only with members that were told when they will be evicted.
UNDER_NOTICE = "EvictionNotice"
#: How long a new process gives to replacements before it acts on a grace that ended meanwhile, in seconds.
TAKE_UP_SECONDS = 10.0


@dataclass(slots=True)
class Shortfall:
    """A gang is below its minimum."""

    #: From when on the grace runs, in seconds.
    since: float
    #: Nothing is done before this time: replacements are on their way.
    not_before: float = 0.0
    #: What the policy demands was done: Shrunk or GangBelowMinimum; empty before.
    done: str = ""


class Health:
    """Shortfalls of gangs that were complete."""

    def __init__(self, core: Core) -> None:
        """Take the parts to work on."""
        self._core = core
        self._below: dict[GangKey, Shortfall] = {}

    def found(self, gang: Gang) -> None:
        """Take up a gang as a former process left it: below its minimum since then, and perhaps shrunk."""
        if gang.short_since is None:
            return
        now = self._core.clock()
        shortfall = self._below[gang.key] = Shortfall(min(gang.short_since, now), now + TAKE_UP_SECONDS)
        if gang.is_shrunk:
            shortfall.done = SHRUNK
            self._core.cluster.shrunk.add(gang.key)

    def saw(self, gang: Gang, members: list[Pod]) -> tuple[str, str, str]:
        """Note how a gang is; return status, reason and message of the condition Satisfied, empty if it never was complete."""
        core, key = self._core, gang.key
        if key not in core.completed:
            self.forget(key)
            return "", "", ""
        if gang.problems:
            self.forget(key)
            return "Unknown", "InvalidPodGroup", "; ".join(gang.problems)
        bound = [pod for pod in members if is_bound(pod) and (pod.is_terminal or not core.cluster.is_going(pod))]
        needs = needs_with(gang, bound, core.cluster)
        if not needs.missing():
            self.forget(key)
            return "True", "MinimumReached", f"at least {minimum_of(gang)} members are on nodes or have succeeded"
        told = self.told_to_go(members)
        if told and not needs_with(gang, [*bound, *told], core.cluster).missing():
            self.forget(key)
            return "True", UNDER_NOTICE, self._notice_of(told)
        shortfall = self._below.setdefault(key, Shortfall(core.clock()))
        return "False", shortfall.done or BELOW_MINIMUM, progress(gang, len(bound), needs) + _outlook(gang, shortfall)

    def told_to_go(self, members: list[Pod]) -> list[Pod]:
        """Return the members that run on under notice of their eviction."""
        notices = self._core.preempting.notices
        return [
            pod
            for pod in members
            if notices.of(pod.uid) is not None and is_bound(pod) and not pod.is_terminal and not pod.is_terminating
        ]

    def _notice_of(self, told: list[Pod]) -> str:
        """Return when members go that were given notice, for the message."""
        notices = self._core.preempting.notices
        times = [notice.due for pod in told if (notice := notices.of(pod.uid)) is not None]
        return f"{len(told)} members run until {text_of(max(times))}, when they are evicted to make room for others"

    def forget(self, key: GangKey) -> None:
        """Forget a shortfall: it is over, or its group is gone."""
        if self._below.pop(key, None) is not None and key in self._core.cluster.shrunk:
            self._core.cluster.shrunk.discard(key)
            self._core.stale[workload_key_of(key)] = None

    def eviction_failed(self, key: GangKey, now: float) -> None:
        """A member could not be evicted: after another grace it is tried again."""
        shortfall = self._below.get(key)
        if shortfall is not None and shortfall.done == REASON:
            self._below[key] = Shortfall(now)

    def next_deadline(self) -> float | None:
        """Return when a policy acts next; None if none will. O(gangs below their minimum)."""
        times = [time for key in self._below if (time := self._deadline(key)) is not None]
        return min(times, default=None)

    def expire(self, now: float) -> list[Flight]:
        """Do what the policies of the gangs demand whose grace is over; return the flights that are to be abandoned."""
        core = self._core
        flights: list[Flight] = []
        due = [key for key in self._below if (time := self._deadline(key)) is not None and time <= now]
        for key in due:
            gang, members, shortfall = core.cluster.gangs[key], core.cluster.members(key), self._below[key]
            if not core.is_ours(members):
                self.forget(key)
                continue
            if is_on_its_way(core, gang, members):
                shortfall.not_before = now + GRACE_SECONDS
            elif gang.incomplete_policy == "Shrink":
                self._shrink(gang, members, shortfall)
            else:
                shortfall.done = REASON
                message = f"gang {key} stayed below its minimum for {gang.grace_seconds:g} seconds"
                flights += evict_members(core, gang, members, REASON, message)
            core.reporter.gang_changed(key, now)
        return flights

    def _shrink(self, gang: Gang, members: list[Pod], shortfall: Shortfall) -> None:
        shortfall.done = SHRUNK
        self._core.cluster.shrunk.add(gang.key)
        self._core.workloads.news(workload_key_of(gang.key))
        self._core.stale[workload_key_of(gang.key)] = None
        message = f"gang {gang.key} goes on below its minimum: no replacement came in {gang.grace_seconds:g} seconds"
        about = gang_ref(gang, members)
        self._core.reporter.event(about, "Normal", "GangShrunk", "Scheduling", message, "ai-scheduler")

    def _deadline(self, key: GangKey) -> float | None:
        gang, shortfall = self._core.cluster.gangs.get(key), self._below[key]
        if gang is None or shortfall.done or gang.incomplete_policy == "Replace" or gang.grace_seconds == float("inf"):
            return None
        return max(shortfall.since + gang.grace_seconds, shortfall.not_before)


def _outlook(gang: Gang, shortfall: Shortfall) -> str:
    """Return what happens next, for the message."""
    if shortfall.done == SHRUNK:
        return "; it goes on with those"
    if shortfall.done:
        return "; they were evicted, so that it starts anew"
    if gang.incomplete_policy == "Replace" or gang.grace_seconds == float("inf"):
        return "; it waits for replacements"
    what = "it goes on with those" if gang.incomplete_policy == "Shrink" else "they are evicted"
    return f"; without replacements, {what} after {gang.grace_seconds:g} seconds"
