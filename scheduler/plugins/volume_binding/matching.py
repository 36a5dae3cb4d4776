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
    claim: Claim, volumes: Iterable[PersistentVolume]
) -> tuple[PersistentVolume | None, list[PersistentVolume]]:
    """Return the volume that is meant for a claim, if there is one, and the free ones that fit, the smallest first.

    A volume that is meant for the claim is the only one it may get.
    """
    free = []
    for volume in volumes:
        if volume.claim is not None and not volume.is_for(claim):
            continue
        if not _is_suitable(claim, volume):
            continue
        if volume.claim is not None:
            return volume, []
        if _is_free(claim, volume):
            free.append(volume)
    return None, sorted(free, key=lambda volume: volume.capacity_bytes)


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
