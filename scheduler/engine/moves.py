"""Moves: room that is kept for pods which will replace others that were moved to make room.

For the engine.  A controller makes new pods for those that are evicted; the plan has found them a place, and until they come, or
for as long as they may take, nobody of their importance or less gets it.  The first that fits is nominated there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from scheduler.framework.effects import NominatePod
from scheduler.plugins.preemption.moving import as_pending

from .reporter import pod_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.framework.effects import Effect
    from scheduler.model import Pod
    from scheduler.state.cluster import ClusterState

#: How long a replacement may take beyond the grace period of the pod that it replaces, in seconds.
PATIENCE_SECONDS = 120.0


class Moves:
    """Pods that are expected, by the uid that stands for each."""

    def __init__(self, cluster: ClusterState, emit: Callable[[Effect], None]) -> None:
        """Take where room is kept and where effects go."""
        self._cluster = cluster
        self._emit = emit
        self._expected: dict[str, tuple[Pod, str, float]] = {}

    def begin(self, pod: Pod, node_name: str, now: float) -> None:
        """Keep room on a node for whoever replaces a pod."""
        stand_in = structs.replace(as_pending(pod), uid=f"{pod.uid}:moved")
        until = now + pod.grace_period_seconds + PATIENCE_SECONDS
        if stand_in.uid in self._expected:
            self._cluster.expect_no_more(stand_in.uid)
        self._expected[stand_in.uid] = (stand_in, node_name, until)
        self._cluster.expect(stand_in, node_name)

    def end(self, uid: str) -> None:
        """Keep no room for whoever would replace a pod: it stays."""
        if self._expected.pop(f"{uid}:moved", None) is not None:
            self._cluster.expect_no_more(f"{uid}:moved")

    def arrived(self, pod: Pod) -> None:
        """Nominate a new pod where room is kept for it, if it replaces one that was moved."""
        if not self._expected:
            return
        alike = [uid for uid, (one, _, _) in self._expected.items() if _replaces(pod, one)]
        if not alike:
            return
        uid = next((uid for uid in alike if self._expected[uid][0].name == pod.name), alike[0])
        _, node_name, _ = self._expected.pop(uid)
        self._cluster.expect_no_more(uid)
        self._cluster.nominate(pod.uid, node_name)
        self._emit(NominatePod(pod_key(pod), node_name))

    def expire(self, now: float) -> None:
        """Keep no room any more for those that took too long."""
        for uid in [uid for uid, (_, _, until) in self._expected.items() if until <= now]:
            del self._expected[uid]
            self._cluster.expect_no_more(uid)

    def next_deadline(self) -> float | None:
        """Return when the next patience ends."""
        return min((until for _, _, until in self._expected.values()), default=None)


def _replaces(pod: Pod, former: Pod) -> bool:
    """Tell whether a pod is one that a controller made in place of another: of the same gang or owner, or of the same name."""
    if pod.namespace != former.namespace or pod.requests != former.requests:
        return False
    if pod.membership is not None and former.membership is not None:
        return (pod.membership.key, pod.membership.role) == (former.membership.key, former.membership.role)
    owners = {owner.uid for owner in former.owners}
    return pod.name == former.name or any(owner.uid in owners for owner in pod.owners)
