"""Explanation: what every plugin of a profile says of one pod, as values.

For those who show it: result lines, JSON and tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.framework.status import Status
    from scheduler.framework.verdicts import Verdicts
    from scheduler.model import Budget, Pod
    from scheduler.plugins.preemption.candidate import Candidate
    from scheduler.state.snapshot import Ints


@dataclass(slots=True)
class Scores:
    """One plugin's scores of the feasible nodes, in their order."""

    weight: int
    raw: Ints
    normalized: Ints


@dataclass(slots=True)
class PreemptionExplanation:
    """What preemption would do for a pod that no node takes."""

    #: Why the pod may not preempt; empty if it may.
    ineligible: str = ""
    #: Nodes on which evictions might help.
    potential: list[str] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    #: Node → why evictions there do not help.
    rejected: dict[str, Status] = field(default_factory=dict)
    #: All candidates that no criterion tells apart, by node name.
    chosen: list[Candidate] = field(default_factory=list)
    #: Another order of the budgets would give other candidates.
    budget_order_matters: bool = False
    #: How all PostFilter plugins together ended; Success carries a sentence, too.
    post_filter: Status | None = None
    budgets: Sequence[Budget] = ()

    @property
    def is_drawn(self) -> bool:
        """In kube-scheduler chance would name the node: several tie, or the budgets' order counts."""
        return len(self.chosen) > 1 or self.budget_order_matters


@dataclass(slots=True)
class Explanation:
    """Everything that was said of a pod."""

    pod: Pod
    #: All nodes, in the order of every list by node below.
    node_names: list[str]
    #: PreFilter by plugin: refusals and errors, the nodes it narrows to, and who said Skip.
    prefilter: dict[str, Status] = field(default_factory=dict)
    prefilter_nodes: dict[str, list[str]] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    #: Filter by plugin, each alone and without nominated pods; None for a plugin that failed.
    filters: dict[str, Verdicts | None] = field(default_factory=dict)
    #: What counts for each node, with nominated pods; None for one that passes. Empty if the cycle ended before.
    filter: list[Status | None] = field(default_factory=list)
    #: Positions of the nodes that passed; None if the cycle ended before.
    feasible: list[int] | None = None
    #: The accident that ended the cycle.
    error: str = ""
    scores: dict[str, Scores] = field(default_factory=dict)
    score_skipped: list[str] = field(default_factory=list)
    #: Weighted totals of the feasible nodes, in their order.
    totals: list[int] = field(default_factory=list)
    preemption: PreemptionExplanation | None = None
    #: The text of the event FailedScheduling; empty if there is none.
    event: str = ""
    #: What the pod's queue says of it; empty without queues.
    queue: str = ""

    @property
    def best(self) -> list[int]:
        """Positions of the nodes that share the highest total."""
        top = max(self.totals, default=0)
        return [node for node, total in zip(self.feasible or (), self.totals, strict=False) if total == top]
