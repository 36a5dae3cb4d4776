"""VolumeBinding places a pod where its claims have, or can get, their volumes, and has them bound before the pod is.

At PreFilter, where pods without claims are done and claims must be in order; at Filter and Score; at Reserve, where volumes
are assumed to be the pod's; and at PreBind, which has that written and waits until the volumes are bound.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scheduler.framework.broken_line import broken_line
from scheduler.framework.plugin import AwaitEffects, Plugin
from scheduler.framework.status import ClusterEvent, Code, Reason, Status
from scheduler.framework.verdicts import Verdicts
from scheduler.model import Claim, CSIDriver, CSINode, PersistentVolume, StorageCapacity, StorageClass
from scheduler.model.pod_claims import claim_uses, has_ephemeral, uses_claim

from .assumed import Assumed
from .binding import assume, check, effects_of, revert, steps_at
from .claims import UNBOUND, claims_of, objection
from .finding import Finder, Found
from .reaches import Reaches
from .scoring import VolumeBindingArgs, scores

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scheduler.framework.change import Change
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.model import Pod
    from scheduler.state.rows import NodeView
    from scheduler.state.snapshot import Ints, Nodes, Snapshot

NAME = "VolumeBinding"
CURES = (
    ClusterEvent.STORAGE_CLASS_CHANGED
    | ClusterEvent.CLAIM_CHANGED
    | ClusterEvent.VOLUME_CHANGED
    | ClusterEvent.NODE_ADDED
    | ClusterEvent.NODE_LABELS
    | ClusterEvent.CSI_NODE_CHANGED
    | ClusterEvent.CSI_DRIVER_CHANGED
    | ClusterEvent.STORAGE_CAPACITY_CHANGED
)
OUT_OF_REACH = Reason("VolumeOutOfReach", "node(s) didn't match PersistentVolume's node affinity", CURES)
NO_MATCH = Reason("NoVolume", "node(s) didn't find available persistent volumes to bind", CURES)
UNORDERED = Reason("ClaimNotInOrder", UNBOUND, CURES)
NO_ROOM = Reason("NoStorage", "node(s) did not have enough free storage", CURES)
LOST = Reason("VolumeLost", "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", CURES)
_READ = (Claim, PersistentVolume, StorageClass, CSINode, CSIDriver, StorageCapacity)


class VolumeBinding(Plugin):
    """Find volumes for claims, and have them bound."""

    NAME: ClassVar[str] = NAME
    Args = VolumeBindingArgs
    READS_ONE_NODE: ClassVar[bool] = True
    READS_SHAPE_ONLY: ClassVar[bool] = True
    SIGNS_STORAGE_ONLY: ClassVar[bool] = True

    def __init__(self, args: VolumeBindingArgs | None, handle: Handle) -> None:
        """Start with nothing assumed."""
        super().__init__(args or VolumeBindingArgs(), handle)
        self._line = broken_line(self.args.shape)
        self._overlay: Assumed | None = None
        self._reaches: Reaches | None = None

    def sign(self, pod: Pod) -> Hashable:
        """Return what the verdicts depend on beside the pod's shape and the nodes."""
        if not claim_uses(pod):
            return ()
        assumed = self._assumed()
        generations = [assumed.objects.generation(kind) for kind in _READ]
        return (*generations, assumed.generation, pod.uid if has_ephemeral(pod) else "")

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Leave pods without claims alone; refuse those whose claims are not in order."""
        if not claim_uses(pod):
            return Status.skip()
        text = objection(pod, self._assumed())
        return Status.unresolvable(Reason("ClaimNotInOrder", text, CURES)) if text else None

    def queueing_hint(self, event: ClusterEvent, change: Change, pod: Pod, reason: Reason) -> bool:
        """Tell whether a claim that changed is one of the pod's."""
        return event is not ClusterEvent.CLAIM_CHANGED or uses_claim(pod, change.key)

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse nodes where some claim has no volume and can get none."""
        verdicts = Verdicts(len(nodes))
        if not claim_uses(pod):
            return verdicts
        found = self._found(state, pod, nodes.snapshot)
        if found is None:
            verdicts.reject(np.ones(len(nodes), dtype=np.bool_), Code.UNSCHEDULABLE_AND_UNRESOLVABLE, UNORDERED)
            return verdicts
        for where, text in found.broken:
            verdicts.reject(nodes.at(where), Code.ERROR, Status.error(text).reasons[0])
        for where, reason in (
            (found.out_of_reach, OUT_OF_REACH),
            (found.no_match, NO_MATCH),
            (found.no_room, NO_ROOM),
            (found.is_lost, LOST),
        ):
            verdicts.reject(nodes.at(where), Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)
        return verdicts

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return how well the free storage of each node suits, by the shape; 0 for pods that need none."""
        found = self._found(state, pod, nodes.snapshot) if claim_uses(pod) else None
        if found is None or not (found.bindings or found.provisions):
            return np.zeros(len(nodes), dtype=np.int64)
        return nodes.at(scores(found, self._line))

    def score(self, state: CycleState, pod: Pod, node: NodeView) -> int:
        """Return the same for one node."""
        if not claim_uses(pod):
            return 0
        snapshot = self.handle.snapshot
        return int(self.score_all(state, pod, snapshot.nodes.one(snapshot.row_of[node.name]))[0])

    def same_score(self, pod: Pod, nodes: Nodes) -> int | None:
        """Return 0 for a pod without claims."""
        return None if claim_uses(pod) else 0

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Assume that the volumes found on the node are the pod's; refuse if others have got them meanwhile."""
        if not claim_uses(pod):
            return None
        claims, snapshot = claims_of(pod, self._assumed()), self.handle.snapshot
        if claims is not None and not claims.waiting:
            return None
        found, row = self._found(state, pod, snapshot), snapshot.row_of.get(node_name)
        if found is None or row is None:
            return Status.unresolvable(UNORDERED if found is None else NO_MATCH)
        nodes = snapshot.nodes.select(np.array([row], dtype=np.int64))
        if (status := self.filter_all(state, pod, nodes).status_at(0)) is not None:
            return status
        steps = steps_at(found, row, node_name)
        assume(steps, self._assumed())
        state.write((NAME, pod.uid), steps)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Take back what was assumed."""
        revert(state.read((NAME, pod.uid), ()), self._assumed())
        state.write((NAME, pod.uid), ())

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> AwaitEffects | None:
        """Have it written whose the volumes are and where the others are to be made, and wait until all are bound."""
        steps = state.read((NAME, pod.uid), ())
        if not steps:
            return None
        is_bound = partial(check, pod, node_name, steps, self.handle.cluster)
        return AwaitEffects(effects_of(steps), NAME, self.args.bind_timeout_seconds, is_bound)

    def _assumed(self) -> Assumed:
        """Return the claims and volumes; made when first needed, as handles come before the state."""
        if self._overlay is None:
            self._overlay = Assumed(self.handle.cluster.objects)
        return self._overlay

    def _found(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Found | None:
        """Return the answer for all rows, looked for once per state of the objects; None if the claims are not in order."""
        stamp = (self.sign(pod), snapshot.node_generation)
        known = state.read(NAME)
        if known is None or known[0] != stamp:
            if self._reaches is None or not self._reaches.is_of(snapshot):
                self._reaches = Reaches(snapshot)
            claims = claims_of(pod, self._assumed())
            found = Finder(self._assumed(), snapshot, self._reaches).find(claims) if claims is not None else None
            known = (stamp, found)
            state.write(NAME, known)
        result: Found | None = known[1]
        return result
