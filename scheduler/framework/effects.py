"""Effects: what the engine and its plugins ask the outside world to do, as values.

For the edges, which carry them out and report back as events, and for Bind plugins, which return them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Effect:
    """Base of all effects."""


@dataclass(frozen=True, slots=True)
class PodRef:
    """Which pod is meant; the uid is a precondition."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """Which object an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class BindPod(Effect):
    """Bind a pod to a node; answered by BindingSucceeded or BindingFailed."""

    pod: PodRef
    node_name: str
    #: Copied by the API server to the pod.
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PrepareBinding(Effect):
    """Carry out what a PreBind plugin asks for, in order; answered by AwaitedDone, with the first failure if there is one."""

    pod: PodRef
    key: str
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class BindVolume(Effect):
    """Write `spec.claimRef` of a PersistentVolume: it is meant for this claim. The resource version is a precondition."""

    volume_name: str
    resource_version: str
    claim_namespace: str
    claim_name: str
    claim_uid: str


@dataclass(frozen=True, slots=True)
class SelectNode(Effect):
    """Write the annotation `volume.kubernetes.io/selected-node` of a claim: a volume is to be made for this node.

    The resource version is a precondition.
    """

    claim_namespace: str
    claim_name: str
    resource_version: str
    node_name: str


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """Which ResourceClaim is meant; the uid is a precondition."""

    namespace: str
    name: str
    uid: str

    @property
    def label(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class AllocateClaim(Effect):
    """Write the status of a ResourceClaim: what it is given, if it has nothing yet, and whom it is reserved for.

    A claim that has been given something else meanwhile, or that is to be only reserved and has nothing, is a failure.
    """

    claim: ClaimRef
    #: Whom it is reserved for, as an entry of `status.reservedFor`.
    consumer: dict[str, str]
    #: `status.allocation`; None if it was allocated before.
    allocation: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class MakeClaim(Effect):
    """Create the ResourceClaim that serves a pod's extended resources, allocated and reserved for the pod, and say so in its status.

    One of this name that was made for the pod before is taken over.
    """

    pod: PodRef
    #: The name is chosen already; the uid is not known yet.
    claim: ClaimRef
    manifest: dict[str, Any]
    #: The pod, as an entry of `status.reservedFor`.
    consumer: dict[str, str]
    #: `status.allocation`.
    allocation: dict[str, Any]
    #: `status.extendedResourceClaimStatus.requestMappings` of the pod.
    mappings: tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True)
class DeleteClaim(Effect):
    """Delete the ResourceClaim that was made for a pod's extended resources, if it is there.

    The uid is a precondition where it is known.  Answered by ObjectChanged with a ClaimReleased.
    """

    pod: PodRef
    claim: ClaimRef


@dataclass(frozen=True, slots=True)
class ReleaseClaim(Effect):
    """Undo AllocateClaim for a pod: take it out of `status.reservedFor`, and the allocation if nobody else is in there.

    `allocation` is what may be taken back, None for whatever there is.  Answered by ObjectChanged with a ClaimReleased.
    """

    pod: PodRef
    claim: ClaimRef
    allocation: dict[str, Any] | None = None
    #: The allocation stays as it is.
    keeps_allocation: bool = False


@dataclass(frozen=True, slots=True)
class EvictPod(Effect):
    """Give a pod the DisruptionTarget condition, then delete it with its own grace period.

    Answered by EvictionFailed, or by the pod's going.
    """

    pod: PodRef
    #: Reason of the condition, such as PreemptionByScheduler.
    reason: str
    message: str
    grace_period_seconds: int = 30
    #: The node where room is kept for whoever replaces it; empty if there is none.
    moves_to: str = ""


@dataclass(frozen=True, slots=True)
class AnnotatePod(Effect):
    """Write annotations of ours on a pod; None takes one away."""

    pod: PodRef
    annotations: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class NominatePod(Effect):
    """Write status.nominatedNodeName; the empty name clears it."""

    pod: PodRef
    node_name: str


