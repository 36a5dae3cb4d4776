"""Dry runs: whom a pod would have to evict on a node, least harm first, and what budgets say of it.

For DefaultPreemption and for explanations.  Every less important pod goes, and then those come back, best first, that the pod
can do with; where nothing but resources decides, sums say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.calling import PluginError
from scheduler.framework.handle import OVERDUE_SECONDS
from scheduler.framework.status import ClusterEvent, Reason, Status
from scheduler.model.checkpoints import LAST_CHECKPOINT, accelerators, checkpoint_of

from .candidate import Candidate
from .prices import FOREVER
from .victims import Units, importance_by_start, split_by_budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scheduler.framework.counting import Counting
    from scheduler.framework.handle import Handle
    from scheduler.model import Budget, Gang, GangKey, Pod
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Undo

#: Of the plugin that this is a part of.
NAME = "DefaultPreemption"
CURES = ClusterEvent.POD_REMOVED | ClusterEvent.POD_ASSIGNED | ClusterEvent.NODE_ANY
NO_VICTIMS = Status.unresolvable(Reason("NoVictims", "No preemption victims found for incoming pod", CURES))
#: What a clock says so long before somebody is overdue is asked anew: times are floats.
_MARGIN_SECONDS = 0.001


class DryRun:
    """The search for victims on one node after another, for one pod."""

    def __init__(
        self, handle: Handle, pod: Pod, look: Callable[[int], Status | None] | None, now: float, budgets: Sequence[Budget], *,
        protect_gangs: bool, counting: Counting | None = None,
    ) -> None:  # fmt: skip
        """Take what to ask, and whether whole gangs go; `look` may be left out where `counting` answers for all rows."""
        self._handle = handle
        self._pod = pod
        self._look = look
        self._now = now
        self._budgets = budgets
        self._counting = counting
        self._protects_gangs = protect_gangs
        self._units = Units(handle, pod.priority, None)

    def of(self, row: int) -> Candidate | Status:
        """Remove every less important pod of a node, then bring back whom the pod can do with, best first."""
        snapshot = self._handle.snapshot
        record = snapshot.all_rows[row]
        weak = [p for p in record.pods.values() if self._may_go(p, record.node.name)]
        if not weak:
            return NO_VICTIMS
        weak.sort(key=lambda p: importance_by_start(p, self._now))
        violating, others = split_by_budget([p for p in weak if not self._is_free(p)], self._budgets)
        order = [*violating, *others, *(p for p in weak if self._is_free(p))]
        victims = self._chosen(record, row, order)
        if isinstance(victims, Status):
            return victims
        if not victims:
            return Status.error(f'expected at least one victim pod on node "{record.node.name}"')
        victims.sort(key=lambda p: importance_by_start(p, self._now))
        return self._candidate(row, victims, {p.uid for p in violating})

    def _chosen(self, record: Row, row: int, order: Sequence[Pod]) -> list[Pod] | Status:
        """Return those of the weak pods of a row that have to go, by counting where nothing else decides."""
        counting = self._counting
        if self._look is not None and (counting is None or not counting.open[row]):
            return self._reprieve(row, order, self._look)
        assert counting is not None
        victims = counting.victims(record, row, order)
        return counting.refusal(record, row, order) if victims is None else victims

    def _reprieve(self, row: int, order: Sequence[Pod], look: Callable[[int], Status | None]) -> list[Pod] | Status:
        """Take all weak pods away and bring back in their order whom the pod can do with; return the others."""
        snapshot = self._handle.snapshot
        victims: list[Pod] = []
        back: dict[str, Undo] = {p.uid: snapshot.remove(p.uid, row) for p in order}
        try:
            if (status := status_of(look, row)) is not None:
                return status
            for candidate in order:
                back.pop(candidate.uid)()
                if status_of(look, row) is not None:
                    back[candidate.uid] = snapshot.remove(candidate.uid, row)
                    victims.append(candidate)
        finally:
            for undo in back.values():
                undo()
        return victims

    def _candidate(self, row: int, victims: list[Pod], broken: set[str]) -> Candidate:
        """Return a node's candidate, with the rest of the victims' gangs and the budgets that all of them break."""
        name = self._handle.snapshot.all_rows[row].node.name
        dragged = self._dragged(victims, name) if self._protects_gangs else ()
        gone = [*victims, *(member for member, _ in dragged)]
        if dragged:
            broken = {p.uid for p in split_by_budget([p for p in gone if not self._is_free(p)], self._budgets)[0]}
        violations = sum(p.uid in broken for p in gone)
        paid = tuple(p for p in gone if not self._is_free(p))
        return Candidate(row, name, tuple(victims), violations, frozenset(broken), dragged, paid)

    def _may_go(self, other: Pod, node_name: str) -> bool:
        """Tell whether a pod may be a victim."""
        if self._protects_gangs:
            return self._units.on_node(other, node_name) is not None
        return other.priority < self._pod.priority and not self._handle.is_stuck(other.uid)

    def _is_free(self, victim: Pod) -> bool:
        """Tell whether a victim costs nothing, as it is going anyway; kube-scheduler counts such pods like others."""
        return self._protects_gangs and self._handle.cluster.is_going(victim)

    def _dragged(self, victims: Sequence[Pod], node_name: str) -> tuple[tuple[Pod, str], ...]:
        """Return the members of victims' gangs that have to go with them."""
        chosen = {pod.uid for pod in victims}
        dragged: dict[str, tuple[Pod, str]] = {}
        for pod in victims:
            unit = self._units.on_node(pod, node_name)
            for member, node in unit.pods if unit else ():
                if member.uid not in chosen:
                    dragged[member.uid] = (member, node)
        return tuple(dragged.values())

    def validity(self, row: int) -> tuple[float, set[GangKey]]:
        """Return before which time what `of` says of a row holds, if nothing changes, and which gangs it depends on.

        Time decides who is overdue, who started before those that count as just started, and which members of a gang lose most.
        """
        cluster, until = self._handle.cluster, FOREVER
        gangs: set[GangKey] = set()
        pods = list(self._handle.snapshot.all_rows[row].pods.values())
        if self._protects_gangs:
            gangs = {cluster.groups.root_of(pod.membership.key) for pod in pods if pod.membership is not None}
            pods += [member for key in gangs for member in cluster.members(key)]
        if not all(_is_steady(cluster.members(key), cluster.gangs.get(key), self._now) for key in gangs):
            until = self._now
        for pod in pods:
            if pod.deletes_at is not None and self._now - pod.deletes_at <= OVERDUE_SECONDS:
                until = min(until, pod.deletes_at + OVERDUE_SECONDS - _MARGIN_SECONDS)
            if pod.started is not None and pod.started > self._now:
                until = min(until, pod.started)
        return until, gangs


def status_of(look: Callable[[int], Status | None], row: int) -> Status | None:
    """Return what Filter says of a row now; one that fails there is an Error of this node, and others are tried."""
    try:
        return look(row)
    except PluginError as error:
        return error.at_a_node()


def _is_steady(members: Iterable[Pod], gang: Gang | None, now: float) -> bool:
    """Tell whether time does not change which members would lose more than others: they lose alike while they run.

    A checkpoint that is ahead of the clock begins to count when its time has come.
    """
    pods = list(members)
    told = [pod.annotations for pod in pods if LAST_CHECKPOINT in pod.annotations]
    if gang is not None and LAST_CHECKPOINT in gang.annotations:
        told.append(gang.annotations)
    moments = (checkpoint_of(annotations, FOREVER)[0] for annotations in told)
    return len({accelerators(pod) for pod in pods}) <= 1 and not any(m is not None and m > now for m in moments)
