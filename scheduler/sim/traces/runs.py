"""TraceRun: a job of a trace in the embedded cluster: it makes its pods, and advances only while all of them run.

For the replay.  To the cluster it is a controller, as the Job controller is one.

| happens | the job |
|---|---|
| the last of its pods starts | advances from then on |
| a pod is asked to go, or lost | stands still, and keeps how far it came; the pod is made again |
| it has run as long as the trace says | ends, all its pods at the same moment |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model import Gang, GangKey
from scheduler.model.api import ApiPod, Container, ObjectMeta, PodSpec, Resources
from scheduler.model.dialects.own import GROUP_LABEL
from scheduler.model.dialects.own import NAME as DIALECT
from scheduler.model.gang import PREFIX
from scheduler.sim.defaults import rfc3339, uid_of
from scheduler.sim.workloads import Controller
from scheduler.sim.world import Owner

from .metrics import JobLife, PodLife

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.sim.clock import Entry
    from scheduler.sim.cluster import Cluster, SimPod

    from .trace import TraceJob

NAMESPACE = "default"
API_VERSION = f"{PREFIX}/v1alpha1"
GPU = "nvidia.com/gpu"
#: A random order of the queue is one of priorities, none of which may drive another pod out.
HIGHEST_PRIORITY = 10**9


def gang_of(job: TraceJob, size: int, created: float) -> Gang:
    """Return the PodGroup of a job, all of whose pods must run at once."""
    return Gang(
        key=GangKey(DIALECT, NAMESPACE, job.name),
        uid=uid_of("PodGroup", NAMESPACE, job.name),
        api_version=API_VERSION,
        created=created,
        min_member=size,
    )


class TraceRun(Controller):
    """A job that is replayed."""

    def __init__(
        self,
        job: TraceJob,
        sizes: Sequence[int],
        cluster: Cluster,
        scheduler_name: str,
        priorities: Sequence[int] | None = None,
    ) -> None:
        """Keep the GPUs of its pods; with priorities, the pods are no gang."""
        owner = Owner("Job", NAMESPACE, job.name)
        super().__init__(owner, owner, cluster)
        self.job = job
        self.sizes = tuple(sizes)
        #: Seconds after the start; None: it has not finished.
        self.finished: float | None = None
        self._scheduler_name = scheduler_name
        self._priorities = priorities
        self._remaining = job.run_seconds
        #: Uid to the number of the pod, for all that were made, and those that run.
        self._numbers: dict[str, int] = {}
        self._running: set[str] = set()
        self._since = 0.0
        self._end: Entry | None = None

    @property
    def wanted(self) -> int:
        """How many pods it has."""
        return len(self.sizes)

    def begin(self) -> None:
        """Make all pods."""
        for number in range(self.wanted):
            self._make(number)

    def pod_started(self, sim: SimPod) -> None:
        """Advance, if it was the last one."""
        self._running.add(sim.pod.uid)
        if len(self._running) == self.wanted:
            self._since = self.cluster.clock()
            self._end = self.cluster.agenda.at(self._since + self._remaining, self._finish)

    def pod_ended(self, sim: SimPod) -> None:
        """Make a pod again that its node refused."""
        self._lose(sim)

    def pod_terminating(self, sim: SimPod) -> None:
        """Stand still."""
        self._pause(sim)

    def pod_removed(self, sim: SimPod) -> None:
        """Make a pod again that was evicted."""
        self._lose(sim)

    def life(self) -> JobLife:
        """Return what became of it so far."""
        cluster, start = self.cluster, self.cluster.world.start
        records = [
            record
            for owner in (self.owner, self.owner._replace(kind="PodGroup"))
            if (found := cluster.history.workloads.get(owner)) is not None
            for record in found.pods.values()
        ]
        lives = tuple(
            PodLife(
                gpus=record.pod.requests[GPU],
                bound=record.bound - start,
                started=None if record.started is None else record.started - start,
                ended=None if record.ended is None else record.ended - start,
            )
            for record in records
            if record.bound is not None
        )
        return JobLife(self.job.name, self.job.gpus, self.wanted, self.job.submit_seconds, self.finished, lives)

    def _make(self, number: int) -> None:
        name = f"{self.job.name}-{number}"
        count = {GPU: self.sizes[number]}
        meta = ObjectMeta(
            name=name,
            namespace=NAMESPACE,
            uid=self.cluster.next_uid(NAMESPACE, name),
            creation_timestamp=rfc3339(self.cluster.clock()),
            labels={GROUP_LABEL: self.job.name} if self._priorities is None else {},
        )
        spec = PodSpec(
            scheduler_name=self._scheduler_name,
            priority=0 if self._priorities is None else self._priorities[number],
            preemption_policy="Never",
            containers=[Container(name="main", resources=Resources(requests=dict(count), limits=dict(count)))],
        )
        self._numbers[meta.uid] = number
        self.cluster.create_pod(ApiPod(metadata=meta, spec=spec), None, self, self.root)

    def _pause(self, sim: SimPod) -> None:
        self._running.discard(sim.pod.uid)
        if self._end is not None:
            self._end.cancel()
            self._end = None
            self._remaining -= self.cluster.clock() - self._since

    def _lose(self, sim: SimPod) -> None:
        if self.finished is not None:
            return
        self._pause(sim)
        number = self._numbers.pop(sim.pod.uid, None)
        if number is not None:
            self._make(number)

    def _finish(self) -> None:
        self.finished = self.cluster.clock.elapsed
        for uid in sorted(self._running, key=self._numbers.__getitem__):
            self.cluster.set_status(self.cluster.pods[uid], phase="Succeeded")
