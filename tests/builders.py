"""Builders of pods, nodes, gangs and snapshots in a fluent style, for every test.

    pods = a_pod("worker").gpus(8).gang("job", 4).times(4)
    snapshot = snapshot_of([a_node("n1").gpus(8), a_node("n2").gpus(8)], [a_pod("old").gpus(8).on("n1")])

Each builder collects a manifest; `.build()` takes it through the same decoding as the API server's objects, `.manifest()`
returns it as it stands.  Builders are mutable and return themselves; `.copy()` branches off.
"""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import msgspec

from scheduler.model import Gang, Node, Pod, gang_from_api, node_from_api, pod_from_api
from scheduler.model.api import ApiNode, ApiPod, ApiPodGroup
from scheduler.model.dialects.coscheduling import GROUP_LABEL as COSCHEDULING_LABEL
from scheduler.model.dialects.own import GROUP_LABEL
from scheduler.model.gang import PREFIX
from scheduler.state.image_sizes import ImageSizes
from scheduler.state.rows import Row
from scheduler.state.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

GPU = "nvidia.com/gpu"
#: The moment at which everything is created unless a test says otherwise: 2025-01-01T00:00:00Z.
EPOCH = 1_735_689_600.0


class Builder:
    """What all builders do: a manifest with metadata."""

    def __init__(self, name: str, manifest: dict[str, Any]) -> None:
        """Start from a manifest."""
        self._manifest = manifest
        self._meta = manifest.setdefault("metadata", {})
        self._meta |= {"name": name, "uid": f"uid-{name}", "creationTimestamp": _rfc3339(EPOCH)}

    def label(self, key: str, value: str = "") -> Self:
        """Add a label."""
        self._meta.setdefault("labels", {})[key] = value
        return self

    def labels(self, **labels: str) -> Self:
        """Add several labels whose keys are plain words."""
        self._meta.setdefault("labels", {}).update(labels)
        return self

    def annotation(self, key: str, value: str) -> Self:
        """Add an annotation."""
        self._meta.setdefault("annotations", {})[key] = value
        return self

    def uid(self, uid: str) -> Self:
        """Set the uid, which is `uid-NAME` otherwise."""
        self._meta["uid"] = uid
        return self

    def created(self, seconds: float) -> Self:
        """Set the time of creation, in seconds after the tests' epoch."""
        self._meta["creationTimestamp"] = _rfc3339(EPOCH + seconds)
        return self

    def copy(self) -> Self:
        """Return an independent builder with the same content."""
        return copy.deepcopy(self)

    def manifest(self) -> dict[str, Any]:
        """Return a copy of the manifest."""
        return copy.deepcopy(self._manifest)


