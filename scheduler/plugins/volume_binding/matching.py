"""Matching: which volumes a claim could get, leaving aside where they can be used.

For `finding`: what of kube-scheduler's FindMatchingVolume does not depend on the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.label_tests import selects

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.model import Claim, PersistentVolume


def candidates(
    claim: Claim, meant: Iterable[PersistentVolume], free: Iterable[PersistentVolume]
) -> list[PersistentVolume]:
    """Return the volumes that a claim could get, given those that are meant for it and those for nobody, in their order.

    A volume that is meant for the claim is the only one that it may get.
    """
    for volume in meant:
        if _is_suitable(claim, volume):
            return [volume]
    return [volume for volume in free if _is_suitable(claim, volume) and _is_free(claim, volume)]


def _is_suitable(claim: Claim, volume: PersistentVolume) -> bool:
    """Tell whether a volume could serve a claim at all, whoever it is meant for."""
    return (
        volume.capacity_bytes >= (claim.requested_bytes or 0)
        and volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
        and not volume.is_terminating
    )


def _is_free(claim: Claim, volume: PersistentVolume) -> bool:
    """Tell whether a volume that is meant for nobody is what a claim asks for."""
    return (
        volume.phase == "Available"
        and selects(claim.selector, volume.labels)
        and volume.class_name == claim.class_name
        and set(claim.access_modes).issubset(volume.access_modes)
    )
