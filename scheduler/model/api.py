"""The API objects as they come over the wire: only the fields that scheduling reads, decoded straight from bytes.

For the edges, which decode them, and for the model, which turns them into Pod, Node and Gang.  Fields keep the names of
the Kubernetes API (in snake case); quantities are still texts here.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from .pod_devices import ApiExtendedClaimStatus, ApiPodClaim, ApiPodClaimStatus  # noqa: TC001 - msgspec reads them
from .podgroup_api import Role, TopologyWish, WhenIncomplete  # noqa: TC001 - msgspec reads them
from .volume_api import ApiStruct, Volume

Quantity: TypeAlias = str | int | float
ResourceList: TypeAlias = dict[str, Quantity]


class OwnerReference(ApiStruct, frozen=True):
    """Who made an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class ObjectMeta(ApiStruct, frozen=True):
    """The metadata that scheduling reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class Condition(ApiStruct, frozen=True):
    """A status condition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int | None = None


class ContainerPort(ApiStruct, frozen=True):
    """A port of a container; only host ports matter here."""

    host_port: int = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = "TCP"


class Resources(ApiStruct, frozen=True):
    """What a container or a pod asks for."""

    requests: ResourceList | None = None
    limits: ResourceList | None = None


class RestartRule(ApiStruct, frozen=True):
    """What happens when a container exits; only the action is read."""

    action: str = ""


class Container(ApiStruct, frozen=True):
    """A container or an init container (a sidecar if its restart policy is Always)."""

    name: str = ""
    image: str = ""
    resources: Resources | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRule] | None = None


class Requirement(ApiStruct, frozen=True):
    """One line of a label or node selector."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class NodeSelectorTerm(ApiStruct, frozen=True):
    """All of its requirements must hold; an empty term matches nothing."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(ApiStruct, frozen=True):
    """One of its terms must hold."""

    node_selector_terms: list[NodeSelectorTerm] = msgspec.field(default_factory=list)


class PreferredSchedulingTerm(ApiStruct, frozen=True):
    """A term and what it is worth (1 to 100)."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(ApiStruct, frozen=True):
    """Which nodes a pod needs and which it likes."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = None


class LabelSelector(ApiStruct, frozen=True):
    """A label selector; absent matches nothing, empty matches everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None


class PodAffinityTerm(ApiStruct, frozen=True):
    """Pods of some namespaces, and the label that says what is near them.

    `matchLabelKeys` and `mismatchLabelKeys` are not read: the API server has merged them into the selector.
    """

    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""


class WeightedPodAffinityTerm(ApiStruct, frozen=True):
    """A term and what it is worth (1 to 100)."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(ApiStruct, frozen=True):
    """Which pods a pod needs near it (or far from it), and which it likes there."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None


class Affinity(ApiStruct, frozen=True):
    """The affinities that are read."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadConstraint(ApiStruct, frozen=True):
    """How evenly pods are to be spread over the values of a node label."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class Toleration(ApiStruct, frozen=True):
    """Which taints a pod endures."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Taint(ApiStruct, frozen=True):
    """What keeps pods off a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class SchedulingGate(ApiStruct, frozen=True):
    """A gate that holds a pod back."""

    name: str = ""


class SchedulingGroup(ApiStruct, frozen=True):
    """The pod's native group."""

    pod_group_name: str | None = None


class PodSpec(ApiStruct, frozen=True):
    """The spec of a pod."""

    scheduler_name: str = "default-scheduler"
    node_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    containers: list[Container] = msgspec.field(default_factory=list)
    init_containers: list[Container] | None = None
    volumes: list[Volume] | None = None
    overhead: ResourceList | None = None
    resources: Resources | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    scheduling_group: SchedulingGroup | None = None
    topology_spread_constraints: list[SpreadConstraint] | None = None
    resource_claims: list[ApiPodClaim] | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    host_network: bool = False


class ContainerTerminated(ApiStruct, frozen=True):
    """The end of a container."""

    finished_at: str | None = None


class ContainerState(ApiStruct, frozen=True):
    """Whether a container has ended."""

    terminated: ContainerTerminated | None = None


class ContainerStatus(ApiStruct, frozen=True):
    """What the kubelet says of a container's resources, and of its end."""

    name: str = ""
    state: ContainerState | None = None
    allocated_resources: ResourceList | None = None
    resources: Resources | None = None


class PodStatus(ApiStruct, frozen=True):
    """The status of a pod."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: list[Condition] | None = None
    nominated_node_name: str = ""
    start_time: str | None = None
    resource_claim_statuses: list[ApiPodClaimStatus] | None = None
    extended_resource_claim_status: ApiExtendedClaimStatus | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    allocated_resources: ResourceList | None = None
    resources: Resources | None = None
    qos_class: str = ""


class ApiPod(ApiStruct, frozen=True):
    """A pod as the API server sends it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class ContainerImage(ApiStruct, frozen=True):
    """An image that a node holds."""

    names: list[str] | None = None
    size_bytes: int = 0


class NodeSpec(ApiStruct, frozen=True):
    """The spec of a node."""

    unschedulable: bool = False
    taints: list[Taint] | None = None


class NodeStatus(ApiStruct, frozen=True):
    """The status of a node."""

    capacity: ResourceList | None = None
    allocatable: ResourceList | None = None
    images: list[ContainerImage] | None = None
    conditions: list[Condition] | None = None
    declared_features: list[str] | None = None


class ApiNode(ApiStruct, frozen=True):
    """A node as the API server sends it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ApiPriorityClass(ApiStruct, frozen=True):
    """A priority class (scheduling.k8s.io/v1)."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class BudgetSpec(ApiStruct, frozen=True):
    """The spec of a PodDisruptionBudget."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class BudgetStatus(ApiStruct, frozen=True):
    """The status of a PodDisruptionBudget."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, Any] | None = None


class ApiBudget(ApiStruct, frozen=True):
    """A PodDisruptionBudget (policy/v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class PodGroupSpec(ApiStruct, frozen=True):
    """The spec of a PodGroup, ours and Coscheduling's alike; roles and what follows are ours alone."""

    min_member: int = 1
    schedule_timeout_seconds: int | None = None
    priority_class_name: str = ""
    min_resources: ResourceList | None = None
    roles: list[Role] | None = None
    min_roles: int | None = None
    topology: TopologyWish | None = None
    when_incomplete: WhenIncomplete | None = None
    disruption_mode: str = ""


class PodGroupStatus(ApiStruct, frozen=True):
    """The status of a PodGroup, as far as it is read back."""

    phase: str = ""
    conditions: list[Condition] | None = None
    promised_start: str | None = None


class ApiPodGroup(ApiStruct, frozen=True):
    """A PodGroup of our own group or of scheduling.x-k8s.io."""

    api_version: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()
