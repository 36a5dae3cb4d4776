"""DefaultPreemption: makes room for one pod on one node by evicting less important pods.

At PostFilter, for pods without a gang.  Steps, budgets, reprieve, criteria and sentences are kube-scheduler's; with
`protectGangs` a victim whose gang would fall below its minimum drags the whole gang along, on every node, and counts so.
Who explains a refusal asks the same functions: `ineligible`, `dry_runs`, `best_of` and `conclusion`.
"""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from scheduler.config import ConfigurationModel
from scheduler.framework.calling import PluginError
from scheduler.framework.plugin import Plugin, PostFilterResult, Victim
from scheduler.framework.status import ClusterEvent, Code, Kind, Reason, Status

from .victims import Units, importance_by_start, is_leaving_by_preemption, split_by_budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scheduler.framework.counting import Counting
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.framework.plugin import Failure
    from scheduler.model import Budget, Pod
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Undo

NAME = "DefaultPreemption"
_OFFSET = 2**31
_CURES = ClusterEvent.POD_REMOVED | ClusterEvent.POD_ASSIGNED | ClusterEvent.NODE_ANY
_NO_VICTIMS = Status.unresolvable(Reason("NoVictims", "No preemption victims found for incoming pod", _CURES))
_NOT_HELPFUL = "Preemption is not helpful for scheduling"


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
    #: Those of all victims that count, as they are not going anyway.
    paid: tuple[Pod, ...]

    def cost(self, now: float) -> tuple[int, int, int, int, float]:
        """Return the criteria in their order, lowest wins: violations, highest priority, sum, number, latest start."""
        pods = self.paid
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
        if total == 0:
            return Status.unschedulable()
        text = ineligible(self.handle, pod, self._nominated_status(pod, failure))
        if text:
            return _no(f"preemption: {text}")
        candidates, refused = self._try(state, pod, failure.resolvable_rows(), self.handle.now())
        found = conclusion(pod, total, candidates, [status for _, status in refused], self.handle.now())
        if isinstance(found, Status) and found.code is Code.ERROR:  # it ends the message, not the attempt
            return Status.unschedulable(*found.reasons)
        return found

    def _nominated_status(self, pod: Pod, failure: Failure) -> Status | None:
        """Return what Filter says of the node that the pod is nominated to; None if it is not known."""
        row = self.handle.snapshot.row_of.get(self.handle.cluster.nominations.get(pod.uid, ""))
        if failure.early is not None or row is None:
            return failure.early
        return failure.statuses[row] if failure.statuses else None

    def _candidates(self, state: CycleState, pod: Pod, rows: Sequence[int], now: float) -> list[Candidate]:
        """Return the candidates that were found before there were enough."""
        return self._try(state, pod, rows, now)[0]

    def _try(
        self, state: CycleState, pod: Pod, rows: Sequence[int], now: float
    ) -> tuple[list[Candidate], list[tuple[int, Status]]]:
        """Dry-run rows from a fixed offset until there are enough candidates, one of them without a violation."""
        found: list[Candidate] = []
        refused: list[tuple[int, Status]] = []
        if not rows:
            return found, refused
        wanted = max(
            len(rows) * self.args.min_candidate_nodes_percentage // 100, self.args.min_candidate_nodes_absolute
        )
        offset = zlib.crc32(pod.uid.encode()) % len(rows)
        turned = (*rows[offset:], *rows[:offset])
        is_any_kind = False

        def look(row: int) -> Status | None:
            return self.handle.verdict(state, pod, row)

        protects, counting = self.args.protect_gangs, self.handle.counting(state, pod)
        for row, outcome in dry_runs(self.handle, pod, turned, look, now, protect_gangs=protects, counting=counting):
            if isinstance(outcome, Status):
                refused.append((row, outcome))
                continue
            found.append(outcome)
            is_any_kind = is_any_kind or outcome.violations == 0
            if len(found) >= wanted and is_any_kind:
                break
        return found, refused


