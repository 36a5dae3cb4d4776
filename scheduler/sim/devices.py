"""Devices of the embedded cluster: claims, what is written into them, and what the resourceclaim controller does with them.

For the cluster.  Claims are made from templates when a pod that names one is created; when a pod ends, its own claims go, and
shared ones that nobody uses any more lose their devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from scheduler.engine.inputs import ObjectChanged, ObjectRemoved
from scheduler.model.api import OwnerReference
from scheduler.model.device_api import ApiDeviceClaim
from scheduler.model.device_claims import (
    Allocation,
    ClaimReleased,
    Consumer,
    DeviceClaim,
    DeviceClaimTemplate,
    device_claim_from_api,
)
from scheduler.model.pod_devices import ApiExtendedClaimStatus, ApiPodClaimStatus

if TYPE_CHECKING:
    from scheduler.framework.effects import AllocateClaim, ClaimRef, DeleteClaim, MakeClaim, ReleaseClaim

    from .cluster import Cluster, SimPod

Key = tuple[str, str]


class Devices:
    """The claims of the embedded cluster."""

    def __init__(self, cluster: Cluster) -> None:
        """Start without claims."""
        self._cluster = cluster
        self.claims: dict[Key, DeviceClaim] = {}
        self._templates: dict[Key, DeviceClaimTemplate] = {}
        self._versions = 0
        self._made = 0

    def add(self, thing: DeviceClaim | DeviceClaimTemplate) -> None:
        """Take a claim, or a template; pods that waited for it get their claims."""
        if isinstance(thing, DeviceClaim):
            self._put(thing)
            return
        self._templates[thing.key] = thing
        for sim in list(self._cluster.pods.values()):
            if sim.pod.namespace == thing.namespace and not sim.pod.is_terminal:
                self.make_claims(sim)

    def make_claims(self, sim: SimPod) -> None:
        """Make the claims that a pod wants from templates that are there."""
        known = {status.name: status for status in sim.api.status.resource_claim_statuses or ()}
        made = dict(known)
        for use in sim.api.spec.resource_claims or ():
            template = self._templates.get((sim.pod.namespace, use.resource_claim_template_name or ""))
            if template is None or use.name in known:
                continue
            self._made += 1
            name = f"{sim.pod.name}-{use.name}-{self._made}"
            owner = OwnerReference(kind="Pod", name=sim.pod.name, uid=sim.pod.uid, api_version="v1", controller=True)
            uid = f"claim-{sim.pod.namespace}-{name}"
            self._put(replace(template.claim, namespace=sim.pod.namespace, name=name, uid=uid, controller=owner))
            made[use.name] = ApiPodClaimStatus(name=use.name, resource_claim_name=name)
        if len(made) > len(known):
            self._cluster.set_status(sim, resource_claim_statuses=list(made.values()))

    def pod_ended(self, sim: SimPod) -> None:
        """Take a pod out of the claims that it used."""
        for claim in list(self.claims.values()):
            if claim.controller is not None and claim.controller.uid == sim.pod.uid:
                del self.claims[claim.key]
                self._cluster.tell(ObjectRemoved(DeviceClaim, claim.key))
            elif any(consumer.uid == sim.pod.uid for consumer in claim.reserved_for):
                left = tuple(consumer for consumer in claim.reserved_for if consumer.uid != sim.pod.uid)
                self._put(replace(claim, reserved_for=left, allocation=claim.allocation if left else None))

    def allocate(self, effect: AllocateClaim) -> str:
        """Write what a claim is given, and for whom it is reserved; return why that failed, or nothing."""
        claim = self._found(effect.claim)
        if claim is None:
            return f"claim {effect.claim.label} is gone"
        allocation = claim.allocation or (_allocation(effect.allocation) if effect.allocation is not None else None)
        if allocation is None:
            return f"claim {claim.label} got deallocated elsewhere in the meantime"
        if effect.allocation is not None and allocation.devices != _allocation(effect.allocation).devices:
            return f"claim {claim.label} got allocated elsewhere in the meantime"
        consumer = effect.consumer
        if any(known.uid == consumer["uid"] for known in claim.reserved_for):
            return ""
        entry = Consumer(consumer["uid"], consumer["name"], consumer["resource"], consumer.get("apiGroup", ""))
        self._put(replace(claim, allocation=allocation, reserved_for=(*claim.reserved_for, entry)))
        return ""

    def make(self, effect: MakeClaim) -> str:
        """Create a claim for extended resources, allocated and reserved for its pod; return why that failed, or nothing."""
        sim = self._cluster.pods.get(effect.pod.uid)
        if sim is None:
            return f"pod {effect.pod.key} is gone"
        claim = device_claim_from_api(msgspec.convert(effect.manifest, ApiDeviceClaim))
        entry = Consumer(effect.consumer["uid"], effect.consumer["name"], effect.consumer["resource"])
        uid = f"claim-{claim.namespace}-{claim.name}"
        self._put(replace(claim, uid=uid, allocation=_allocation(effect.allocation), reserved_for=(entry,)))
        told = ApiExtendedClaimStatus(resource_claim_name=claim.name, request_mappings=list(effect.mappings))
        self._cluster.set_status(sim, extended_resource_claim_status=told)
        return ""

    def delete(self, effect: DeleteClaim) -> None:
        """Delete a claim that `make` made."""
        ref = effect.claim
        if self.claims.pop((ref.namespace, ref.name), None) is not None:
            self._cluster.tell(ObjectRemoved(DeviceClaim, (ref.namespace, ref.name)))
        released = ClaimReleased(
            namespace=ref.namespace, name=ref.name, uid=ref.uid, pod_uid=effect.pod.uid, resource_version=""
        )
        self._cluster.tell(ObjectChanged(released))

    def release(self, effect: ReleaseClaim) -> None:
        """Undo `allocate`."""
        claim = self._found(effect.claim)
        if claim is not None:
            left = tuple(consumer for consumer in claim.reserved_for if consumer.uid != effect.pod.uid)
            keeps = bool(left) or effect.keeps_allocation
            self._put(replace(claim, reserved_for=left, allocation=claim.allocation if keeps else None))
            claim = self.claims[claim.key]
        ref, version = effect.claim, claim.resource_version if claim is not None else ""
        released = ClaimReleased(
            namespace=ref.namespace, name=ref.name, uid=ref.uid, pod_uid=effect.pod.uid, resource_version=version
        )
        self._cluster.tell(ObjectChanged(released))

    def _found(self, ref: ClaimRef) -> DeviceClaim | None:
        claim = self.claims.get((ref.namespace, ref.name))
        return claim if claim is not None and claim.uid == ref.uid else None

    def _put(self, claim: DeviceClaim) -> None:
        self._versions += 1
        claim = replace(claim, resource_version=str(self._versions))
        self.claims[claim.key] = claim
        self._cluster.tell(ObjectChanged(claim))


def _allocation(written: dict[str, Any]) -> Allocation:
    """Return what was written as a claim's allocation."""
    claim = device_claim_from_api(msgspec.convert({"status": {"allocation": written}}, ApiDeviceClaim))
    assert claim.allocation is not None
    return claim.allocation
