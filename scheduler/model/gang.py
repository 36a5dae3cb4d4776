"""Gang: pods that must start together, as every dialect tells of them; and Membership: what a pod says of its gang.

For dialects, which make both, and for state and engine.  A gang is a tree: the gang itself, subgroups of subgroups (of pods or
of further subgroups), each with its own minimum and its own wish to be near together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from .topology_constraint import TopologyConstraint

if TYPE_CHECKING:
    from .pod import Pod

PREFIX = "scheduling.ai-scheduler.io"

#: How long a gang may hold reservations, in seconds, when its group does not say.
DEFAULT_SCHEDULE_TIMEOUT_SECONDS = 600
#: How long a gang that has lost members may stay below its minimum, in seconds, when its group does not say.
DEFAULT_GRACE_SECONDS = 60

#: Phases of a gang whose minimum is, or was, on nodes. One that Failed need never have had it: some members ended before others started.
COMPLETE_PHASES = ("Scheduled", "Running", "Finished")
#: The phase of a gang of which some members failed, so that too few are left.
FAILED = "Failed"
#: The condition that says whether a gang that was complete still has its minimum.
SATISFIED = "Satisfied"
#: Reason of the conditions Scheduled and Satisfied of a gang that was complete and has lost members since.
BELOW_MINIMUM = "BelowMinimum"
#: Reason of the condition Satisfied of a gang that goes on below its minimum.
SHRUNK = "Shrunk"
#: What may happen when a gang that was complete stays below its minimum, the default first.
INCOMPLETE_POLICIES = ("Replace", "Shrink", "Evict")


class GangKey(NamedTuple):
    """What names a gang: its dialect, namespace and name."""

    dialect: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return namespace and name."""
        return f"{self.namespace}/{self.name}"


class Subgroup(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A part of a gang: a role that pods have, or a group of further subgroups."""

    #: What pods name as their role; unique in the gang.
    name: str
    #: The subgroup that this one is a part of; empty for the gang itself.
    parent: str = ""
    #: How many of its pods, those of subgroups below it included, must be placed together.
    min_member: int = 0
    #: How many of the subgroups directly below must reach their minimum; None for all of them.
    min_subgroups: int | None = None
    topology: TopologyConstraint | None = None


class Gang(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What scheduling needs to know of a group."""

    key: GangKey
    uid: str = ""
    #: What names the object's kind in events; empty if there is no object (see `Membership.implied`).
    api_version: str = ""
    kind: str = "PodGroup"
    generation: int = 0
    created: float = 0.0

    #: How many pods must be placed together, in all.
    min_member: int = 1
    #: How many of the subgroups directly below the gang must reach their minimum; None for all of them.
    min_subgroups: int | None = None
    #: Parents stand before their children.
    subgroups: tuple[Subgroup, ...] = ()
    topology: TopologyConstraint | None = None
    #: The group of groups, of the same dialect and namespace, that this one is a part of; empty for none.
    parent: str = ""
    #: It holds groups (those whose `parent` it is), no pods.
    is_composite: bool = False
    #: Of a group of groups, the names of those that must be there, beyond the number in `min_subgroups`.
    expected_parts: tuple[str, ...] = ()
    #: It is a part of a group of groups that, complete once, stays so: when this part goes after that, nobody waits for it.
    is_once_enough: bool = False

    schedule_timeout_seconds: int = DEFAULT_SCHEDULE_TIMEOUT_SECONDS
    priority_class_name: str = ""
    #: Stated as a number; None if it is not.
    priority: int | None = None
    preemption_policy: str = ""
    #: What happens when a running gang falls below its minimum: Replace, Shrink or Evict; after how many seconds.
    incomplete_policy: str = "Replace"
    grace_seconds: float = DEFAULT_GRACE_SECONDS
    #: Nobody may evict single members, not even those above the minimum: only the gang as a whole.
    is_one_unit: bool = False
    #: Whether anybody may evict it at all, where its object says so; None where it does not.
    is_preemptible: bool | None = None
    #: Nobody may evict what its minima need: single members above them may go, the gang as a whole may not.
    is_minimum_firm: bool = False
    #: The queue that its object names, in the words of its dialect; empty for none (labels may name one too).
    queue: str = ""
    #: Its object is ended so many seconds after its start; None if it may run for ever.
    deadline_seconds: int | None = None

    #: ResourceClaims that are the group's, not its pods': name of the entry, and the name of the claim or of its template.
    shared_claims: tuple[tuple[str, str, str], ...] = ()

    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}
    #: The phase in the object's status, to write only what changes.
    phase: str = ""
    #: Its status says that the minimum was on nodes before.
    was_complete: bool = False
    #: Its status says since when it is below that minimum, in seconds since the epoch; None if it is not, or says nothing.
    short_since: float | None = None
    #: Its status says when it will start, in seconds since the epoch; None if it says nothing.
    promised_start: float | None = None
    #: Its status says that it goes on below its minimum.
    is_shrunk: bool = False
    #: What is wrong with the object; while there is something, its pods wait.
    problems: tuple[str, ...] = ()


class Membership(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a pod says of the gang that it belongs to."""

    key: GangKey
    #: The subgroup; empty for none.
    role: str = ""
    #: Neighbours in rank talk to each other most; compared as it is. Empty if the pod has none.
    rank: tuple[int, ...] = ()
    #: The gang as the pod itself tells of it, for dialects whose groups need no object.
    implied: Gang | None = None
    #: What is wrong with what the pod says; while there is something, it waits.
    problems: tuple[str, ...] = ()


def gang_key_of(pod: Pod) -> GangKey | None:
    """Return the group that a pod names, or None; it may be a part of a larger one (`ClusterState.gang_of`)."""
    return pod.membership.key if pod.membership is not None else None
