"""History: what happened to which workload in a simulation, as it happens.

Written by the embedded cluster, read by the live view and, at the end, made into an Outcome (`ending`).  A workload is what
a user knows: a gang, else a Job or another controller, else a pod.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.model import gang_key_of
from scheduler.model.needs import minimum_of

from .happenings import Happenings
from .outcome import Sample
from .world import Owner

if TYPE_CHECKING:
    from scheduler.framework.effects import EvictPod
    from scheduler.model import Gang, GangKey, Node, Pod

    from .clock import VirtualClock
    from .cluster import SimPod
    from .happenings import Happening
    from .workloads import Controller

POD_GROUP = "PodGroup"


def gpus_of(amounts: dict[str, int]) -> int:
    """Return how many GPUs, of any make, are among amounts of resources."""
    return sum(count for name, count in amounts.items() if name.endswith("/gpu"))


@dataclass(slots=True)
class PodRecord:
    """One life of a pod."""

    pod: Pod
    created: float
    bound: float | None = None
    started: float | None = None
    ended: float | None = None
    #: Succeeded, Failed, Evicted or Deleted, once it has ended.
    outcome: str = ""
    #: The scheduler has asked for its deletion.
    is_evicted: bool = False

    @property
    def is_waiting(self) -> bool:
        """It is not bound and has not gone."""
        return self.bound is None and self.ended is None

    @property
    def is_placed(self) -> bool:
        """It is bound and has not ended."""
        return self.bound is not None and self.ended is None

    @property
    def is_up(self) -> bool:
        """It is placed and may stay."""
        return self.is_placed and not self.is_evicted


@dataclass(slots=True)
class WorkloadRecord:
    """What happened to a workload."""

    owner: Owner
    submitted: float
    needed: int = 1
    started: float | None = None
    #: How many of its pods have ever been bound.
    bound: int = 0
    #: Its pods, by uid, in the order of their creation.
    pods: dict[str, PodRecord] = field(default_factory=dict)
    controllers: list[Controller] = field(default_factory=list)
    #: How many of its pods were evicted and have not been bound again.
    missing: int = 0
    #: No pod of it was left after an eviction, and it has not come back as a whole.
    was_down: bool = False
    #: Its start has been told; and of how many pods that ran at once something was told at most.
    is_told: bool = False
    most_up: int = 0
    #: Why a controller failed.
    failure: str = ""
    gang: Gang | None = None
    #: The starts that it was told, in order; None where it was told that none can be told any more.
    promises: list[float | None] = field(default_factory=list)

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.owner.namespace}/{self.owner.name}"

    @property
    def placed(self) -> list[PodRecord]:
        """Its pods that are bound and have not ended."""
        return [record for record in self.pods.values() if record.is_placed]

    @property
    def up(self) -> list[PodRecord]:
        """Its pods that are placed and may stay."""
        return [record for record in self.pods.values() if record.is_up]

    @property
    def covered(self) -> int:
        """How many of the pods that it needs are placed or have succeeded."""
        return sum(1 for record in self.pods.values() if record.is_up or record.outcome == "Succeeded")

    @property
    def waiting(self) -> list[PodRecord]:
        """Its pods that wait."""
        return [record for record in self.pods.values() if record.is_waiting]

    @property
    def is_running(self) -> bool:
        """It has placed pods; of a gang that has not started yet, which still waits for others, that is not enough."""
        return bool(self.placed) and (self.gang is None or self.started is not None or not self.waiting)


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that had to go."""

    moment: float
    pod: Pod
    workload: WorkloadRecord | None
    reason: str
    message: str
    #: How many pods of the workload could stay until then, with this one.
    of_pods: int = 1


