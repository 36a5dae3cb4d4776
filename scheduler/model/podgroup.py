"""PodGroup: our own kind of group as pydantic models, from which `crds/` is generated.

For the generator and for whoever writes a PodGroup from Python.  The scheduler itself reads groups of every dialect
through `gang.py`, which needs no validation: the API server has validated by this schema.
"""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

GROUP: Final = "scheduling.ai-scheduler.io"
VERSION: Final = "v1alpha1"
_LABEL_VALUE_LENGTH: Final = 63
_HIGHEST_INT32: Final = 2**31 - 1
MOST_ROLES: Final = 64
_MOST_PREFERRED: Final = 8
_LABEL_VALUE: Final = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
_INT32: Final[dict[str, JsonValue]] = {"format": "int32"}
#: Levels of roles below the group: a role with three roles above it has one too many.
_TOO_DEEP: Final = (
    "self.all(x, !has(x.parent) || self.all(y, y.name != x.parent || !has(y.parent) || "
    "self.all(z, z.name != y.parent || !has(z.parent))))"
)


class _Part(BaseModel):
    """Base of all parts: camelCase in the API, snake case in Python; the docstrings become descriptions."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, use_attribute_docstrings=True
    )


def _rules(*rules: tuple[str, str]) -> dict[str, JsonValue]:
    """Return validations in CEL, from (rule, message)."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules]}


def _level() -> str | None:
    """Return the field that names a level of a Topology, or the node label that tells it."""
    return Field(default=None, min_length=1, max_length=316)


class TopologySegment(_Part):
    """So many pods each, by rank, stand in one domain of a level."""

    model_config = ConfigDict(
        json_schema_extra=_rules(
            ("has(self.required) || has(self.preferred)", "required or preferred must name a level")
        )
    )

    size: int = Field(ge=1, le=_HIGHEST_INT32, json_schema_extra=_INT32)
    """How many pods a segment has; the last one may have fewer."""
    required: str | None = _level()
    """A level: each segment stands in one domain of it, or nowhere."""
    preferred: str | None = _level()
    """A level: each segment stands in one domain of it, if that can be."""


