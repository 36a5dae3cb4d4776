"""Queue: our own share of the cluster as pydantic models, from which `crds/` is generated.

For the generator and for whoever writes a Queue from Python.  The scheduler itself reads queues of every project through
`queue_api` and `queue_dialects`.
"""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, JsonValue

from .podgroup import _INT32, _LABEL_VALUE_LENGTH, Condition, _Part, _rules

MOST_RESOURCES: Final = 32
MOST_SHOWN: Final = 20
HIGHEST_WEIGHT: Final = 1_000_000
_NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_RESOURCE: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)$"
)
#: A Kubernetes quantity that is not negative.
_QUANTITY: Final = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?[0-9]+)?$"
#: What Go takes as a duration, in units down to the millisecond.
_DURATION: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
_NOT_ABOVE_LIMIT: Final = (
    "!has(self.limit) || !has(self.guaranteed) || "
    "quantity(string(self.guaranteed)).compareTo(quantity(string(self.limit))) <= 0"
)
_LISTED_BY_NAME: Final[dict[str, JsonValue]] = {
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
}


def _amount() -> str | None:
    """Return a field that holds a quantity, written as a number or as text."""
    return Field(
        default=None,
        max_length=64,
        pattern=_QUANTITY,
        json_schema_extra={"x-kubernetes-int-or-string": True, "minimum": 0},
    )


def _duration() -> str | None:
    return Field(default=None, min_length=2, max_length=32, pattern=_DURATION)


class QueueResource(_Part):
    """What a queue may use of one resource."""

    model_config = ConfigDict(
        json_schema_extra=_rules(
            (
                _NOT_ABOVE_LIMIT,
                "guaranteed may not be above limit",
            )
        )
    )

    name: str = Field(min_length=1, max_length=316, pattern=_RESOURCE)
    """The resource as pods ask for it, such as `nvidia.com/gpu`, `cpu` or `memory`."""
    guaranteed: str | None = _amount()
    """What the queue can have whenever it asks for it. Nobody may take it away; others may borrow it while it lies idle. 0
    if it is not set."""
    limit: str | None = _amount()
    """What the queue can have at most. If it is not set, all there is."""
    weight: int | None = Field(default=None, ge=0, le=HIGHEST_WEIGHT, json_schema_extra=_INT32)
    """The queue's part of what nobody is guaranteed, in proportion to the weights of its siblings. 1 if it is not set; with
    0 it gets only what its siblings of the same priority leave."""


