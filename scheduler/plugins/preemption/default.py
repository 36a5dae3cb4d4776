"""DefaultPreemption: makes room for one pod on one node by evicting less important pods.

At PostFilter, for pods without a gang.  Steps, budgets, reprieve, criteria and sentences are kube-scheduler's; with
`protectGangs` a victim whose gang would fall below its minimum drags the whole gang along, on every node, and counts so.  With
`minimizeLoss`, as in the default profile, nodes and victims are chosen by what is lost.
Who explains a refusal asks the same functions: `ineligible`, `dry_runs`, `best_of` and `conclusion`.
"""

from __future__ import annotations

import zlib
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from scheduler.config import ConfigurationModel
from scheduler.framework.plugin import Plugin, PostFilterResult, Victim
from scheduler.framework.status import Code, Kind, Reason, Status

from .candidate import Candidate, PricedCandidate, best_of
from .dry_run import CURES, NAME, NO_VICTIMS
from .figures import CriteriaFigures, PriceFigures
from .known import KnownRuns
from .runs import a_run, dry_runs
from .victims import going_too, is_leaving_by_preemption

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.framework.counting import Counting
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.framework.plugin import Failure
    from scheduler.model import Pod
    from scheduler.state.snapshot import Ints

#: So many nodes are counted anew for one pod that looks for the cheapest one, if they are not known.
MOST_COUNTED = 1000
_NOT_HELPFUL = "Preemption is not helpful for scheduling"


class DefaultPreemptionArgs(ConfigurationModel):
    """Arguments, as kube-scheduler's DefaultPreemptionArgs, and ours."""

    min_candidate_nodes_percentage: int = Field(10, ge=0, le=100)
    """At least this share of the nodes is tried."""
    min_candidate_nodes_absolute: int = Field(100, ge=1)
    """At least so many nodes are tried."""
    protect_gangs: bool = False
    """Evict a gang as a whole where a member's eviction would leave it below its minimum."""
    minimize_loss: bool = False
    """Evict what costs least by the order of GangPreemption, work since the last checkpoint included; gangs go as wholes."""


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
        candidates, refused = self._search(state, pod, failure)
        found = conclusion(pod, total, candidates, refused, self.handle.now())
        if isinstance(found, Status) and found.code is Code.ERROR:  # it ends the message, not the attempt
            return Status.unschedulable(*found.reasons)
        return found

    def _nominated_status(self, pod: Pod, failure: Failure) -> Status | None:
        """Return what Filter says of the node that the pod is nominated to; None if it is not known."""
        row = self.handle.snapshot.row_of.get(self.handle.cluster.nominations.get(pod.uid, ""))
        if failure.early is not None or row is None:
            return failure.early
        return failure.statuses[row] if failure.statuses else None

    def _search(
        self, state: CycleState, pod: Pod, failure: Failure
    ) -> tuple[Sequence[Candidate], Iterable[Status] | Counter[Status]]:
        """Dry-run rows from a fixed offset until there are enough candidates, one of them without a violation.

        Return the candidates, or the best of them, and what was said of the other rows.
        """
        rows = failure.resolvable_rows()
        if not len(rows):
            return [], []
        share = len(rows) * self.args.min_candidate_nodes_percentage // 100
        wanted = max(share, self.args.min_candidate_nodes_absolute)
        offset = zlib.crc32(pod.uid.encode()) % len(rows)
        turned = np.concatenate((rows[offset:], rows[:offset]))
        counting = self.handle.counting(state, pod) if failure.early is None else None
        if counting is not None and bool(counting.open[rows].all()):
            return self._look_up(pod, turned, wanted, counting)
        return self._try(state, pod, turned, wanted, counting)

    def _try(
        self, state: CycleState, pod: Pod, rows: Ints, wanted: int, counting: Counting | None
    ) -> tuple[list[Candidate], list[Status]]:
        """Try one row after the other."""
        found: list[Candidate] = []
        refused: list[Status] = []
        is_any_kind = False

        def look(row: int) -> Status | None:
            return self.handle.verdict(state, pod, row)

        for _, outcome in dry_runs(
            self.handle, pod, rows.tolist(), look, protect_gangs=self.args.protect_gangs,
            minimize_loss=self.args.minimize_loss, counting=counting,
        ):  # fmt: skip
            if isinstance(outcome, Status):
                refused.append(outcome)
                continue
            found.append(outcome)
            is_any_kind = is_any_kind or outcome.violations == 0
            if len(found) >= wanted and is_any_kind:
                break
        return found, refused

    def _look_up(
        self, pod: Pod, rows: Ints, wanted: int, counting: Counting
    ) -> tuple[list[Candidate], Counter[Status]]:
        """Say the same where nothing but resources decides, from what is known of rows where nothing changed."""
        handle, protects, is_priced = self.handle, self.args.protect_gangs, self.args.minimize_loss
        kind = counting.asks, pod.priority, protects, is_priced
        known = handle.snapshot.follower((NAME, pod.scheduler_name), KnownRuns).of(
            kind, handle, PriceFigures if is_priced else CriteriaFigures
        )
        run = a_run(handle, pod, None, protect_gangs=protects, minimize_loss=is_priced, counting=counting)
        own = handle.snapshot.row_of.get(handle.cluster.nominations.get(pod.uid, ""))
        if own is not None:  # room is kept there for others of its kind, not against itself
            known.forget(own)
        weak = handle.snapshot.nodes.requested_below(pod.priority, "pods") > 0

        def look(row: int) -> None:
            known.put(row, run.of(row), *run.validity(row))

        if is_priced:
            seen = known.search_all(rows, weak, max(wanted, MOST_COUNTED), look, NO_VICTIMS)
        else:
            seen = known.search(rows, weak, wanted, look, NO_VICTIMS)
        best = known.best(seen)
        refused = known.refused(seen) if best is None else Counter()
        if own is not None:
            known.forget(own)
        return [best] if best is not None else [], refused


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