class PodBuilder(Builder):
    """A pod with one container named `main`."""

    def __init__(self, name: str) -> None:
        """Start with a pending pod of ours that requests nothing."""
        self._container: dict[str, Any] = {"name": "main", "image": "example.test/main:v1"}
        self._spec: dict[str, Any] = {"schedulerName": "ai-scheduler", "priority": 0, "containers": [self._container]}
        self._status: dict[str, Any] = {"phase": "Pending"}
        self.gang_minimum: int | None = None
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default"}}
        super().__init__(name, manifest | {"spec": self._spec, "status": self._status})

    def namespace(self, namespace: str) -> Self:
        """Put the pod into a namespace."""
        self._meta["namespace"] = namespace
        return self

    def request(self, resource: str, quantity: str | int) -> Self:
        """Request an amount of a resource for the main container."""
        self._container.setdefault("resources", {}).setdefault("requests", {})[resource] = str(quantity)
        return self

    def cpu(self, quantity: str | int) -> Self:
        """Request CPU."""
        return self.request("cpu", quantity)

    def memory(self, quantity: str | int) -> Self:
        """Request memory."""
        return self.request("memory", quantity)

    def gpus(self, count: int, resource: str = GPU) -> Self:
        """Request GPUs, as request and limit."""
        self._container.setdefault("resources", {}).setdefault("limits", {})[resource] = str(count)
        return self.request(resource, count)

    def limit(self, resource: str, quantity: str | int) -> Self:
        """Limit a resource of the main container."""
        self._container.setdefault("resources", {}).setdefault("limits", {})[resource] = str(quantity)
        return self

    def image(self, image: str) -> Self:
        """Run this image in the main container."""
        self._container["image"] = image
        return self

    def container(self, name: str, image: str = "example.test/side:v1", **requests: str) -> Self:
        """Add an app container."""
        self._spec["containers"].append({"name": name, "image": image, "resources": {"requests": requests}})
        return self

    def init(self, name: str, *, sidecar: bool = False, image: str = "example.test/init:v1", **requests: str) -> Self:
        """Add an init container, or a sidecar."""
        container: dict[str, Any] = {"name": name, "image": image, "resources": {"requests": requests}}
        if sidecar:
            container["restartPolicy"] = "Always"
        self._spec.setdefault("initContainers", []).append(container)
        return self

    def overhead(self, **amounts: str) -> Self:
        """Set the overhead of the pod's runtime class."""
        self._spec["overhead"] = amounts
        return self

    def pod_level(self, **requests: str) -> Self:
        """Set requests of the pod as a whole."""
        self._spec["resources"] = {"requests": requests}
        return self

    def port(self, port: int, *, protocol: str = "TCP", ip: str = "") -> Self:
        """Claim a host port."""
        entry = {"hostPort": port, "containerPort": port, "protocol": protocol} | ({"hostIP": ip} if ip else {})
        self._container.setdefault("ports", []).append(entry)
        return self

    def priority(self, priority: int, class_name: str = "") -> Self:
        """Set the priority."""
        self._spec |= {"priority": priority, "priorityClassName": class_name}
        return self

    def preemption_policy(self, policy: str) -> Self:
        """Set the preemption policy: PreemptLowerPriority or Never."""
        self._spec["preemptionPolicy"] = policy
        return self

    def scheduler(self, name: str) -> Self:
        """Leave the pod to a scheduler."""
        self._spec["schedulerName"] = name
        return self

    def on(self, node_name: str, *, started: float = 0.0) -> Self:
        """Let the pod run on a node since so many seconds after the tests' epoch."""
        self._spec["nodeName"] = node_name
        self._status |= {"phase": "Running", "startTime": _rfc3339(EPOCH + started)}
        return self

    def nominated(self, node_name: str) -> Self:
        """Nominate the pod to a node."""
        self._status["nominatedNodeName"] = node_name
        return self

    def phase(self, phase: str) -> Self:
        """Set the phase."""
        self._status["phase"] = phase
        return self

    def condition(self, kind: str, status: str = "True", reason: str = "") -> Self:
        """Add a condition to the status."""
        self._status.setdefault("conditions", []).append({"type": kind, "status": status, "reason": reason})
        return self

    def terminating(self, seconds: float = 0.0) -> Self:
        """Ask for the pod's deletion."""
        self._meta["deletionTimestamp"] = _rfc3339(EPOCH + seconds)
        return self

    def grace(self, seconds: int) -> Self:
        """Set the grace period."""
        self._spec["terminationGracePeriodSeconds"] = seconds
        return self

    def gate(self, name: str) -> Self:
        """Add a scheduling gate."""
        self._spec.setdefault("schedulingGates", []).append({"name": name})
        return self

    def tolerate(self, key: str = "", operator: str = "Exists", value: str = "", effect: str = "") -> Self:
        """Add a toleration; without arguments, of everything."""
        entry = {"key": key, "operator": operator, "value": value, "effect": effect}
        self._spec.setdefault("tolerations", []).append({k: v for k, v in entry.items() if v})
        return self

    def select(self, key: str, value: str) -> Self:
        """Add to the node selector."""
        self._spec.setdefault("nodeSelector", {})[key] = value
        return self

    def require(self, *terms: dict[str, Any]) -> Self:
        """Require that a node matches one of these terms (see `term`)."""
        self._node_affinity()["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": list(terms)}
        return self

    def prefer(self, weight: int, preference: dict[str, Any]) -> Self:
        """Prefer nodes that match a term."""
        terms = self._node_affinity().setdefault("preferredDuringSchedulingIgnoredDuringExecution", [])
        terms.append({"weight": weight, "preference": preference})
        return self

    def affinity(self, key: str, **labels: str) -> Self:
        """Require pods with these labels near, by a node label."""
        return self.pod_term("podAffinity", {"topologyKey": key, "labelSelector": {"matchLabels": labels}})

    def anti_affinity(self, key: str, **labels: str) -> Self:
        """Require that no pod with these labels is near, by a node label."""
        return self.pod_term("podAntiAffinity", {"topologyKey": key, "labelSelector": {"matchLabels": labels}})

    def prefers_near(self, weight: int, key: str, **labels: str) -> Self:
        """Prefer pods with these labels near; a negative weight, far."""
        term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
        return self.pod_term("podAffinity" if weight > 0 else "podAntiAffinity", term, abs(weight))

    def pod_term(self, field: str, term: dict[str, Any], weight: int | None = None) -> Self:
        """Add a term to `podAffinity` or `podAntiAffinity`: a preferred one if it has a weight."""
        affinity = self._spec.setdefault("affinity", {}).setdefault(field, {})
        if weight is None:
            affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(term)
        else:
            entry = {"weight": weight, "podAffinityTerm": term}
            affinity.setdefault("preferredDuringSchedulingIgnoredDuringExecution", []).append(entry)
        return self

    def spread(self, key: str, max_skew: int = 1, *, soft: bool = False, **labels: str) -> Self:
        """Spread pods with these labels over the values of a node label."""
        constraint = {
            "topologyKey": key, "maxSkew": max_skew, "whenUnsatisfiable": "ScheduleAnyway" if soft else "DoNotSchedule",
            "labelSelector": {"matchLabels": labels},
        }  # fmt: skip
        return self.patch_spread(constraint)

    def patch_spread(self, constraint: dict[str, Any]) -> Self:
        """Add a spread constraint in the API's spelling."""
        self._spec.setdefault("topologySpreadConstraints", []).append(constraint)
        return self

    def gang(self, name: str, minimum: int | None = None, *, dialect: str = "ai-scheduler") -> Self:
        """Make the pod a member of a gang; `gangs_of` makes the Gang from the minimum."""
        self.gang_minimum = minimum
        return self.label(GROUP_LABEL if dialect == "ai-scheduler" else COSCHEDULING_LABEL, name)

    def owner(self, kind: str, name: str, api_version: str = "batch/v1") -> Self:
        """Let the pod be owned by an object."""
        owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
        self._meta.setdefault("ownerReferences", []).append(owner)
        return self

    def patch_spec(self, **fields: Any) -> Self:
        """Set fields of the spec that have no method, in the API's spelling."""
        self._spec |= fields
        return self

    def patch_status(self, **fields: Any) -> Self:
        """Set fields of the status that have no method, in the API's spelling."""
        self._status |= fields
        return self

    def times(self, count: int) -> list[PodBuilder]:
        """Return so many copies, named NAME-0, NAME-1 and so on."""
        result = []
        for index in range(count):
            other = self.copy()
            other._meta["name"] = f"{self._meta['name']}-{index}"
            result.append(other.uid(f"uid-{other._meta['name']}"))
        return result

    def api(self) -> ApiPod:
        """Return the decoded API object."""
        return msgspec.convert(self._manifest, ApiPod)

    def build(self) -> Pod:
        """Return the model's view."""
        return pod_from_api(self.api())

    def _node_affinity(self) -> dict[str, Any]:
        affinity: dict[str, Any] = self._spec.setdefault("affinity", {})
        return affinity.setdefault("nodeAffinity", {})