@dataclass(frozen=True, slots=True)
class SetPodScheduled(Effect):
    """Write the condition PodScheduled=False with a reason: Unschedulable, SchedulingGated or SchedulerError."""

    pod: PodRef
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SetPromisedStart(Effect):
    """Write by when a pod is expected to start, as a condition; None: that this cannot be told any more."""

    pod: PodRef
    #: Seconds since the epoch.
    start: float | None


@dataclass(frozen=True, slots=True)
class PlacementSummary:
    """Where the members of a gang are, seen from the network."""

    #: (level, name) of the domains that hold all members, from the widest to the tightest.
    domains: tuple[tuple[str, str], ...] = ()
    #: How many of the tightest domains they are in, and in how few they could be in an empty cluster.
    leaf_domains: int = 0
    leaf_minimum: int = 0
    #: How near together they are, from 0.0 to 1.0.
    quality: float = 0.0
    #: The tightest level that all traffic among them stays within; empty if there is none.
    bottleneck: str = ""
    #: Told from where members are, by a process that did not place them: what could be is estimated, and what the object says
    #: of the same domains holds.
    is_estimate: bool = False


@dataclass(frozen=True, slots=True)
class SetGangStatus(Effect):
    """Write the status of a PodGroup of ours or of Kubernetes itself; the objects of other projects are never written."""

    namespace: str
    name: str
    uid: str
    #: Pending, Scheduling, Scheduled, Running, Finished, Failed or Invalid.
    phase: str
    observed_generation: int
    #: Counts of members by state: pending, bound, running, succeeded, failed.
    counts: tuple[tuple[str, int], ...]
    #: Condition "Scheduled": status, reason, message.
    scheduled: str
    reason: str
    message: str
    #: Condition "Satisfied": status, reason, message; the status is empty while the gang was never complete.
    satisfied: str = ""
    satisfied_reason: str = ""
    satisfied_message: str = ""
    placement: PlacementSummary | None = None
    #: Whose object it is: ai-scheduler, native or native-composite.
    dialect: str = "ai-scheduler"
    #: By when the group is expected to start, seconds since the epoch; None if that cannot be told, or it has started.
    promised_start: float | None = None


@dataclass(frozen=True, slots=True)
class QueueResource:
    """How much of one resource a queue has, as texts."""

    name: str
    guaranteed: str
    allocated: str
    requested: str
    fair_share: str


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """A workload that waits in a queue, and its place there, from 1."""

    position: int
    #: pod or gang.
    kind: str
    namespace: str
    name: str
    #: Why it waits, as one word; empty before it was tried.
    reason: str = ""
    #: When it was told that it starts, seconds since the epoch; not part of a Queue's status.
    promised_start: float | None = None


@dataclass(frozen=True, slots=True)
class SetQueueStatus(Effect):
    """Write the status of a Queue of ours; the objects of other projects are never written."""

    name: str
    uid: str
    observed_generation: int
    resources: tuple[QueueResource, ...]
    #: The largest part of any resource of the cluster that it uses, such as 0.250.
    share: str
    pending_count: int
    pending: tuple[QueuePlace, ...]
    #: Condition "Usable": status, reason, message.
    usable: str
    reason: str
    message: str
    #: Whose status it is: the first scheduler that writes keeps it, unless the queue names another one.
    scheduler: str = "ai-scheduler"
    is_named: bool = False


@dataclass(frozen=True, slots=True)
class SetTopologyStatus(Effect):
    """Write the condition Usable of a Topology of ours; the objects of other projects are never written."""

    name: str
    uid: str
    observed_generation: int
    #: True or False.
    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class EmitEvent(Effect):
    """Record an event (events.k8s.io/v1) about an object."""

    regarding: ObjectRef
    #: Normal or Warning.
    type: str
    reason: str
    action: str
    note: str
    related: ObjectRef | None = None
    reporting_controller: str = "ai-scheduler"
