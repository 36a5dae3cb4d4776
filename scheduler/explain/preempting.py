"""Preempting: what DefaultPreemption would do for a pod, with every node tried and every tie told.

For explanations; the search itself is the plugin's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.plugin import Failure, PostFilterResult
from scheduler.framework.runtime import PluginError, call
from scheduler.framework.status import Code, Reason, Status
from scheduler.plugins.preemption.candidate import Candidate, best_of
from scheduler.plugins.preemption.default import DefaultPreemption, conclusion, ineligible
from scheduler.plugins.preemption.runs import dry_runs

from .explanation import PreemptionExplanation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scheduler.framework.counting import Counting
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.framework.runtime import Runtime
    from scheduler.model import Budget, Pod

    Look = Callable[[int], Status | None]


def explain_preemption(
    handle: Handle, runtime: Runtime, state: CycleState, pod: Pod, statuses: Sequence[Status | None], *,
    early: Status | None, look: Look,
) -> PreemptionExplanation:  # fmt: skip
    """Return what PostFilter does for a pod that was refused on every node with these statuses."""
    found = PreemptionExplanation(budgets=handle.budgets())
    plugin = next((p for p in runtime.plugins("post_filter") if isinstance(p, DefaultPreemption)), None)
    preempted: PostFilterResult | Status | None = None
    if plugin is not None:
        row = handle.snapshot.row_of.get(handle.cluster.nominations.get(pod.uid, ""))
        nominated = early if row is None else statuses[row]
        found.ineligible = ineligible(handle, pod, nominated)
        if found.ineligible:
            preempted = Status.unschedulable(Reason("NoPreemption", f"preemption: {found.ineligible}"))
        else:
            counting = handle.counting(state, pod) if early is None else None
            preempted = _dry_run(plugin, pod, statuses, look, counting, found)
    failure = Failure(handle.snapshot.nodes, statuses, early)
    found.post_filter = _post_filter(runtime, state, pod, failure, plugin, preempted)
    return found


def _dry_run(
    plugin: DefaultPreemption, pod: Pod, statuses: Sequence[Status | None], look: Look, counting: Counting | None,
    found: PreemptionExplanation,
) -> PostFilterResult | Status:  # fmt: skip
    """Try every node that evictions might help; return how the plugin ends."""
    handle = plugin.handle
    rows = [row for row, status in enumerate(statuses) if status is not None and status.code is Code.UNSCHEDULABLE]
    names = [record.node.name for record in handle.snapshot.all_rows]
    now = handle.now()

    def outcomes(budgets: Sequence[Budget]) -> dict[str, Candidate | Status]:
        args = plugin.args
        runs = dry_runs(
            handle, pod, rows, look, budgets=budgets, protect_gangs=args.protect_gangs, minimize_loss=args.minimize_loss,
            counting=counting,
        )  # fmt: skip
        return {names[row]: outcome for row, outcome in runs}

    found.potential = [names[row] for row in rows]
    of_node = outcomes(found.budgets)
    found.candidates = [outcome for outcome in of_node.values() if isinstance(outcome, Candidate)]
    found.rejected = {node: outcome for node, outcome in of_node.items() if isinstance(outcome, Status)}
    found.chosen = best_of(found.candidates, now)
    if len(found.budgets) > 1 and rows:
        reverse = outcomes(found.budgets[::-1])
        found.budget_order_matters = any(_gist(of_node[node]) != _gist(reverse[node]) for node in of_node)
    return conclusion(pod, len(statuses), found.candidates, found.rejected.values(), now)


def _gist(outcome: Candidate | Status) -> object:
    """Return what of an outcome may not depend on the order of budgets."""
    if isinstance(outcome, Candidate):
        return [victim.uid for victim in outcome.victims], outcome.violations
    return outcome.code, outcome.plugin, sorted(reason.text for reason in outcome.reasons)


def _post_filter(
    runtime: Runtime, state: CycleState, pod: Pod, failure: Failure, known: DefaultPreemption | None,
    preempted: PostFilterResult | Status | None,
) -> Status:  # fmt: skip
    """Ask the PostFilter plugins in turn until one has the last word; `known` has answered already."""
    said: list[Reason] = []
    for plugin in runtime.plugins("post_filter"):
        answer = preempted if plugin is known else _call(plugin, state, pod, failure)
        if isinstance(answer, PostFilterResult):
            return Status(Code.SUCCESS, (Reason("Preempting", answer.message),))
        if answer is None:
            continue
        if answer.code is not Code.UNSCHEDULABLE:
            return answer
        said += answer.reasons
    return Status.unschedulable(*said)


def _call(plugin: object, state: CycleState, pod: Pod, failure: Failure) -> PostFilterResult | Status | None:
    try:
        found: PostFilterResult | Status | None = call(plugin, "post_filter", state.clone(), pod, failure)  # type: ignore[arg-type]
    except PluginError as error:
        return error.status
    return found


def reasons_of(status: Status) -> Iterable[str]:
    """Return a status' sentences, sorted: some are made in the order of a map."""
    return sorted(reason.text for reason in status.reasons)
