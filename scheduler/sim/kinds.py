"""The kinds that a simulation reads, and one document of such a kind turned into a checked wire object.

For the loader.  It stops at what one object can tell; what needs others (priority classes, owners) is the loader's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from scheduler.model.api import ApiBudget, ApiNode, ApiPod, ApiPodGroup, ApiPriorityClass
from scheduler.model.device_api import (
    ApiDeviceClaim,
    ApiDeviceClaimTemplate,
    ApiDeviceClass,
    ApiDeviceTaintRule,
    ApiResourceSlice,
)
from scheduler.model.dialects import DIALECTS, GROUPS
from scheduler.model.dialects.kai import ApiKaiGroup
from scheduler.model.dialects.native import ApiNativeGroup
from scheduler.model.dialects.owner_objects import ApiOwner
from scheduler.model.dialects.volcano import ApiVolcanoGroup
from scheduler.model.gang import PREFIX
from scheduler.model.hypernode import HYPERNODE_GROUP, HYPERNODE_VERSION, ApiHyperNode
from scheduler.model.node_resource_topology import GROUP as NUMA_GROUP
from scheduler.model.node_resource_topology import VERSION as NUMA_VERSION
from scheduler.model.node_resource_topology import ApiNodeResourceTopology
from scheduler.model.node_topology import ApiNodeTopology
from scheduler.model.owner_api import ApiNamespace, ApiService
from scheduler.model.queue_api import ApiQueue
from scheduler.model.queue_dialects import QUEUE_KINDS, ApiQueueObject
from scheduler.model.storage_api import (
    ApiClaim,
    ApiCSIDriver,
    ApiCSINode,
    ApiPersistentVolume,
    ApiStorageCapacity,
    ApiStorageClass,
    ApiVolumeAttachment,
)
from scheduler.model.topology_api import TOPOLOGY_KINDS, ApiTopology
from scheduler.topology import NODE_TOPOLOGY_ANNOTATION, TopologyError, parse_node_topology

from .checks import (
    meta_problems,
    one_of,
    pod_problems,
    quantity_problems,
    selector_problems,
    taint_problems,
    time_problems,
)
from .defaults import HIGHEST_USER_PRIORITY
from .device_checks import device_problems
from .objects import ApiJob, ApiReplicas
from .schema import type_problems, unknown_fields, without_nulls
from .storage_checks import pod_volume_problems, storage_problems, template_problems
from .topology_checks import network_problems, node_topology_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scheduler.model.dialects import Dialect, GroupSource

    from .checks import Found
    from .manifests import Document, Problem

StoredObject = (
    ApiClaim
    | ApiPersistentVolume
    | ApiStorageClass
    | ApiCSINode
    | ApiCSIDriver
    | ApiStorageCapacity
    | ApiVolumeAttachment
)
DeviceObject = ApiDeviceClaim | ApiDeviceClaimTemplate | ApiResourceSlice | ApiDeviceClass | ApiDeviceTaintRule
GroupObject = ApiNativeGroup | ApiVolcanoGroup | ApiKaiGroup | ApiOwner
WireObject = (
    ApiNode | ApiPod | ApiPodGroup | ApiPriorityClass | ApiBudget | ApiJob | ApiReplicas
    | ApiNamespace | ApiService | StoredObject | ApiTopology | ApiHyperNode | ApiNodeResourceTopology | ApiNodeTopology
    | ApiQueueObject | GroupObject | DeviceObject
)  # fmt: skip


class Kind(NamedTuple):
    """A kind that is read."""

    group: str
    kind: str
    version: str
    wire_type: type
    is_namespaced: bool = True
    #: Older versions that say the same.
    older_versions: tuple[str, ...] = ()

    @property
    def api_versions(self) -> tuple[str, ...]:
        """The apiVersions that are read, the newest first."""
        versions = (self.version, *self.older_versions)
        return tuple(f"{self.group}/{version}" if self.group else version for version in versions)


KINDS = (
    Kind("", "Node", "v1", ApiNode, is_namespaced=False),
    Kind("", "Pod", "v1", ApiPod),
    Kind("scheduling.k8s.io", "PriorityClass", "v1", ApiPriorityClass, is_namespaced=False),
    Kind("policy", "PodDisruptionBudget", "v1", ApiBudget),
    Kind("", "Namespace", "v1", ApiNamespace, is_namespaced=False),
    Kind("", "Service", "v1", ApiService),
    Kind("", "ReplicationController", "v1", ApiService),
    Kind("", "PersistentVolumeClaim", "v1", ApiClaim),
    Kind("", "PersistentVolume", "v1", ApiPersistentVolume, is_namespaced=False),
    Kind("storage.k8s.io", "StorageClass", "v1", ApiStorageClass, is_namespaced=False),
    Kind("storage.k8s.io", "CSINode", "v1", ApiCSINode, is_namespaced=False),
    Kind("storage.k8s.io", "CSIDriver", "v1", ApiCSIDriver, is_namespaced=False),
    Kind("storage.k8s.io", "CSIStorageCapacity", "v1", ApiStorageCapacity),
    Kind("storage.k8s.io", "VolumeAttachment", "v1", ApiVolumeAttachment, is_namespaced=False),
    Kind("resource.k8s.io", "ResourceClaim", "v1", ApiDeviceClaim),
    Kind("resource.k8s.io", "ResourceClaimTemplate", "v1", ApiDeviceClaimTemplate),
    Kind("resource.k8s.io", "ResourceSlice", "v1", ApiResourceSlice, is_namespaced=False),
    Kind("resource.k8s.io", "DeviceClass", "v1", ApiDeviceClass, is_namespaced=False),
    Kind("resource.k8s.io", "DeviceTaintRule", "v1", ApiDeviceTaintRule, is_namespaced=False),
    *(
        Kind(group, "Topology", versions[0], ApiTopology, is_namespaced=False, older_versions=versions[1:])
        for _, group, versions in TOPOLOGY_KINDS
    ),
    Kind(PREFIX, "NodeTopology", "v1alpha1", ApiNodeTopology, is_namespaced=False),
    Kind(HYPERNODE_GROUP, "HyperNode", HYPERNODE_VERSION, ApiHyperNode, is_namespaced=False),
    Kind(NUMA_GROUP, "NodeResourceTopology", NUMA_VERSION, ApiNodeResourceTopology, is_namespaced=False),
    *(
        Kind(q.group, q.kind, q.versions[0], q.api_type, is_namespaced=q.is_namespaced, older_versions=q.versions[1:])
        for q in QUEUE_KINDS
    ),
    Kind("batch", "Job", "v1", ApiJob),
    Kind("apps", "ReplicaSet", "v1", ApiReplicas),
    Kind("apps", "Deployment", "v1", ApiReplicas),
    Kind("apps", "StatefulSet", "v1", ApiReplicas),
    Kind("apps", "DaemonSet", "v1", ApiReplicas),
)


def sources_of(dialects: Sequence[Dialect]) -> dict[tuple[str, str], GroupSource]:
    """Return what tells about gangs, by group and kind."""
    return {(source.group, source.kind): source for dialect in dialects for source in dialect.sources}


def kinds_of(dialects: Sequence[Dialect]) -> dict[tuple[str, str], Kind]:
    """Return all kinds that are read, by group and kind; what makes pods here is read as that, though it tells of gangs too."""
    groups = {
        place: Kind(source.group, source.kind, source.versions[0], source.api_type, older_versions=source.versions[1:])
        for place, source in sources_of(dialects).items()
    }
    return groups | {(kind.group, kind.kind): kind for kind in KINDS}


_KINDS = kinds_of(DIALECTS)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checked object, with the document it came from."""

    kind: Kind
    document: Document
    api: WireObject


