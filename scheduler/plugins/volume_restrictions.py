"""VolumeRestrictions keeps disks and ReadWriteOncePod claims to as many pods as they can serve.

At PreFilter, where pods without such volumes are done, and at Filter.  A disk of Google, Amazon, iSCSI or Ceph RBD that
a pod names itself is used once per node (or only read); a ReadWriteOncePod claim once in the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Code, Reason, Status
from scheduler.framework.verdicts import Verdicts
from scheduler.model import Claim
from scheduler.model.pod_claims import named_claims, uses_claim
from scheduler.model.storage import READ_WRITE_ONCE_POD

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from scheduler.framework.change import Change
    from scheduler.framework.cycle_state import CycleState
    from scheduler.model import Pod
    from scheduler.model.volume_api import Volume
    from scheduler.state.objects import Objects
    from scheduler.state.snapshot import Nodes

NAME = "VolumeRestrictions"
CURES = ClusterEvent.POD_REMOVED | ClusterEvent.NODE_ADDED | ClusterEvent.CLAIM_CHANGED
DISK_TAKEN = Reason("DiskTaken", "node(s) had no available disk", CURES)
CLAIM_TAKEN = Reason(
    "ClaimTaken",
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
    CURES,
)


def is_disk(volume: Volume) -> bool:
    """Tell whether a volume is a disk that two pods on a node may not share."""
    disks = (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.iscsi, volume.rbd)
    return any(disk is not None for disk in disks)


def clash(a: Volume, b: Volume) -> bool:
    """Tell whether two volumes are the same disk, and not both read only; Amazon's are never shared."""
    if (one := a.gce_persistent_disk) and (other := b.gce_persistent_disk) and one.pd_name == other.pd_name:
        return not (one.read_only and other.read_only)
    if (ebs := a.aws_elastic_block_store) and (other_ebs := b.aws_elastic_block_store):
        return ebs.volume_id == other_ebs.volume_id
    if (scsi := a.iscsi) and (other_scsi := b.iscsi) and scsi.iqn == other_scsi.iqn:
        return not (scsi.read_only and other_scsi.read_only)
    if (rbd := a.rbd) and (other_rbd := b.rbd) and (rbd.pool, rbd.image) == (other_rbd.pool, other_rbd.image):
        return not set(rbd.monitors).isdisjoint(other_rbd.monitors) and not (rbd.read_only and other_rbd.read_only)
    return False


def exclusive_claims(pod: Pod, objects: Objects) -> frozenset[str] | Status:
    """Return the ReadWriteOncePod claims of a pod, or a refusal if a claim is missing."""
    found = set()
    for name in named_claims(pod):
        claim = objects.get(Claim, pod.namespace, name)
        if claim is None:
            return Status.unresolvable(Reason("ClaimMissing", f'persistentvolumeclaim "{name}" not found', CURES))
        if READ_WRITE_ONCE_POD in claim.access_modes:
            found.add(name)
    return frozenset(found)


class VolumeRestrictions(Plugin):
    """Let nobody share what cannot be shared."""

    NAME: ClassVar[str] = NAME
    READS_SHAPE_ONLY: ClassVar[bool] = True
    SIGNS_STORAGE_ONLY: ClassVar[bool] = True

    def sign(self, pod: Pod) -> Hashable:
        """Return what the verdicts depend on beside the pod's shape and what stands on the nodes."""
        return self.handle.cluster.objects.generation(Claim) if pod.volumes else ()

    def is_settled(self, state: CycleState, pod: Pod, point: str) -> bool:
        """Tell whether what stands on other nodes says nothing new: the pod has no claims of its own to share with them."""
        return not (pod.volumes and state.read(NAME))

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Leave pods alone that name no disk and whose exclusive claims are free."""
        if not pod.volumes:
            return Status.skip()
        claims = exclusive_claims(pod, self.handle.cluster.objects)
        if isinstance(claims, Status):
            return claims
        state.write(NAME, claims)
        is_needed = self._is_any_taken(pod, claims, nodes) or any(is_disk(volume) for volume in pod.volumes)
        return None if is_needed else Status.skip()

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse nodes where a disk is taken, and all nodes while a claim is; O(pods) of these nodes."""
        verdicts = Verdicts(len(nodes))
        if not pod.volumes:
            return verdicts
        pods = [nodes.snapshot.all_rows[row].pods.values() for row in nodes.rows.tolist()]
        disks = [volume for volume in pod.volumes if is_disk(volume)]
        is_taken = np.zeros(len(nodes), dtype=np.bool_)
        if disks:
            is_taken = np.array([_clashes(disks, each) for each in pods], dtype=np.bool_)
            verdicts.reject(is_taken, Code.UNSCHEDULABLE, DISK_TAKEN)
        if self._is_any_taken(pod, state.read(NAME, frozenset()), nodes):
            verdicts.reject(~is_taken, Code.UNSCHEDULABLE, CLAIM_TAKEN)
        return verdicts

    def queueing_hint(self, event: ClusterEvent, change: Change, pod: Pod, reason: Reason) -> bool:
        """Tell whether one of the pod's claims changed, or a pod went that had a volume which it wants."""
        if event is ClusterEvent.CLAIM_CHANGED:
            return uses_claim(pod, change.key)
        if event is not ClusterEvent.POD_REMOVED or (gone := change.former_pod) is None:
            return True
        is_shared = gone.namespace == pod.namespace and not set(named_claims(gone)).isdisjoint(named_claims(pod))
        return is_shared or any(clash(a, b) for a in pod.volumes for b in gone.volumes if is_disk(a) and is_disk(b))

    def _is_any_taken(self, pod: Pod, claims: frozenset[str], nodes: Nodes) -> bool:
        """Tell whether a pod that is placed, as the snapshot is now, uses one of the claims."""
        index = nodes.snapshot.pods if claims else None
        return index is not None and any(index.claim_users(pod.namespace, claim) for claim in claims)


def _clashes(disks: list[Volume], others: Iterable[Pod]) -> bool:
    return any(clash(disk, volume) for other in others if other.volumes for volume in other.volumes for disk in disks)
