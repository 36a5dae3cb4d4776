"""Queues of other projects as they come over the wire: KAI's, Volcano's, Kueue's, and Coscheduling's ElasticQuota.

For the edges, which read them where their definitions are installed; they are never written.  Each reader returns the queues, and
for Kueue's LocalQueue the name, that one object tells.

| project | guaranteed | limit | weight | parent | not honoured |
|---|---|---|---|---|---|
| KAI Queue | `quota` (-1: everything) | `limit` (-1: none) | `overQuotaWeight` | `parentQueue` | |
| Volcano Queue | `deserved`, or `guarantee` | `capability` | `weight` | `parent` | `affinity`, `extendClusters`, `dequeueStrategy` |
| Kueue ClusterQueue | sum of `nominalQuota` over flavors | with `borrowingLimit`; without a cohort, the quota; `lendingLimit` for the others | `fairSharing.weight` | cohort | flavors apart, `admissionChecks` |
| Kueue Cohort | sum of `nominalQuota` | none | `fairSharing.weight` | `parentName` | as above |
| ElasticQuota | `min` | `max` | 1 | none | |
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .api import LabelSelector, ObjectMeta
from .queue import OWN, Queue, QueueKey, QueueUse, Quota
from .queue_api import ApiQueue, amount_of, amounts_of, queue_from_api, seconds_of, selector_or_problem
from .volume_api import ApiStruct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KAI, VOLCANO, KUEUE, ELASTIC = "kai", "volcano", "kueue", "elasticquota"
#: A cohort lives among Kueue's queues under a name that no ClusterQueue can have.
COHORT_PREFIX: Final = "cohort:"
_GPU: Final = "nvidia.com/gpu"
Number = str | int | float
Amounts = dict[str, Number]


class KaiResource(ApiStruct, frozen=True):
    """What a KAI queue may use of one resource."""

    quota: float = 0
    limit: float = -1
    over_quota_weight: float = 1


class KaiQueueSpec(ApiStruct, frozen=True):
    """The spec of a KAI Queue; cpu counts millicores, memory megabytes (10**6)."""

    parent_queue: str = ""
    resources: dict[str, KaiResource] | None = None
    priority: int | None = None
    preempt_min_runtime: str | None = None
    reclaim_min_runtime: str | None = None


class ApiKaiQueue(ApiStruct, frozen=True):
    """A Queue of KAI (scheduling.run.ai/v2)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: KaiQueueSpec = KaiQueueSpec()


class VolcanoGuarantee(ApiStruct, frozen=True):
    """What a Volcano queue is guaranteed."""

    resource: Amounts | None = None


class VolcanoQueueSpec(ApiStruct, frozen=True):
    """The spec of a Volcano Queue."""

    weight: int = 1
    capability: Amounts | None = None
    deserved: Amounts | None = None
    guarantee: VolcanoGuarantee | None = None
    reclaimable: bool | None = None
    parent: str = ""
    priority: int = 0


class VolcanoQueueStatus(ApiStruct, frozen=True):
    """The status of a Volcano Queue."""

    state: str = ""


class ApiVolcanoQueue(ApiStruct, frozen=True):
    """A Queue of Volcano (scheduling.volcano.sh/v1beta1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolcanoQueueSpec = VolcanoQueueSpec()
    status: VolcanoQueueStatus = VolcanoQueueStatus()


class KueueResource(ApiStruct, frozen=True):
    """A quota of one flavor."""

    name: str = ""
    nominal_quota: Number = 0
    borrowing_limit: Number | None = None
    lending_limit: Number | None = None


class KueueFlavor(ApiStruct, frozen=True):
    """A flavor of nodes."""

    resources: list[KueueResource] | None = None


class KueueGroup(ApiStruct, frozen=True):
    """Resources that have flavors in common."""

    flavors: list[KueueFlavor] | None = None


class KueueSharing(ApiStruct, frozen=True):
    """Fair sharing."""

    weight: Number | None = None


class ClusterQueueSpec(ApiStruct, frozen=True):
    """The spec of a ClusterQueue or a Cohort; in v1beta2 references end in `Name`."""

    cohort: str = ""
    cohort_name: str = ""
    parent: str = ""
    parent_name: str = ""
    resource_groups: list[KueueGroup] | None = None
    namespace_selector: LabelSelector | None = None
    queueing_strategy: str = ""
    stop_policy: str = ""
    fair_sharing: KueueSharing | None = None


class ApiClusterQueue(ApiStruct, frozen=True):
    """A ClusterQueue of Kueue."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterQueueSpec = ClusterQueueSpec()


class ApiCohort(ApiStruct, frozen=True):
    """A Cohort of Kueue."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterQueueSpec = ClusterQueueSpec()


class LocalQueueSpec(ApiStruct, frozen=True):
    """The spec of a LocalQueue."""

    cluster_queue: str = ""


class ApiLocalQueue(ApiStruct, frozen=True):
    """A LocalQueue of Kueue."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LocalQueueSpec = LocalQueueSpec()


