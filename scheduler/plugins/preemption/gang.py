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
#: For how many units another placement is looked for that spares them.
MOST_SEARCHES = 64
#: In how many domains a plan is made at most when one is found, for a gang that has to be in one; the least harmful is taken.
MOST_REGIONS = 8
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
        if workload.needs is not None and not workload.needs.missing():
            return _no("preemption: members above the minimum are worth no eviction.")
        trial = self.handle.trial(workload, pods)
        yield from trial.evaluate()
        units = Units(self.handle, workload.priority, workload.gang.key if workload.gang else None)
        found, reachable, tried = list[PostFilterResult](), 0, 0
        for within in trial.regions():
            costs = Costs(self.handle, units, trial, pods, within)
            reachable = max(reachable, reached := costs.reachable(workload.priority))
            yield len(failure.nodes)
            if reached < workload.needed:
                continue
            costs.weigh(workload.priority)
            answer = yield from self._plan_within(workload, trial, costs)
            if answer is not None:
                found.append(answer)
            tried += 1
            if found and tried >= MOST_REGIONS:
                break
        if found:
            return min(found, key=_harm)
        if reachable < workload.needed:
            return _no("preemption: evicting every less important pod would not make enough room.", reachable)
        return _no("preemption: no set of less important pods makes room for the whole gang.", workload.needed)

    def _plan_within(
        self, workload: Workload, trial: Trial, costs: Costs
    ) -> Generator[int, None, PostFilterResult | None]:
        """Return a plan on the rows that the costs look at; everything is as it was then."""
        plan = _WhatIf(self.handle.snapshot)
        try:
            return (yield from self._plan(workload, trial, costs, plan))
        finally:
            trial.clear()
            plan.restore()

    def _plan(
        self, workload: Workload, trial: Trial, costs: Costs, plan: _WhatIf
    ) -> Generator[int, None, PostFilterResult | None]:
        """Evict the cheapest units until the minimum fits; members above it are worth no eviction."""
        needed, evictions, next_try = workload.needed, 0, 0
        for units in costs.cheapest():
            for unit in units:
                costs.open(plan.evict(unit))
            yield 1
            evictions += 1
            if costs.slots_now() < needed or evictions < next_try:
                continue
            if (yield from trial.place_all(needed, costs.allowed, most=needed)):
                yield from self._spare(needed, trial, costs, plan)
                return self._result(trial, plan)
            next_try = 2 * evictions
        if evictions and (yield from trial.place_all(needed, costs.allowed, most=needed)):
            yield from self._spare(needed, trial, costs, plan)
            return self._result(trial, plan)
        return None

    def _spare(self, needed: int, trial: Trial, costs: Costs, plan: _WhatIf) -> Iterator[int]:
        """Bring back every unit that the gang can do without, where it is placed or placed anew, the most important first."""
        searches, placed = 0, _by_row(trial)
        for unit in plan.by_importance(self.handle.now()):
            rows = plan.bring_back(unit)
            yield max(1, len(rows))
            costs.open(rows, placed)
            if all(trial.passes(pod, row) for row in rows for pod in placed.get(row, ())):
                continue
            if searches < MOST_SEARCHES and costs.slots_now() >= needed:
                searches += 1
                trial.clear()
                if (yield from trial.place_all(needed, costs.allowed, most=needed)):
                    placed = _by_row(trial)
                    continue
                for row, pods in placed.items():
                    for pod in pods:
                        trial.put(pod, row)
            plan.evict(unit)
            costs.open(rows, placed)

    def _result(self, trial: Trial, plan: _WhatIf) -> PostFilterResult:
        names = {uid: self.handle.snapshot.all_rows[row].node.name for uid, (_, row) in trial.placed.items()}
        gone = [(pod, node) for unit in plan.evicted() for pod, node in unit.pods]
        cost = [pod for pod, _ in gone if not self.handle.cluster.is_going(pod)]
        violating, _ = split_by_budget(cost, self.handle.budgets())
        broken = {pod.uid for pod in violating}
        victims = tuple(Victim(pod, node, pod.uid in broken) for pod, node in gone)
        message = f"pod group preemption: found a placement for podgroup, preempting {len(victims)} victims"
        return PostFilterResult(victims, names, message)


class _WhatIf:
    """Units taken off the snapshot, and how to bring them back."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._away: dict[int, tuple[Unit, list[tuple[int, Undo]]]] = {}

    def evict(self, unit: Unit) -> list[int]:
        """Take all pods of a unit away, once; return the rows that changed."""
        if id(unit) in self._away:
            return []
        steps: list[tuple[int, Undo]] = []
        for pod, node in unit.pods:
            row = self._snapshot.row_of.get(node)
            if row is not None and pod.uid in self._snapshot.all_rows[row].pods:
                steps.append((row, self._snapshot.remove(pod.uid, row)))
        self._away[id(unit)] = (unit, steps)
        return list(dict.fromkeys(row for row, _ in steps))

    def by_importance(self, now: float) -> list[Unit]:
        """Return the units that are away, the most important first."""
        return sorted(self.evicted(), key=lambda unit: _unit_importance(unit, now))

    def evicted(self) -> list[Unit]:
        """Return the units that are away."""
        return [unit for unit, _ in self._away.values()]

    def bring_back(self, unit: Unit) -> list[int]:
        """Put a unit where it was; return the rows that changed."""
        _, steps = self._away.pop(id(unit))
        for _, undo in reversed(steps):
            undo()
        return list(dict.fromkeys(row for row, _ in steps))

    def restore(self) -> None:
        """Bring everybody back."""
        for unit in self.evicted():
            self.bring_back(unit)


def _harm(plan: PostFilterResult) -> tuple[int, int, int]:
    """Return what a plan breaks: budgets, then the most important victim, then how many there are."""
    victims = plan.victims
    return sum(v.violates_budget for v in victims), max((v.pod.priority for v in victims), default=0), len(victims)


def _by_row(trial: Trial) -> dict[int, list[Pod]]:
    """Return what is placed on each row."""
    placed: dict[int, list[Pod]] = {}
    for pod, row in trial.placed.values():
        placed.setdefault(row, []).append(pod)
    return placed


def _unit_importance(unit: Unit, now: float) -> tuple[bool, int, bool, float, int]:
    start = min(now if pod.started is None else pod.started for pod, _ in unit.pods)
    return (unit.is_going, -unit.priority, unit.gang is None, start, -len(unit.pods))


def _no(text: str, reachable: int = 0) -> Status:
    numbers = (("reachable", reachable),) if reachable else ()
    return Status.unschedulable(Reason("NoPreemption", text, _CURES, Kind.NOT_NOW, numbers))