class NodeBuilder(Builder):
    """A node with 64 cores, 512 GiB and room for 110 pods."""

    def __init__(self, name: str) -> None:
        """Start with the usual resources and the hostname label."""
        self._allocatable: dict[str, str] = {"cpu": "64", "memory": "512Gi", "pods": "110"}
        self._spec: dict[str, Any] = {}
        self._status: dict[str, Any] = {"allocatable": self._allocatable}
        super().__init__(name, {"apiVersion": "v1", "kind": "Node", "spec": self._spec, "status": self._status})
        self.label("kubernetes.io/hostname", name)

    def offer(self, resource: str, quantity: str | int) -> Self:
        """Offer an amount of a resource."""
        self._allocatable[resource] = str(quantity)
        return self

    def cpu(self, quantity: str | int) -> Self:
        """Offer CPU."""
        return self.offer("cpu", quantity)

    def memory(self, quantity: str | int) -> Self:
        """Offer memory."""
        return self.offer("memory", quantity)

    def gpus(self, count: int, resource: str = GPU) -> Self:
        """Offer GPUs."""
        return self.offer(resource, count)

    def pods(self, count: int) -> Self:
        """Have room for so many pods."""
        return self.offer("pods", count)

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        """Add a taint."""
        self._spec.setdefault("taints", []).append({"key": key, "value": value, "effect": effect})
        return self

    def cordoned(self) -> Self:
        """Mark the node unschedulable."""
        self._spec["unschedulable"] = True
        return self

    def image(self, name: str, size_bytes: int) -> Self:
        """Hold an image."""
        self._status.setdefault("images", []).append({"names": [name], "sizeBytes": size_bytes})
        return self

    def build(self) -> Node:
        """Return the model's view."""
        return node_from_api(msgspec.convert(self._manifest, ApiNode))


