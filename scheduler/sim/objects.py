"""The API objects that only a simulation reads: the ones that make pods.  Wire types, as `scheduler.model.api` has them.

For the loader and the workload controllers.  Of each object only what makes pods and ends them is here.
"""

from __future__ import annotations

import msgspec

from scheduler.model.api import Condition, LabelSelector, ObjectMeta, PodSpec
from scheduler.model.storage_api import ApiClaim  # noqa: TC001 - msgspec reads it
from scheduler.model.volume_api import ApiStruct


class PodTemplate(ApiStruct, frozen=True):
    """What the pods of a controller look like."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class OnPodCondition(ApiStruct, frozen=True):
    """A condition of a failed pod that a rule is about."""

    type: str = ""
    status: str = "True"


class FailureRule(ApiStruct, frozen=True):
    """One rule of a pod failure policy."""

    action: str = ""
    on_pod_conditions: list[OnPodCondition] | None = None


class FailurePolicy(ApiStruct, frozen=True):
    """How a Job takes the failures of its pods."""

    rules: list[FailureRule] | None = None


class JobSpec(ApiStruct, frozen=True):
    """The spec of a Job."""

    parallelism: int | None = None
    completions: int | None = None
    backoff_limit: int = 6
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    active_deadline_seconds: int | None = None
    pod_failure_policy: FailurePolicy | None = None
    template: PodTemplate = PodTemplate()


class JobStatus(ApiStruct, frozen=True):
    """The status of a Job, as a dump has it."""

    succeeded: int = 0
    failed: int = 0
    completed_indexes: str = ""
    start_time: str | None = None
    completion_time: str | None = None
    conditions: list[Condition] | None = None


class ApiJob(ApiStruct, frozen=True):
    """A Job (batch/v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class ReplicaSpec(ApiStruct, frozen=True):
    """The spec of a ReplicaSet, Deployment, StatefulSet or DaemonSet, which has no replicas."""

    replicas: int = 1
    pod_management_policy: str = "OrderedReady"
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()
    #: Of a StatefulSet: each of its pods has a claim of its own for each of these.
    volume_claim_templates: list[ApiClaim] | None = None


class ApiReplicas(ApiStruct, frozen=True):
    """A ReplicaSet, Deployment, StatefulSet or DaemonSet (apps/v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSpec = ReplicaSpec()


def copy_meta(meta: ObjectMeta, **changes: object) -> ObjectMeta:
    """Return metadata with changes; labels and annotations are copied, so that nobody shares them."""
    labels, annotations = dict(meta.labels or {}), dict(meta.annotations or {})
    return msgspec.structs.replace(meta, **({"labels": labels, "annotations": annotations} | changes))
