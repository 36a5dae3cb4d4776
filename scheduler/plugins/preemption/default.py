"""DefaultPreemption: makes room for one pod on one node by evicting less important pods.

At PostFilter, for pods without a gang.  Steps, budgets, reprieve and the six criteria are kube-scheduler's; with
`protectGangs` a victim whose gang would fall below its minimum drags the whole gang along, on every node, and counts so.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from scheduler.config import ConfigurationModel
from scheduler.framework.plugin import Plugin, PostFilterResult, Victim
from scheduler.framework.status import ClusterEvent, Kind, Reason, Status

from .victims import Units, importance, split_by_budget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.plugin import Failure
    from scheduler.model import Pod
    from scheduler.state.snapshot import Undo

NAME = "DefaultPreemption"
_OFFSET = 2**31
_CURES = ClusterEvent.POD_REMOVED | ClusterEvent.POD_ASSIGNED | ClusterEvent.NODE_ANY


class DefaultPreemptionArgs(ConfigurationModel):
    """Arguments, as kube-scheduler's DefaultPreemptionArgs, and ours."""

    min_candidate_nodes_percentage: int = Field(10, ge=0, le=100)
    """At least this share of the nodes is tried."""
    min_candidate_nodes_absolute: int = Field(100, ge=1)
    """At least so many nodes are tried."""
    protect_gangs: bool = False
    """Evict a gang as a whole where a member's eviction would leave it below its minimum."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node and whom to evict there, most important first."""

    row: int
    node_name: str
    victims: tuple[Pod, ...]
    violations: int
    violating: frozenset[str]
    #: Victims on other nodes: the rest of gangs.
    dragged: tuple[tuple[Pod, str], ...]
    is_free: Callable[[Pod], bool]

    def cost(self, now: float) -> tuple[int, int, int, int, float]:
        """Return the criteria in their order, lowest wins: violations, highest priority, sum, number, latest start."""
        pods = [pod for pod in (*self.victims, *(pod for pod, _ in self.dragged)) if not self.is_free(pod)]
        highest = max((pod.priority for pod in pods), default=-_OFFSET)
        first = min(
            (now if pod.started is None else pod.started for pod in pods if pod.priority == highest), default=now
        )
        return self.violations, highest, sum(pod.priority + _OFFSET for pod in pods), len(pods), -first


