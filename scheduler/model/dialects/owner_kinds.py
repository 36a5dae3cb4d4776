"""OwnerKind: how to recognise the pods of a kind of workload, and how to read from its object how many start together.

For `owners`, which makes a dialect of each.  The built-in table is at the end; the configuration replaces its entries and
adds others (`owner_kinds`).  The language is small: a path is field names with dots between; a condition is `path=value`.
Kubeflow's TrainJob and Ray's RayJob and RayService are not here: they make a JobSet and RayClusters, whose pods these are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.config import GroupCount, GroupKind, GroupRoles

#: One object of roles, a list of them, or a map from their names to them.
Form = Literal["one", "list", "map"]


@dataclass(frozen=True, slots=True)
class Count:
    """A number in an object; numbers multiplied are how many pods there are at least."""

    #: Paths: the first that is above 0 counts, else 0 if any is there, else the default.
    fields: tuple[str, ...]
    default: int = 1
    #: A path whose number, if it is there, bounds this one.
    at_most: str = ""


@dataclass(frozen=True, slots=True)
class Roles:
    """Where an object has one or several roles; paths other than `path` begin at a role."""

    #: From the object to the role, or to the list or map of them.
    path: str
    form: Form = "one"
    #: The role's name (one; empty: its pods have no role), or the field that has it (list).
    name: str = ""
    #: Multiplied; none: one pod.
    counts: tuple[Count, ...] = ()
    #: A field that, unless empty, says that the role starts after others.
    after: str = ""
    #: A field that, if true, says that the role has no pods.
    suspended: str = ""
    #: Annotations that count beside those of the object.
    annotations: str = ""


@dataclass(frozen=True, slots=True)
class OwnerKind:
    """A kind of workload; what is empty does not exist for it."""

    api_group: str
    #: The preferred one first.
    versions: tuple[str, ...]
    kind: str
    #: Plural name in paths.
    resource: str
    #: The pod label that has the object's name; empty: the pod's controller is the object.
    name_label: str = ""
    #: Labels that a pod of a gang has, and their allowed values.
    pod_labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    #: Only pods with the label `gang` "true" belong to a gang; else all but those where it is "false".
    needs_opt_in: bool = False
    roles: tuple[Roles, ...] = ()
    #: Pod labels that have the role, in any case of letters; the first that is there counts.
    role_labels: tuple[str, ...] = ()
    #: Pod labels that number pods, read as digits; empty: those that are known for many kinds (`ranks`).
    rank_labels: tuple[str, ...] = ()
    #: The pod label that divides the pods of one object into gangs, and how many gangs there are; some more may come for
    #: a while (a number, or a percentage rounded up).
    split_label: str = ""
    splits: Count | None = None
    more_splits: str = ""
    #: How many pods start together, if not all of all roles; an annotation `min-member` goes before it.
    minimum: str = ""
    schedule_timeout: str = ""
    priority_class: str = ""
    #: After how many seconds the whole object is ended.
    deadline: str = ""
    #: A condition under which roles start one after the other: then each starts by itself.
    in_order: str = ""
    #: The annotation with the node label of whose domains each gang has one for itself.
    exclusive: str = ""
    #: The same for parts of a role: the pod label that numbers parts, and how many pods a part has (begins at a role).
    part_exclusive: str = ""
    part_label: str = ""
    part_size: Count | None = None
    #: The annotation with which further pods are made only after the first (of the gang or of each part) has a node,
    #: and the annotation with which they are not.
    led_by: str = ""
    not_led_by: str = ""

    @property
    def full_name(self) -> str:
        """What tells it from all other kinds."""
        return f"{self.api_group}/{self.kind}"


_JOBSET = "jobset.sigs.k8s.io"
_LWS = "leaderworkerset.sigs.k8s.io"
_TRAINING = "training.kubeflow.org"
_PARALLELISM = Count(("template.spec.parallelism",), at_most="template.spec.completions")

JOB = OwnerKind(
    api_group="batch",
    versions=("v1",),
    kind="Job",
    resource="jobs",
    name_label="batch.kubernetes.io/job-name",
    needs_opt_in=True,
    roles=(Roles("spec", counts=(Count(("parallelism",), at_most="completions"),)),),
    deadline="spec.activeDeadlineSeconds",
)
JOBSET = OwnerKind(
    api_group="jobset.x-k8s.io",
    versions=("v1alpha2",),
    kind="JobSet",
    resource="jobsets",
    name_label=f"{_JOBSET}/jobset-name",
    roles=(
        Roles(
            "spec.replicatedJobs",
            form="list",
            name="name",
            counts=(Count(("replicas",)), _PARALLELISM),
            after="dependsOn",
            annotations="template.metadata.annotations",
        ),
    ),
    role_labels=(f"{_JOBSET}/replicatedjob-name",),
    in_order="spec.startupPolicy.startupPolicyOrder=InOrder",
    part_exclusive="alpha.jobset.sigs.k8s.io/exclusive-topology",
    part_label=f"{_JOBSET}/job-index",
    part_size=_PARALLELISM,
    led_by="alpha.jobset.sigs.k8s.io/exclusive-topology",
    not_led_by="alpha.jobset.sigs.k8s.io/node-selector",
)
LEADER_WORKER_SET = OwnerKind(
    api_group="leaderworkerset.x-k8s.io",
    versions=("v1",),
    kind="LeaderWorkerSet",
    resource="leaderworkersets",
    name_label=f"{_LWS}/name",
    roles=(Roles("spec.leaderWorkerTemplate", counts=(Count(("size",)),)),),
    split_label=f"{_LWS}/group-index",
    splits=Count(("spec.replicas",)),
    more_splits="spec.rolloutStrategy.rollingUpdateConfiguration.maxSurge",
    in_order="spec.startupPolicy=LeaderReady",
    exclusive=f"{_LWS}/exclusive-topology",
    part_exclusive=f"{_LWS}/subgroup-exclusive-topology",
    part_label=f"{_LWS}/subgroup-index",
    part_size=Count(("subGroupPolicy.subGroupSize",), default=0),
    led_by=f"{_LWS}/exclusive-topology",
)
RAY_CLUSTER = OwnerKind(
    api_group="ray.io",
    versions=("v1",),
    kind="RayCluster",
    resource="rayclusters",
    name_label="ray.io/cluster",
    #: Not the pod that cleans up Redis when the cluster is deleted: it would wait for pods that never come back.
    pod_labels=(("ray.io/node-type", ("head", "worker")),),
    roles=(
        Roles("spec.headGroupSpec", name="headgroup"),
        Roles(
            "spec.workerGroupSpecs",
            form="list",
            name="groupName",
            counts=(Count(("minReplicas", "replicas"), default=0), Count(("numOfHosts",))),
            suspended="suspend",
        ),
    ),
    role_labels=("ray.io/group",),
)


def _kubeflow(kind: str, roles: str, versions: tuple[str, ...] = ("v1",), in_order: str = "") -> OwnerKind:
    operators = (f"{kind.lower()}-controller", *(("mpi-operator",) if kind == "MPIJob" else ()))
    return OwnerKind(
        api_group="kubeflow.org",
        versions=versions,
        kind=kind,
        resource=f"{kind.lower()}s",
        name_label=f"{_TRAINING}/job-name",
        pod_labels=((f"{_TRAINING}/operator-name", operators),),
        roles=(Roles(f"spec.{roles}", form="map", counts=(Count(("replicas",)),)),),
        role_labels=(f"{_TRAINING}/replica-type", f"{_TRAINING}/job-role"),
        minimum="spec.runPolicy.schedulingPolicy.minAvailable",
        schedule_timeout="spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
        priority_class="spec.runPolicy.schedulingPolicy.priorityClass",
        deadline="spec.runPolicy.activeDeadlineSeconds",
        in_order=in_order,
    )


#: Where a pod belongs to several, the first one counts: a JobSet before the Jobs that it makes.
OWNER_KINDS: tuple[OwnerKind, ...] = (
    JOBSET,
    LEADER_WORKER_SET,
    RAY_CLUSTER,
    _kubeflow("PyTorchJob", "pytorchReplicaSpecs"),
    _kubeflow("TFJob", "tfReplicaSpecs"),
    _kubeflow("XGBoostJob", "xgbReplicaSpecs"),
    _kubeflow("JAXJob", "jaxReplicaSpecs"),
    _kubeflow("PaddleJob", "paddleReplicaSpecs"),
    _kubeflow("MPIJob", "mpiReplicaSpecs", ("v2beta1", "v1"), "spec.waitForWorkers=true"),
    JOB,
)


def owner_kinds(configured: Sequence[GroupKind], built_in: Sequence[OwnerKind] = OWNER_KINDS) -> tuple[OwnerKind, ...]:
    """Return the table that a configuration makes of the built-in one: new kinds first, replaced ones in their place."""
    changed = {entry.full_name: None if entry.disabled else _kind(entry) for entry in configured}
    known = [changed.pop(kind.full_name, kind) for kind in built_in]
    return tuple(kind for kind in (*changed.values(), *known) if kind is not None)


def _kind(entry: GroupKind) -> OwnerKind:
    return OwnerKind(
        api_group=entry.api_group,
        versions=tuple(entry.versions),
        kind=entry.kind,
        resource=entry.resource,
        name_label=entry.name_label,
        pod_labels=tuple((label.key, tuple(label.values)) for label in entry.pod_labels),
        needs_opt_in=entry.needs_opt_in,
        roles=tuple(map(_roles, entry.roles)),
        role_labels=tuple(entry.role_labels),
        rank_labels=tuple(entry.rank_labels),
        split_label=entry.split_label,
        splits=_count(entry.splits),
        more_splits=entry.more_splits,
        minimum=entry.minimum,
        schedule_timeout=entry.schedule_timeout,
        priority_class=entry.priority_class,
        in_order=entry.in_order,
        exclusive=entry.exclusive,
        part_exclusive=entry.part_exclusive,
        part_label=entry.part_label,
        part_size=_count(entry.part_size),
        led_by=entry.led_by,
        not_led_by=entry.not_led_by,
    )


def _roles(entry: GroupRoles) -> Roles:
    counts = tuple(count for count in map(_count, entry.counts) if count is not None)
    return Roles(entry.path, entry.form, entry.name, counts, entry.after, entry.suspended, entry.annotations)


def _count(entry: GroupCount | None) -> Count | None:
    return None if entry is None else Count(tuple(entry.fields), entry.default, entry.at_most)
