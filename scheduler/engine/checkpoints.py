"""CheckpointWarnings: says what cannot be read of what pods and groups say of their checkpoints, once at each.

For the intake, which calls it when a pod or a group is new or says something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.checkpoints import LAST_CHECKPOINT, NOTICE_SECONDS, RESTART_SECONDS, told_problems

from .reporter import gang_ref, pod_ref

if TYPE_CHECKING:
    from scheduler.model import Gang, Pod

    from .core import Core

_KEYS = (LAST_CHECKPOINT, RESTART_SECONDS, NOTICE_SECONDS)


class CheckpointWarnings:
    """Warnings about annotations that count for nothing."""

    def __init__(self, core: Core) -> None:
        """Take where warnings go."""
        self._core = core

    def look_at_pod(self, pod: Pod, former: Pod | None) -> None:
        """Look at a pod of ours, if it says something else than before."""
        if pod.scheduler_name not in self._core.runtimes or not _is_news(pod, former):
            return
        for text in told_problems(pod.annotations, self._core.clock()):
            note = f"{text}; until then it counts as if it were not there"
            reporter = self._core.reporter
            reporter.event(pod_ref(pod), "Warning", "InvalidCheckpoint", "Scheduling", note, pod.scheduler_name)

    def look_at_gang(self, gang: Gang, former: Gang | None) -> None:
        """Look at a group that has an object and members of ours, if it says something else than before."""
        members = self._core.cluster.members(self._core.cluster.groups.root_of(gang.key))
        if not gang.uid or not _is_news(gang, former) or not self._core.is_ours(members):
            return
        controller = next(iter(self._core.runtimes))
        for text in told_problems(gang.annotations, self._core.clock()):
            note = f"{text}; until then it counts as if it were not there"
            about = gang_ref(gang, members)
            self._core.reporter.event(about, "Warning", "InvalidCheckpoint", "Scheduling", note, controller)


def _is_news(thing: Pod | Gang, former: Pod | Gang | None) -> bool:
    """Tell whether there is something to look at that was not there before."""
    told = thing.annotations
    if not told or not any(key in told for key in _KEYS):
        return False
    return former is None or any(former.annotations.get(key) != told.get(key) for key in _KEYS)
