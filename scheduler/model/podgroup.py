"""PodGroup: our own kind of group as pydantic models, from which `crds/` is generated.

For the generator and for whoever writes a PodGroup from Python.  The scheduler itself reads groups of every dialect
through `gang.py`, which needs no validation: the API server has validated by this schema.
"""

from datetime import datetime
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

GROUP: Final = "scheduling.ai-scheduler.io"
VERSION: Final = "v1alpha1"
_LABEL_VALUE_LENGTH: Final = 63
_HIGHEST_INT32: Final = 2**31 - 1


class _Part(BaseModel):
    """Base of all parts: camelCase in the API, snake case in Python; the docstrings become descriptions."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, use_attribute_docstrings=True
    )


class PodGroupSpec(_Part):
    """What the group asks for."""

    min_member: int = Field(ge=1, le=_HIGHEST_INT32, json_schema_extra={"format": "int32"})
    """How many pods must start together. None of them is bound before that many can be; members beyond it follow as room
    allows, and are the first to go. A change counts from the next attempt on."""
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
    """The aspect; `Scheduled` says whether the group has its minimum of nodes."""
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


class PodGroupStatus(_Part):
    """What the scheduler has to say; written by it alone."""

    phase: Literal["Pending", "Scheduling", "Scheduled", "Running", "Finished", "Failed", "Invalid"] | None = None
    """Where the group is: `Pending` waits for pods or for room, `Scheduling` holds reservations, `Scheduled` has its
    minimum bound, `Running` has it running, `Finished` and `Failed` have ended, `Invalid` cannot be read (see the
    condition)."""
    counts: Counts | None = None
    """Members by state."""
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
