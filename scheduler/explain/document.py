"""Document: an explanation of a pod as JSON, with everything that a table would show; every field is always there.

For scripts; docs/explain.md says what the fields mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.plugins.preemption.victims import budgets_of

from .results import scores_of, verdict_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.config import Profile
    from scheduler.model import Pod
    from scheduler.plugins.preemption.candidate import Candidate

    from .explanation import Explanation, PreemptionExplanation


def document_of(found: Explanation, profile: Profile, notes: Sequence[str]) -> dict[str, Any]:
    """Return the explanation as a mapping of plain values."""
    names = found.node_names
    return {
        "pod": found.pod.key,
        "profile": profile.scheduler_name,
        "base": profile.base,
        "notes": list(notes),
        "nodes": names,
        "prefilter": {plugin: verdict_of(status) for plugin, status in found.prefilter.items()},
        "prefilterNodes": found.prefilter_nodes,
        "skipped": found.skipped,
        "filters": {
            plugin: {
                name: {"code": "Error"} if verdicts is None else verdict_of(verdicts.status_at(position))
                for position, name in enumerate(names)
            }
            for plugin, verdicts in found.filters.items()
        },
        "filter": {name: verdict_of(status) for name, status in zip(names, found.filter, strict=False)},
        "feasible": [names[position] for position in found.feasible or ()],
        "weights": {plugin: scores.weight for plugin, scores in found.scores.items()},
        **({"scores": {}, "scoreSkipped": [], "total": {}, "best": []} | scores_of(found)),
        "preemption": None if found.preemption is None else _preemption(found.preemption),
        "message": found.event,
        "error": found.error,
    }


def _preemption(found: PreemptionExplanation) -> dict[str, Any]:
    return {
        "eligible": not found.ineligible,
        "reason": found.ineligible,
        "potential": found.potential,
        "candidates": {candidate.node_name: _candidate(candidate, found) for candidate in found.candidates},
        "rejected": {node: verdict_of(status) for node, status in found.rejected.items()},
        "chosen": [candidate.node_name for candidate in found.chosen],
        "pdbOrderMatters": found.budget_order_matters,
        "postFilter": None if found.post_filter is None else verdict_of(found.post_filter),
    }


def _candidate(candidate: Candidate, found: PreemptionExplanation) -> dict[str, Any]:
    victims = [(pod, candidate.node_name) for pod in candidate.victims]
    return {
        "victims": [_victim(pod, node, candidate, found) for pod, node in (*victims, *candidate.dragged)],
        "pdbViolations": candidate.violations,
    }


def _victim(pod: Pod, node: str, candidate: Candidate, found: PreemptionExplanation) -> dict[str, Any]:
    return {
        "pod": pod.key,
        "node": node,
        "priority": pod.priority,
        "violatesBudget": pod.uid in candidate.violating,
        "budgets": {
            f"{budget.namespace}/{budget.name}": budget.disruptions_allowed for budget in budgets_of(pod, found.budgets)
        },
    }