class DefaultPreemption(Plugin):
    """PostFilter for single pods."""

    NAME = NAME
    Args = DefaultPreemptionArgs

    def post_filter(self, state: CycleState, pod: Pod, failure: Failure) -> PostFilterResult | Status:
        """Return a node and its victims, or why there is none."""
        total = len(failure.nodes)
        if pod.preemption_policy == "Never":
            return _no(f"preemption: not eligible due to preemptionPolicy={pod.preemption_policy}.")
        rows = failure.resolvable_rows()
        if not rows:
            return _no(f"preemption: 0/{total} nodes are available: {total} Preemption is not helpful for scheduling.")
        now = self.handle.now()
        candidates = self._candidates(state, pod, rows, now)
        if not candidates:
            return _no(_nothing_found(total, len(rows)))
        best = min(candidates, key=lambda c: (c.cost(now), c.node_name))
        victims = [Victim(p, best.node_name, p.uid in best.violating) for p in best.victims]
        victims += [Victim(p, node, p.uid in best.violating) for p, node in best.dragged]
        message = f"preemption: found a potential placement for pod on node {best.node_name}, preempting {len(victims)} victims"
        return PostFilterResult(tuple(victims), {pod.uid: best.node_name}, message)

    def _candidates(self, state: CycleState, pod: Pod, rows: Sequence[int], now: float) -> list[Candidate]:
        """Dry-run nodes from a fixed offset until there are enough candidates, one of them without a violation."""
        wanted = max(
            len(rows) * self.args.min_candidate_nodes_percentage // 100, self.args.min_candidate_nodes_absolute
        )
        offset = zlib.crc32(pod.uid.encode()) % len(rows)
        weak = self.handle.snapshot.nodes.requested_below(pod.priority, "pods") > 0
        units = Units(self.handle, pod.priority, None)
        found: list[Candidate] = []
        is_any_kind = False
        for row in (*rows[offset:], *rows[:offset]):
            candidate = self._dry_run(state, pod, row, units, now) if weak[row] else None
            if candidate is not None:
                found.append(candidate)
                is_any_kind = is_any_kind or candidate.violations == 0
                if len(found) >= wanted and is_any_kind:
                    break
        return found

    def _dry_run(self, state: CycleState, pod: Pod, row: int, units: Units, now: float) -> Candidate | None:
        """Remove every less important pod of a node, then bring back whom the pod can do with, best first."""
        snapshot = self.handle.snapshot
        record = snapshot.all_rows[row]
        weak = [p for p in record.pods.values() if self._may_go(p, record.node.name, pod, units)]
        if not weak:
            return None
        weak.sort(key=lambda p: importance(p, now))
        violating, others = split_by_budget([p for p in weak if not self._is_free(p)], self.handle.budgets())
        back: dict[str, Undo] = {p.uid: snapshot.remove(p.uid, row) for p in weak}
        victims: list[Pod] = []
        try:
            if not self._fits(state, pod, row):
                return None
            for candidate in (*violating, *others, *(p for p in weak if self._is_free(p))):
                back.pop(candidate.uid)()
                if not self._fits(state, pod, row):
                    back[candidate.uid] = snapshot.remove(candidate.uid, row)
                    victims.append(candidate)
        finally:
            for undo in back.values():
                undo()
        victims.sort(key=lambda p: importance(p, now))
        return self._candidate(row, victims, {p.uid for p in violating}, units) if victims else None

    def _candidate(self, row: int, victims: list[Pod], broken: set[str], units: Units) -> Candidate:
        """Return a node's candidate, with the rest of the victims' gangs and the budgets that all of them break."""
        name = self.handle.snapshot.all_rows[row].node.name
        dragged = self._dragged(units, victims, name) if self.args.protect_gangs else ()
        gone = [*victims, *(member for member, _ in dragged)]
        if dragged:
            broken = {
                p.uid for p in split_by_budget([p for p in gone if not self._is_free(p)], self.handle.budgets())[0]
            }
        violations = sum(p.uid in broken for p in gone)
        return Candidate(row, name, tuple(victims), violations, frozenset(broken), dragged, self._is_free)

    def _may_go(self, other: Pod, node_name: str, pod: Pod, units: Units) -> bool:
        """Tell whether a pod may be a victim."""
        if self.args.protect_gangs:
            return units.of(other, node_name) is not None
        return other.priority < pod.priority and not self.handle.is_stuck(other.uid)

    def _is_free(self, victim: Pod) -> bool:
        """Tell whether a victim costs nothing, as it is going anyway; kube-scheduler counts such pods like others."""
        return bool(self.args.protect_gangs) and self.handle.cluster.is_going(victim)

    def _fits(self, state: CycleState, pod: Pod, row: int) -> bool:
        return bool(self.handle.passes(state, pod, self.handle.snapshot.nodes.select(np.array([row])))[0])

    def _dragged(self, units: Units, victims: Sequence[Pod], node_name: str) -> tuple[tuple[Pod, str], ...]:
        """Return the members of victims' gangs that have to go with them."""
        chosen = {pod.uid for pod in victims}
        dragged: dict[str, tuple[Pod, str]] = {}
        for pod in victims:
            unit = units.of(pod, node_name)
            for member, node in unit.pods if unit else ():
                if member.uid not in chosen:
                    dragged[member.uid] = (member, node)
        return tuple(dragged.values())


def _no(text: str) -> Status:
    return Status.unschedulable(Reason("NoPreemption", text, _CURES, Kind.NOT_NOW))


def _nothing_found(total: int, tried: int) -> str:
    parts = [f"{tried} No preemption victims found for incoming pod"]
    if total > tried:
        parts.append(f"{total - tried} Preemption is not helpful for scheduling")
    return f"preemption: 0/{total} nodes are available: {', '.join(sorted(parts))}."