class GangBuilder(Builder):
    """A PodGroup of ours."""

    def __init__(self, name: str, minimum: int) -> None:
        """Start with a minimum of members."""
        self._spec: dict[str, Any] = {"minMember": minimum}
        self._dialect = "ai-scheduler"
        manifest = {"apiVersion": f"{PREFIX}/v1alpha1", "kind": "PodGroup", "metadata": {"namespace": "default"}}
        super().__init__(name, manifest | {"spec": self._spec})

    def namespace(self, namespace: str) -> Self:
        """Put the group into a namespace."""
        self._meta["namespace"] = namespace
        return self

    def dialect(self, dialect: str) -> Self:
        """Take the group as one of another dialect."""
        self._dialect = dialect
        return self

    def timeout(self, seconds: int) -> Self:
        """Set how long the group may hold reservations."""
        self._spec["scheduleTimeoutSeconds"] = seconds
        return self

    def priority_class(self, name: str) -> Self:
        """Name a priority class."""
        self._spec["priorityClassName"] = name
        return self

    def role(self, name: str, minimum: int = 0, **fields: Any) -> Self:
        """Add a role; further fields as the API has them."""
        role = {"name": name} | ({"minMember": minimum} if minimum else {}) | fields
        self._spec.setdefault("roles", []).append(role)
        return self

    def when_incomplete(self, policy: str, seconds: int | None = None) -> Self:
        """Set what happens below the minimum, and after how many seconds."""
        grace = {"gracePeriodSeconds": seconds} if seconds is not None else {}
        self._spec["whenIncomplete"] = {"policy": policy} | grace
        return self

    def generation(self, generation: int) -> Self:
        """Set how often the spec was changed."""
        self._meta["generation"] = generation
        return self

    def spec(self, **fields: Any) -> Self:
        """Set fields of the spec, as the API has them; None takes one away."""
        self._spec.update(fields)
        for name in [name for name, value in self._spec.items() if value is None]:
            del self._spec[name]
        return self

    def build(self) -> Gang:
        """Return the model's view."""
        return gang_from_api(msgspec.convert(self._manifest, ApiPodGroup), self._dialect)


def a_pod(name: str = "pod") -> PodBuilder:
    """Start a pod."""
    return PodBuilder(name)


def a_node(name: str = "node") -> NodeBuilder:
    """Start a node."""
    return NodeBuilder(name)


def a_gang(name: str, minimum: int) -> GangBuilder:
    """Start a PodGroup."""
    return GangBuilder(name, minimum)


def term(*expressions: tuple[str, str] | tuple[str, str, list[str]], fields: Iterable[Any] = ()) -> dict[str, Any]:
    """Return a node selector term from (key, operator) or (key, operator, values) tuples."""
    result: dict[str, Any] = {}
    if expressions:
        result["matchExpressions"] = [_requirement(*e) for e in expressions]
    if fields := list(fields):
        result["matchFields"] = [_requirement(*f) for f in fields]
    return result


def gangs_of(pods: Iterable[PodBuilder]) -> list[Gang]:
    """Return the gangs that pods with a minimum name, each once."""
    found = {}
    for pod in pods:
        if pod.gang_minimum is not None:
            meta = pod.manifest()["metadata"]
            for label, dialect in ((GROUP_LABEL, "ai-scheduler"), (COSCHEDULING_LABEL, "coscheduling")):
                if name := meta["labels"].get(label):
                    gang = a_gang(name, pod.gang_minimum).namespace(meta["namespace"]).dialect(dialect)
                    found[dialect, meta["namespace"], name] = gang.build()
    return list(found.values())


def snapshot_of(nodes: Iterable[NodeBuilder | Node], pods: Iterable[PodBuilder | Pod] = ()) -> Snapshot:
    """Return a snapshot of nodes with the pods that name them; KeyError for a pod on a node that is not there."""
    built = [node.build() if isinstance(node, NodeBuilder) else node for node in nodes]
    rows = {node.name: Row(node) for node in sorted(built, key=lambda node: node.name)}
    for entry in pods:
        pod = entry.build() if isinstance(entry, PodBuilder) else entry
        rows[pod.node_name].add(pod)
    snapshot = Snapshot()
    snapshot.replace_rows(list(rows.values()), nodes_changed=True)
    images = ImageSizes()
    for node in built:
        images.replace(None, node)
    snapshot.image_sizes = images.sizes
    return snapshot


def _requirement(key: str, operator: str, values: list[str] | None = None) -> dict[str, Any]:
    return {"key": key, "operator": operator} | ({"values": values} if values is not None else {})


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
