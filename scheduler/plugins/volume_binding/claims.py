"""The claims of a pod: in order or not, and those that have a volume apart from those that wait for one.

For the plugin beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.model import Claim, StorageClass
from scheduler.model.pod_claims import claim_uses, not_owned

if TYPE_CHECKING:
    from scheduler.model import Pod

    from .assumed import Assumed

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


@dataclass(frozen=True, slots=True)
class PodClaims:
    """A pod's claims, in the order of its volumes."""

    #: With a volume.
    bound: tuple[Claim, ...]
    #: To be given a volume once the pod's node is known.
    waiting: tuple[Claim, ...]


def objection(pod: Pod, assumed: Assumed) -> str:
    """Return what is wrong with a claim of a pod; empty if all are in order."""
    for use in claim_uses(pod):
        claim = assumed.objects.get(Claim, pod.namespace, use.name)
        if claim is None:
            if use.is_ephemeral:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{use.name}"'
            return f'persistentvolumeclaim "{use.name}" not found'
        if claim.phase == "Lost":
            return f'persistentvolumeclaim "{use.name}" bound to non-existent persistentvolume "{claim.volume_name}"'
        if claim.is_terminating:
            return f'persistentvolumeclaim "{use.name}" is being deleted'
        if use.is_ephemeral and (text := not_owned(pod, claim)):
            return text
    return UNBOUND if claims_of(pod, assumed) is None else ""


def claims_of(pod: Pod, assumed: Assumed) -> PodClaims | None:
    """Return the claims; None if one is missing, or has no volume and will not get one by the pod's being placed."""
    bound, waiting = [], []
    for use in claim_uses(pod):
        claim = assumed.claim(pod.namespace, use.name)
        if claim is None:
            return None
        if claim.is_bound:
            bound.append(claim)
            continue
        named = assumed.objects.get(StorageClass, "", claim.class_name)
        if claim.volume_name or named is None or not named.waits:
            return None
        waiting.append(claim)
    return PodClaims(tuple(bound), tuple(waiting))
