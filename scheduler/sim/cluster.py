"""The embedded cluster: an API server that holds the objects, carries out the engine's effects, and tells what changed.

For the simulation's loop.  Kubelets and workload controllers act on it, as they act on an API server; nothing here decides
where a pod goes.  Every pod is kept as its API object and read by the engine's model, so that a simulated pod is taken
through the same decoding as a real one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from scheduler.engine.inputs import (
    AwaitedDone,
    BindingFailed,
    BindingSucceeded,
    EvictionFailed,
    GangChanged,
    Input,
    NodeChanged,
    PodChanged,
    PodRemoved,
    PriorityClassChanged,
)  # fmt: skip
from scheduler.framework.effects import (
    AllocateClaim,
    AnnotatePod,
    BindPod,
    BindVolume,
    DeleteClaim,
    EmitEvent,
    EvictPod,
    MakeClaim,
    NominatePod,
    PrepareBinding,
    ReleaseClaim,
    SelectNode,
    SetGangStatus,
    SetPodScheduled,
    SetPromisedStart,
    SetQueueStatus,
    SetTopologyStatus,
)
from scheduler.model import Gang, GangKey, Node, Pod, PriorityClass, pod_from_api
from scheduler.model.api import Condition
from scheduler.model.device_claims import DeviceClaim, DeviceClaimTemplate
from scheduler.model.dialects import membership_of
from scheduler.model.dialects.own import NAME as OWN_NAME
from scheduler.model.foreign import pending_member
from scheduler.model.storage_api import ApiClaim

from .budgets import Budgets
from .clock import Agenda, VirtualClock
from .controllers import controller_for
from .daemons import DaemonController
from .defaults import rfc3339, uid_of
from .devices import Devices
from .groups import pod_of_template, told_by_job
from .history import History
from .kubelets import Kubelets, KubeletTimes
from .owners import controller_of
from .storage import Storage, claim_of_pod
from .workloads import Controller, Remaker
from .world import BudgetObject, ControllerObject, KnownObject, Owner, PodObject, StorageObject, World

if TYPE_CHECKING:
    from scheduler.framework.effects import Effect
    from scheduler.model.api import ApiPod, PodStatus

    from .clock import Entry
    from .world import Item


@dataclass(eq=False, slots=True)
class SimPod:
    """A pod of the embedded cluster."""

    api: ApiPod
    #: The model's view of `api`.
    pod: Pod
    run_seconds: float | None = None
    controller: Controller | None = None
    root: Owner | None = None
    #: The scheduler asked for its deletion.
    is_evicted: bool = False
    #: What the kubelet does with it next.
    next: Entry | None = None

    @property
    def is_active(self) -> bool:
        """The pod has not ended, and nobody asked for its deletion."""
        return not self.pod.is_terminal and not self.pod.is_terminating


@dataclass
class Cluster:
    """Objects, and what happens to them. Only methods change them."""

    world: World
    #: Pods with these scheduler names are shown to the engine while they are pending.
    scheduler_names: frozenset[str]
    times: KubeletTimes = field(default_factory=KubeletTimes)

    def __post_init__(self) -> None:
        """Put everything that the world holds on the agenda."""
        self.clock = VirtualClock(self.world.start)
        self.agenda = Agenda()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, SimPod] = {}
        #: Pods that are bound and have not ended, by node.
        self.pods_on: dict[str, dict[str, SimPod]] = {}
        self.gangs: dict[GangKey, Gang] = {}
        self.controllers: dict[Owner, Controller] = {}
        self.events: list[EmitEvent] = []
        self.history = History(self.clock)
        self.kubelets = Kubelets(self)
        self.budgets = Budgets(self)
        self.devices = Devices(self)
        self.storage = Storage(self, self.world.default_storage_class)
        self._inputs: list[Input] = []
        self._uses_of_name: dict[tuple[str, str], int] = {}
        for submitted in self.world.submitted:
            item = submitted.item
            self.agenda.at(self.world.start + submitted.seconds, lambda item=item: self._submit(item))  # type: ignore[misc]

    def take_inputs(self) -> list[Input]:
        """Return what has changed since the last call, in order."""
        taken, self._inputs = self._inputs, []
        return [*taken, *self.budgets.changes()]

    def tell(self, happened: Input) -> None:
        """Let the engine know of something that has changed."""
        self._inputs.append(happened)

    # What objects come into being.

    def _submit(self, item: Item) -> None:  # noqa: C901, PLR0912 - one case per kind
        match item:
            case Node():
                self._submit_node(item)
            case PriorityClass():
                self._inputs.append(PriorityClassChanged(item))
            case Gang():
                self.gangs[item.key] = item
                if not item.is_composite:  # pods name the groups below it
                    self.history.gang_added(item)
                self._inputs.append(GangChanged(item))
            case BudgetObject():
                self.budgets.add(item)
            case KnownObject(thing=DeviceClaim() | DeviceClaimTemplate() as thing):
                self.devices.add(thing)
            case KnownObject():
                self.storage.add(item.thing)
            case StorageObject(api=ApiClaim() as api):
                self.storage.add_claim(api)
            case StorageObject(api=api):
                self.storage.add_volume(api)  # type: ignore[arg-type] # no claim
            case ControllerObject():
                controller = self.controllers[item.owner] = controller_for(item, self)
                self.history.controller_added(controller, self._group_of(controller))
                if (told := told_by_job(item.owner, item.api)) is not None and told.key not in self.gangs:
                    self._inputs.append(GangChanged(told))
                for sim in self.pods.values():
                    if sim.controller is not controller and controller_of(sim.api.metadata) == item.owner:
                        sim.controller = controller
                        controller.adopt(sim)
                controller.begin()
            case PodObject():
                self._submit_pod(item)

    def _group_of(self, controller: Controller) -> GangKey | None:
        """Return the group that the pods of a controller name."""
        if controller.template is None:
            return None
        membership = membership_of(pod_of_template(controller.owner, controller.template), self.world.dialects)
        return membership.key if membership is not None else None

    def _submit_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.history.node_added(node)
        self._inputs.append(NodeChanged(node))
        for daemons in self.controllers.values():
            if isinstance(daemons, DaemonController):
                daemons.reconcile()

    def _submit_pod(self, item: PodObject) -> None:
        controller = self.controllers.get(item.owner) if item.owner else None
        adopted = controller is not None
        if item.owner is not None and controller is None and item.owner.kind not in ("DaemonSet", "Node"):
            controller = Remaker(item.owner, item.root or item.owner, self)
        sim = self.create_pod(item.api, item.run_seconds, controller, item.root)
        if controller is not None and adopted:
            controller.adopt(sim)

    def create_pod(
        self, api: ApiPod, run_seconds: float | None, controller: Controller | None = None, root: Owner | None = None
    ) -> SimPod:
        """Create a pod; one that is bound already is taken over by its kubelet."""
        sim = SimPod(api, pod_from_api(api, self.world.dialects), run_seconds, controller, root)
        self._uses_of_name.setdefault((sim.pod.namespace, sim.pod.name), 1)
        self.pods[sim.pod.uid] = sim
        if self.is_ours(sim):
            self.history.pod_created(sim)
        if sim.pod.node_name:
            self._count_in(sim)
            self.kubelets.take_over(sim)
        self._make_claims(sim)
        self.devices.make_claims(sim)
        self._publish(sim)
        return sim

    def _make_claims(self, sim: SimPod) -> None:
        """Make the claims of a pod's ephemeral volumes, as their controller does; those that are there stay."""
        for volume in sim.api.spec.volumes or ():
            name = f"{sim.pod.name}-{volume.name}"
            if volume.ephemeral is not None and not self.storage.has_claim(sim.pod.namespace, name):
                template = msgspec.convert(volume.ephemeral["volumeClaimTemplate"], ApiClaim)
                self.storage.add_claim(claim_of_pod(template, name, sim.api.metadata, is_owned=True))

    def next_uid(self, namespace: str, name: str) -> str:
        """Return the uid for a pod that is about to be created: a fresh one for a name that was used before."""
        turn = self._uses_of_name.get((namespace, name), 0)
        self._uses_of_name[namespace, name] = turn + 1
        return uid_of("Pod", namespace, name, turn)

    def is_ours(self, sim: SimPod) -> bool:
        """Tell whether a pod is one that our scheduler places, or has placed."""
        return sim.pod.scheduler_name in self.scheduler_names

    # What kubelets and controllers do to pods.

    def set_status(self, sim: SimPod, **changes: object) -> None:
        """Change the status of a pod; one that ends gives back what it holds, and its controller hears of it."""
        status: PodStatus = msgspec.structs.replace(sim.api.status, **changes)
        was_terminal = sim.pod.is_terminal
        self._set(sim, msgspec.structs.replace(sim.api, status=status))
        if sim.pod.is_terminal and not was_terminal:
            self._count_out(sim)
            self.devices.pod_ended(sim)
            if self.is_ours(sim):
                self.history.pod_ended(sim, sim.pod.phase)
            if sim.controller is not None:
                sim.controller.pod_ended(sim)

    def delete_pod(self, sim: SimPod, grace_period_seconds: int | None = None) -> None:
        """Ask for a pod's deletion: what runs is stopped by its kubelet first, everything else goes at once."""
        if sim.pod.is_terminating:
            return
        if not sim.pod.node_name or sim.pod.is_terminal:
            self.remove_pod(sim)
            return
        meta = msgspec.structs.replace(sim.api.metadata, deletion_timestamp=rfc3339(self.clock()))
        self._set(sim, msgspec.structs.replace(sim.api, metadata=meta))
        self.kubelets.stop(sim, grace_period_seconds)
        if sim.controller is not None:
            sim.controller.pod_terminating(sim)

    def remove_pod(self, sim: SimPod) -> None:
        """Take a pod out of the API server."""
        del self.pods[sim.pod.uid]
        if sim.next is not None:
            sim.next.cancel()
        if not sim.pod.is_terminal:
            self._count_out(sim)
            if self.is_ours(sim):
                self.history.pod_ended(sim, "Evicted" if sim.is_evicted else "Deleted")
        self._inputs.append(PodRemoved(sim.pod.uid))
        self.storage.drop_claims_of(sim.pod.uid)
        self.devices.pod_ended(sim)
        if sim.controller is not None:
            sim.controller.pod_removed(sim)

    # What the engine asks for.

    def apply(self, effect: Effect) -> None:  # noqa: C901, PLR0912 - one case per effect
        """Carry out an effect, as an API server would."""
        match effect:
            case BindPod():
                self._bind(effect)
            case EvictPod():
                self._evict(effect)
            case AnnotatePod():
                self._annotate(effect)
            case NominatePod(pod=ref, node_name=node_name):
                if (sim := self._found(ref.uid)) is not None and not sim.pod.node_name:
                    self.set_status(sim, nominated_node_name=node_name)
            case SetPodScheduled(pod=ref, reason=reason, message=message):
                if (sim := self._found(ref.uid)) is not None and not sim.pod.node_name:
                    self._set_condition(sim, "False", reason, message)
            case SetGangStatus():
                self._set_gang_status(effect)
            case SetPromisedStart(pod=ref, start=start):
                self.history.promised(self.history.record_of(ref.uid), start)
            case SetTopologyStatus() | SetQueueStatus():
                pass  # nothing in a simulation reads it
            case EmitEvent():
                self.events.append(effect)
            case ReleaseClaim():
                self.devices.release(effect)
            case DeleteClaim():
                self.devices.delete(effect)
            case PrepareBinding(pod=ref, key=key, effects=effects):
                self._inputs.append(AwaitedDone(ref.uid, key, self._prepare(effects)))
            case _:
                raise TypeError(f"the embedded cluster does not know the effect {type(effect).__name__}")

    def _prepare(self, effects: tuple[Effect, ...]) -> str:
        """Carry out what a pod needs before its binding; return why the first that failed did, or nothing."""
        for wanted in effects:
            failure = ""
            match wanted:
                case BindVolume():
                    failure = self.storage.bind_volume(wanted)
                case SelectNode():
                    failure = self.storage.select_node(wanted)
                case AllocateClaim():
                    failure = self.devices.allocate(wanted)
                case MakeClaim():
                    failure = self.devices.make(wanted)
                case _:
                    self.apply(wanted)
            if failure:
                return failure
        return ""

    def _bind(self, effect: BindPod) -> None:
        uid, sim = effect.pod.uid, self._found(effect.pod.uid)
        if sim is None:
            self._inputs.append(BindingFailed(uid, f"pod {effect.pod.key} not found", is_gone=True))
        elif sim.pod.node_name:
            text = f"pod {sim.pod.name} is already assigned to node {sim.pod.node_name!r}"
            self._inputs.append(BindingFailed(uid, text, is_taken=True))
        elif sim.pod.is_terminal or effect.node_name not in self.nodes:
            self._inputs.append(
                BindingFailed(uid, f"pod {sim.pod.name} has ended, or there is no node {effect.node_name!r}")
            )
        else:
            meta = msgspec.structs.replace(
                sim.api.metadata, annotations=(sim.api.metadata.annotations or {}) | effect.annotations
            )
            spec = msgspec.structs.replace(sim.api.spec, node_name=effect.node_name)
            sim.api = msgspec.structs.replace(sim.api, metadata=meta, spec=spec)
            self._inputs.append(BindingSucceeded(uid))
            self._set_condition(sim, "True", "", "")
            self._count_in(sim)
            self.history.pod_bound(sim)
            self.kubelets.start(sim)

    def _evict(self, effect: EvictPod) -> None:
        uid, sim = effect.pod.uid, self._found(effect.pod.uid)
        if sim is None or sim.pod.is_terminal:
            self._inputs.append(EvictionFailed(uid, f"pod {effect.pod.key} not found", is_gone=True))
            return
        if sim.pod.is_terminating:
            return
        sim.is_evicted = True
        self.history.pod_evicted(sim, effect)
        target = Condition(type="DisruptionTarget", status="True", reason=effect.reason, message=effect.message)
        self.set_status(sim, conditions=[*(sim.api.status.conditions or ()), target])
        self.delete_pod(sim, effect.grace_period_seconds)

    def _annotate(self, effect: AnnotatePod) -> None:
        if (sim := self._found(effect.pod.uid)) is not None:
            told = {**(sim.api.metadata.annotations or {}), **effect.annotations}
            kept = {key: value for key, value in told.items() if value is not None}
            meta = msgspec.structs.replace(sim.api.metadata, annotations=kept)
            self._set(sim, msgspec.structs.replace(sim.api, metadata=meta))

    def _set_gang_status(self, effect: SetGangStatus) -> None:
        """Keep what the engine reads of a status: the phase of a group of ours, of a native one that it was complete."""
        gang = self.gangs.get(GangKey(effect.dialect, effect.namespace, effect.name))
        if gang is None or gang.uid != effect.uid:
            return
        self.history.promised(self.history.record_of_group(effect.namespace, effect.name), effect.promised_start)
        if effect.dialect == OWN_NAME:
            changed = msgspec.structs.replace(gang, phase=effect.phase)
        else:
            changed = msgspec.structs.replace(gang, was_complete=gang.was_complete or effect.scheduled == "True")
        if changed != gang:
            self.gangs[gang.key] = changed
            self._inputs.append(GangChanged(changed))

    def _set_condition(self, sim: SimPod, status: str, reason: str, message: str) -> None:
        """Set the condition PodScheduled; it stands once."""
        others = [condition for condition in sim.api.status.conditions or () if condition.type != "PodScheduled"]
        scheduled = Condition(type="PodScheduled", status=status, reason=reason, message=message)
        self.set_status(sim, conditions=[*others, scheduled])

    # How it is kept.

    def _found(self, uid: str) -> SimPod | None:
        return self.pods.get(uid)

    def _set(self, sim: SimPod, api: ApiPod) -> None:
        sim.api, sim.pod = api, pod_from_api(api, self.world.dialects)
        self._publish(sim)

    def _publish(self, sim: SimPod) -> None:
        """Tell the engine of a pod that it may see: a pending one of ours, an assigned one, or any member of a gang."""
        if sim.pod.node_name or self.is_ours(sim):
            self._inputs.append(PodChanged(sim.pod))
        elif (member := pending_member(sim.api, self.world.dialects)) is not None:
            self._inputs.append(PodChanged(member))

    def _count_in(self, sim: SimPod) -> None:
        self.pods_on.setdefault(sim.pod.node_name, {})[sim.pod.uid] = sim
        self.history.usage_changed(sim.pod, 1)

    def _count_out(self, sim: SimPod) -> None:
        if sim.pod.node_name and self.pods_on.get(sim.pod.node_name, {}).pop(sim.pod.uid, None) is not None:
            self.history.usage_changed(sim.pod, -1)
            self.storage.detach(sim.pod, (other.pod for other in self.pods_on[sim.pod.node_name].values()))
