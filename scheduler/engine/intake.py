"""Intake: brings inputs into state, workloads and queue, and notes what they may cure.

For the engine's `handle`; each input costs about O(1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.status import ClusterEvent, Reason, Status
from scheduler.model import Namespace
from scheduler.model.device_claims import ClaimReleased, DeviceClaim
from scheduler.model.devices import DeviceClass, DeviceSlice, DeviceTaintRule
from scheduler.model.hypernode import HyperNode
from scheduler.model.node_resource_topology import NodeResourceTopology
from scheduler.model.node_topology import NodeTopology
from scheduler.model.promise import promised_in
from scheduler.model.queue import Queue, QueueUse
from scheduler.model.run_time import INVALID_RUN_TIME, problem_at
from scheduler.model.storage import (
    Claim,
    CSIDriver,
    CSINode,
    PersistentVolume,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from scheduler.model.topology import Topology

from . import inputs as i
from .checkpoints import CheckpointWarnings
from .group_changes import GroupChanges
from .machines import MachineWarnings
from .rejections import SHUN_SECONDS, is_rejection, rejected_at
from .reporter import pod_ref
from .workloads import is_same_for_scheduling, workload_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.model import Node, Pod
    from scheduler.state.objects import Key

    from .commit import Commit
    from .core import Core
    from .health import Health
    from .rollback import Rollback

#: What a change of an object that is only read may cure; owners of pods matter to scores alone.
_EVENTS: dict[type, ClusterEvent] = {
    Namespace: ClusterEvent.NAMESPACE_CHANGED,
    Claim: ClusterEvent.CLAIM_CHANGED,
    PersistentVolume: ClusterEvent.VOLUME_CHANGED,
    StorageClass: ClusterEvent.STORAGE_CLASS_CHANGED,
    CSINode: ClusterEvent.CSI_NODE_CHANGED,
    CSIDriver: ClusterEvent.CSI_DRIVER_CHANGED,
    StorageCapacity: ClusterEvent.STORAGE_CAPACITY_CHANGED,
    VolumeAttachment: ClusterEvent.ATTACHMENT_CHANGED,
    DeviceClaim: ClusterEvent.DEVICE_CLAIM_CHANGED,
    ClaimReleased: ClusterEvent.DEVICES_CHANGED,
    DeviceSlice: ClusterEvent.DEVICES_CHANGED,
    DeviceTaintRule: ClusterEvent.DEVICES_CHANGED,
    DeviceClass: ClusterEvent.DEVICE_CLASS_CHANGED,
    Topology: ClusterEvent.TOPOLOGY_CHANGED,
    HyperNode: ClusterEvent.TOPOLOGY_CHANGED,
    NodeResourceTopology: ClusterEvent.RESOURCE_TOPOLOGY_CHANGED,
    NodeTopology: ClusterEvent.NODE_TOPOLOGY_CHANGED,
}
#: Kinds whose objects tell about the node of the same name.
_OF_NODES: frozenset[type] = frozenset((CSINode, NodeResourceTopology, NodeTopology))


class Intake:
    """What happens outside, seen from inside."""

    def __init__(self, core: Core, commit: Commit, rollback: Rollback, health: Health) -> None:
        """Take the parts to change."""
        self._health = health
        self._core = core
        self._commit = commit
        self._checkpoints = CheckpointWarnings(core)
        self._groups = GroupChanges(core, rollback, health, self._checkpoints)
        self._machines = MachineWarnings(core)
        self._handlers: dict[type[i.Input], Callable[..., None]] = {
            i.NodeChanged: self._node_changed,
            i.NodeRemoved: self._node_removed,
            i.PodChanged: self._pod_changed,
            i.PodRemoved: self._pod_removed,
            i.RunEnded: self._run_ended,
            i.PendingPodLeft: self._pending_pod_left,
            i.GangChanged: self._groups.changed,
            i.GangRemoved: self._groups.removed,
            i.PriorityClassChanged: self._priority_class_changed,
            i.PriorityClassRemoved: self._priority_class_removed,
            i.BudgetChanged: self._budget_changed,
            i.BudgetRemoved: self._budget_removed,
            i.ObjectChanged: self._object_changed,
            i.ObjectRemoved: self._object_removed,
            i.BindingSucceeded: self._binding_succeeded,
            i.BindingFailed: self._binding_failed,
            i.EvictionFailed: self._eviction_failed,
            i.AwaitedDone: self._awaited_done,
        }

    def handle(self, happened: i.Input) -> None:
        """Take one input."""
        self._handlers[type(happened)](happened)

    def _node_changed(self, happened: i.NodeChanged) -> None:
        node, core = happened.node, self._core
        former = core.cluster.set_node(node)
        if former is node or former == node:
            return
        event = ClusterEvent.NODE_ADDED if former is None else node_difference(former, node)
        if event:
            core.changed(event, node.name, former_node=former)
        if node.problems and (former is None or former.problems != node.problems):
            core.reporter.node_problems(node, next(iter(core.runtimes)))
        if former is None or former.labels != node.labels or former.annotations != node.annotations:
            self._machines.look(node.name)
        if former is None or former.labels != node.labels:
            core.topologies.changed(core.clock())

    def _node_removed(self, happened: i.NodeRemoved) -> None:
        core = self._core
        former = core.cluster.nodes.get(happened.name)
        if not core.cluster.remove_node(happened.name):
            return
        core.changed(ClusterEvent.NODE_REMOVED, happened.name, former_node=former)
        core.topologies.changed(core.clock())
        for flight in core.flights.open():
            if any(seat.node_name == happened.name for seat in flight.seats.values()):
                reason = Reason("NodeRemoved", f"node {happened.name} is gone")
                self._commit.abandon(flight, Status.unschedulable(reason), at_once=True)

    def _pod_changed(self, happened: i.PodChanged) -> None:
        pod, core, now = happened.pod, self._core, self._core.clock()
        is_foreign = not pod.node_name and pod.scheduler_name not in core.runtimes
        if is_foreign and pod.membership is None:
            return
        former = core.cluster.pods.get(pod.uid)
        core.backfill.run_times.saw(pod)
        left = core.cluster.gang_of(former) if former is not None else None
        assumed_on = core.cluster.assumed.get(pod.uid)
        if not core.cluster.set_pod(pod):
            return
        self._checkpoints.look_at_pod(pod, former)
        if former is None and pod.annotations:
            core.preempting.notices.found(pod)
        if pod.node_name:
            self._assigned(pod, former, assumed_on)
        elif pod.is_terminal or pod.is_terminating:
            self._no_longer_pending(pod.uid)
        elif not is_foreign and core.cluster.node_of(pod.uid) is None:  # of another's its gang alone has to know
            self._pending(pod, former, now)
        if pod.is_terminal:
            self._victim_gone(pod.uid, now)
        key = core.cluster.gang_of(pod)
        self._groups.look_at_member(former, pod, key)
        self._groups.members_changed(key, now)
        if left != key:
            self._groups.members_changed(left, now)
            if left is not None and pod.node_name:
                core.changed(ClusterEvent.GANG_CHANGED)  # as if its group had given up what it had there

    def _pending(self, pod: Pod, former: Pod | None, now: float) -> None:
        core = self._core
        if former is None:
            core.changed(ClusterEvent.POD_CREATED, pod_uid=pod.uid)
            core.moves.arrived(pod)
            self._promised_before(pod)
        if (former is None or former.annotations != pod.annotations) and (problem := problem_at(pod.annotations)):
            core.reporter.event(pod_ref(pod), "Warning", INVALID_RUN_TIME, "Scheduling", problem, pod.scheduler_name)
        workload = core.workloads.of(pod.uid)
        if workload is not None and former is not None and is_same_for_scheduling(former, pod):
            workload.pods[pod.uid] = pod
        else:
            since = core.preempting.ages.inherited(pod, now) if former is None else None
            core.add_pending(pod, now, since)

    def _run_ended(self, happened: i.RunEnded) -> None:
        self._core.backfill.run_times.learn(happened)

    def _promised_before(self, pod: Pod) -> None:
        """Take up the start that a former process told a pod, or the gang that it is the first pod of."""
        start = promised_in(pod.conditions) if pod.conditions else None
        if start is not None:
            self._core.backfill.found(workload_key(self._core.cluster.gang_of(pod), pod), start)

    def _assigned(self, pod: Pod, former: Pod | None, assumed_on: str | None) -> None:
        core = self._core
        was_pending = former is None or not former.node_name
        if was_pending:
            if core.flights.of(pod.uid) is not None:
                if assumed_on == pod.node_name:
                    self._commit.landed(pod.uid)
                else:
                    self._commit.lost(pod.uid)
            core.drop_pending(pod.uid)
            core.reporter.forget_pod(pod.uid)
            if assumed_on is not None and assumed_on != pod.node_name:
                core.changed(ClusterEvent.POD_REMOVED, assumed_on, pod.uid, former_pod=former)
            core.changed(ClusterEvent.POD_ASSIGNED, pod.node_name, pod.uid)
        if former is None:
            self._rejected_before(pod)
            core.backfill.run_times.ended(None, pod, core.clock())
        if former is None or former.is_terminal:
            return
        core.backfill.run_times.ended(former, pod, core.clock())
        if is_rejection(former, pod):
            self._rejected(pod)
        if gives_back(former, pod):
            core.changed(ClusterEvent.POD_REMOVED, pod.node_name, pod.uid, former_pod=former)
        if former.labels != pod.labels:
            core.changed(ClusterEvent.POD_LABELS, pod.node_name, pod.uid, former_pod=former)

    def _rejected(self, pod: Pod) -> None:
        """A kubelet refused a pod: its gang keeps off that node for a while."""
        core, key = self._core, self._core.cluster.gang_of(pod)
        if pod.scheduler_name not in core.runtimes:
            return
        note = f"node {pod.node_name} refused the pod: {pod.status_reason}"
        core.reporter.event(pod_ref(pod), "Warning", "RejectedByNode", "Scheduling", note, pod.scheduler_name)
        if key is not None:
            core.access.shunned.setdefault(key, {})[pod.node_name] = core.clock() + SHUN_SECONDS

    def _rejected_before(self, pod: Pod) -> None:
        """Take up that a kubelet refused a pod before this process saw it, if that is not long ago."""
        core, key = self._core, self._core.cluster.gang_of(pod)
        if key is None or pod.scheduler_name not in core.runtimes or not is_rejection(None, pod):
            return
        now, at = core.clock(), rejected_at(pod)
        if at is not None and (until := min(at, now) + SHUN_SECONDS) > now:
            nodes = core.access.shunned.setdefault(key, {})
            nodes[pod.node_name] = max(until, nodes.get(pod.node_name, 0.0))

    def _pod_removed(self, happened: i.PodRemoved) -> None:
        core, now, uid = self._core, self._core.clock(), happened.uid
        node_name = core.cluster.node_of(uid)
        self._no_longer_pending(uid)
        pod = core.cluster.pods.get(uid)
        gang = core.cluster.gang_of(pod) if pod is not None else None
        core.cluster.remove_pod(uid)
        core.access.stuck.discard(uid)
        core.access.bound_or_gone(uid)
        if pod is None:
            return
        if node_name and not pod.is_terminal:
            core.changed(ClusterEvent.POD_REMOVED, node_name, pod.uid, former_pod=pod)
        self._groups.look_at_member(pod, None, gang)
        self._victim_gone(uid, now)
        self._groups.members_changed(gang, now)
        if gang is not None and gang not in core.cluster.gangs:
            self._groups.forget(gang)  # nobody else will say so of a gang that only its pods told of

    def _pending_pod_left(self, happened: i.PendingPodLeft) -> None:
        pod, flight = self._core.cluster.pods.get(happened.uid), self._core.flights.of(happened.uid)
        if pod is None or pod.node_name:
            return
        is_on_its_way = self._core.cluster.node_of(pod.uid) is not None and (flight is None or flight.is_binding)
        if not is_on_its_way:
            self._pod_removed(i.PodRemoved(pod.uid))

    def _no_longer_pending(self, uid: str) -> None:
        core = self._core
        self._commit.lost(uid)
        core.drop_pending(uid)
        core.reporter.forget_pod(uid)

    def _victim_gone(self, uid: str, now: float) -> None:
        """Let those try again whose last victim this was."""
        for key in self._core.preempting.gone(uid):
            self._core.queue.retry(key, now)

    def _priority_class_changed(self, happened: i.PriorityClassChanged) -> None:
        self._core.cluster.priority_classes[happened.priority_class.name] = happened.priority_class
        self._class_users_changed(happened.priority_class.name)

    def _priority_class_removed(self, happened: i.PriorityClassRemoved) -> None:
        if self._core.cluster.priority_classes.pop(happened.name, None) is not None:
            self._class_users_changed(happened.name)

    def _class_users_changed(self, name: str) -> None:
        self._core.cluster.asides.restart()
        for gang in list(self._core.cluster.gangs.values()):
            if gang.priority_class_name == name:
                self._groups.members_changed(gang.key, self._core.clock())

    def _budget_changed(self, happened: i.BudgetChanged) -> None:
        budget = happened.budget
        self._core.cluster.budgets[budget.namespace, budget.name] = budget

    def _budget_removed(self, happened: i.BudgetRemoved) -> None:
        self._core.cluster.budgets.pop((happened.namespace, happened.name), None)

    def _object_changed(self, happened: i.ObjectChanged) -> None:
        former = self._core.cluster.objects.put(happened.thing)
        if former != happened.thing:
            self._objects_differ(type(happened.thing), happened.thing.key, former)

    def _object_removed(self, happened: i.ObjectRemoved) -> None:
        former = self._core.cluster.objects.drop(happened.kind, happened.key)
        if happened.kind is DeviceClaim:
            self._core.cluster.objects.drop(ClaimReleased, happened.key)
        if former is not None:
            self._objects_differ(happened.kind, happened.key, former)

    def _objects_differ(self, kind: type, key: Key, former: object) -> None:
        """Note what that may cure, and let those that wait for an object before their binding look again."""
        if kind is Topology:
            self._core.topologies.changed(self._core.clock())
        if kind in (Namespace, Queue, QueueUse):
            self._core.queues.changed(kind)
        event = _EVENTS.get(kind)
        if kind is NodeResourceTopology or kind is NodeTopology:
            self._core.cluster.look_again(key[1])
        if kind is NodeTopology:
            self._machines.look(key[1])
        if kind is DeviceSlice:
            self._slices_differ(key, former)
        if kind is DeviceClaim and self._gave_back(key, former):
            self._core.changed(ClusterEvent.DEVICES_CHANGED, key=key)
        if event is not None:
            self._core.changed(event, key[1] if kind in _OF_NODES else "", key=key)
            self._commit.recheck()

    def _slices_differ(self, key: Key, former: object) -> None:
        """Look again at the nodes whose machine a slice tells, or told."""
        for each in (former, self._core.cluster.objects.get(DeviceSlice, *key)):
            if isinstance(each, DeviceSlice) and (name := each.where.node_name):
                self._core.cluster.look_again(name)
                self._machines.look(name)

    def _gave_back(self, key: Key, former: object) -> bool:
        """Tell whether a claim has devices no more, or may have had some that nobody has seen it have."""
        objects = self._core.cluster.objects
        claim = objects.get(DeviceClaim, *key)
        had = isinstance(former, DeviceClaim) and former.allocation is not None
        was_released = objects.get(ClaimReleased, *key) is not None
        return (had or was_released) and (claim is None or claim.allocation is None)

    def _binding_succeeded(self, happened: i.BindingSucceeded) -> None:
        self._commit.landed(happened.uid)

    def _binding_failed(self, happened: i.BindingFailed) -> None:
        if happened.is_gone:
            self._pod_removed(i.PodRemoved(happened.uid))
        elif happened.is_taken:
            self._commit.lost(happened.uid)
            self._core.reporter.forget_pod(happened.uid)
        else:
            self._commit.binding_failed(happened.uid, happened.message)

    def _eviction_failed(self, happened: i.EvictionFailed) -> None:
        core, now = self._core, self._core.clock()
        if happened.is_gone:
            return
        core.cluster.expect_stay(happened.uid)
        pod = core.cluster.pods.get(happened.uid)
        gang = core.cluster.gang_of(pod) if pod is not None else None
        if gang is not None:
            self._health.eviction_failed(gang, now)
            self._groups.members_changed(gang, now)
        for key in core.preempting.failed(happened.uid):
            core.queue.fail(key, Status.error(f"an eviction failed: {happened.message}"), now, rests=True)

    def _awaited_done(self, happened: i.AwaitedDone) -> None:
        self._commit.awaited(happened.uid, happened.key, happened.failure)


def node_difference(former: Node, node: Node) -> ClusterEvent:
    """Return what changed about a node, as far as it may cure something."""
    event = ClusterEvent.NONE
    if former.allocatable != node.allocatable or former.images != node.images:
        event |= ClusterEvent.NODE_ALLOCATABLE
    if former.labels != node.labels or former.annotations != node.annotations:
        event |= ClusterEvent.NODE_LABELS
    if former.taints != node.taints or former.is_unschedulable != node.is_unschedulable:
        event |= ClusterEvent.NODE_TAINTS
    if former.declared_features != node.declared_features:
        event |= ClusterEvent.NODE_FEATURES
    return event


def gives_back(former: Pod, pod: Pod) -> bool:
    """Tell whether an assigned pod holds less than before: it ended, or was resized down."""
    return pod.is_terminal or any(pod.requests.get(r, 0) < count for r, count in former.requests.items())
