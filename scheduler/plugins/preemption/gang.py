"""GangPreemption: makes room for a whole gang, or evicts nobody.

At PodGroupPostFilter.  It plans the whole transaction on the snapshot: which units (pods, or gangs as a whole) go, and
where every member then fits.  Gangs that have domains for themselves which this one asks for go first, as wholes.  Nodes are
chosen by what clearing them costs (`losses`), so that what is lost is unimportant and little; then every unit that the placement
can do without is spared, the dearest first.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from scheduler.config import ConfigurationModel
from scheduler.framework.plugin import Plugin, PostFilterResult, Victim
from scheduler.framework.status import ClusterEvent, Kind, Reason, Status

from .budgets import Allowances
from .costs import Costs
from .moving import MOST_MOVED, Again, Restartable
from .victims import Units, going_too, split_by_budget

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Rules, Trial
    from scheduler.framework.plugin import Failure
    from scheduler.framework.workload import Workload
    from scheduler.model import Budget, Pod
    from scheduler.state.snapshot import Snapshot, Undo

    from .losses import Loss, Losses
    from .victims import Unit

NAME = "GangPreemption"
_CURES = ClusterEvent.POD_REMOVED | ClusterEvent.POD_ASSIGNED | ClusterEvent.NODE_ANY
#: For how many units another placement is looked for that spares them.
MOST_SEARCHES = 64
#: In how many domains a plan is made at most when one is found, for a gang that has to be in one; the least harmful is taken.
MOST_REGIONS = 8
#: Above every priority: with queues importance decides within one queue only.
_ANY_PRIORITY = 2**31
Steps = Generator[int, None, "PostFilterResult | Status"]
_Answer = tuple["Loss", PostFilterResult]


class GangPreemptionArgs(ConfigurationModel):
    """Arguments."""

    consolidate: bool = True
    """Move restartable workloads, if each of them has a place again, before anybody loses its place."""
    evict: bool = True
    """Evict the less important, and what other queues use beyond their own."""


class GangPreemption(Plugin):
    """PostFilter for gangs, and for single pods where there are queues."""

    NAME = NAME
    Args = GangPreemptionArgs

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
        rules = self.handle.rules(workload)
        if self.args.consolidate and (rules is None or rules.is_enough()):
            plan = yield from self._consolidate(workload, trial)
            if plan is not None:
                return plan
        if not self.args.evict:
            return _no("preemption: nobody may be evicted, and nobody can be moved to make room.")
        return (yield from self._evict(workload, trial, rules, failure))

    def _evict(self, workload: Workload, trial: Trial, rules: Rules | None, failure: Failure) -> Steps:
        """Return the least harmful plan of evictions over all domains that the gang may be in."""
        ceiling = workload.priority if rules is None else _ANY_PRIORITY
        found: list[_Answer] = []
        reachable = tried = 0
        units = self._units(workload, rules)
        for within in trial.regions():
            costs = Costs(self.handle, units, trial, workload.ordered(), within, rules)
            reachable = max(reachable, reached := costs.reachable(ceiling))
            yield len(failure.nodes)
            if reached < workload.needed:
                continue
            answer = yield from self._plan_within(workload, trial, costs.weighed(ceiling), rules)
            first = _gives_first(units, answer)
            if first:  # of gangs that can do without some members others than the cheapest may go
                others = Costs(
                    self.handle, self._units(workload, rules, first), trial, workload.ordered(), within, rules
                )
                again = yield from self._plan_within(workload, trial, others.weighed(ceiling), rules)
                answer = min((one for one in (answer, again) if one is not None), key=itemgetter(0), default=None)
            if answer is not None:
                found.append(answer)
            tried += 1
            if found and tried >= MOST_REGIONS:
                break
        if found:
            return min(found, key=itemgetter(0))[1]
        if reachable < workload.needed:
            return _no("preemption: evicting every less important pod would not make enough room.", reachable)
        retry_at = rules.retry_at if rules is not None else None
        whom = "the whole gang" if workload.gang else "the pod"
        return _no(f"preemption: no set of less important pods makes room for {whom}.", workload.needed, retry_at)

    def _units(self, workload: Workload, rules: Rules | None, first: Collection[str] = ()) -> Units:
        """Return who may go for the workload, and with whom; of members that can be spared those on the nodes `first`."""
        return Units(self.handle, workload.priority, workload.gang.key if workload.gang else None, rules, first)

    def _consolidate(self, workload: Workload, trial: Trial) -> Generator[int, None, PostFilterResult | None]:
        """Return a plan that moves restartable units, each to a place of its own; those that have none stay where they are."""
        rules = Restartable(self.handle, workload)
        if not rules.is_anybody():
            return None
        found: list[_Answer] = []
        for within in trial.regions()[:MOST_REGIONS]:
            for _ in range(MOST_MOVED):
                units = Units(self.handle, _ANY_PRIORITY, workload.gang.key if workload.gang else None, rules)
                costs = Costs(self.handle, units, trial, workload.ordered(), within, rules)
                costs.weigh(_ANY_PRIORITY)
                stuck: list[Unit] = []
                answer = yield from self._plan_within(workload, trial, costs, rules, stuck)
                if answer is not None:
                    found.append(answer)
                if not stuck:
                    break
                for unit in stuck:
                    rules.fix(unit)
            rules.free()
        return min(found, key=itemgetter(0))[1] if found else None

    def _plan_within(
        self, workload: Workload, trial: Trial, costs: Costs, rules: Rules | None, stuck: list[Unit] | None = None
    ) -> Generator[int, None, _Answer | None]:
        """Return a plan on the rows that the costs look at, with what it costs; everything is as it was then.

        With `stuck` it counts only if everybody finds a place again; who does not is put there.
        """
        plan, again = (
            _WhatIf(self.handle.snapshot, costs.losses, self.handle.budgets(), rules),
            Again(self.handle, trial),
        )
        try:
            if not (yield from self._plan(workload, trial, costs, plan)):
                return None
            units = [unit for unit in plan.dearest_first() if not unit.is_going and not plan.is_for_quota(unit)]
            for unit in units if len(units) <= MOST_MOVED else ():
                is_placed = yield from again.place(unit, is_whole=stuck is not None)
                if not is_placed and stuck is not None:
                    stuck.append(unit)
            if stuck or (stuck is not None and len(units) > MOST_MOVED):
                return None
            loss = costs.loss_of(plan.evicted(), _by_row(trial))
            return loss, self._result(trial, plan, again.nodes, is_move=stuck is not None)
        finally:
            again.clear()
            trial.clear()
            plan.restore()

    def _plan(self, workload: Workload, trial: Trial, costs: Costs, plan: _WhatIf) -> Generator[int, None, bool]:
        """Evict who holds domains, then the cheapest units until the minimum fits; members above it are worth no eviction.

        Quota that is coming free anyway is counted on first. Where room is not all that is short, units go for quota at the end.
        """
        first = [*costs.holders, *(unit for unit in costs.relief() if unit.is_going and costs.take(unit))]
        needed, evictions, next_try = workload.needed, len(first), 0
        for unit in first:
            costs.open(plan.evict(unit))
            yield 1
        if evictions and costs.slots_now() >= needed and plan.is_enough():
            if (yield from trial.place_all(needed, costs.allowed, most=needed)):
                yield from self._spare(needed, trial, costs, plan)
                return True
            next_try = 2 * evictions
        for units in costs.cheapest():
            costs.open(dict.fromkeys(row for unit in units for row in plan.evict(unit)))
            yield 1
            evictions += 1
            if costs.slots_now() < needed or evictions < next_try or not plan.is_enough():
                continue
            if (yield from trial.place_all(needed, costs.allowed, most=needed)):
                yield from self._spare(needed, trial, costs, plan)
                return True
            next_try = 2 * evictions
        for unit in costs.relief():
            if not plan.is_enough() and costs.take(unit):
                costs.open(plan.evict(unit))
                yield 1
                evictions += 1
        if evictions and plan.is_enough() and (yield from trial.place_all(needed, costs.allowed, most=needed)):
            yield from self._spare(needed, trial, costs, plan)
            return True
        return False

    def _spare(self, needed: int, trial: Trial, costs: Costs, plan: _WhatIf) -> Iterator[int]:
        """Bring back every unit that the gang can do without, where it is placed or placed anew, the dearest first."""
        searches, placed = 0, _by_row(trial)
        for unit in plan.dearest_first():
            if not costs.can_spare(unit, placed, needed):
                yield 1
                continue
            rows = plan.bring_back(unit)
            yield max(1, len(rows))
            if not plan.is_enough():
                plan.evict(unit)
                continue
            costs.open(rows, placed)
            is_fine = all(trial.passes(pod, row) for row in rows for pod in placed.get(row, ()))
            if is_fine and not trial.is_kept_out():
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

    def _result(
        self, trial: Trial, plan: _WhatIf, nodes: Mapping[str, str], *, is_move: bool = False
    ) -> PostFilterResult:
        names = {uid: self.handle.snapshot.all_rows[row].node.name for uid, (_, row) in trial.placed.items()}
        gone = list({pod.uid: (pod, node) for unit in plan.evicted() for pod, node in unit.pods}.values())
        cost = [pod for pod, _ in gone if not self.handle.cluster.is_going(pod)]
        violating, _ = split_by_budget(cost, self.handle.budgets())
        broken = {pod.uid for pod in violating}
        victims = tuple(Victim(pod, node, pod.uid in broken, nodes.get(pod.uid, "")) for pod, node in gone)
        verb = "moving" if is_move else "preempting"
        message = f"pod group preemption: found a placement for podgroup, {verb} {len(cost)} victims"
        message += going_too([pod for pod, _ in gone if self.handle.cluster.is_going(pod)])
        return PostFilterResult(victims, names, message)


def _gives_first(units: Units, answer: _Answer | None) -> set[str]:
    """Return the nodes whose members of gangs should go before others, if that may spare a gang; else nothing.

    Those are the nodes that the workload gets though whole gangs go for that which can do without some, or, where no plan
    was found, the fewest on which such gangs have as many as they can do without.
    """
    if answer is None:
        return units.fewest_nodes()
    plan = answer[1]
    return set(plan.nominations.values()) if units.has_choice(victim.pod for victim in plan.victims) else set()


class _WhatIf:
    """Units taken off the snapshot, and how to bring them back."""

    def __init__(
        self, snapshot: Snapshot, losses: Losses, budgets: Sequence[Budget], rules: Rules | None = None
    ) -> None:
        self._snapshot = snapshot
        self._losses = losses
        self._budgets = budgets
        self._rules = rules
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
        if self._rules is not None:
            self._rules.take(unit.members)
        return list(dict.fromkeys(row for row, _ in steps))

    def is_enough(self) -> bool:
        """Tell whether the gang is within its queue's quota without those that are away."""
        return self._rules is None or self._rules.is_enough()

    def is_for_quota(self, unit: Unit) -> bool:
        """Tell whether a unit gives quota that the gang is short of: what takes its place would have none."""
        return self._rules is not None and self._rules.relieves(unit.members)

    def dearest_first(self) -> list[Unit]:
        """Return the units that are away: budget breakers, then by what each costs, those that are going anyway last."""
        units = sorted(self.evicted(), key=lambda unit: (not unit.is_going, self._losses.of(unit)), reverse=True)
        broken = Allowances(self._budgets).broken_by(
            pod for unit in reversed(units) if not unit.is_going for pod in unit.members
        )
        if broken:
            units.sort(key=lambda unit: not any(pod.uid in broken for pod in unit.members))
        return units

    def evicted(self) -> list[Unit]:
        """Return the units that are away."""
        return [unit for unit, _ in self._away.values()]

    def bring_back(self, unit: Unit) -> list[int]:
        """Put a unit where it was; return the rows that changed."""
        _, steps = self._away.pop(id(unit))
        for _, undo in reversed(steps):
            undo()
        if self._rules is not None:
            self._rules.give_back(unit.members)
        return list(dict.fromkeys(row for row, _ in steps))

    def restore(self) -> None:
        """Bring everybody back."""
        for unit in self.evicted():
            self.bring_back(unit)


def _by_row(trial: Trial) -> dict[int, list[Pod]]:
    """Return what is placed on each row."""
    placed: dict[int, list[Pod]] = {}
    for pod, row in trial.placed.values():
        placed.setdefault(row, []).append(pod)
    return placed


def _no(text: str, reachable: int = 0, retry_at: float | None = None) -> Status:
    """Return the refusal; with how many pods could be reached, and when somebody becomes old enough to be evicted."""
    numbers: tuple[tuple[str, int | float | str], ...] = (("reachable", reachable),) if reachable else ()
    if retry_at is not None:
        numbers += (("retry_at", retry_at),)
    return Status.unschedulable(Reason("NoPreemption", text, _CURES, Kind.NOT_NOW, numbers))