class History:
    """Everything that happened."""

    def __init__(self, clock: VirtualClock) -> None:
        """Start with nothing."""
        self._clock = clock
        self.workloads: dict[Owner, WorkloadRecord] = {}
        self.nodes: dict[str, Node] = {}
        #: The lives of pods that are not ours, by uid.
        self.others: dict[str, PodRecord] = {}
        self.evictions: list[Eviction] = []
        self.samples: list[Sample] = []
        self._happenings = Happenings(clock)
        #: Uid of a victim to the workload that it makes room for; the loop fills it from decisions.
        self.preemptors: dict[str, str] = {}
        self._used = {"gpus": 0, "millicores": 0}
        self._total = {"gpus": 0, "millicores": 0}
        self._waiting: set[str] = set()
        self._record_of_pod: dict[str, WorkloadRecord] = {}
        self._gangs: dict[Owner, Gang] = {}

    @property
    def happenings(self) -> list[Happening]:
        """What is told of workloads, in order; a moment is complete once its sample has been taken."""
        return self._happenings.told

    # What the cluster tells.

    def node_added(self, node: Node) -> None:
        """Count a node's capacity."""
        self.nodes[node.name] = node
        self._total["gpus"] += gpus_of(node.allocatable)
        self._total["millicores"] += node.allocatable.get("cpu", 0)

    def gang_added(self, gang: Gang) -> None:
        """Keep a group; its workload begins with the group or its first pod, whichever is later.

        One that is no PodGroup but an owner of pods is a workload only once it has pods: a dump holds many that have ended.
        """
        owner = Owner(POD_GROUP, gang.key.namespace, gang.key.name)
        self._gangs[owner] = gang
        if gang.kind == POD_GROUP or owner in self.workloads:
            record = self._workload(owner)
            record.gang, record.needed = gang, minimum_of(gang)

    def controller_added(self, controller: Controller, group: GangKey | None) -> None:
        """Keep a controller, and the group that its pods name."""
        record = self._workload(_owner(group, controller.root))
        if record.gang is None:
            record.needed = controller.wanted + sum(other.wanted for other in record.controllers)
        record.controllers.append(controller)

    def controller_ended(self, controller: Controller, phase: str, reason: str) -> None:
        """Keep why a controller failed."""
        record = next(found for found in self.workloads.values() if controller in found.controllers)
        if phase == "Failed":
            record.failure = record.failure or reason
            self._happenings.tell("failed", record, reason)
        elif all(other.ended for other in record.controllers):
            self._happenings.tell("finished", record)

    def pod_created(self, sim: SimPod) -> None:
        """Begin a life."""
        record = self._workload_of(sim)
        if not record.pods:
            record.submitted = sim.pod.created if sim.pod.node_name else self._clock()
            if not sim.pod.node_name:
                self._happenings.tell("submitted", record)
        record.pods[sim.pod.uid] = PodRecord(sim.pod, self._clock())
        self._record_of_pod[sim.pod.uid] = record
        if not sim.pod.node_name:
            self._waiting.add(sim.pod.uid)

    def pod_bound(self, sim: SimPod, moment: float | None = None) -> None:
        """Keep where a pod goes, and since when it has been there."""
        record = self._workload_of(sim)
        life = record.pods[sim.pod.uid]
        life.pod, life.bound = sim.pod, self._clock() if moment is None else moment
        self._waiting.discard(sim.pod.uid)
        record.bound += 1
        if record.started is None and record.covered >= record.needed:
            record.started = life.bound
        self._happenings.pod_bound(record, life, is_adopted=moment is not None)

    def pod_started(self, sim: SimPod) -> None:
        """Keep when the containers began to run."""
        self._workload_of(sim).pods[sim.pod.uid].started = self._clock()

    def promised(self, record: WorkloadRecord | None, start: float | None) -> None:
        """Keep when a workload was told that it will start; what it was told before is not told again."""
        if record is None or record.started is not None or start == (record.promises[-1] if record.promises else None):
            return
        record.promises.append(start)
        self._happenings.tell("promised", record, "" if start is None else f"{start - self._clock():g}")

    def record_of(self, uid: str) -> WorkloadRecord | None:
        """Return the workload of one of our pods."""
        return self._record_of_pod.get(uid)

    def record_of_group(self, namespace: str, name: str) -> WorkloadRecord | None:
        """Return the workload of a group."""
        return self.workloads.get(Owner(POD_GROUP, namespace, name))

    def pod_ended(self, sim: SimPod, outcome: str) -> None:
        """End a life."""
        record = self._workload_of(sim)
        life = record.pods[sim.pod.uid]
        life.ended, life.outcome = self._clock(), outcome
        self._waiting.discard(sim.pod.uid)
        is_last = not record.controllers and all(other.ended is not None for other in record.pods.values())
        if outcome == "Failed" and not (is_last and len(record.pods) == 1):
            self._happenings.pod_failed(record, life, sim.api.status.message or sim.api.status.reason)
        if is_last and outcome != "Evicted":
            what = "finished" if outcome == "Succeeded" else "failed"
            self._happenings.tell(what, record, sim.api.status.message)

    def pod_evicted(self, sim: SimPod, effect: EvictPod) -> None:
        """Keep who had to go."""
        record = self._record_of_pod.get(sim.pod.uid)
        of_pods = len(record.up) if record is not None else 1
        self.evictions.append(Eviction(self._clock(), sim.pod, record, effect.reason, effect.message, of_pods))
        if record is not None:
            self._happenings.pod_evicted(record, self.preemptors.get(sim.pod.uid, ""))
            record.pods[sim.pod.uid].is_evicted = True
            record.missing += 1

    def preempted(self, uid: str, workload: str, *, is_gang: bool) -> None:
        """Keep for whom a pod will have to go; `workload` is the engine's key, which ends in a gang's name or a pod's uid."""
        name = workload.rpartition(":")[2]
        record = None if is_gang else self._record_of_pod.get(name)
        self.preemptors[uid] = record.key if record else name

    def was_evicted(self, controller: Controller) -> bool:
        """Tell whether a pod of a controller was evicted."""
        return any(e.workload is not None and controller in e.workload.controllers for e in self.evictions)

    def usage_changed(self, pod: Pod, sign: int) -> None:
        """Count what a bound pod holds, or gives back."""
        if pod.uid not in self._record_of_pod:
            if sign > 0:
                self.others[pod.uid] = PodRecord(pod, self._clock(), bound=self._clock())
            else:
                self.others[pod.uid].ended = self._clock()
        self._used["gpus"] += sign * gpus_of(pod.requests)
        self._used["millicores"] += sign * pod.requests.get("cpu", 0)

    def take_sample(self) -> None:
        """Keep what is in use now, if that has changed, and tell what the moment brought."""
        self._happenings.settle()
        used, total = self._used, self._total
        values = (used["gpus"], total["gpus"], used["millicores"], total["millicores"], len(self._waiting))
        sample = Sample(self._clock.elapsed, *values)
        if self.samples and self.samples[-1].seconds == sample.seconds:
            self.samples.pop()
        if not self.samples or _values(self.samples[-1]) != values:
            self.samples.append(sample)

    def _workload_of(self, sim: SimPod) -> WorkloadRecord:
        return self._workload(workload_of(sim))

    def _workload(self, owner: Owner) -> WorkloadRecord:
        record = self.workloads.get(owner)
        if record is None:
            record = self.workloads[owner] = WorkloadRecord(owner, self._clock())
            if (gang := self._gangs.get(owner)) is not None:
                record.gang, record.needed = gang, minimum_of(gang)
        return record


def workload_of(sim: SimPod) -> Owner:
    """Return the workload that a pod belongs to."""
    root = sim.root or Owner("Pod", sim.pod.namespace, sim.pod.name)
    return _owner(gang_key_of(sim.pod), root)


def _owner(group: GangKey | None, root: Owner) -> Owner:
    """Return the workload that pods of a group belong to, or else those of a topmost owner."""
    return Owner(POD_GROUP, group.namespace, group.name) if group else root


def _values(sample: Sample) -> tuple[int, ...]:
    return sample.gpus, sample.gpus_total, sample.millicores, sample.millicores_total, sample.waiting_pods
