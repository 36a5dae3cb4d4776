"""Makes the Outcome of a simulation: its history, and what the engine says of the workloads that still wait."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scheduler.model.node_topology import NodeTopology
from scheduler.state.slice_machines import SliceMachines
from scheduler.topology import GPUS_ANNOTATION, PRODUCT_LABEL, TopologyError, parse_gpus, read_machine, table_of

from .history import POD_GROUP, History, PodRecord, WorkloadRecord, gpus_of
from .outcome import EvictionOutcome, NodeOutcome, Outcome, PodOutcome, WorkloadOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.engine.pending import PendingWorkload
    from scheduler.model import Node
    from scheduler.state.objects import Objects
    from scheduler.topology import Machine

#: Labels that say where a node stands, the closest first; the first one that a node has groups it on pages.
_PLACE_LABELS = (
    "fabric.topograph.run/tier-0",
    "network.topology.nvidia.com/leaf",
    "network.topology.nvidia.com/block",
    "oci.oraclecloud.com/host.rack_id",
    "topology.kubernetes.io/rack",
    "topology.kubernetes.io/zone",
)
_WHOLE = 100


def outcome_of(
    history: History,
    pending: Sequence[PendingWorkload],
    *,
    start: float,
    end: float,
    is_cut: bool,
    notes: Iterable[str],
    objects: Objects,
) -> Outcome:
    """Return what a simulation came to; `end` is the last moment at which something happened, `objects` tell of machines."""
    return _Ending(history, pending, start, objects).outcome(end, is_cut=is_cut, notes=tuple(notes))


class _Ending:
    """The pieces of an outcome."""

    def __init__(self, history: History, pending: Sequence[PendingWorkload], start: float, objects: Objects) -> None:
        self._history = history
        self._start = start
        self._pending = {(entry.kind, entry.namespace, part): entry for entry in pending for part in entry.parts}
        self._pending |= {(entry.kind, entry.namespace, entry.name): entry for entry in pending}
        slices = SliceMachines(objects)
        self._machines: dict[str, Machine | None] = {
            name: _machine(node, objects.get(NodeTopology, "", name), slices.machine_of(name))
            for name, node in history.nodes.items()
        }
        self._evictions = Counter(id(eviction.workload) for eviction in history.evictions)

    def outcome(self, end: float, *, is_cut: bool, notes: tuple[str, ...]) -> Outcome:
        records = sorted(self._history.workloads.values(), key=lambda record: (record.submitted, record.owner))
        return Outcome(
            start=self._start,
            end_seconds=end - self._start,
            is_cut=is_cut,
            nodes=tuple(self._node(self._history.nodes[name]) for name in sorted(self._history.nodes)),
            workloads=tuple(self._workload(record) for record in records),
            others=tuple(self._pod(life) for life in self._history.others.values()),
            evictions=tuple(self._eviction_outcomes()),
            samples=tuple(self._history.samples),
            notes=notes,
        )

    def _workload(self, record: WorkloadRecord) -> WorkloadOutcome:
        lives = [self._pod(life) for life in record.pods.values() if life.bound is not None]
        phase, code, reason = self._verdict(record)
        last = _last_lives(record)
        known = [pod for pod in map(self._pod, last) if pod.bandwidth_gbps is not None and pod.best_gbps]
        lowest = min(known, key=_percent, default=None)
        ended = [life.ended for life in record.pods.values() if life.ended is not None]
        asked = [gpus_of(life.pod.requests) for life in record.waiting]
        pods = [life.pod for life in record.pods.values()]
        return WorkloadOutcome(
            kind=record.owner.kind,
            namespace=record.owner.namespace,
            name=record.owner.name,
            phase=phase,
            priority=min((pod.priority for pod in pods), default=0),
            submitted=record.submitted - self._start,
            started=None if record.started is None else record.started - self._start,
            finished=max(ended) - self._start if phase in ("Succeeded", "Failed", "Evicted") and ended else None,
            wait_seconds=None if record.started is None else record.started - record.submitted,
            needed=record.needed,
            waiting=len(record.waiting),
            nodes=tuple(sorted({life.pod.node_name for life in last})),
            gpus=_most_gpus(record) or sum(asked),
            bandwidth_gbps=lowest.bandwidth_gbps if lowest else None,
            bandwidth_percent=_percent(lowest) if lowest else None,
            evicted=self._evictions[id(record)],
            code=code,
            reason=reason,
            pods=tuple(lives),
            waiting_gpus=sum(asked),
            waiting_since=min((life.created - self._start for life in record.waiting), default=None),
            promised_start=self._since_start(next(iter(record.promises), None)),
            last_promised_start=self._since_start(record.promises[-1] if record.promises else None),
        )

    def _since_start(self, moment: float | None) -> float | None:
        return None if moment is None else moment - self._start

    def _verdict(self, record: WorkloadRecord) -> tuple[str, str, str]:
        """Return phase, code and sentence of a workload at the end."""
        if record.failure:
            return "Failed", record.failure.partition(":")[0], record.failure
        if record.waiting:
            return ("Running" if record.is_running else "Pending"), *self._why(record)
        if record.placed:
            return "Running", *_lack(record)
        if record.controllers and all(controller.ended for controller in record.controllers):
            return "Succeeded", "", ""
        return self._verdict_without_pods(record)

    def _verdict_without_pods(self, record: WorkloadRecord) -> tuple[str, str, str]:
        """Return the verdict of a workload none of whose pods waits or runs, and that no controller has ended."""
        outcomes = {life.outcome for life in record.pods.values()}
        if any(controller.is_suspended for controller in record.controllers):
            return "Suspended", "Suspended", "the Job is suspended (spec.suspend), so it has no pods"
        if not outcomes:
            return self._empty(record)
        if "Evicted" in outcomes:
            return "Evicted", "Evicted", "it was evicted, and has no controller that makes it again"
        if "Failed" in outcomes:
            return "Failed", "PodFailed", "a pod failed"
        return "Succeeded", "", ""

    def _empty(self, record: WorkloadRecord) -> tuple[str, str, str]:
        """Return the verdict of a workload that never had a pod."""
        if record.owner.kind == POD_GROUP and record.needed:
            code, reason = self._why(record)
            return "Pending", code or "NoPods", reason or f"it has no pods; it waits for {record.needed}"
        return "Running", "", ""

    def _why(self, record: WorkloadRecord) -> tuple[str, str]:
        """Return code and sentence of the engine for a workload that waits; of several pods, the most frequent one."""
        owner = record.owner
        if (entry := self._pending.get(("gang", owner.namespace, owner.name))) is not None and owner.kind == POD_GROUP:
            return entry.reason, entry.message
        said = Counter(
            (entry.reason, entry.message)
            for life in record.waiting
            if (entry := self._pending.get(("pod", life.pod.namespace, life.pod.name))) is not None
        )
        return min(said, key=lambda reason: (-said[reason], reason), default=("", ""))

    def _pod(self, life: PodRecord) -> PodOutcome:
        assert life.bound is not None
        machine = self._machines.get(life.pod.node_name)
        count = gpus_of(life.pod.requests)
        mask = _mask(life.pod.annotations.get(GPUS_ANNOTATION), machine)
        gpu_set = bandwidth = best = None
        if mask is not None:
            gpu_set = tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)
            if machine is not None and machine.is_known:
                wanted = count or len(gpu_set)  # GPUs of claims are not among the resources
                ideal = table_of(machine).best(machine.all_gpus, wanted)
                bandwidth = _bandwidth(machine, gpu_set)
                best = ideal.bandwidth_gbps if ideal is not None else None
        return PodOutcome(
            name=life.pod.name,
            node=life.pod.node_name,
            bound=life.bound - self._start,
            ended=None if life.ended is None else life.ended - self._start,
            outcome=life.outcome or "Running",
            gpus=count,
            gpu_set=gpu_set,
            bandwidth_gbps=bandwidth,
            best_gbps=best,
        )

    def _node(self, node: Node) -> NodeOutcome:
        labels, machine = node.labels, self._machines[node.name]
        links: tuple[tuple[int, int, int], ...] = ()
        if machine is not None:
            gbps = machine.nvlink_gbps
            pairs = zip(*machine.direct_links.nonzero(), strict=True)
            links = tuple((int(one), int(other), int(gbps[one, other])) for one, other in pairs if one < other)
        group = next((labels[label] for label in _PLACE_LABELS if labels.get(label)), "")
        return NodeOutcome(node.name, gpus_of(node.allocatable), labels.get(PRODUCT_LABEL, ""), group, links)

    def _eviction_outcomes(self) -> Iterable[EvictionOutcome]:
        for eviction in self._history.evictions:
            pod = eviction.pod
            yield EvictionOutcome(
                seconds=eviction.moment - self._start,
                namespace=pod.namespace,
                pod=pod.name,
                workload=eviction.workload.key if eviction.workload else pod.key,
                node=pod.node_name,
                gpus=gpus_of(pod.requests),
                preempted_for=self._history.preemptors.get(pod.uid, ""),
                reason=eviction.message or eviction.reason,
                of_pods=eviction.of_pods,
            )


def _machine(node: Node, topology: NodeTopology | None, told: Machine | None) -> Machine | None:
    offered = gpus_of(node.allocatable)
    return read_machine(node.labels, node.annotations, topology, gpu_count=offered, of_slices=told).machine


def _mask(annotation: str | None, machine: Machine | None) -> int | None:
    """Return the GPUs that an annotation names, or None if it names none."""
    if not annotation:
        return None
    try:
        mask = parse_gpus(annotation, machine.gpu_count)[0] if machine else parse_gpus(annotation)[0]
    except TopologyError:
        return None
    return mask or None


def _bandwidth(machine: Machine, gpus: Sequence[int]) -> int:
    """Return the NVLink bandwidth of a set: the sum over its pairs."""
    return sum(int(machine.nvlink_gbps[one, other]) for one in gpus for other in gpus if one < other)


def _percent(pod: PodOutcome) -> int:
    """Return what the bandwidth of a set is of the best; a set without links to have is as good as can be."""
    if not pod.best_gbps:
        return _WHOLE
    return _WHOLE * (pod.bandwidth_gbps or 0) // pod.best_gbps


def _last_lives(record: WorkloadRecord) -> list[PodRecord]:
    """Return the pods that are placed now, else those that had the last word."""
    bound = [life for life in record.pods.values() if life.bound is not None]
    now = [life for life in bound if life.ended is None]
    done = [life for life in bound if life.outcome == "Succeeded"]
    return now or done or bound


def _lack(record: WorkloadRecord) -> tuple[str, str]:
    """Return code and sentence of a gang that runs with fewer pods than it needs, as one in a dump may."""
    placed = len(record.placed)
    if record.gang is None or record.started is not None or placed >= record.needed:
        return "", ""
    there = "1 pod runs" if placed == 1 else f"{placed} pods run"
    return "BelowMinimum", f"{there} of the {record.needed} that it needs, and it has no others"


def _most_gpus(record: WorkloadRecord) -> int:
    """Return the most GPUs that a workload held at once."""
    changes: list[tuple[float, int]] = []
    for life in record.pods.values():
        if life.bound is not None:
            count = gpus_of(life.pod.requests)
            changes.append((life.bound, count))
            if life.ended is not None:
                changes.append((life.ended, -count))
    held = most = 0
    for _, change in sorted(changes):
        held += change
        most = max(most, held)
    return most