class ElasticQuotaSpec(ApiStruct, frozen=True):
    """The spec of an ElasticQuota."""

    min: Amounts | None = None
    max: Amounts | None = None


class ApiElasticQuota(ApiStruct, frozen=True):
    """An ElasticQuota of the scheduler-plugins project."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ElasticQuotaSpec = ElasticQuotaSpec()


ApiQueueObject = (
    ApiQueue | ApiKaiQueue | ApiVolcanoQueue | ApiClusterQueue | ApiCohort | ApiLocalQueue | ApiElasticQuota
)


class QueueKind(NamedTuple):
    """A kind of object that tells of a queue: where it is served, and how it is read."""

    dialect: str
    kind: str
    group: str
    #: The newest first.
    versions: tuple[str, ...]
    resource: str
    api_type: type[Any]
    #: Returns the view of an object.
    read: Callable[[Any], Queue | QueueUse]
    #: The type of the view, and its key from the object's namespace and name.
    view: type[Queue | QueueUse] = Queue
    is_namespaced: bool = False

    def key(self, namespace: str, name: str) -> tuple[str, str]:
        """Return where the view of an object is kept."""
        if self.view is QueueUse:
            return namespace, name
        prefix = {"Cohort": COHORT_PREFIX, "ElasticQuota": f"{namespace}/"}.get(self.kind, "")
        return QueueKey(self.dialect, prefix + name)


def kai_queue(api: ApiKaiQueue) -> Queue:
    """Return the view of a KAI Queue."""
    spec, problems, quotas = api.spec, list[str](), dict[str, Quota]()
    scales = {"cpu": ("cpu", 1), "memory": ("memory", 10**6), "gpu": (_GPU, 1)}
    for name, one in (spec.resources or {}).items():
        if name not in scales:
            problems.append(f"spec.resources.{name}: it is unknown; allowed are {', '.join(scales)}")
            continue
        resource, scale = scales[name]
        quotas[resource] = Quota(
            None if one.quota < 0 else int(one.quota * scale),
            None if one.limit < 0 else int(one.limit * scale),
            Fraction(max(0, one.over_quota_weight)).limit_denominator(10**6),
        )
    return Queue(
        **_identity(KAI, api.metadata), parent=spec.parent_queue, quotas=quotas,
        priority=100 if spec.priority is None else spec.priority,
        preempt_min_seconds=seconds_of(spec.preempt_min_runtime or "", "spec.preemptMinRuntime", problems),
        reclaim_min_seconds=seconds_of(spec.reclaim_min_runtime or "", "spec.reclaimMinRuntime", problems),
        problems=tuple(problems),
    )  # fmt: skip


def volcano_queue(api: ApiVolcanoQueue) -> Queue:
    """Return the view of a Volcano Queue."""
    spec, problems = api.spec, list[str]()
    guarantee = amounts_of(spec.guarantee.resource if spec.guarantee else None, "spec.guarantee.resource", problems)
    deserved = guarantee | amounts_of(spec.deserved, "spec.deserved", problems)
    limits = amounts_of(spec.capability, "spec.capability", problems)
    weight = Fraction(max(1, spec.weight))
    return Queue(
        **_identity(VOLCANO, api.metadata), parent="" if spec.parent == "root" else spec.parent,
        quotas={name: Quota(deserved.get(name, 0), limits.get(name), weight) for name in deserved | limits},
        weight=weight, priority=spec.priority, is_reclaimable=spec.reclaimable is not False,
        is_closed=api.status.state in ("Closed", "Closing"), problems=tuple(problems),
    )  # fmt: skip


def cluster_queue(api: ApiClusterQueue) -> Queue:
    """Return the view of a ClusterQueue: without a cohort it can borrow from nobody."""
    spec, problems = api.spec, list[str]()
    cohort, weight = spec.cohort_name or spec.cohort, _weight(spec, problems)
    return Queue(
        **_identity(KUEUE, api.metadata), parent=f"{COHORT_PREFIX}{cohort}" if cohort else "",
        quotas=_kueue_quotas(spec, weight, problems, is_alone=not cohort), weight=weight,
        namespaces=selector_or_problem(spec.namespace_selector, "spec.namespaceSelector", problems),
        is_closed=spec.stop_policy not in ("", "None"), problems=tuple(problems),
    )  # fmt: skip


def cohort(api: ApiCohort) -> Queue:
    """Return the view of a Cohort, which adds what it has itself to what its members have."""
    spec, problems = api.spec, list[str]()
    above, weight = spec.parent_name or spec.parent, _weight(spec, problems)
    return Queue(
        **_identity(KUEUE, api.metadata, COHORT_PREFIX), parent=f"{COHORT_PREFIX}{above}" if above else "",
        weight=weight, problems=tuple(problems),
    )  # fmt: skip


def local_queue(api: ApiLocalQueue) -> QueueUse:
    """Return the name in a namespace that a LocalQueue is."""
    return QueueUse(
        namespace=api.metadata.namespace or "default",
        name=api.metadata.name,
        queue=QueueKey(KUEUE, api.spec.cluster_queue),
    )


def elastic_quota(api: ApiElasticQuota) -> Queue:
    """Return the view of an ElasticQuota: the queue of all pods of its namespace."""
    problems: list[str] = []
    least, most = amounts_of(api.spec.min, "spec.min", problems), amounts_of(api.spec.max, "spec.max", problems)
    namespace = api.metadata.namespace or "default"
    return Queue(
        **_identity(ELASTIC, api.metadata, f"{namespace}/"), namespace_names=(namespace,),
        quotas={name: Quota(least.get(name, 0), most.get(name)) for name in least | most}, problems=tuple(problems),
    )  # fmt: skip


def _identity(dialect: str, meta: ObjectMeta, prefix: str = "") -> dict[str, Any]:
    return {"dialect": dialect, "name": prefix + meta.name, "uid": meta.uid, "generation": meta.generation}


def _kueue_quotas(spec: ClusterQueueSpec, weight: Fraction, problems: list[str], *, is_alone: bool) -> dict[str, Quota]:
    """Return the quotas, those of all flavors together."""
    sums: dict[str, int] = {}
    borrowing: dict[str, int | None] = {}
    lending: dict[str, int] = {}
    is_lending_limited: set[str] = set()
    for i, group in enumerate(spec.resource_groups or ()):
        for j, flavor in enumerate(group.flavors or ()):
            for one in flavor.resources or ():
                path = f"spec.resourceGroups[{i}].flavors[{j}].resources[{one.name}]"
                nominal = amount_of(one.name, one.nominal_quota, f"{path}.nominalQuota", problems) or 0
                extra = amount_of(one.name, one.borrowing_limit, f"{path}.borrowingLimit", problems)
                lent = amount_of(one.name, one.lending_limit, f"{path}.lendingLimit", problems)
                if lent is not None and not is_alone:
                    is_lending_limited.add(one.name)
                lending[one.name] = lending.get(one.name, 0) + (nominal if lent is None else min(lent, nominal))
                sums[one.name] = sums.get(one.name, 0) + nominal
                known = borrowing.get(one.name, 0)
                borrowing[one.name] = None if known is None or extra is None else known + extra
    found: dict[str, Quota] = {}
    for name, nominal in sums.items():
        extra = 0 if is_alone else borrowing[name]
        lent = lending[name] if name in is_lending_limited else None
        found[name] = Quota(nominal, None if extra is None else nominal + extra, weight, lent)
    return found


def _weight(spec: ClusterQueueSpec, problems: list[str]) -> Fraction:
    if spec.fair_sharing is None or spec.fair_sharing.weight is None:
        return Fraction(1)
    milli = amount_of("cpu", spec.fair_sharing.weight, "spec.fairSharing.weight", problems)
    return Fraction(1 if milli is None else Fraction(milli, 1000))


#: Ours first: a kind for each object that tells of a queue.
QUEUE_KINDS: Final = (
    QueueKind(OWN, "Queue", "scheduling.ai-scheduler.io", ("v1alpha1",), "queues", ApiQueue, queue_from_api),
    QueueKind(KAI, "Queue", "scheduling.run.ai", ("v2",), "queues", ApiKaiQueue, kai_queue),
    QueueKind(VOLCANO, "Queue", "scheduling.volcano.sh", ("v1beta1",), "queues", ApiVolcanoQueue, volcano_queue),
    QueueKind(KUEUE, "ClusterQueue", "kueue.x-k8s.io", ("v1beta2", "v1beta1"), "clusterqueues", ApiClusterQueue, cluster_queue),
    QueueKind(KUEUE, "Cohort", "kueue.x-k8s.io", ("v1beta2", "v1beta1", "v1alpha1"), "cohorts", ApiCohort, cohort),
    QueueKind(
        KUEUE, "LocalQueue", "kueue.x-k8s.io", ("v1beta2", "v1beta1"), "localqueues", ApiLocalQueue, local_queue,
        QueueUse, is_namespaced=True,
    ),
    QueueKind(
        ELASTIC, "ElasticQuota", "scheduling.x-k8s.io", ("v1alpha1",), "elasticquotas", ApiElasticQuota, elastic_quota,
        is_namespaced=True,
    ),
)  # fmt: skip


def queue_of_labels(labels: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[str, str] | None:
    """Return dialect and name of the queue that a pod names in the words of another project; None if it names none."""
    for dialect, where, key in (
        (KAI, labels, "kai.scheduler/queue"),
        (KUEUE, labels, "kueue.x-k8s.io/queue-name"),
        (VOLCANO, annotations, "scheduling.volcano.sh/queue-name"),
        (VOLCANO, labels, "volcano.sh/queue-name"),
    ):
        if name := where.get(key):
            return dialect, name
    return None
