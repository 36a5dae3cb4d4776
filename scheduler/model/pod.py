"""Pod: the immutable view of a pod that plugins, state and engine work on; quantities are integers.

For everyone who schedules.  The edges make it from the API object once (`pod_from_api`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .api import ApiPod, Condition, NodeAffinity, OwnerReference, PodSpec, PodStatus, Toleration
from .containers import ContainerNeed, needs_of, qos_of
from .dialects import DIALECTS, Dialect, membership_of
from .gang import Membership
from .pod_devices import ExtendedRequest, PodClaim, claims_of, extended_requests
from .pod_terms import PodTerms, Spread, spreads_of, terms_of
from .requests import asked_by, is_sidecar
from .times import parse_time
from .volume_api import Volume

if TYPE_CHECKING:
    from collections.abc import Sequence

_TERMINAL = ("Succeeded", "Failed")
_shape_encoder = msgspec.json.Encoder(order="sorted")


class HostPort(msgspec.Struct, frozen=True, gc=False):
    """A port of the node that a pod claims."""

    protocol: str
    ip: str
    port: int


class Pod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What scheduling needs to know of a pod."""

    uid: str
    namespace: str
    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owners: tuple[OwnerReference, ...] = ()
    #: Seconds since the epoch.
    created: float = 0.0
    #: When the kubelet first saw it, seconds since the epoch; None before.
    started: float | None = None
    #: When the last of its containers ended, seconds since the epoch; None while it has not, or if nobody says.
    ended: float | None = None
    #: A deletion was asked for; the pod uses its node until it is gone.
    is_terminating: bool = False
    #: When its grace period ends, or ended, seconds since the epoch; None if it is not being deleted.
    deletes_at: float | None = None
    grace_period_seconds: int = 30
    #: So long after its start the kubelet ends it; None if it may run for ever.
    deadline_seconds: int | None = None

    scheduler_name: str = ""
    node_name: str = ""
    nominated_node_name: str = ""
    phase: str = "Pending"
    #: Why it is in its phase, as one word: of a failed pod, what the kubelet refused it for.
    status_reason: str = ""
    priority: int = 0
    priority_class_name: str = ""
    preemption_policy: str = "PreemptLowerPriority"
    conditions: tuple[Condition, ...] = ()

    #: Resource name to amount: millicores for cpu, bytes for memory, pieces otherwise.
    requests: dict[str, int] = {}
    #: (millicores, bytes) that the pod adds to its node's scored usage once bound.
    nonzero: tuple[int, int] = (0, 0)
    #: (millicores, bytes) that scoring takes for the pod while it is pending.
    scored: tuple[int, int] = (0, 0)
    #: Huge pages that scoring takes for the pod while it is pending; None if they are those of `requests`.
    scored_pages: dict[str, int] | None = None
    #: What each container asks, init containers and sidecars first.
    containers: tuple[ContainerNeed, ...] = ()
    #: Guaranteed, Burstable or BestEffort.
    qos: str = ""
    ports: tuple[HostPort, ...] = ()
    node_selector: dict[str, str] = {}
    node_affinity: NodeAffinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    gates: tuple[str, ...] = ()
    #: ResourceClaims, in the order of the spec.
    claims: tuple[PodClaim, ...] = ()
    #: What containers ask of resources that a DeviceClass may stand for; empty for assigned pods.
    extended: tuple[ExtendedRequest, ...] = ()
    #: The claim that serves them; empty if there is none.
    extended_claim: str = ""
    #: Images of all containers and image volumes, in order, with repetitions.
    images: tuple[str, ...] = ()
    #: Affinity to other pods; None if there is none.
    terms: PodTerms | None = None
    spreads: tuple[Spread, ...] = ()
    #: Claims and disks; volumes that scheduling does not read are left out.
    volumes: tuple[Volume, ...] = ()
    #: Features of the kubelet that the pod cannot run without (NodeDeclaredFeatures).
    needed_features: tuple[str, ...] = ()
    #: What it says of its gang; None if it belongs to none.
    membership: Membership | None = None
    #: Equal for pods with equal scheduling-relevant spec; empty for assigned pods.
    shape: bytes = b""

    @property
    def key(self) -> str:
        """Namespace and name, as messages and logs show them."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_terminal(self) -> bool:
        """The pod has ended and uses nothing any more."""
        return self.phase in _TERMINAL


def pod_from_api(api: ApiPod, dialects: Sequence[Dialect] = DIALECTS) -> Pod:
    """Return the view of an API object; raises QuantityError or ValueError that names the field.

    `dialects` says how pods name their gangs.
    """
    spec, meta, status = api.spec, api.metadata, api.status
    namespace = meta.namespace or "default"
    priority = spec.priority or 0
    preemption_policy = spec.preemption_policy or "PreemptLowerPriority"
    asked = asked_by(api)
    containers, qos = needs_of(api), qos_of(api)
    ports = _host_ports(spec)
    node_selector = spec.node_selector or {}
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    tolerations = tuple(spec.tolerations) if spec.tolerations else ()
    images = _images(spec)
    labels = meta.labels or {}
    terms = terms_of(spec.affinity, namespace) if spec.affinity else None
    spreads = spreads_of(spec.topology_spread_constraints, labels) if spec.topology_spread_constraints else ()
    volumes = _volumes(spec) if spec.volumes else ()
    features = needed_features(spec)
    shape = b""
    if not spec.node_name:
        shape = _shape(
            namespace, priority, preemption_policy, asked.requests, asked.scored, asked.scored_pages, containers,
            qos, ports, node_selector, node_affinity, tolerations, images, terms, spreads, volumes, features,
        )  # fmt: skip
    return Pod(
        uid=meta.uid or f"{namespace}/{meta.name}",
        namespace=namespace,
        name=meta.name,
        labels=labels,
        annotations=meta.annotations or {},
        owners=tuple(meta.owner_references) if meta.owner_references else (),
        created=parse_time(meta.creation_timestamp) or 0.0,
        started=parse_time(status.start_time),
        ended=_end_of(status) if status.phase in _TERMINAL else None,
        is_terminating=meta.deletion_timestamp is not None,
        deletes_at=parse_time(meta.deletion_timestamp),
        grace_period_seconds=30 if (grace := spec.termination_grace_period_seconds) is None else grace,
        deadline_seconds=spec.active_deadline_seconds,
        scheduler_name=spec.scheduler_name,
        node_name=spec.node_name,
        nominated_node_name=status.nominated_node_name,
        phase=status.phase,
        status_reason=status.reason,
        priority=priority,
        priority_class_name=spec.priority_class_name,
        preemption_policy=preemption_policy,
        conditions=tuple(status.conditions) if status.conditions else (),
        requests=asked.requests,
        nonzero=asked.nonzero,
        scored=asked.scored,
        scored_pages=asked.scored_pages,
        containers=containers,
        qos=qos,
        ports=ports,
        node_selector=node_selector,
        node_affinity=node_affinity,
        tolerations=tolerations,
        gates=tuple([gate.name for gate in spec.scheduling_gates]) if spec.scheduling_gates else (),
        images=images,
        terms=terms,
        spreads=spreads,
        volumes=volumes,
        needed_features=features,
        claims=claims_of(spec, status) if spec.resource_claims else (),
        extended=() if spec.node_name else extended_requests(spec),
        extended_claim=extended.resource_claim_name if (extended := status.extended_resource_claim_status) else "",
        membership=membership_of(api, dialects),
        shape=shape,
    )


def shape_of(pod: Pod) -> bytes:
    """Return the scheduling-relevant part of a pod as bytes: equal bytes, equal verdicts and scores."""
    return _shape(
        pod.namespace, pod.priority, pod.preemption_policy, pod.requests, pod.scored, pod.scored_pages, pod.containers, pod.qos,
        pod.ports, pod.node_selector, pod.node_affinity, pod.tolerations, pod.images, pod.terms, pod.spreads, pod.volumes, pod.needed_features,
    )  # fmt: skip


def _shape(*parts: object) -> bytes:
    return _shape_encoder.encode(parts)


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Return the host ports of app containers and sidecars; those of ordinary init containers do not count."""
    listed = [c.ports for c in spec.containers if c.ports]
    if spec.init_containers:
        listed += [c.ports for c in spec.init_containers if c.ports and is_sidecar(c)]
    return (
        tuple(
            [
                HostPort(port.protocol or "TCP", port.host_ip or "0.0.0.0", port.host_port)  # noqa: S104 - the wildcard of the API
                for ports in listed
                for port in ports
                if port.host_port > 0
            ]
        )
        if listed
        else ()
    )


