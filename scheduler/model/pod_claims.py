"""Which claims a pod uses: those that its volumes name, and those that are made for its ephemeral volumes.

For the volume plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .pod import Pod
    from .storage import Claim
    from .volume_api import Volume


class ClaimUse(NamedTuple):
    """One use of a claim by a pod."""

    name: str
    #: Made for the pod, and for it alone: the claim of an ephemeral volume.
    is_ephemeral: bool


def claim_use(pod: Pod, volume: Volume) -> ClaimUse | None:
    """Return the claim behind a volume; None if there is none."""
    if volume.persistent_volume_claim is not None:
        return ClaimUse(volume.persistent_volume_claim.claim_name, is_ephemeral=False)
    if volume.ephemeral is not None:
        return ClaimUse(f"{pod.name}-{volume.name}", is_ephemeral=True)
    return None


def claim_uses(pod: Pod) -> list[ClaimUse]:
    """Return the claims of a pod in the order of its volumes."""
    return [use for volume in pod.volumes if (use := claim_use(pod, volume)) is not None]


def uses_claim(pod: Pod, key: tuple[str, str]) -> bool:
    """Tell whether a claim, by namespace and name, is one of a pod's."""
    return key[0] == pod.namespace and any(use.name == key[1] for use in claim_uses(pod))


def named_claims(pod: Pod) -> list[str]:
    """Return the claims that a pod names, those of ephemeral volumes left out."""
    return [v.persistent_volume_claim.claim_name for v in pod.volumes if v.persistent_volume_claim is not None]


def has_ephemeral(pod: Pod) -> bool:
    """Tell whether some claim of a pod bears its own name, so that pods of its shape have others."""
    return any(volume.ephemeral is not None for volume in pod.volumes)


def not_owned(pod: Pod, claim: Claim) -> str:
    """Return why a claim cannot serve an ephemeral volume of a pod: it was not made for it; empty if it was."""
    if claim.namespace == pod.namespace and claim.controller_uid == pod.uid:
        return ""
    return f"PVC {claim.namespace}/{claim.name} was not created for pod {pod.key} (pod is not owner)"
