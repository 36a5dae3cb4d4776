"""Publishing: which GPUs a pod was given by its claims, for the annotation that its Binding carries.

For the plugin beside it.  Unlike a set that the kubelet chooses later, this one is what the pod has: `basis=allocated`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.topology import GPUS_ANNOTATION, Basis, format_gpus, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.framework.cycle_state import CycleState
    from scheduler.model import Pod
    from scheduler.model.device_claims import AllocatedDevice

    from .world import Place

ANNOTATIONS = "annotations"
PLACEMENT_ANNOTATION = "scheduling.ai-scheduler.io/placement"
_ADDED = "DynamicResources.annotations"


def published(place: Place, devices: Iterable[AllocatedDevice]) -> dict[str, str]:
    """Return the annotations for devices on a node: the numbers of its GPUs among them; nothing if it has no such."""
    own = [place.gpu_numbers[d.id] for d in devices if not d.admin_access and d.id in place.gpu_numbers]
    if not own:
        return {}
    found = {GPUS_ANNOTATION: format_gpus(sum(1 << number for number in set(own)), Basis.ALLOCATED)}
    connections = place.connections
    if connections is None:
        return found
    mask = sum(1 << connections.gpu_of[d.id] for d in devices if not d.admin_access and d.id in connections.gpu_of)
    chosen = table_of(connections.machine).best(mask, mask.bit_count())
    if chosen is not None:
        found[PLACEMENT_ANNOTATION] = f"bandwidth-gbps={chosen.bandwidth_gbps}"
    return found


def publish(state: CycleState, pod: Pod, annotations: Mapping[str, str]) -> None:
    """Leave annotations for the Binding, beside those of other plugins, which win."""
    others = state.read((ANNOTATIONS, pod.uid), {})
    state.write((_ADDED, pod.uid), annotations.keys() - others.keys())
    state.write((ANNOTATIONS, pod.uid), {**annotations, **others})


def withdraw(state: CycleState, pod: Pod) -> None:
    """Take back what `publish` added."""
    if added := state.read((_ADDED, pod.uid)):
        known = state.read((ANNOTATIONS, pod.uid), {})
        state.write((_ADDED, pod.uid), None)
        state.write((ANNOTATIONS, pod.uid), {key: text for key, text in known.items() if key not in added})