def kind_of(document: Document, kinds: Mapping[tuple[str, str], Kind] = _KINDS) -> Kind | None:
    """Return the kind of a document, or None if it is not read."""
    group = document.api_version.rpartition("/")[0]
    return kinds.get((group, document.kind))


def load_document(document: Document, kind: Kind) -> tuple[Loaded | None, list[Problem]]:
    """Return the object of a document, or all that is wrong with it."""
    if document.api_version not in kind.api_versions:
        text = f"{document.api_version} is not read; allowed: {', '.join(kind.api_versions)}"
        return None, [document.problem("apiVersion", text)]
    body = without_nulls(document.body)
    found = list(type_problems(body, kind.wire_type))
    if not found:
        api: WireObject = msgspec.convert(body, kind.wire_type)
        found = [*_problems(api, body, kind)]
        if not found:
            return Loaded(kind, document, api), []
    return None, [document.problem(path, text) for path, text in found]


def _problems(api: WireObject, body: dict[str, Any], kind: Kind) -> Iterator[Found]:  # noqa: C901, PLR0912 - one case per kind
    """Yield what the API server would refuse."""
    generates = kind.kind in ("Pod", "Job") and bool(body.get("metadata", {}).get("generateName"))
    yield from meta_problems(api.metadata, "metadata", needs_name=not generates)
    match api:
        case ApiPod():
            yield from pod_problems(api.spec, "spec")
            yield from pod_volume_problems(api.spec.volumes, "spec.volumes")
            yield from time_problems(api.status.start_time, "status.startTime")
        case ApiNode():
            yield from _node_problems(api)
        case ApiPriorityClass():
            yield from _class_problems(api)
        case ApiPodGroup() if kind.group in GROUPS.values():
            yield from _group_problems(api, body)
        case ApiPodGroup() | ApiNativeGroup() | ApiVolcanoGroup() | ApiKaiGroup() | ApiOwner():
            pass  # what is wrong with them becomes a problem of the gang, which waits and says so, as in a cluster
        case ApiBudget():
            yield from _budget_problems(api)
        case ApiJob():
            yield from _job_problems(api, body)
        case ApiReplicas():
            yield from _replicas_problems(api, kind)
        case ApiNamespace() | ApiService():
            pass
        case _ if isinstance(api, ApiQueueObject):
            yield from queue_problems(api, body, kind.kind)
        case ApiTopology() | ApiHyperNode() | ApiNodeResourceTopology():
            yield from network_problems(api, body, kind.group)
        case ApiNodeTopology():
            yield from node_topology_problems(body)
        case ApiDeviceClaim() | ApiDeviceClaimTemplate() | ApiResourceSlice() | ApiDeviceClass() | ApiDeviceTaintRule():
            yield from device_problems(api)
        case _:
            yield from storage_problems(api)


