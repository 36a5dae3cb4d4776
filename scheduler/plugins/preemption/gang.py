"""GangPreemption: makes room for a whole gang, or evicts nobody.

At PodGroupPostFilter.  It plans the whole transaction on the snapshot: which units (pods, or gangs as a whole) go, and
where every member then fits.  Nodes are chosen by what clearing them costs, so that few and unimportant units go; then
every unit that the placement can do without is spared, the most important first.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from scheduler.framework.plugin import Plugin, PostFilterResult, Victim
from scheduler.framework.status import ClusterEvent, Kind, Reason, Status

from .costs import Costs
from .victims import Units, split_by_budget

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Trial
    from scheduler.framework.plugin import Failure
    from scheduler.framework.workload import Workload
    from scheduler.model import Pod
    from scheduler.state.snapshot import Snapshot, Undo

    from .victims import Unit

NAME = "GangPreemption"
_CURES = ClusterEvent.POD_REMOVED | ClusterEvent.POD_ASSIGNED | ClusterEvent.NODE_ANY
Steps = Generator[int, None, "PostFilterResult | Status"]


class GangPreemption(Plugin):
    """PostFilter for gangs."""

    NAME = NAME

    def post_filter_gang(self, state: CycleState, workload: Workload, failure: Failure) -> Steps:
        """Return all victims and all nominations, or why no set of evictions helps; yields node evaluations."""
        del state
        pods = workload.ordered()
        if any(pod.preemption_policy == "Never" for pod in pods):
            return _no("preemption: not eligible due to preemptionPolicy=Never.")
        trial = self.handle.trial(workload, pods)
        yield from trial.evaluate()
        units = Units(
            self.handle.cluster, workload.priority, workload.gang.key if workload.gang else None, self.handle.now()
        )
        costs = Costs(self.handle, units, trial, pods)
        yield len(failure.nodes)
        if costs.slots_with_evictions() < workload.needed:
            return _no("preemption: evicting every less important pod would not make enough room.")
        plan = _WhatIf(self.handle.snapshot, trial)
        try:
            return (yield from self._plan(workload, trial, costs, plan))
        finally:
            trial.clear()
            plan.restore()

    def _plan(self, workload: Workload, trial: Trial, costs: Costs, plan: _WhatIf) -> Steps:
        evictions = next_try = 0
        for units in costs.cheapest():
            for unit in units:
                costs.open(plan.evict(unit))
            yield 1
            evictions += 1
            if costs.slots_now() < workload.needed or evictions < next_try:
                continue
            if (yield from trial.place_all(workload.needed, costs.allowed)):
                yield from plan.spare(self.handle.now())
                return self._result(trial, plan)
            next_try = 2 * evictions
        if evictions and (yield from trial.place_all(workload.needed, costs.allowed)):
            yield from plan.spare(self.handle.now())
            return self._result(trial, plan)
        return _no("preemption: no set of less important pods makes room for the whole gang.")

    def _result(self, trial: Trial, plan: _WhatIf) -> PostFilterResult | Status:
        names = {uid: self.handle.snapshot.all_rows[row].node.name for uid, (_, row) in trial.placed.items()}
        gone = [(pod, node) for unit in plan.evicted() for pod, node in unit.pods]
        violating, _ = split_by_budget([pod for pod, _ in gone], self.handle.budgets())
        broken = {pod.uid for pod in violating}
        victims = tuple(Victim(pod, node, pod.uid in broken) for pod, node in gone)
        message = f"pod group preemption: found a placement for podgroup, preempting {len(victims)} victims"
        return PostFilterResult(victims, names, message)


class _WhatIf:
    """Units taken off the snapshot, and how to bring them back."""

    def __init__(self, snapshot: Snapshot, trial: Trial) -> None:
        self._snapshot = snapshot
        self._trial = trial
        self._away: dict[int, tuple[Unit, list[tuple[int, Pod, Undo]]]] = {}

    def evict(self, unit: Unit) -> list[int]:
        """Take all pods of a unit away, once; return the rows that changed."""
        if id(unit) in self._away:
            return []
        steps: list[tuple[int, Pod, Undo]] = []
        for pod, node in unit.pods:
            row = self._snapshot.row_of.get(node)
            if row is not None and pod.uid in self._snapshot.all_rows[row].pods:
                steps.append((row, pod, self._snapshot.remove(pod.uid, row)))
        self._away[id(unit)] = (unit, steps)
        rows = list(dict.fromkeys(row for row, _, _ in steps))
        self._trial.touch(rows)
        return rows

    def evicted(self) -> list[Unit]:
        """Return the units that are away."""
        return [unit for unit, _ in self._away.values()]

    def spare(self, now: float) -> Iterator[int]:
        """Bring back every unit that the placement can do without, the most important first."""
        order = sorted(self._away.values(), key=lambda entry: _unit_importance(entry[0], now))
        by_row: dict[int, list[Pod]] = {}
        for pod, row in self._trial.placed.values():
            by_row.setdefault(row, []).append(pod)
        for unit, steps in order:
            for _, _, undo in reversed(steps):
                undo()
            rows = dict.fromkeys(row for row, _, _ in steps)
            yield len(rows)
            if all(self._trial.passes(pod, row) for row in rows for pod in by_row.get(row, ())):
                del self._away[id(unit)]
            else:
                again = [(row, pod, self._snapshot.remove(pod.uid, row)) for row, pod, _ in steps]
                self._away[id(unit)] = (unit, again)
            self._trial.touch(rows)

    def restore(self) -> None:
        """Bring everybody back."""
        for _, steps in reversed(list(self._away.values())):
            for _, _, undo in reversed(steps):
                undo()
        self._away.clear()


def _unit_importance(unit: Unit, now: float) -> tuple[int, bool, float, int]:
    start = min(now if pod.started is None else pod.started for pod, _ in unit.pods)
    return (-unit.priority, unit.gang is None, start, -len(unit.pods))


def _no(text: str) -> Status:
    return Status.unschedulable(Reason("NoPreemption", text, _CURES, Kind.NOT_NOW))
