"""Changes of groups: a group is new, says something else, or is gone, and its pods may belong to another gang now.

For the intake, which also tells when members of a gang changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from scheduler.framework.status import ClusterEvent
from scheduler.model.checkpoints import LAST_CHECKPOINT
from scheduler.model.run_time import INVALID_RUN_TIME, problem_at

from .reporter import gang_ref
from .workloads import workload_key_of

if TYPE_CHECKING:
    from scheduler.model import Gang, GangKey, Pod

    from .checkpoints import CheckpointWarnings
    from .core import Core
    from .health import Health
    from .inputs import GangChanged, GangRemoved
    from .rollback import Rollback


class GroupChanges:
    """What happens to groups outside, seen from inside."""

    def __init__(self, core: Core, rollback: Rollback, health: Health, checkpoints: CheckpointWarnings) -> None:
        """Take the parts to change."""
        self._checkpoints = checkpoints
        self._core = core
        self._rollback = rollback
        self._health = health

    def changed(self, happened: GangChanged) -> None:
        """Take a group that is new or says something else."""
        core, gang = self._core, happened.gang
        former = core.cluster.groups.object(gang.key)
        if former == gang:
            return
        core.backfill.run_times.saw_group(gang.annotations, gang.labels, gang.deadline_seconds)
        if (former is None or former.annotations != gang.annotations) and (problem := problem_at(gang.annotations)):
            controller = next(iter(core.runtimes))
            core.reporter.event(gang_ref(gang), "Warning", INVALID_RUN_TIME, "Scheduling", problem, controller)
        self._regroup(core.cluster.groups.put(gang))
        self._checkpoints.look_at_gang(gang, former)
        root = core.cluster.groups.root_of(gang.key)
        if former is None:
            self._rollback.found(gang)
            self._health.found(gang)
            core.backfill.found(workload_key_of(gang.key), gang.promised_start)
        elif _with_status(former, gang) == gang:
            if gang.is_once_enough:  # its status, which others write, may say that nobody is waited for any more
                self.members_changed(root, core.clock())
            return  # its status, which we write
        core.queues.gang_changed(root)
        core.workloads.news(workload_key_of(root))
        core.changed(ClusterEvent.GANG_CHANGED)
        self.members_changed(root, core.clock())

    def removed(self, happened: GangRemoved) -> None:
        """Take that a group is gone."""
        core = self._core
        if core.cluster.groups.object(happened.key) is not None:
            self.members_changed(core.cluster.groups.root_of(happened.key), core.clock())
            self._regroup(core.cluster.groups.drop(happened.key, was_complete=self._was_complete(happened.key)))
            core.reporter.forget_workload(workload_key_of(happened.key))
            self.forget(happened.key)
            core.changed(ClusterEvent.GANG_CHANGED)  # what it had for itself is open to others now
            self.members_changed(happened.key, core.clock())

    def _was_complete(self, key: GangKey) -> bool:
        """Tell whether the gang that a group is a part of has had its minimum, as far as this process or a status knows."""
        root = self._core.cluster.groups.root_of(key)
        gang = self._core.cluster.gangs.get(root)
        return root in self._core.completed or (gang is not None and gang.was_complete)

    def forget(self, key: GangKey) -> None:
        """Forget what is kept of a gang that is gone."""
        core = self._core
        core.reporter.forget_gang(key)
        self._rollback.forget(key)
        self._health.forget(key)
        core.access.shunned.pop(key, None)
        core.placements.pop(key, None)
        core.cluster.former_nodes.pop(key, None)

    def _regroup(self, groups: list[GangKey]) -> None:
        """Put the pending pods of some groups where they belong now: their gang may be another one."""
        core, now = self._core, self._core.clock()
        for uid in [uid for key in groups for uid in core.cluster.groups.uids_naming(key)]:
            if core.workloads.of(uid) is not None:
                core.add_pending(core.cluster.pods[uid], now)

    def look_at_member(self, former: Pod | None, pod: Pod | None, key: GangKey | None) -> None:
        """Let a gang's waiting members be tried again if one leaves its node: it binds them to its domain no more."""
        if key is not None and former is not None and _is_at_home(former) and (pod is None or not _is_at_home(pod)):
            self._core.workloads.news(workload_key_of(key))

    def members_changed(self, key: GangKey | None, now: float) -> None:
        """Look at a gang's waiting members again, as its members or its object changed."""
        if key is not None:
            self._core.stale[workload_key_of(key)] = None
            self._core.reporter.gang_changed(key, now)


def _is_at_home(pod: Pod) -> bool:
    """Tell whether the gang of a pod keeps to where it is."""
    return bool(pod.node_name) and not pod.is_terminal and not pod.is_terminating


def _with_status(former: Gang, gang: Gang) -> Gang:
    """Return a gang as it was, but for what is written into its status, and for its last checkpoint: that is no news to others."""
    told = {key: value for key, value in former.annotations.items() if key != LAST_CHECKPOINT}
    if (saved := gang.annotations.get(LAST_CHECKPOINT)) is not None:
        told[LAST_CHECKPOINT] = saved
    return structs.replace(
        former,
        phase=gang.phase,
        was_complete=gang.was_complete,
        short_since=gang.short_since,
        promised_start=gang.promised_start,
        is_shrunk=gang.is_shrunk,
        generation=gang.generation,
        annotations=told,
    )