def queue_problems(api: ApiQueueObject, body: dict[str, Any], kind: str) -> Iterator[Found]:
    """Check a queue of any project; what only the tree of queues can tell is no problem of one object."""
    if isinstance(api, ApiQueue):
        yield from unknown_fields(body.get("spec", {}), type(api.spec), "spec")
    read = next(known.read for known in QUEUE_KINDS if known.api_type is type(api) and known.kind == kind)
    for text in getattr(read(api), "problems", ()):
        path, _, said = text.partition(": ")
        yield path, said


def _node_problems(api: ApiNode) -> Iterator[Found]:
    yield from quantity_problems(api.status.allocatable, "status.allocatable")
    yield from quantity_problems(api.status.capacity, "status.capacity")
    if not (api.status.allocatable or api.status.capacity):
        yield "status.allocatable", "is missing; allowed: at least cpu, memory and pods, or nothing ever fits the node"
    yield from taint_problems(api.spec.taints, "spec.taints")
    text = (api.metadata.annotations or {}).get(NODE_TOPOLOGY_ANNOTATION)
    try:
        if text is not None:
            parse_node_topology(text)
    except TopologyError as error:
        said = str(error).removeprefix(f"annotation {NODE_TOPOLOGY_ANNOTATION}: ")
        yield f"metadata.annotations[{NODE_TOPOLOGY_ANNOTATION}]", said


def _class_problems(api: ApiPriorityClass) -> Iterator[Found]:
    if api.value > HIGHEST_USER_PRIORITY and not api.metadata.name.startswith("system-"):
        yield "value", f"{api.value} is too high; allowed: up to {HIGHEST_USER_PRIORITY}"
    if api.preemption_policy is not None:
        yield from one_of(api.preemption_policy, ("PreemptLowerPriority", "Never"), "preemptionPolicy")


def _group_problems(api: ApiPodGroup, body: dict[str, Any]) -> Iterator[Found]:
    if api.spec.min_member < 1:
        yield "spec.minMember", f"{api.spec.min_member} is out of range; allowed: whole numbers from 1"
    timeout = api.spec.schedule_timeout_seconds
    if timeout is not None and timeout < 1:
        yield "spec.scheduleTimeoutSeconds", f"{timeout} is out of range; allowed: seconds from 1"
    yield from quantity_problems(api.spec.min_resources, "spec.minResources")
    yield from unknown_fields(body.get("spec", {}), type(api.spec), "spec")


