"""Simulated kubelets: a bound pod starts after a delay, runs as long as it should, ends, or is stopped.

For the embedded cluster.  As a real kubelet does, they refuse a pod that their node has no room for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .annotations import CHECKPOINT_GRACE_SECONDS, EXIT_CODE, count_of, seconds_of
from .defaults import rfc3339

if TYPE_CHECKING:
    from scheduler.model import Node

    from .cluster import Cluster, SimPod


@dataclass(frozen=True, slots=True)
class KubeletTimes:
    """How long kubelets take, in seconds."""

    #: From the binding until the containers run.
    start_seconds: float = 2.0
    #: From the deletion until the pod is gone; at most its grace period.
    stop_seconds: float = 2.0


class Kubelets:
    """All kubelets of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        """Act on a cluster."""
        self._cluster = cluster

    def start(self, sim: SimPod) -> None:
        """Begin to start a pod that was just bound, or refuse it."""
        node = self._cluster.nodes[sim.pod.node_name]
        if (short := self._short_of(node)) is not None:
            text = f"Node didn't have enough resource: {short}"
            self._cluster.set_status(sim, phase="Failed", reason=f"OutOf{short}", message=text)
            return
        moment = self._cluster.clock() + self._cluster.times.start_seconds
        sim.next = self._cluster.agenda.at(moment, lambda: self._run(sim))

    def take_over(self, sim: SimPod) -> None:
        """Go on with a pod that was bound before the simulation began; it runs."""
        now = self._cluster.clock()
        started = sim.pod.started if sim.pod.started is not None else now
        changes = {"phase": "Running", "start_time": sim.api.status.start_time or rfc3339(now)}
        self._cluster.set_status(sim, **changes)
        if self._cluster.is_ours(sim):
            self._cluster.history.pod_bound(sim, started)
        if sim.pod.is_terminating:
            self.stop(sim, sim.pod.grace_period_seconds)
        elif sim.run_seconds is not None:
            moment = max(now, started + sim.run_seconds)
            sim.next = self._cluster.agenda.at(moment, lambda: self._end(sim))

    def stop(self, sim: SimPod, grace_period_seconds: int | None) -> None:
        """Stop a pod that is to be deleted: at once if it has no checkpoint to write, within its grace period."""
        if sim.next is not None:
            sim.next.cancel()
        grace = sim.pod.grace_period_seconds if grace_period_seconds is None else grace_period_seconds
        wanted = seconds_of(sim.pod.annotations, CHECKPOINT_GRACE_SECONDS)
        takes = min(grace, self._cluster.times.stop_seconds if wanted is None else wanted)
        sim.next = self._cluster.agenda.at(self._cluster.clock() + takes, lambda: self._cluster.remove_pod(sim))

    def _run(self, sim: SimPod) -> None:
        self._cluster.set_status(sim, phase="Running", start_time=rfc3339(self._cluster.clock()))
        if self._cluster.is_ours(sim):
            self._cluster.history.pod_started(sim)
        sim.next = None
        if sim.run_seconds is not None:
            moment = self._cluster.clock() + sim.run_seconds
            sim.next = self._cluster.agenda.at(moment, lambda: self._end(sim))
        if sim.controller is not None:
            sim.controller.pod_started(sim)

    def _end(self, sim: SimPod) -> None:
        sim.next = None
        if sim.controller is not None:
            exit_code = sim.controller.exit_code(sim)
        else:
            exit_code = count_of(sim.pod.annotations, EXIT_CODE) or 0
        if exit_code:
            self._cluster.set_status(sim, phase="Failed", reason="Error", message=f"exit code {exit_code}")
        else:
            self._cluster.set_status(sim, phase="Succeeded")

    def _short_of(self, node: Node) -> str | None:
        """Return a resource that the pods of a node need more of than there is, or None."""
        pods = self._cluster.pods_on[node.name].values()
        needed = {"pods": len(pods)}
        for sim in pods:
            told = sim.api.status.extended_resource_claim_status
            by_devices = {each["resourceName"] for each in told.request_mappings or ()} if told is not None else set()
            for name, count in sim.pod.requests.items():
                if name not in by_devices:
                    needed[name] = needed.get(name, 0) + count
        return next(
            (name for name in sorted(needed) if needed[name] > node.allocatable.get(name, 0) and needed[name]), None
        )