class TopologyConstraint(_Part):
    """How near together pods want to be, or how far apart. A level is named as a Topology names it, or by its node label."""

    name: str | None = Field(default=None, min_length=1, max_length=253)
    """The Topology whose levels are meant. If it is not set, whichever has them."""
    required: str | None = _level()
    """A level: all pods stand in one domain of it, or nowhere."""
    preferred: list[Annotated[str, Field(min_length=1, max_length=316, description="A level.")]] | None = Field(
        default=None, max_length=_MOST_PREFERRED, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Levels to try before anything wider, in order: `[rack, block]` is one rack, else one block, else as `required`
    allows."""
    segment: TopologySegment | None = None
    """Parts of the pods, neighbours in rank, that stand nearer together than the whole."""
    spread: str | None = _level()
    """A level: the pods are divided evenly among its domains; the fullest has at most one more than the emptiest."""
    exclusive: str | None = _level()
    """A level: all pods stand in one domain of it, which no other group that asks the same shares; of a role, no other role."""


class Role(_Part):
    """A part of the group: the pods with its name in their label, or further roles."""

    name: str = Field(min_length=1, max_length=_LABEL_VALUE_LENGTH, pattern=_LABEL_VALUE)
    """The value of the label `scheduling.ai-scheduler.io/role` of its pods; once in the group."""
    parent: str | None = Field(default=None, min_length=1, max_length=_LABEL_VALUE_LENGTH)
    """The role that this one is a part of. If it is not set, the group itself."""
    min_member: int | None = Field(default=None, ge=0, le=_HIGHEST_INT32, json_schema_extra=_INT32)
    """How many of its pods, those of roles below it included, must start with the group. 0, or not set: as many as there is
    room for, and they are the first to go."""
    min_roles: int | None = Field(default=None, ge=1, le=MOST_ROLES, json_schema_extra=_INT32)
    """How many of the roles directly below must reach their minimum. If it is not set, all of them."""
    topology: TopologyConstraint | None = None
    """How near together the pods of this role want to be."""


class WhenIncomplete(_Part):
    """What happens when a group that was complete falls below its minimum."""

    policy: Literal["Replace", "Shrink", "Evict"] | None = None
    """`Replace`, the default, keeps the members that are left and waits for new ones, which come before other pods of their
    priority. `Shrink` waits so until the grace has passed; from then on members go on with what is there, and late ones join
    one by one. `Evict` waits so, and then evicts the members that are left, to start anew as a whole."""
    grace_period_seconds: int | None = Field(default=None, ge=0, le=_HIGHEST_INT32, json_schema_extra=_INT32)
    """How long the group may stay below its minimum before the policy acts. 60 if it is not set."""


class PodGroupSpec(_Part):
    """What the group asks for."""

    model_config = ConfigDict(
        json_schema_extra=_rules(
            ("has(self.minMember) || has(self.roles)", "minMember is required where there are no roles"),
            ("!has(self.minRoles) || has(self.roles)", "minRoles counts roles: there must be some"),
        )
    )

    min_member: int | None = Field(default=None, ge=1, le=_HIGHEST_INT32, json_schema_extra=_INT32)
    """How many pods must start together. None of them is bound before that many can be; members beyond it follow as room
    allows, and are the first to go. A change counts from the next attempt on. It may be left out where there are roles: then
    their minima count, and it never counts for less than those."""
    min_roles: int | None = Field(default=None, ge=1, le=MOST_ROLES, json_schema_extra=_INT32)
    """How many of the roles directly below the group must reach their minimum. If it is not set, all of them."""
    roles: list[Role] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_ROLES,
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            **_rules(
                (
                    "self.all(x, !has(x.parent) || (x.parent != x.name && self.exists(y, y.name == x.parent)))",
                    "parent must be the name of another role",
                ),
                (_TOO_DEEP, "roles may be nested three levels deep, and never in a circle"),
            ),
        },
    )
    """Parts of the group with minima of their own: a launcher and its workers, or the prefill and decode of a server. Pods
    without a role, or of one that is not listed, count for the group alone."""
    topology: TopologyConstraint | None = None
    """How near together all pods of the group want to be."""
    when_incomplete: WhenIncomplete | None = None
    """What happens when a group that was complete falls below its minimum."""
    disruption_mode: Literal["Single", "All"] | None = None
    """Whom preemption may evict: `Single`, the default, members above the minimum one by one; `All` only all of them."""
    schedule_timeout_seconds: int | None = Field(
        default=None, ge=1, le=_HIGHEST_INT32, json_schema_extra={"format": "int32"}
    )
    """How long the group may hold reservations, from the first one until all of its members can be bound; then
    everything is released. 600 if it is not set. Waiting in the queue does not count."""
    priority_class_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    )
    """The PriorityClass of the whole group. It never lifts the group above the lowest priority of its pods, so it gives
    no rights and may be changed at any time. If it is not set, the lowest priority of its pods counts."""


class Counts(_Part):
    """Members by state."""

    pending: int = Field(default=0, ge=0, json_schema_extra={"format": "int32"})
    """Members that have no node yet."""
    bound: int = Field(default=0, ge=0, json_schema_extra={"format": "int32"})
    """Members that have a node and do not run yet."""
    running: int = Field(default=0, ge=0, json_schema_extra={"format": "int32"})
    """Members that run."""
    succeeded: int = Field(default=0, ge=0, json_schema_extra={"format": "int32"})
    """Members that ended well."""
    failed: int = Field(default=0, ge=0, json_schema_extra={"format": "int32"})
    """Members that ended badly."""


class Condition(_Part):
    """One aspect of the group's state."""

    type: str = Field(min_length=1, max_length=316)
    """The aspect. `Scheduled` says whether the group has its minimum of nodes. `Satisfied` says whether one that had it
    once has it still; it is absent before that."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: str = Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    """Why, as one word for programs."""
    message: str = Field(default="", max_length=32768)
    """Why, as a sentence for people."""
    last_transition_time: datetime
    """When `status` changed last."""
    observed_generation: int | None = Field(default=None, ge=0, json_schema_extra={"format": "int64"})
    """The `metadata.generation` that the condition speaks of."""


class Domain(_Part):
    """A part of the network."""

    level: str = Field(min_length=1, max_length=316)
    """Which level it is of."""
    name: str = Field(min_length=1, max_length=1024)
    """What it is called."""


class Placement(_Part):
    """Where the members are, seen from the network."""

    domains: list[Domain] | None = Field(default=None, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    """The domains that hold all members, from the widest to the tightest."""
    leaf_domains: int | None = Field(default=None, ge=0, json_schema_extra=_INT32)
    """How many of the tightest domains the members are in."""
    leaf_domains_minimum: int | None = Field(default=None, ge=0, json_schema_extra=_INT32)
    """In how few they could be, if the cluster were empty."""
    quality: str | None = Field(default=None, max_length=4, pattern=r"^(0\.\d\d|1\.00)$")
    """How near together the members are, from `0.00` to `1.00`, which is as near as can be."""
    bottleneck_level: str | None = Field(default=None, max_length=316)
    """The tightest level that all traffic among the members stays within."""


class PodGroupStatus(_Part):
    """What the scheduler has to say; written by it alone."""

    phase: Literal["Pending", "Scheduling", "Scheduled", "Running", "Finished", "Failed", "Invalid"] | None = None
    """Where the group is: `Pending` waits for pods or for room, `Scheduling` holds reservations, `Scheduled` has its
    minimum bound, `Running` has it running, `Finished` and `Failed` have ended, `Invalid` cannot be read (see the
    condition)."""
    counts: Counts | None = None
    """Members by state."""
    placement: Placement | None = None
    """Where the members are, seen from the network."""
    promised_start: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    """From when on room is reserved for a group that waits: it starts then, or earlier. Nothing where that cannot be told."""
    conditions: list[Condition] | None = Field(
        default=None,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """The state by aspect."""


class PodGroup(_Part):
    """Pods that must start together. A pod belongs to it by the label `scheduling.ai-scheduler.io/pod-group`."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": f"size(self.metadata.name) <= {_LABEL_VALUE_LENGTH}",
                    "message": (
                        f"metadata.name may have at most {_LABEL_VALUE_LENGTH} characters: pods name their group in a label"
                    ),
                }
            ]
        }
    )

    spec: PodGroupSpec
    """What the group asks for."""
    status: PodGroupStatus | None = None
    """What the scheduler has to say; written by it alone."""
