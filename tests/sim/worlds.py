"""Worlds for tests of the simulation: manifests in Python, and a run that checks the invariants after every moment."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from scheduler.config import SchedulerConfiguration, default
from scheduler.model.pod_claims import claim_uses
from scheduler.model.storage import Claim, PersistentVolume
from scheduler.sim.loading import LoadOptions, world_of
from scheduler.sim.manifests import Document
from scheduler.sim.run import RunOptions, Simulation, simulation_of

if TYPE_CHECKING:
    from scheduler.sim.outcome import Outcome, WorkloadOutcome
    from scheduler.sim.world import World

PREFIX = "scheduling.ai-scheduler.io"
ZONE = "topology.kubernetes.io/zone"
Manifest = dict[str, Any]


def a_world(*manifests: Manifest, **options: Any) -> World:
    """Return the world of manifests."""
    return world_of([Document("test.yaml", 1, copy.deepcopy(m)) for m in manifests], [], LoadOptions(**options))


def nodes(count: int, gpus: int = 8, *, cpu: str = "64", prefix: str = "node", **labels: str) -> list[Manifest]:
    """Return so many nodes."""
    amounts = {"cpu": cpu, "memory": "512Gi", "pods": "110"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return [
        {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": f"{prefix}-{number}", "labels": labels},
            "status": {"allocatable": amounts},
        }
        for number in range(count)
    ]  # fmt: skip


def a_template(gpus: int = 0, *, gang: str = "", cpu: str = "1", run: float | None = None, **spec: Any) -> Manifest:
    """Return a pod template of ours."""
    annotations = {} if run is None else {f"{PREFIX}/run-seconds": str(run)}
    labels = {f"{PREFIX}/pod-group": gang} if gang else {}
    resources: Manifest = {"requests": {"cpu": cpu}} | ({"limits": {"nvidia.com/gpu": gpus}} if gpus else {})
    containers = [{"name": "main", "resources": resources}]
    return {
        "metadata": {"annotations": annotations, "labels": labels},
        "spec": {"schedulerName": "ai-scheduler", "containers": containers} | spec,
    }


def a_pod(name: str, gpus: int = 0, *, submit: float = 0, node: str = "", **template: Any) -> Manifest:
    """Return a pod."""
    pod = a_template(gpus, **template)
    pod["metadata"]["name"] = name
    _submitted(pod, submit)
    if node:
        pod["spec"]["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod"} | pod


def a_job(name: str, parallelism: int | None = 1, gpus: int = 0, *, submit: float = 0, job: Manifest | None = None,
          completions: int | None = None, **template: Any) -> Manifest:  # fmt: skip
    """Return a Job that runs so many pods at once; `job` adds to its spec."""
    spec: Manifest = {"template": a_template(gpus, restartPolicy="Never", **template)}
    spec |= {} if parallelism is None else {"parallelism": parallelism, "completions": completions or parallelism}
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec | (job or {})}
    return _submitted(manifest, submit)


def a_gang(
    name: str, size: int, gpus: int, *, minimum: int | None = None, job: Manifest | None = None, **template: Any
) -> list[Manifest]:
    """Return a PodGroup and the Job of its pods; evictions do not count as failures of the Job."""
    ignore = {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}}
    group = {
        "apiVersion": f"{PREFIX}/v1alpha1", "kind": "PodGroup", "metadata": {"name": name},
        "spec": {"minMember": minimum or size},
    }  # fmt: skip
    return [group, a_job(name, size, gpus, gang=name, job=ignore | (job or {}), **template)]


def replicas(
    kind: str, name: str, count: int, gpus: int = 0, *, spec: Manifest | None = None, **template: Any
) -> Manifest:
    """Return a Deployment, ReplicaSet or StatefulSet."""
    made = a_template(gpus, **template)
    made["metadata"]["labels"] |= {"app": name}
    body = {"replicas": count, "selector": {"matchLabels": {"app": name}}, "template": made} | (spec or {})
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def a_class(name: str, value: int, **fields: Any) -> Manifest:
    """Return a PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    } | fields


def a_claim(name: str, size: str = "10Gi", class_name: str | None = None, **spec: Any) -> Manifest:
    """Return a claim; without a class it gets the default one."""
    body: Manifest = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}} | spec
    body |= {} if class_name is None else {"storageClassName": class_name}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": body}


