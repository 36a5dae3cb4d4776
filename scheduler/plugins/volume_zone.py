"""VolumeZone keeps a pod in the zones and regions that the labels of its volumes name.

At PreFilter, where pods without such volumes are done, and at Filter.  Nodes that carry no zone or region at all pass, as
in clusters of one zone.  Ephemeral volumes are not looked at, as in kube-scheduler.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Code, Reason, Status
from scheduler.framework.verdicts import Verdicts
from scheduler.model import Claim, PersistentVolume, StorageClass
from scheduler.model.csi_migration import ZONE_DELIMITER
from scheduler.model.pod_claims import named_claims, uses_claim

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scheduler.framework.change import Change
    from scheduler.framework.cycle_state import CycleState
    from scheduler.model import Node, Pod
    from scheduler.state.objects import Objects
    from scheduler.state.snapshot import Nodes

NAME = "VolumeZone"
CURES = (
    ClusterEvent.STORAGE_CLASS_CHANGED
    | ClusterEvent.CLAIM_CHANGED
    | ClusterEvent.VOLUME_CHANGED
    | ClusterEvent.NODE_ADDED
    | ClusterEvent.NODE_LABELS
)
OTHER_ZONE = Reason("OtherVolumeZone", "node(s) had no available volume zone", CURES)
#: Old labels and the ones that took their place.
LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}

#: A label of nodes, and the values that a volume allows.
Place: TypeAlias = tuple[str, tuple[str, ...]]


def places_of(volume: PersistentVolume) -> list[Place]:
    """Return where a volume can be used; a label with an empty value in its list says nothing."""
    found = []
    for key in LABELS:
        if key in volume.labels:
            values = {value.strip() for value in volume.labels[key].split(ZONE_DELIMITER)}
            if "" not in values:
                found.append((key, tuple(sorted(values))))
    return found


def fits(place: Place, node: Node) -> bool:
    """Tell whether a node is in a place: nodes may have the newer label only; those without any label are everywhere."""
    key, values = place
    value = node.labels.get(key, node.labels.get(LABELS[key]))
    return value in values or not any(label in node.labels for label in LABELS)


def places_of_pod(pod: Pod, objects: Objects) -> list[Place] | Status:
    """Return where all bound claims of a pod can be used, or why that cannot be said."""
    places: list[Place] = []
    for name in named_claims(pod):
        claim = objects.get(Claim, pod.namespace, name)
        if claim is None:
            return _refused(
                f'persistentvolumeclaim "{name}" not found' if name else "PersistentVolumeClaim had no name"
            )
        if claim.volume_name:
            volume = objects.get(PersistentVolume, "", claim.volume_name)
            if volume is None:
                return _refused(f'persistentvolume "{claim.volume_name}" not found')
            places += places_of(volume)
        elif text := why_unbound(claim, objects):
            return _refused(text)
    return places


def why_unbound(claim: Claim, objects: Objects) -> str:
    """Return what is wrong with a claim that has no volume; empty if it waits for its pod."""
    if not claim.class_name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    found = objects.get(StorageClass, "", claim.class_name)
    if found is None:
        return f'storageclass.storage.k8s.io "{claim.class_name}" not found'
    return "" if found.waits else "PersistentVolume had no name"


class VolumeZone(Plugin):
    """Respect the zones of volumes."""

    NAME: ClassVar[str] = NAME
    READS_ONE_NODE: ClassVar[bool] = True
    READS_SHAPE_ONLY: ClassVar[bool] = True
    SIGNS_STORAGE_ONLY: ClassVar[bool] = True

    def sign(self, pod: Pod) -> Hashable:
        """Return what the verdicts depend on beside the pod's shape and the nodes."""
        generation = self.handle.cluster.objects.generation
        return tuple([generation(kind) for kind in (Claim, PersistentVolume, StorageClass)]) if pod.volumes else ()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Leave pods alone whose volumes name no zone; refuse those whose claims are not in order."""
        if not pod.volumes:
            return Status.skip()
        places = places_of_pod(pod, self.handle.cluster.objects)
        if isinstance(places, Status):
            return places
        return None if places else Status.skip()

    def queueing_hint(self, event: ClusterEvent, change: Change, pod: Pod, reason: Reason) -> bool:
        """Tell whether a claim that changed is one of the pod's."""
        return event is not ClusterEvent.CLAIM_CHANGED or uses_claim(pod, change.key)

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse nodes outside of a place of some volume."""
        verdicts = Verdicts(len(nodes))
        places = places_of_pod(pod, self.handle.cluster.objects)
        if isinstance(places, Status):
            return verdicts
        is_outside = np.zeros(len(nodes), dtype=np.bool_)
        for place in dict.fromkeys(places):
            is_outside |= ~nodes.column((NAME, place), partial(fits, place))
        verdicts.reject(is_outside, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, OTHER_ZONE)
        return verdicts


def _refused(text: str) -> Status:
    return Status.unresolvable(Reason("ClaimNotInOrder", text, CURES))
