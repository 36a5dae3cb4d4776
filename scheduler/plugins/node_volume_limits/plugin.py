"""NodeVolumeLimits keeps nodes from getting more volumes of a CSI driver than they can attach.

At PreFilter, where pods without attachable volumes are done, and at Filter.  What the pods of a node use counts, and what
is attached there; volumes that are still to be made count for the driver of their class.  A driver may demand to be on
the node at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Reason, Status
from scheduler.framework.verdicts import Verdicts
from scheduler.model import Claim, CSIDriver, CSINode, PersistentVolume, StorageClass, VolumeAttachment
from scheduler.model.csi_migration import is_migratable
from scheduler.model.pod_claims import claim_use, has_ephemeral, uses_claim

from .attachable import Attachables, BrokenVolumeError, ClaimMissingError, count_by_driver, uses_claims_only

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from scheduler.framework.change import Change
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.model import Pod
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Nodes

    from .attachable import Attachable

NAME = "NodeVolumeLimits"
CURES = (
    ClusterEvent.CSI_NODE_CHANGED
    | ClusterEvent.POD_REMOVED
    | ClusterEvent.CLAIM_CHANGED
    | ClusterEvent.ATTACHMENT_CHANGED
)
TOO_MANY = Status.unschedulable(Reason("TooManyVolumes", "node(s) exceed max volume count", CURES))
_READ = (Claim, PersistentVolume, StorageClass, CSINode, CSIDriver, VolumeAttachment)


class NodeVolumeLimits(Plugin):
    """Count attached volumes."""

    NAME: ClassVar[str] = NAME
    READS_ONE_NODE: ClassVar[bool] = True
    READS_SHAPE_ONLY: ClassVar[bool] = True
    SIGNS_STORAGE_ONLY: ClassVar[bool] = True

    def __init__(self, args: None, handle: Handle) -> None:
        """Start with nothing looked up."""
        super().__init__(args, handle)
        self._known: Attachables | None = None

    def sign(self, pod: Pod) -> Hashable:
        """Return what the verdicts depend on beside the pod's shape and what stands on the nodes."""
        if not pod.volumes:
            return ()
        generation = self.handle.cluster.objects.generation
        return (*[generation(kind) for kind in _READ], pod.uid if has_ephemeral(pod) else "")

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Leave pods without attachable volumes alone."""
        has_some = any(claim_use(pod, v) is not None or is_migratable(v) for v in pod.volumes)
        return None if has_some else Status.skip()

    def queueing_hint(self, event: ClusterEvent, change: Change, pod: Pod, reason: Reason) -> bool:
        """Tell whether a claim that changed is one of the pod's, and one that went had volumes."""
        if event is ClusterEvent.POD_REMOVED and change.former_pod is not None:
            return bool(change.former_pod.volumes)
        return event is not ClusterEvent.CLAIM_CHANGED or uses_claim(pod, change.key)

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse nodes where the pod's volumes are too many, or their driver is missing; O(pods) of these nodes."""
        if not pod.volumes:
            return Verdicts(len(nodes))
        csi_nodes, every = self.handle.cluster.objects.all(CSINode), nodes.snapshot.all_rows
        new = self._wanted(pod, has_csi_node=True)
        without = self._wanted(pod, has_csi_node=False)
        elsewhere = without if isinstance(without, Status) else self._missing(without, {})
        statuses: list[Status | None] = []
        for row in [every[i] for i in nodes.rows.tolist()]:
            csi_node = csi_nodes.get(("", row.node.name))
            if csi_node is None:
                statuses.append(elsewhere)
            elif isinstance(new, Status):
                statuses.append(new)
            else:
                missing = self._missing(new, csi_node.drivers)
                statuses.append(missing or self._exceeding(new, row, csi_node.drivers))
        return Verdicts.from_statuses(statuses)

    def _wanted(self, pod: Pod, *, has_csi_node: bool) -> set[Attachable] | Status:
        """Return the pod's own attachable volumes, or why they cannot be told."""
        try:
            return self._attachables().of_pod(pod, is_new=True, has_csi_node=has_csi_node)
        except ClaimMissingError as missing:
            text = f'looking up PVC {pod.namespace}/{missing.name}: persistentvolumeclaim "{missing.name}" not found'
            return Status.unresolvable(Reason("ClaimMissing", text, CURES))
        except BrokenVolumeError as error:
            return Status.error(str(error))

    def _missing(self, new: set[Attachable], installed: Mapping[str, int | None]) -> Status | None:
        """Return that a driver must be on the node and is not."""
        for name in sorted({driver for driver, _ in new if driver not in installed}):
            driver = self.handle.cluster.objects.get(CSIDriver, "", name)
            if driver is not None and driver.is_needed_on_node:
                text = f"{name} CSI driver is not installed on the node"
                return Status.unschedulable(Reason("DriverMissing", text, CURES))
        return None

    def _exceeding(self, new: set[Attachable], row: Row, installed: Mapping[str, int | None]) -> Status | None:
        """Return that the new volumes are too many, or that those on the node cannot be told."""
        limits = {name: limit for name, limit in installed.items() if limit is not None}
        if not new or not limits:
            return None
        known, here = self._attachables(), self._attachables().on_node(row.node.name)
        attached: set[Attachable] = set()
        plain, most = [], len(here) + len(new)
        try:
            for other in row.pods.values():
                if other.volumes:
                    most += len(other.volumes)
                    if uses_claims_only(other):
                        plain.append(other)
                    else:
                        attached |= known.of_pod(other, is_new=False, has_csi_node=True)
            if all(most <= limits[name] for name, _ in new if name in limits):
                return None  # even if all were of one driver
            for other in plain:
                attached |= known.of_pod(other, is_new=False, has_csi_node=True)
        except BrokenVolumeError as error:
            return Status.error(str(error))
        counts = count_by_driver(attached | here)
        for name, count in count_by_driver(new - attached).items():
            if name in limits and counts.get(name, 0) + count > limits[name]:
                return TOO_MANY
        return None

    def _attachables(self) -> Attachables:
        """Return what looks volumes up; made when first needed, as handles come before the state."""
        if self._known is None:
            self._known = Attachables(self.handle.cluster.objects)
        return self._known