def conclusion(
    pod: Pod, total: int, candidates: Sequence[Candidate], refused: Iterable[Status] | Counter[Status], now: float
) -> PostFilterResult | Status:
    """Return the plan, or the sentence that counts what was said of `total` nodes; an Error if a dry run made no sense."""
    if candidates:
        best = best_of(candidates, now)[0]
        victims = [Victim(p, best.node_name, p.uid in best.violating) for p in best.victims]
        victims += [Victim(p, node, p.uid in best.violating) for p, node in best.dragged]
        text = f"found a potential placement for pod on node {best.node_name}, preempting {_count_of(best, victims)}"
        return PostFilterResult(tuple(victims), {pod.uid: best.node_name}, f"preemption: {text}")
    refused = Counter(refused)
    if errors := list(dict.fromkeys(status.message for status in refused if status.code is Code.ERROR)):
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return Status.error(f"preemption: {text}")
    return _no(_nothing_found(total, refused))


def _count_of(best: Candidate, victims: Sequence[Victim]) -> str:
    """Return how many victims there are; kube-scheduler counts those that are going already like others."""
    if not isinstance(best, PricedCandidate):
        return f"{len(victims)} victims"
    paid = {pod.uid for pod in best.paid}
    return f"{len(paid)} victims{going_too(victim.pod for victim in victims if victim.pod.uid not in paid)}"


def _no(text: str) -> Status:
    return Status.unschedulable(Reason("NoPreemption", text, CURES, Kind.NOT_NOW))


def _nothing_found(total: int, refused: Counter[Status]) -> str:
    """Return "preemption: 0/N nodes are available: <count> <reason>, …."."""
    counts: Counter[str] = Counter()
    for status, number in refused.items():
        for reason in status.reasons:
            counts[reason.text] += number
    if total > refused.total():
        counts[_NOT_HELPFUL] += total - refused.total()
    said = ", ".join(sorted(f"{number} {text}" for text, number in counts.items()))
    return f"preemption: 0/{total} nodes are available:{f' {said}.' if said else ''}"
