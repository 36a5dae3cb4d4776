"""Results: an explanation as the mapping that a result line holds; what is absent is empty.

For cases, so that two schedulers can be compared line by line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.framework.status import Code

from .preempting import reasons_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.framework.status import Status
    from scheduler.framework.verdicts import Verdicts
    from scheduler.plugins.preemption.candidate import Candidate

    from .explanation import Explanation, PreemptionExplanation

_NAMES = [code.upstream_name for code in Code]


def result_of(found: Explanation) -> dict[str, Any]:
    """Return the result of a pending pod."""
    names = found.node_names
    result: dict[str, Any] = {
        "prefilter": {plugin: verdict_of(status, names_plugin=False) for plugin, status in found.prefilter.items()},
        "prefilterNodes": found.prefilter_nodes,
        "skipped": found.skipped,
        "filters": {plugin: _codes(verdicts, names) for plugin, verdicts in found.filters.items()},
    }
    if found.feasible is not None:
        result["filter"] = {n: verdict_of(status) for n, status in zip(names, found.filter, strict=True)}
        result["feasible"] = [names[position] for position in found.feasible]
    result |= {"error": found.error, **scores_of(found)}
    if found.preemption is not None and not found.error:
        result["preemption"] = _preemption(found.preemption)
    if found.preemption is None or not found.preemption.is_drawn:
        result["fitError"] = found.event
    return {key: value for key, value in result.items() if value or key == "feasible"}


def verdict_of(status: Status | None, *, names_plugin: bool = True) -> dict[str, Any]:
    """Return a status: plugin, code and sorted reasons."""
    if status is None:
        return {"code": "Success"}
    verdict: dict[str, Any] = {"code": status.code.upstream_name, "reasons": reasons_of(status)}
    if names_plugin and status.plugin:
        verdict["plugin"] = status.plugin
    return verdict


def _codes(verdicts: Verdicts | None, names: list[str]) -> dict[str, str]:
    if verdicts is None:
        return dict.fromkeys(names, Code.ERROR.upstream_name)
    return {name: _NAMES[code] for name, code in zip(names, verdicts.codes().tolist(), strict=True)}


def scores_of(found: Explanation) -> dict[str, Any]:
    """Return what PreScore and Score said, over the feasible nodes."""
    feasible = [found.node_names[position] for position in found.feasible or ()]
    if not found.totals:
        return {}
    scores: Mapping[str, Any] = {
        plugin: {
            node: {"raw": raw, "normalized": normalized}
            for node, raw, normalized in zip(feasible, of.raw.tolist(), of.normalized.tolist(), strict=True)
        }
        for plugin, of in found.scores.items()
    }
    return {
        "scores": scores,
        "scoreSkipped": found.score_skipped,
        "total": dict(zip(feasible, found.totals, strict=True)),
        "best": [found.node_names[position] for position in found.best],
    }


def _preemption(found: PreemptionExplanation) -> dict[str, Any]:
    chosen = [candidate.node_name for candidate in found.chosen]
    result: dict[str, Any] = {
        "eligible": not found.ineligible,
        "reason": found.ineligible,
        "potential": found.potential,
        "candidates": {candidate.node_name: _candidate(candidate) for candidate in found.candidates},
        "rejected": {node: verdict_of(status) for node, status in found.rejected.items()},
        "chosen": chosen,
        "pdbOrderMatters": found.budget_order_matters,
    }
    if found.post_filter is not None:
        result["postFilter"] = {"code": found.post_filter.code.upstream_name}
        if len(chosen) < 2 and (reasons := reasons_of(found.post_filter)):  # noqa: PLR2004 - else chance names the node
            result["postFilter"]["reasons"] = reasons
    return {key: value for key, value in result.items() if value or key == "eligible"}


def _candidate(candidate: Candidate) -> dict[str, Any]:
    victims = [*candidate.victims, *(pod for pod, _ in candidate.dragged)]
    return {"pods": [victim.key for victim in victims], "pdbViolations": candidate.violations}
