"""What is told of a pod's GPUs on the pod itself, and what members of its gang were given before it.

For the plugin beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.topology import GPUS_ANNOTATION, NICS_ANNOTATION, Basis, TopologyError, format_gpus, parse_gpus

from .occupancy import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.framework.cycle_state import CycleState
    from scheduler.model import Pod
    from scheduler.state.cluster import ClusterState
    from scheduler.topology import Machine

    from .occupancy import Choice, Held

PLACEMENT_ANNOTATION = "scheduling.ai-scheduler.io/placement"


def published(choice: Choice, quality: int, machine: Machine | None) -> dict[str, str]:
    """Return the annotations that tell a choice, with the parts of what it is worth in the order in which they count."""
    placement = f"quality={quality};bandwidth-gbps={choice.gpus.bandwidth_gbps}"
    annotations = {GPUS_ANNOTATION: format_gpus(choice.gpus.mask, choice.basis)}
    if choice.nics is not None:
        names = [machine.nics[nic].name for nic in choice.nics.nics] if machine is not None else []
        if names:
            annotations[NICS_ANNOTATION] = f"{','.join(names)};basis={Basis.ASSUMED}"
        scope = "unknown" if choice.nics.scope is None else choice.nics.scope.name.lower()
        placement += f";nics={scope};nic-quality={choice.nics.quality}"
    return annotations | {PLACEMENT_ANNOTATION: f"{placement};lost={choice.lost}"}


def sets_of_siblings(state: CycleState, pod: Pod, cluster: ClusterState, remembered: Mapping[str, Held]) -> list[int]:
    """Return the sets that members of the pod's gang have, the first one first: the same rails lead from each to each.

    The list is one for the whole cycle, to be added to; O(members) for the first of them, O(1) for the others.
    """
    key = cluster.gang_of(pod)
    if key is None:
        return []
    known: list[int] | None = state.read((NAME, key))
    if known is None:
        masks = (_mask_of(member, remembered) for member in cluster.members(key))
        known = list(dict.fromkeys(mask for mask in masks if mask))
        state.write((NAME, key), known)
    return known


def _mask_of(pod: Pod, remembered: Mapping[str, Held]) -> int:
    """Return the set that a pod has; 0 if it tells none."""
    held = remembered.get(pod.uid)
    if held is not None or not pod.node_name or pod.is_terminal:
        return held.gpus if held is not None else 0
    try:
        return parse_gpus(pod.annotations.get(GPUS_ANNOTATION, ""))[0]
    except TopologyError:
        return 0
