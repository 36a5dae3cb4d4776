"""Binding: what is written for a pod's claims before it is bound, whether that is enough, and how it is undone.

For the plugin beside it: kube-scheduler's `bindClaim`, `isPodReadyForBinding` and Unreserve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.devices.pools import reaches
from scheduler.devices.written import written
from scheduler.framework.effects import AllocateClaim, ClaimRef, DeleteClaim, MakeClaim, PodRef, ReleaseClaim
from scheduler.framework.status import Status
from scheduler.model.device_claims import DeviceClaim
from scheduler.model.devices import Where

from .claims import consumer_of, shared_consumer
from .extended import deletion, manifest_of, mapping_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.devices.allocator import Given
    from scheduler.devices.extended import RequestMapping
    from scheduler.devices.pools import Site
    from scheduler.model import Pod
    from scheduler.model.device_claims import AllocatedDevice
    from scheduler.model.gang import Gang
    from scheduler.state.objects import Objects

_WAITING = Status.wait(0, "waits for its devices to be made ready")


@dataclass(slots=True)
class Step:
    """One claim of a pod that is being placed."""

    claim: DeviceClaim
    #: What it is given; None if it was allocated before.
    given: Given | None
    #: The claim has to be made, for extended resources: who of the containers uses which request.
    mappings: tuple[RequestMapping, ...] = ()


@dataclass(slots=True)
class Steps:
    """All claims of a pod that is being placed."""

    steps: tuple[Step, ...]
    #: PreBind has asked for the writes.
    is_written: bool = False


def effects_of(pod: Pod, steps: Steps, group: Gang | None) -> tuple[AllocateClaim | MakeClaim, ...]:
    """Return what has to be written: allocations, and for whom each claim is reserved."""
    effects = list[AllocateClaim | MakeClaim]()
    for step in steps.steps:
        allocation = None if step.given is None else written(step.given)
        consumer = consumer_of(pod, step.claim, group)
        if step.mappings and allocation is not None:
            ref, mappings = PodRef(pod.namespace, pod.name, pod.uid), tuple(map(mapping_of, step.mappings))
            made = MakeClaim(ref, _ref(step.claim), manifest_of(step.claim), consumer, allocation, mappings)
            effects.append(made)
        else:
            effects.append(AllocateClaim(_ref(step.claim), consumer, allocation))
    return tuple(effects)


def undoing(pod: Pod, steps: Steps, group: Gang | None) -> tuple[ReleaseClaim | DeleteClaim, ...]:
    """Return what undoes the writes; a claim of the pod's group stays reserved, as its other pods may need it."""
    ref = PodRef(pod.namespace, pod.name, pod.uid)
    effects = list[ReleaseClaim | DeleteClaim]()
    for step in steps.steps:
        if step.mappings:
            effects.append(deletion(pod, step.claim))
        elif step.given is None:
            effects.append(ReleaseClaim(ref, _ref(step.claim), keeps_allocation=True))
        elif shared_consumer(pod, step.claim, group) is None:
            effects.append(ReleaseClaim(ref, _ref(step.claim), written(step.given)))
    return tuple(effects)


def deallocation(pod: Pod, claim: DeviceClaim) -> ReleaseClaim:
    """Return what takes back an allocation that keeps a pod off nodes, from the pod or, if it has reserved it, its group."""
    holder = claim.reserved_for[0].uid if claim.reserved_for else pod.uid
    return ReleaseClaim(PodRef(pod.namespace, pod.name, holder), _ref(claim))


def check(steps: Steps, objects: Objects) -> Status | None:
    """Tell whether all devices are ready: None if they are, a wait, or an error when they will not be."""
    for step in steps.steps:
        devices = devices_of(step)
        if not any(device.binding_conditions for device in devices):
            continue
        claim = objects.get(DeviceClaim, *step.claim.key)
        if step.mappings and claim is None:
            return _WAITING
        if claim is None or (claim.uid != step.claim.uid and not step.mappings):
            return Status.error(f"resourceclaim {step.claim.label} is gone")
        if claim.allocation is None:
            return _WAITING  # our own write has not come back yet
        if failure := failed(claim):
            return Status.error(failure)
        if not is_ready(claim):
            return _WAITING
    return None


def failed(claim: DeviceClaim) -> str:
    """Return why some device of a claim cannot be made ready; empty if that is not known."""
    for device in claim.allocation.devices if claim.allocation is not None else ():
        if not device.binding_conditions:
            continue
        for condition in _conditions(claim, device):
            if condition.type in device.binding_failure_conditions and condition.status == "True":
                text = f'claim={claim.name}, reason={condition.reason}, message="{condition.message}"'
                return f"device binding failed: {text}"
    return ""


def is_ready(claim: DeviceClaim) -> bool:
    """Tell whether every condition that a claim's devices wait for is true."""
    for device in claim.allocation.devices if claim.allocation is not None else ():
        true = {condition.type for condition in _conditions(claim, device) if condition.status == "True"}
        if not true.issuperset(device.binding_conditions):
            return False
    return True


def is_usable(claims: Sequence[DeviceClaim], site: Site, now: float, patience: float) -> bool:
    """Tell whether allocated claims can be used on a node: it is among those that they were allocated for, and devices get ready."""
    for claim in claims:
        selector = claim.allocation.node_selector if claim.allocation is not None else None
        if selector is not None and not reaches(Where(selector=selector), site):
            return False
        if failed(claim) or (not is_ready(claim) and is_late(claim, now, patience)):
            return False
    return True


def is_late(claim: DeviceClaim, now: float, patience_seconds: float) -> bool:
    """Tell whether a claim has waited too long for its devices to be made ready."""
    allocation = claim.allocation
    if allocation is None or allocation.time is None or not any(d.binding_conditions for d in allocation.devices):
        return False
    return allocation.time + patience_seconds < now


def _conditions(claim: DeviceClaim, device: AllocatedDevice) -> tuple:  # type: ignore[type-arg]
    return next((s.conditions for s in claim.statuses if (s.driver, s.pool, s.device) == device.id), ())


def devices_of(step: Step) -> Sequence[AllocatedDevice]:
    """Return the devices that a claim has, or is given."""
    if step.given is not None:
        return step.given.allocation.devices
    return step.claim.allocation.devices if step.claim.allocation is not None else ()


def _ref(claim: DeviceClaim) -> ClaimRef:
    return ClaimRef(claim.namespace, claim.name, claim.uid)
