"""Moving: where those that make room could go on, so that making room costs them a restart and no more.

For GangPreemption.  Consolidation moves restartable workloads (annotation `scheduling.ai-scheduler.io/restartable: "true"` on the pod or
its group), so that a larger one fits, and only if every one of them has a place again in the same plan.  Whoever is evicted for
other reasons is given a place as well, where there is one.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import structs

from scheduler.framework.workload import Workload
from scheduler.model.needs import Needs
from scheduler.model.pod import shape_of
from scheduler.model.preemptibility import is_firm
from scheduler.state.cluster import RESTARTABLE

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from scheduler.framework.handle import Handle, Trial
    from scheduler.model import Gang, Pod

    from .victims import Unit

#: For how many units a new place is looked for at most: more are not moved, but evicted.
MOST_MOVED = 64


class Restartable:
    """The rules of consolidation: who may be moved for a workload."""

    retry_at: float | None = None

    def __init__(self, handle: Handle, workload: Workload) -> None:
        """Take the workload that room is made for; nobody more important is moved for it."""
        self._cluster = handle.cluster
        self._priority = workload.priority
        self._fixed: set[str] = set()

    def is_anybody(self) -> bool:
        """Tell whether there is any restartable workload. O(gangs)."""
        gangs = self._cluster.gangs.values()
        return bool(self._cluster.restartable) or any(_is_set(gang.annotations) for gang in gangs)

    def fix(self, unit: Unit) -> None:
        """Leave a unit where it is from now on: there is no other place for it."""
        self._fixed.update(pod.uid for pod in unit.members)

    def free(self) -> None:
        """Let everybody be moved again: room is looked for elsewhere."""
        self._fixed.clear()

    def may_evict(self, pod: Pod) -> bool:
        """Tell whether a pod may be moved."""
        key = self._cluster.gang_of(pod)
        gang = self._cluster.gangs.get(key) if key is not None else None
        if not (_is_set(pod.annotations) or (gang is not None and _is_set(gang.annotations))):
            return False
        return pod.priority <= self._priority and not is_firm(pod, gang)

    def may_follow(self, pod: Pod) -> bool:
        """Count on no room that somebody else makes: whoever is moved must have a place when all has settled."""
        del pod
        return False

    def allows(self, pods: Sequence[Pod], surplus: Sequence[Pod] = ()) -> bool:
        """Tell whether pods may be moved together."""
        del surplus
        return not any(pod.uid in self._fixed for pod in pods)

    def take(self, pods: Iterable[Pod]) -> None:
        """Keep no count."""

    def give_back(self, pods: Iterable[Pod]) -> None:
        """Keep no count."""

    def is_enough(self) -> bool:
        """Moving changes nothing about quotas."""
        return True

    def relieves(self, pods: Iterable[Pod]) -> bool:
        """Tell that nobody is moved for the sake of quotas."""
        del pods
        return False

    def rank(self, pods: Sequence[Pod]) -> int:
        """Move from any queue alike."""
        del pods
        return 0


class Again:
    """Places for units that are away, beside the preemptor, which is placed."""

    def __init__(self, handle: Handle, preemptor: Trial) -> None:
        """Take the handle and the preemptor, which is placed; `clear` takes all places back."""
        self._handle = handle
        self._preemptor = preemptor
        self._trials: list[Trial] = []
        #: Pod uid to the node that it could be on.
        self.nodes: dict[str, str] = {}

    def place(self, unit: Unit, *, is_whole: bool) -> Generator[int, None, bool]:
        """Find a place for a unit: for all of its pods, or at least for what its gang needs; False leaves none of it placed.

        Where the pods of another scheduler come back to is for that one to say: there is no place to promise them.
        """
        if not all(self._handle.is_ours(pod) for pod in unit.members):
            return False
        workload = _waiting(self._handle, unit)
        pods = workload.ordered()
        beside = dict(self._preemptor.placed)
        for other in self._trials:
            beside |= other.placed
        trial = self._handle.trial(workload, pods, beside)
        yield from trial.evaluate()
        if not (yield from trial.place_all(len(pods) if is_whole else workload.needed)):
            return False
        self._trials.append(trial)
        rows = self._handle.snapshot.all_rows
        self.nodes |= {uid: rows[row].node.name for uid, (_, row) in trial.placed.items()}
        return True

    def clear(self) -> None:
        """Take every place back, the last one first."""
        while self._trials:
            self._trials.pop().clear()


def _waiting(handle: Handle, unit: Unit) -> Workload:
    """Return a unit as it would wait for a place."""
    copies = {pod.uid: as_pending(pod) for pod in unit.members}
    priority = min(pod.priority for pod in copies.values())
    gang: Gang | None = handle.cluster.gangs.get(unit.gang) if unit.gang is not None else None
    if gang is None:
        return Workload(f"again:{unit.members[0].uid}", copies, needed=len(copies), priority=priority)
    role_of = handle.cluster.groups.role_of
    others = (member for member in handle.cluster.members(gang.key) if member.uid not in copies)
    placed = Counter(role_of(member) for member in others if handle.cluster.counts_as_placed(member))
    roles = {uid: role for uid, pod in copies.items() if (role := role_of(pod))}
    needs = Needs(gang, placed, roles)
    return Workload(f"again:{gang.key}", copies, gang, max(1, needs.missing()), needs, priority=priority)


def as_pending(pod: Pod) -> Pod:
    """Return a pod as it was before it had a node."""
    copy = structs.replace(
        pod, node_name="", nominated_node_name="", phase="Pending", started=None, is_terminating=False
    )
    return structs.replace(copy, shape=shape_of(copy))


def _is_set(annotations: dict[str, str]) -> bool:
    return annotations.get(RESTARTABLE) == "true"
