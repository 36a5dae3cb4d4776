"""Queueing: which queue a pod waits in, and whether that has quota left for it.

For `ai-scheduler explain`.  Whether it is tried at all is not for its profile's plugins to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.workload import Workload
from scheduler.model.queue import Queue
from scheduler.queues.queues import Queues

if TYPE_CHECKING:
    from collections.abc import Collection

    from scheduler.model import Pod
    from scheduler.state.cluster import ClusterState


def queue_note(cluster: ClusterState, pod: Pod, scheduler_names: Collection[str]) -> str:
    """Return what a pod's queue says of it, looked at alone; empty without queues.

    `cluster` knows the pod as a pending one; the pods of these schedulers count as used.
    """
    queues = Queues(cluster, scheduler_names, lambda: 0.0)
    queues.changed(Queue)
    queues.settle()
    if not queues.is_on:
        return ""
    workload = Workload(f"pod:{pod.key}:{pod.uid}", {pod.uid: pod}, priority=pod.priority)
    gate = queues.gate(workload)
    if gate is not None:
        return f"the pod is not tried: {gate.message}"
    name, _ = queues.place_of(workload)
    refusal = queues.admit(workload, [pod]).status
    if refusal is not None:
        return f"the pod is not placed while its queue has no quota for it: {refusal.message}"
    return f"the pod waits in the queue {name}, which has quota left for it"
