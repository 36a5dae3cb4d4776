"""Recording: gathers what a Decision tells, before the snapshot moves on.

For the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .decision import Decision, PlacedPod, VictimPod

if TYPE_CHECKING:
    from scheduler.framework.workload import Workload

    from .candidates import Candidate
    from .cycle import Outcome
    from .placement import Placer

#: How many of the best nodes a Decision shows with their scores.
SHOWN_NODES = 5


@dataclass(slots=True)
class Facts:
    """What is known of an attempt when its cycle ends."""

    workload: Workload
    profile: str
    pods: int
    outcome: Outcome
    verdicts: dict[str, dict[str, int]]
    scores: dict[str, int]
    parts: dict[str, dict[str, int]]

    def decision(
        self, cycle: int, time: float, generation: int, result: str, pods: dict[str, str], nodes: dict[str, str],
        annotations: dict[str, dict[str, str]],
    ) -> Decision:  # fmt: skip
        """Return the record, with what the commit made of it."""
        outcome, status = self.outcome, self.outcome.status
        first = status.reasons[0] if status is not None and status.reasons else None
        return Decision(
            cycle=cycle,
            time=time,
            generation=generation,
            workload=self.workload.key,
            is_gang=self.workload.gang is not None,
            profile=self.profile,
            priority=self.workload.priority,
            pods=self.pods,
            needed=self.workload.needed,
            result=result,
            placements=tuple(
                PlacedPod(pod=key, uid=uid, node=nodes[uid], annotations=annotations.get(uid, {}))
                for uid, key in sorted(pods.items(), key=lambda item: item[1])
            ),
            verdicts=self.verdicts,
            scores=self.scores,
            parts=self.parts,
            domain=outcome.domain,
            victims=tuple(
                VictimPod(pod=v.pod.key, uid=v.pod.uid, node=v.node_name, violates_budget=v.violates_budget)
                for v in (outcome.room.victims if outcome.room else ())
            ),
            reason=first.code if first else "",
            message=first.text if first else "",
            finality=first.kind.value if first else "",
            evaluations=outcome.evaluations,
        )


def record(workload: Workload, placer: Placer, outcome: Outcome) -> Facts:
    """Gather verdicts and the best scores of the pod that the attempt is explained by."""
    shown = outcome.shown
    verdicts: dict[str, dict[str, int]] = {}
    scores: dict[str, int] = {}
    parts: dict[str, dict[str, int]] = {}
    if shown is not None:
        for (plugin, reason), number in sorted(shown.reasons().items(), key=lambda item: (item[0][0], item[0][1].text)):
            by_text = verdicts.setdefault(plugin, {})
            by_text[reason.text] = by_text.get(reason.text, 0) + number
        scores, parts = _best_scores(shown, placer)
    profile = placer.pods[0].scheduler_name
    return Facts(workload, profile, len(placer.pods), outcome, verdicts, scores, parts)


def _best_scores(shown: Candidate, placer: Placer) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Return the totals of the best nodes, and what each plugin gave, if scores were needed at all."""
    if not shown.parts:
        return {}, {}
    totals = shown.totals()
    rows = [int(row) for row in np.argsort(-totals, kind="stable")[:SHOWN_NODES] if totals[row] > 0]
    names = {row: placer.snapshot.all_rows[row].node.name for row in rows}
    scores = {names[row]: int(totals[row]) for row in rows}
    parts = {names[row]: {part.plugin.NAME: int(part.scores[row]) for part in shown.parts} for row in rows}
    return scores, parts
