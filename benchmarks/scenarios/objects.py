"""Makes the objects of a scenario, as the edges would hand them to the engine: nodes, topologies, PodGroups and pods.

For the player.  Jobs are KAI's PodGroups, read by our adapter of that dialect, so what the adapter honours of KAI is what counts.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import msgspec

from scheduler.model import Gang, Node, Pod, pod_from_api
from scheduler.model.dialects import kai
from scheduler.model.queue import Queue, Quota
from scheduler.model.topology import Level, Topology
from scheduler.state.cluster import RESTARTABLE
from tests.builders import EPOCH, GPU, a_node, a_pod

from .form import ENDED, NODELESS, UNLIMITED, Job, Scenario, Task

if TYPE_CHECKING:
    from tests.builders import PodBuilder

MINUTE, HOUR = 60.0, 3600.0
QUEUE_LABEL = "kai.scheduler/queue"


def nodes_of(scenario: Scenario) -> list[Node]:
    """Return the nodes, with room for as many pods as KAI's tests give each."""
    found = []
    for name, entry in scenario.nodes.items():
        node = a_node(name).gpus(entry.gpus).cpu(f"{entry.cpu_milli}m").memory(entry.memory_bytes).pods(110)
        for key, value in entry.labels.items():
            node.label(key, value)
        found.append(node.build())
    return found


def topologies_of(scenario: Scenario) -> list[Topology]:
    """Return the topologies; levels are named by their labels, as KAI's constraints name them."""
    return [
        Topology(name=name, dialect="kai", uid=f"uid-{name}", levels=tuple(Level(label, label) for label in labels))
        for name, labels in scenario.topologies.items()
    ]


def queues_of(scenario: Scenario) -> list[Queue]:
    """Return the queues and departments as KAI's, which name GPUs alone; one without a weight has its quota as weight.

    Queues without a department of their own are below one common parent, as in KAI's tests.
    """
    found = []
    for department in scenario.departments:
        deserved = department.deserved_gpus
        found.append(_queue(department.name, "", 100, deserved, department.max_gpus, max(deserved, 1)))
    known = {department.name for department in scenario.departments}
    for queue in scenario.queues:
        parent = queue.parent if queue.parent in known else ""
        found.append(_queue(queue.name, parent, queue.priority, queue.deserved_gpus, queue.max_gpus, queue.weight))
    return found


def _queue(name: str, parent: str, priority: int, deserved: float, most: float, weight: float) -> Queue:
    quota = Quota(
        None if deserved == UNLIMITED else int(deserved), None if most == UNLIMITED else int(most), Fraction(weight)
    )
    return Queue(
        name=name, dialect="kai", parent=parent, priority=priority, quotas={GPU: quota}, weight=Fraction(weight)
    )


def jobs_by_age(scenario: Scenario) -> list[tuple[Job, float]]:
    """Return the jobs with their time of creation, the oldest first.

    KAI's tests sort jobs by priority, keep the listed order within one, and make them one minute apart.
    """
    ordered = sorted(scenario.jobs, key=lambda job: -job.priority)
    return [(job, EPOCH + index * MINUTE) for index, job in enumerate(ordered)]


def gang_of(job: Job, created: float) -> Gang:
    """Return the gang of a job."""
    spec: dict[str, Any] = {
        "minMember": job.minimum,
        "queue": job.queue,
        "preemptibility": "preemptible" if job.is_preemptible else "non-preemptible",
    }
    if job.topology is not None:
        spec["topologyConstraint"] = {
            "topology": job.topology.topology,
            "requiredTopologyLevel": job.topology.required,
            "preferredTopologyLevel": job.topology.preferred,
        }
    manifest = {
        "apiVersion": f"{kai.GROUP}/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": job.name, "uid": f"uid-{job.name}", "labels": {QUEUE_LABEL: job.queue}},
        "spec": spec,
    }  # fmt: skip
    (gang,) = kai.read(msgspec.convert(manifest, kai.ApiKaiGroup))
    return msgspec.structs.replace(gang, created=created)


def pods_of(job: Job, created: float) -> list[Pod]:
    """Return the pods of a job as they are when the scenario begins."""
    return [_placed(_pending(job, index, created), task, created) for index, task in enumerate(job.tasks)]


def new_pod(job: Job, index: int, created: float, attempt: int) -> Pod:
    """Return the pending pod that comes when an earlier one of the same name is gone."""
    return _built(_pending(job, index, created, attempt))


def _pending(job: Job, index: int, created: float, attempt: int = 0) -> PodBuilder:
    name = job.task_name(index)
    pod = a_pod(name).uid(f"uid-{name}.{attempt}").created(created - EPOCH).priority(job.priority)
    pod.annotation(kai.GROUP_ANNOTATION, job.name).label(QUEUE_LABEL, job.queue)
    if job.is_preemptible:
        pod.annotation(RESTARTABLE, "true")
    pod.cpu(f"{job.cpu_per_task}m").memory(job.mem_per_task)
    return pod.gpus(job.gpus_per_task) if job.gpus_per_task else pod


def _placed(pod: PodBuilder, task: Task, created: float) -> Pod:
    """Return the pod in the state of a task."""
    if task.state == "Gated":
        pod.gate("kai.scheduler/scenario")
    if task.state not in NODELESS:
        pod.on(task.node, started=created - EPOCH)
    if task.state == "Releasing":
        pod.terminating(created - EPOCH)
    if task.state == "StuckInReleasing":
        pod.terminating(created - EPOCH - HOUR)
    if task.state in ("Binding", "Bound"):
        pod.phase("Pending")
    if task.state in ENDED:
        pod.phase(task.state)
    return _built(pod)


def _built(pod: PodBuilder) -> Pod:
    """Return the view of a pod that speaks KAI's dialect, whether or not that is among those that count by default."""
    return pod_from_api(pod.api(), (kai.KAI,))
