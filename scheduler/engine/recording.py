"""Recording: gathers what a Decision tells, before the snapshot moves on.

For the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .decision import Decision, PlacedPod, VictimPod

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.framework.status import Reason
    from scheduler.framework.workload import Workload

    from .candidates import Candidate
    from .flights import Seat
    from .outcome import Outcome
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
        self, cycle: int, time: float, generation: int, result: str, seats: Sequence[Seat],
        promised_start: float | None = None,
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
                PlacedPod(
                    pod=seat.pod.key,
                    uid=seat.pod.uid,
                    node=seat.node_name,
                    annotations=dict(seat.state.read(("annotations", seat.pod.uid), {})),
                )
                for seat in sorted(seats, key=lambda seat: seat.pod.key)
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
            message=_message(first) if first else "",
            finality=first.kind.value if first else "",
            evaluations=outcome.evaluations,
            promised_start=promised_start,
        )


def _message(reason: Reason) -> str:
    """Return a reason's sentence, with the stack of an accident."""
    stack = dict(reason.numbers).get("stack")
    return f"{reason.text}\n{stack}" if stack else reason.text


def record(workload: Workload, placer: Placer, outcome: Outcome, *, has_scores: bool) -> Facts:
    """Gather verdicts, if somebody found no node, and the best scores, if wanted, of the pod that the attempt is explained by."""
    shown = outcome.shown
    verdicts: dict[str, dict[str, int]] = {}
    scores: dict[str, int] = {}
    parts: dict[str, dict[str, int]] = {}
    if shown is not None:
        reasons = shown.reasons() if outcome.status is not None else {}
        for (plugin, reason), number in sorted(reasons.items(), key=lambda item: (item[0][0], item[0][1].text)):
            by_text = verdicts.setdefault(plugin, {})
            by_text[reason.text] = by_text.get(reason.text, 0) + number
        if has_scores:
            scores, parts = _best_scores(shown, placer)
    profile = placer.pods[0].scheduler_name
    return Facts(workload, profile, len(placer.pods), outcome, verdicts, scores, parts)


def _best_scores(shown: Candidate, placer: Placer) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Return the totals of the best nodes, and what each plugin gave, if scores were needed at all."""
    best = shown.best_rows(SHOWN_NODES)
    names = [placer.snapshot.all_rows[row].node.name for row, _ in best]
    scores = {name: total for name, (_, total) in zip(names, best, strict=True)}
    return scores, dict(zip(names, shown.scores_of([row for row, _ in best]), strict=True)) if best else {}