def _budget_problems(api: ApiBudget) -> Iterator[Found]:
    yield from selector_problems(api.spec.selector, "spec.selector")
    bounds = {"minAvailable": api.spec.min_available, "maxUnavailable": api.spec.max_unavailable}
    if all(bound is not None for bound in bounds.values()):
        yield "spec", "minAvailable and maxUnavailable exclude each other; allowed: one of them"
    for key, bound in bounds.items():
        if isinstance(bound, str) and not (bound.endswith("%") and bound[:-1].isdigit()):
            yield f"spec.{key}", f"{bound!r} is no share; allowed: a whole number, or a percentage such as '50%'"
        elif isinstance(bound, int) and bound < 0:
            yield f"spec.{key}", f"{bound} is out of range; allowed: whole numbers from 0"


#: How many pods of one Job a simulation takes, so that a slip of the pen is told and not tried.
MOST_AT_ONCE = 20_000
MOST_COMPLETIONS = 100_000


def _job_problems(api: ApiJob, body: dict[str, Any]) -> Iterator[Found]:
    spec = api.spec
    for key, count in (
        ("parallelism", spec.parallelism),
        ("completions", spec.completions),
        ("backoffLimit", spec.backoff_limit),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
    ):
        if count is not None and count < 0:
            yield f"spec.{key}", f"{count} is out of range; allowed: whole numbers from 0"
    at_once = min(spec.parallelism or 0, MOST_AT_ONCE + 1 if spec.completions is None else spec.completions)
    if at_once > MOST_AT_ONCE or (spec.completions or 0) > MOST_COMPLETIONS:
        limits = f"{MOST_AT_ONCE:,} pods at once and {MOST_COMPLETIONS:,} completions"
        yield "spec.completions", f"is more than a simulation takes; allowed: up to {limits}"
    yield from one_of(spec.completion_mode, ("NonIndexed", "Indexed"), "spec.completionMode")
    if spec.completion_mode == "Indexed" and spec.completions is None:
        yield "spec.completions", "is missing; allowed: a whole number, with completionMode Indexed"
    policy = body.get("spec", {}).get("template", {}).get("spec", {}).get("restartPolicy")
    if policy not in ("Never", "OnFailure"):
        said = "is missing" if policy is None else f"{policy!r} is not allowed in a Job"
        yield "spec.template.spec.restartPolicy", f"{said}; allowed: Never, OnFailure"
    if spec.pod_failure_policy is not None and policy != "Never":
        yield "spec.podFailurePolicy", f"goes with restartPolicy Never only, not {policy}"
    for index, rule in enumerate((spec.pod_failure_policy.rules if spec.pod_failure_policy else None) or ()):
        allowed = ("Ignore", "Count", "FailJob", "FailIndex")
        yield from one_of(rule.action, allowed, f"spec.podFailurePolicy.rules[{index}].action")
    yield from _template_problems(api)


def _replicas_problems(api: ApiReplicas, kind: Kind) -> Iterator[Found]:
    if api.spec.replicas < 0:
        yield "spec.replicas", f"{api.spec.replicas} is out of range; allowed: whole numbers from 0"
    if api.spec.replicas > MOST_AT_ONCE:
        yield "spec.replicas", f"is more than a simulation takes; allowed: up to {MOST_AT_ONCE:,}"
    if kind.kind == "StatefulSet":
        yield from one_of(api.spec.pod_management_policy, ("OrderedReady", "Parallel"), "spec.podManagementPolicy")
        yield from template_problems(api.spec.volume_claim_templates, "spec.volumeClaimTemplates")
    selector = api.spec.selector
    if selector is None or not (selector.match_labels or selector.match_expressions):
        yield "spec.selector", "is missing; allowed: a label selector that matches the labels of spec.template"
    else:
        labels = api.spec.template.metadata.labels or {}
        yield from selector_problems(selector, "spec.selector")
        if any(labels.get(key) != value for key, value in (selector.match_labels or {}).items()):
            yield "spec.selector", "does not match the labels of spec.template; allowed: labels that the template has"
    yield from _template_problems(api)


def _template_problems(api: ApiJob | ApiReplicas) -> Iterator[Found]:
    template = api.spec.template
    yield from meta_problems(template.metadata, "spec.template.metadata", needs_name=False)
    yield from pod_problems(template.spec, "spec.template.spec")
    yield from pod_volume_problems(template.spec.volumes, "spec.template.spec.volumes")
    if template.spec.node_name:
        yield "spec.template.spec.nodeName", "is not simulated in a template; allowed: a nodeSelector"
