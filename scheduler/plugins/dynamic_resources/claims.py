"""Which claims a pod uses, whether they are there and its own, and whom they are reserved for.

For the plugin beside it.  Rules and sentences are those of `foreachPodResourceClaim` and `resourceclaim` (Kubernetes 1.37).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.model import Pod
    from scheduler.model.device_claims import DeviceClaim
    from scheduler.model.devices import DeviceClass
    from scheduler.model.gang import Gang

_GROUP = "scheduling.k8s.io"


@dataclass(frozen=True, slots=True)
class Needed:
    """The claims of a pod, in the order of its spec; or why it cannot be placed on any node."""

    claims: tuple[DeviceClaim, ...] = ()
    objection: str = ""


def needed_claims(pod: Pod, claim_of: Callable[[str, str], DeviceClaim | None]) -> Needed:
    """Return the claims that a pod uses, or what is wrong with one."""
    found = []
    for use in pod.claims:
        if use.is_needless:
            continue
        if use.claim_name is None:
            text = "ResourceClaim not created yet"
            if not use.template:
                text = f'spec.resourceClaim "{use.name}": none of the supported fields are set'
                return Needed(objection=f'pod "{pod.key}", {text}')
            return Needed(objection=f'pod "{pod.key}": {text}')
        claim = claim_of(pod.namespace, use.claim_name)
        if claim is None:
            return Needed(objection=f'could not find ResourceClaim "{pod.namespace}/{use.claim_name}"')
        if claim.is_terminating:
            return Needed(objection=f'resourceclaim "{claim.name}" is being deleted')
        if use.template and not is_made_for(pod, claim):
            text = f"ResourceClaim {claim.label} was not created for Pod {pod.key} (Pod is not owner)"
            return Needed(objection=text)
        found.append(claim)
    return Needed(tuple(found))


def is_made_for(pod: Pod, claim: DeviceClaim) -> bool:
    """Tell whether a claim was made for a pod, or for its native pod group."""
    return _is_of_pod(pod, claim) or group_consumer(pod, claim) is not None


def is_exclusive(pod: Pod, claim: DeviceClaim) -> bool:
    """Tell whether nobody else can use a claim: it was made for the pod alone."""
    return _is_of_pod(pod, claim)


def group_consumer(pod: Pod, claim: DeviceClaim) -> dict[str, str] | None:
    """Return a pod's native group as an entry of `reservedFor` if the claim was made for that group; else None."""
    owner, membership = claim.controller, pod.membership
    if owner is None or owner.kind != "PodGroup" or not owner.api_version.startswith(f"{_GROUP}/"):
        return None
    if membership is None or membership.key.name != owner.name or membership.key.namespace != claim.namespace:
        return None
    return _group_reference(owner.name, owner.uid)


def listed_consumer(pod: Pod, claim: DeviceClaim, group: Gang | None) -> dict[str, str] | None:
    """Return a pod's native group as an entry of `reservedFor` if it lists the claim exactly as the pod does; else None.

    As kube-scheduler with DRAWorkloadResourceClaims: API servers without that gate keep no claims of groups.
    """
    if group is None:
        return None
    for use in pod.claims:
        entry = (use.name, "" if use.template else use.claim_name, use.template)
        if use.claim_name == claim.name and entry in group.shared_claims:
            return _group_reference(group.key.name, group.uid)
    return None


def shared_consumer(pod: Pod, claim: DeviceClaim, group: Gang | None) -> dict[str, str] | None:
    """Return a pod's group if a claim is the group's, because it was made for it or is listed there; else None."""
    return group_consumer(pod, claim) or listed_consumer(pod, claim, group)


def consumer_of(pod: Pod, claim: DeviceClaim, group: Gang | None) -> dict[str, str]:
    """Return whom a claim is reserved for when a pod is placed: its group for a claim of the group, else the pod."""
    return shared_consumer(pod, claim, group) or {"resource": "pods", "name": pod.name, "uid": pod.uid}


def is_reserved(pod: Pod, claim: DeviceClaim, group: Gang | None) -> bool:
    """Tell whether a claim is reserved for a pod already."""
    uid = consumer_of(pod, claim, group)["uid"]
    return any(consumer.uid == uid for consumer in claim.reserved_for)


def objection_to(needed: Needed, class_of: Callable[[str], DeviceClass | None]) -> str:
    """Return why a pod with these claims cannot be placed on any node; empty if it may be."""
    objections = (_objection_to(claim, class_of) for claim in needed.claims if claim.allocation is None)
    return needed.objection or next((text for text in objections if text), "")


def _objection_to(claim: DeviceClaim, class_of: Callable[[str], DeviceClass | None]) -> str:
    """Return why an unallocated claim cannot be served on any node: a class is missing; empty if it may be."""
    for request in claim.requests:
        asked = request.alternatives or ((request.exactly,) if request.exactly is not None else ())
        if not asked:
            return f"resource claim {claim.label}, request {request.name}: unknown request type"
        for exact in asked:
            name = f"{request.name}/{exact.name}" if request.alternatives else request.name
            if exact.class_name and class_of(exact.class_name) is None:
                return f"request {name}: device class {exact.class_name} does not exist"
    return ""


def _group_reference(name: str, uid: str) -> dict[str, str]:
    return {"apiGroup": _GROUP, "resource": "podgroups", "name": name, "uid": uid}


def _is_of_pod(pod: Pod, claim: DeviceClaim) -> bool:
    return claim.controller is not None and claim.controller.uid == pod.uid
