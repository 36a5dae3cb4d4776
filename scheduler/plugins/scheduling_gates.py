"""SchedulingGates keeps pods with `spec.schedulingGates` out of the queue until the last gate is gone.

At PreEnqueue; only a change of the pod itself can cure it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Reason, Status

if TYPE_CHECKING:
    from scheduler.model import Pod

NAME = "SchedulingGates"


class SchedulingGates(Plugin):
    """Hold gated pods back."""

    NAME: ClassVar[str] = NAME

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Refuse a pod that has gates, and name them."""
        if not pod.gates:
            return None
        text = f"waiting for scheduling gates: [{' '.join(pod.gates)}]"
        return Status.unresolvable(Reason("SchedulingGated", text, cures=ClusterEvent.POD_UPDATED))