def _volumes(spec: PodSpec) -> tuple[Volume, ...]:
    """Return the volumes that some plugin reads."""
    return tuple([v for v in spec.volumes or () if v != Volume(name=v.name, image=v.image)])


def needed_features(spec: PodSpec) -> tuple[str, ...]:
    """Return what a node has to declare for a pod; with the gates of 1.37 it can be one feature only."""
    for container in (*(spec.init_containers or ()), *spec.containers):
        if container.restart_policy_rules and any(
            rule.action == "RestartAllContainers" for rule in container.restart_policy_rules
        ):
            return ("RestartAllContainersOnContainerExits",)
    return ()


def _end_of(status: PodStatus) -> float | None:
    """Return when the last container of a pod that has ended did."""
    states = [container.state for container in status.container_statuses or ()]
    times = [parse_time(state.terminated.finished_at) for state in states if state and state.terminated]
    return max((time for time in times if time is not None), default=None)


def _images(spec: PodSpec) -> tuple[str, ...]:
    """Return the images of init containers, containers and image volumes."""
    images = [c.image for c in spec.containers]
    if spec.init_containers:
        images = [c.image for c in spec.init_containers] + images
    if spec.volumes:
        images += [v.image.reference for v in spec.volumes if v.image]
    return tuple(images)
