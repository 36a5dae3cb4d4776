"""Cheapest: on a node, the units whose eviction makes room for a pod and loses least.

For DefaultPreemption with `minimizeLoss`, and for explanations.  All that may go, go, and come back as wholes, the dearest first, as long as
the pod can do with them; where one unit alone makes room and costs less than those that are left, it goes instead.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.framework.status import Status
from scheduler.model.checkpoints import LAST_CHECKPOINT, checkpoint_of

from .budgets import Allowances
from .candidate import Candidate, PricedCandidate
from .dry_run import NO_VICTIMS, DryRun, status_of
from .prices import FOREVER, Price, changes_at, price_of, together
from .victims import importance_by_start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scheduler.framework.counting import Counting
    from scheduler.framework.handle import Handle
    from scheduler.model import Budget, GangKey, Pod
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Undo

    from .victims import Unit


@dataclass(frozen=True, slots=True)
class _Option:
    """A unit, those of its pods that are on the node, and what it costs by itself."""

    unit: Unit
    here: tuple[Pod, ...]
    price: Price


class CheapestRun(DryRun):
    """The search for the cheapest units on one node after another, for one pod; gangs go as wholes."""

    def __init__(
        self, handle: Handle, pod: Pod, look: Callable[[int], Status | None] | None, now: float, budgets: Sequence[Budget], *,
        counting: Counting | None = None,
    ) -> None:  # fmt: skip
        """Take what to ask; `look` may be left out where `counting` answers for all rows."""
        super().__init__(handle, pod, look, now, budgets, protect_gangs=True, counting=counting)
        self._second = math.floor(now)
        self._allowances = Allowances(budgets)
        #: Before which time what was found last holds, as far as prices go.
        self._until = FOREVER

    def of(self, row: int) -> Candidate | Status:
        """Return the cheapest units of a node, or why evictions do not help there."""
        record = self._handle.snapshot.all_rows[row]
        options = self._options(record)
        if not options:
            return NO_VICTIMS
        self._until = self._order_holds_until(options)
        order = self._dearest_first(options)
        gone = self._left_out(record, row, order)
        if gone is None:
            assert self._counting is not None
            return self._counting.refusal(record, row, [pod for option in order for pod in option.here])
        if isinstance(gone, Status):
            return gone
        if not gone:
            return Status.error(f'expected at least one victim pod on node "{record.node.name}"')
        gone = self._one_instead(record, row, options, gone)
        return self._priced(row, gone)

    def validity(self, row: int) -> tuple[float, set[GangKey]]:
        """Return before which time what `of` said of this row, the last it was asked of, holds, and for which gangs."""
        until, gangs = super().validity(row)
        return min(until, self._until), gangs

    def _options(self, record: Row) -> list[_Option]:
        """Return what may go from a node, the cheapest first; those that are going anyway cost nothing."""
        name = record.node.name
        here: dict[int, tuple[Unit, list[Pod]]] = {}
        for pod in record.pods.values():
            if (unit := self._units.on_node(pod, name)) is not None:
                here.setdefault(id(unit), (unit, []))[1].append(pod)
        cluster = self._handle.cluster
        options = [
            _Option(unit, tuple(pods), price_of(unit, cluster, self._now, len(pods))) for unit, pods in here.values()
        ]
        second = self._second
        return sorted(options, key=lambda option: (*option.price.at(second), option.here[0].uid))

    def _order_holds_until(self, options: Sequence[_Option]) -> float:
        """Return before which time the options stay in their order."""
        pairs = itertools.pairwise(options)
        until = min((changes_at(dear.price, cheap.price, self._second) for cheap, dear in pairs), default=FOREVER)
        return self._now if any(self._is_saved_later(option.unit) for option in options) else until

    def _is_saved_later(self, unit: Unit) -> bool:
        """Tell whether a checkpoint is ahead of the clock: it counts otherwise when its time has come."""
        cluster = self._handle.cluster
        told = [pod.annotations for pod in unit.members if LAST_CHECKPOINT in pod.annotations]
        keys = {cluster.gang_of(pod) for pod in unit.members}
        gangs = [cluster.gangs[key] for key in keys if key in cluster.gangs]
        told += [gang.annotations for gang in gangs if LAST_CHECKPOINT in gang.annotations]
        moments = (checkpoint_of(annotations, FOREVER)[0] for annotations in told)
        return any(moment is not None and moment > self._now for moment in moments)

    def _dearest_first(self, options: Sequence[_Option]) -> list[_Option]:
        """Return the options in the order in which they come back: what breaks budgets, the dearest, what is going anyway."""
        free = [option for option in options if option.unit.is_going]
        paid = [option for option in options if not option.unit.is_going]
        broken = self._broken(paid)
        paid.reverse()
        if broken:
            paid.sort(key=lambda option: not any(pod.uid in broken for pod in option.unit.members))
        return paid + free

    def _broken(self, options: Iterable[_Option]) -> set[str]:
        return self._allowances.broken_by(pod for option in options for pod in option.unit.members)

    def _total(self, options: Sequence[_Option]) -> Price:
        paid = [option for option in options if not option.unit.is_going]
        return together([option.price for option in paid], len(self._broken(paid)))

    def _left_out(self, record: Row, row: int, order: Sequence[_Option]) -> list[_Option] | Status | None:
        """Take options away and bring back in their order whom the pod can do with; return the others, or why it does not fit.

        None says that it does not where that was counted.
        """
        counting = self._counting
        if self._look is not None and (counting is None or not counting.open[row]):
            return self._ask(row, order, self._look)
        assert counting is not None
        gone = counting.units(record, row, [option.here for option in order])
        return None if gone is None else [order[number] for number in gone]

    def _ask(self, row: int, order: Sequence[_Option], look: Callable[[int], Status | None]) -> list[_Option] | Status:
        """Do the same by asking all Filters."""
        gone: list[_Option] = []
        away: list[tuple[_Option, list[Undo]]] = [(option, self._take(option, row)) for option in order]
        try:
            if (status := status_of(look, row)) is not None:
                return status
            for number, (option, undo) in enumerate(away):
                _bring_back(undo)
                if status_of(look, row) is not None:
                    away[number] = option, self._take(option, row)
                    gone.append(option)
        finally:
            for _, undo in reversed(away):
                _bring_back(undo)
        return gone

    def _take(self, option: _Option, row: int) -> list[Undo]:
        return [self._handle.snapshot.remove(pod.uid, row) for pod in option.here]

    def _one_instead(self, record: Row, row: int, options: Sequence[_Option], gone: list[_Option]) -> list[_Option]:
        """Return the cheapest unit that makes room alone if several others would cost more, or else those."""
        if sum(not option.unit.is_going for option in gone) <= 1:
            return gone
        total, second = self._total(gone), self._second
        free = [option for option in options if option.unit.is_going]
        alone = [(self._total([option]), option) for option in options if not option.unit.is_going]
        alone.sort(key=lambda entry: entry[0].at(second))
        for price, option in alone:
            if price.at(second) >= total.at(second):
                self._until = min(self._until, changes_at(price, total, second))
                continue
            found = self._left_out(record, row, [option, *free])
            if isinstance(found, list):
                self._until = min(self._until, changes_at(total, price, second))
                return found
        return gone

    def _priced(self, row: int, gone: Sequence[_Option]) -> Candidate:
        """Return the candidate of a node whose units go."""
        name = self._handle.snapshot.all_rows[row].node.name
        paid = [option for option in gone if not option.unit.is_going]
        broken = self._broken(paid)
        victims = sorted(
            (pod for option in gone for pod in option.here), key=lambda pod: importance_by_start(pod, self._now)
        )
        chosen = {pod.uid for pod in victims}
        dragged = tuple(entry for option in gone for entry in option.unit.pods if entry[0].uid not in chosen)
        return PricedCandidate(
            row, name, tuple(victims), len(broken), frozenset(broken), dragged,
            tuple(pod for option in paid for pod in option.unit.members),
            together([option.price for option in paid], len(broken)),
        )  # fmt: skip


def _bring_back(undo: list[Undo]) -> None:
    while undo:
        undo.pop()()