class LabelRequirement(_Part):
    """A test of one label."""

    key: str = Field(min_length=1, max_length=316)
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """What has to hold of its value."""
    values: list[Annotated[str, Field(description="A value.")]] | None = Field(
        default=None, max_length=64, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """The values of `In` and `NotIn`."""


class NamespaceSelector(_Part):
    """Namespaces by their labels, as everywhere in Kubernetes; an empty one selects all."""

    match_labels: dict[str, str] | None = None
    """Labels that they have to have."""
    match_expressions: list[LabelRequirement] | None = Field(
        default=None, max_length=32, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Tests of their labels, which all have to hold."""


class QueueSpec(_Part):
    """What the queue may use, and who may use it."""

    parent: str | None = Field(default=None, min_length=1, max_length=_LABEL_VALUE_LENGTH, pattern=_NAME)
    """The queue that this one is a part of. What it uses counts for all those above it, too."""
    resources: list[QueueResource] | None = Field(
        default=None, max_length=MOST_RESOURCES, json_schema_extra=_LISTED_BY_NAME
    )
    """What it may use. A resource that is not named is guaranteed to nobody and has no limit."""
    priority: int | None = Field(default=None, ge=-(2**31), le=2**31 - 1, json_schema_extra=_INT32)
    """Among siblings, one of a higher priority gets what nobody is guaranteed first, and loses it last. 0 if it is not
    set. It is no priority of pods."""
    reclaimable: bool | None = None
    """Whether others may evict what it uses beyond its guarantee when they need what is theirs. `true` if it is not set."""
    preempt_min_runtime: str | None = _duration()
    """How long a workload runs before a more important one of the same queue may evict it, such as `10m`."""
    reclaim_min_runtime: str | None = _duration()
    """How long a workload runs before another queue may evict it."""
    eviction_notice: str | None = _duration()
    """How long before its eviction a workload of the queue is told, so that it can save its work, up to `10m`. It counts where
    neither the workload nor its group asks for less."""
    ordering: Literal["Priority", "Fair", "FIFO"] | None = None
    """Who is next within the queue: `Priority`, the default, the most important, then the oldest; `Fair` the namespace that
    uses the least, then as `Priority`; `FIFO` the oldest, however important, so that
    within the queue nobody is evicted for anybody."""
    namespace_selector: NamespaceSelector | None = None
    """Who may use the queue. Pods of these namespaces that name no queue belong to the first queue, by name, that selects
    them. If it is not set, any namespace may name it, and none belongs to it by itself."""

    scheduler_name: str | None = Field(default=None, min_length=1, max_length=253)
    """Where several schedulers of this kind run in a cluster: the one whose status stands here. If it is not set, the first
    one that writes keeps it, and `status.scheduler` names it."""


class QueueResourceStatus(_Part):
    """How much of one resource."""

    name: str = Field(min_length=1, max_length=316)
    """The resource."""
    guaranteed: str | None = Field(default=None, max_length=64)
    """What it is guaranteed."""
    allocated: str | None = Field(default=None, max_length=64)
    """What its pods on nodes ask for, those of queues below it included."""
    requested: str | None = Field(default=None, max_length=64)
    """The same, with what its pods ask for that wait."""
    fair_share: str | None = Field(default=None, max_length=64)
    """What it would have if the cluster were divided anew; rounded down."""


class PendingShown(_Part):
    """A workload that waits."""

    position: int = Field(ge=1, json_schema_extra=_INT32)
    """Its place in the queue."""
    kind: Literal["pod", "gang"]
    """What it is."""
    namespace: str = Field(max_length=63)
    """Where it is."""
    name: str = Field(max_length=253)
    """What it is called."""
    reason: str | None = Field(default=None, max_length=256)
    """Why it waits, as one word."""


class QueueCondition(Condition):
    """One aspect of the queue's state."""

    type: str = Field(min_length=1, max_length=316)
    """The aspect; `Usable` is False while the queue cannot be used as it is written: the message says what to change. Until
    then its last usable state counts."""


class QueueStatus(_Part):
    """What the scheduler has to say; written by it alone."""

    observed_generation: int | None = Field(default=None, ge=0, json_schema_extra={"format": "int64"})
    """The `metadata.generation` that the status speaks of."""
    scheduler: str | None = Field(default=None, max_length=253)
    """Whose status this is, where several schedulers of this kind run: what it says of pods is of those of this one."""
    resources: list[QueueResourceStatus] | None = Field(default=None, json_schema_extra=_LISTED_BY_NAME)
    """What it uses and could use."""
    share: str | None = Field(default=None, max_length=16)
    """The largest part of any resource of the cluster that it uses, from `0.000` to `1.000`."""
    pending_workloads: int | None = Field(default=None, ge=0, json_schema_extra=_INT32)
    """How many pods and gangs wait."""
    pending: list[PendingShown] | None = Field(
        default=None, max_length=MOST_SHOWN, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """The first of them, in the order in which they will be tried."""
    conditions: list[QueueCondition] | None = Field(
        default=None,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """The state by aspect."""


class Queue(_Part):
    """A share of the cluster. Pods name it in the label `scheduling.ai-scheduler.io/queue`, or belong to it by namespace."""

    model_config = ConfigDict(
        json_schema_extra=_rules(
            (
                f"size(self.metadata.name) <= {_LABEL_VALUE_LENGTH}",
                f"metadata.name may have at most {_LABEL_VALUE_LENGTH} characters: pods name their queue in a label",
            ),
            ("!has(self.spec.parent) || self.spec.parent != self.metadata.name", "a queue cannot be its own parent"),
        )
    )

    spec: QueueSpec
    """What the queue may use, and who may use it."""
    status: QueueStatus | None = None
    """What the scheduler has to say; written by it alone."""