def ineligible(handle: Handle, pod: Pod, nominated: Status | None) -> str:
    """Return why a pod may not preempt, if anything.

    `nominated` is the status of the node that it is nominated to: if evictions cannot help there any more, it may.
    """
    if pod.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    row = handle.snapshot.row_of.get(handle.cluster.nominations.get(pod.uid, ""))
    if row is None or (nominated is not None and nominated.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
        return ""
    pods = handle.snapshot.all_rows[row].pods.values()
    if any(other.priority < pod.priority and is_leaving_by_preemption(other) for other in pods):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


def dry_runs(
    handle: Handle, pod: Pod, rows: Iterable[int], look: Callable[[int], Status | None], now: float, *,
    budgets: Sequence[Budget] | None = None, protect_gangs: bool = False, counting: Counting | None = None,
) -> Iterator[tuple[int, Candidate | Status]]:  # fmt: skip
    """Yield for each row whom to evict there, or why that does not help; the snapshot is left as it was.

    `look` tells what Filter says of a row as the snapshot is then, with nominated pods counted; where `counting` says the
    same, it does.  `budgets` stand for the cluster's own, in the order in which they are charged.
    """
    weak = handle.snapshot.nodes.requested_below(pod.priority, "pods") > 0
    budgets = handle.budgets() if budgets is None else budgets
    run = DryRun(handle, pod, look, now, budgets, protect_gangs=protect_gangs, counting=counting)
    for row in rows:
        yield row, run.of(row) if weak[row] else _NO_VICTIMS


def best_of(candidates: Iterable[Candidate], now: float) -> list[Candidate]:
    """Return the candidates that no criterion tells apart, by name; kube-scheduler draws one of them."""
    rated = [(candidate.cost(now), candidate) for candidate in candidates]
    lowest = min((cost for cost, _ in rated), default=None)
    return sorted((candidate for cost, candidate in rated if cost == lowest), key=lambda c: c.node_name)


def conclusion(
    pod: Pod, total: int, candidates: Sequence[Candidate], refused: Iterable[Status], now: float
) -> PostFilterResult | Status:
    """Return the plan, or the sentence that counts what was said of `total` nodes; an Error if a dry run made no sense."""
    if candidates:
        best = best_of(candidates, now)[0]
        victims = [Victim(p, best.node_name, p.uid in best.violating) for p in best.victims]
        victims += [Victim(p, node, p.uid in best.violating) for p, node in best.dragged]
        text = f"found a potential placement for pod on node {best.node_name}, preempting {len(victims)} victims"
        return PostFilterResult(tuple(victims), {pod.uid: best.node_name}, f"preemption: {text}")
    refused = list(refused)
    if errors := list(dict.fromkeys(status.message for status in refused if status.code is Code.ERROR)):
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return Status.error(f"preemption: {text}")
    return _no(_nothing_found(total, refused))


class DryRun:
    """The search for victims on one node after another, for one pod."""

    def __init__(
        self, handle: Handle, pod: Pod, look: Callable[[int], Status | None], now: float, budgets: Sequence[Budget], *,
        protect_gangs: bool, counting: Counting | None = None,
    ) -> None:  # fmt: skip
        """Take what to ask, and whether whole gangs go."""
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
            return _NO_VICTIMS
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
        if counting is None or not counting.open[row]:
            return self._reprieve(row, order)
        victims = counting.victims(record, row, order)
        return counting.refusal(record, row, order) if victims is None else victims

    def _reprieve(self, row: int, order: Sequence[Pod]) -> list[Pod] | Status:
        """Take all weak pods away and bring back in their order whom the pod can do with; return the others."""
        snapshot = self._handle.snapshot
        victims: list[Pod] = []
        back: dict[str, Undo] = {p.uid: snapshot.remove(p.uid, row) for p in order}
        try:
            if (status := self._status(row)) is not None:
                return status
            for candidate in order:
                back.pop(candidate.uid)()
                if self._status(row) is not None:
                    back[candidate.uid] = snapshot.remove(candidate.uid, row)
                    victims.append(candidate)
        finally:
            for undo in back.values():
                undo()
        return victims

    def _status(self, row: int) -> Status | None:
        """Return what Filter says of a row now; one that fails there is an Error of this node, and others are tried."""
        try:
            return self._look(row)
        except PluginError as error:
            return error.at_a_node()

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
            return self._units.of(other, node_name) is not None
        return other.priority < self._pod.priority and not self._handle.is_stuck(other.uid)

    def _is_free(self, victim: Pod) -> bool:
        """Tell whether a victim costs nothing, as it is going anyway; kube-scheduler counts such pods like others."""
        return self._protects_gangs and self._handle.cluster.is_going(victim)

    def _dragged(self, victims: Sequence[Pod], node_name: str) -> tuple[tuple[Pod, str], ...]:
        """Return the members of victims' gangs that have to go with them."""
        chosen = {pod.uid for pod in victims}
        dragged: dict[str, tuple[Pod, str]] = {}
        for pod in victims:
            unit = self._units.of(pod, node_name)
            for member, node in unit.pods if unit else ():
                if member.uid not in chosen:
                    dragged[member.uid] = (member, node)
        return tuple(dragged.values())


def _no(text: str) -> Status:
    return Status.unschedulable(Reason("NoPreemption", text, _CURES, Kind.NOT_NOW))


def _nothing_found(total: int, refused: Sequence[Status]) -> str:
    """Return "preemption: 0/N nodes are available: <count> <reason>, …."."""
    counts = Counter(reason.text for status in refused for reason in status.reasons)
    if total > len(refused):
        counts[_NOT_HELPFUL] += total - len(refused)
    said = ", ".join(sorted(f"{number} {text}" for text, number in counts.items()))
    return f"preemption: 0/{total} nodes are available:{f' {said}.' if said else ''}"