def a_volume(name: str, size: str = "10Gi", class_name: str = "", *, zone: str = "", **spec: Any) -> Manifest:
    """Return a volume, in one zone or for all nodes."""
    body: Manifest = {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "storageClassName": class_name
    } | spec  # fmt: skip
    if zone:
        expression = {"key": ZONE, "operator": "In", "values": [zone]}
        body["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": body}


def a_storage_class(name: str, provisioner: str = "csi.example.com", *, waits: bool = True, **fields: Any) -> Manifest:
    """Return a StorageClass that binds when the first consumer is placed, or at once."""
    return {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
    } | fields  # fmt: skip


def using(*claims: str) -> Manifest:
    """Return the part of a pod spec that uses claims."""
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]}


def _submitted(manifest: Manifest, seconds: float) -> Manifest:
    if seconds:
        manifest["metadata"].setdefault("annotations", {})[f"{PREFIX}/submit-seconds"] = str(seconds)
    return manifest


def start(world: World, configuration: SchedulerConfiguration | None = None, **options: Any) -> Simulation:
    """Return a simulation with the real engine, not yet begun."""
    return simulation_of(world, configuration or default(), RunOptions(**options))


def run(*manifests: Manifest, load: dict[str, Any] | None = None, **options: Any) -> Outcome:
    """Run manifests to the end, with the invariants checked after every moment."""
    return run_checked(start(a_world(*manifests, **(load or {})), **options)).outcome()


def run_checked(simulation: Simulation) -> Simulation:
    """Run a simulation to its end, with the invariants checked after every moment."""
    while simulation.advance():
        assert list(violations(simulation)) == []
    history = simulation.cluster.history
    placed = {record.key for record in history.workloads.values() if record.bound}
    for eviction in history.evictions:
        preemptor = history.preemptors.get(eviction.pod.uid)
        assert preemptor in placed, f"{eviction.pod.key} was evicted for {preemptor}, which never ran"
    return simulation


def violations(simulation: Simulation) -> Any:
    """Yield what must never be: over-committed nodes, gangs bound below their minimum, a state that differs from the truth."""
    cluster = simulation.cluster
    for name, pods in cluster.pods_on.items():
        for resource in ("cpu", "memory", "nvidia.com/gpu"):
            used = sum(sim.pod.requests.get(resource, 0) for sim in pods.values())
            if name in cluster.nodes and used > cluster.nodes[name].allocatable.get(resource, 0):
                yield f"{name} is over-committed: {used} {resource}"
    for record in cluster.history.workloads.values():
        bound_now = [life for life in record.pods.values() if life.bound == cluster.clock()]
        up = [life for life in record.pods.values() if life.is_placed or life.outcome == "Succeeded"]
        if record.gang is not None and bound_now and len(up) < record.gang.min_member:
            yield f"gang {record.key} is bound below its minimum: {len(up)} of {record.gang.min_member}"
    for sim in cluster.pods.values():
        if sim.api.status.reason.startswith("OutOf"):
            yield f"the kubelet refused {sim.pod.key}: {sim.api.status.reason}"
    yield from _volumes_out_of_place(simulation)
    yield from getattr(simulation.engine, "state").validate()  # noqa: B009 - not part of the protocol


def _volumes_out_of_place(simulation: Simulation) -> Any:
    """Yield placed pods whose claims are not bound, or to a volume that their node cannot use."""
    cluster = simulation.cluster
    objects = cluster.storage.objects
    for sim in cluster.pods.values():
        node = cluster.nodes.get(sim.pod.node_name)
        for use in claim_uses(sim.pod) if node is not None and cluster.is_ours(sim) else ():
            claim = objects.get(Claim, sim.pod.namespace, use.name)
            volume = objects.get(PersistentVolume, "", claim.volume_name) if claim is not None else None
            if claim is None or not claim.is_bound or volume is None or not volume.is_for(claim):
                yield f"{sim.pod.key} is placed, and its claim {use.name} is not bound"
            elif volume.reach is not None and node is not None and not volume.reach.covers(node.labels):
                yield f"{sim.pod.key} is placed on {node.name}, which cannot use its volume {volume.name}"


def workload(outcome: Outcome, name: str) -> WorkloadOutcome:
    """Return a workload by name."""
    return next(found for found in outcome.workloads if found.name == name)
