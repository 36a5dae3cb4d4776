"""The disruption controller: how many pods each PodDisruptionBudget allows to go now.

For the embedded cluster.  A budget counts the pods that its selector matches: the running ones are healthy, all that have not
ended are expected.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from scheduler.engine.inputs import BudgetChanged
from scheduler.model.selectors import matches_labels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .cluster import Cluster
    from .world import BudgetObject

_WHOLE = 100


class Budgets:
    """All budgets of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        """Start without any."""
        self._cluster = cluster
        self._budgets: list[BudgetObject] = []
        self._told: dict[tuple[str, str], int] = {}

    def add(self, item: BudgetObject) -> None:
        """Take on a budget."""
        self._budgets.append(item)

    def changes(self) -> Iterator[BudgetChanged]:
        """Yield the budgets that allow another number than was told last. O(budgets · pods)."""
        for item in self._budgets:
            allowed = self._allowed(item)
            key = (item.budget.namespace, item.budget.name)
            if self._told.get(key) != allowed:
                self._told[key] = allowed
                yield BudgetChanged(msgspec.structs.replace(item.budget, disruptions_allowed=allowed))

    def _allowed(self, item: BudgetObject) -> int:
        budget, spec = item.budget, item.api.spec
        pods = [
            sim
            for sim in self._cluster.pods.values()
            if sim.pod.namespace == budget.namespace and matches_labels(budget.selector, sim.pod.labels)
        ]
        expected = sum(1 for sim in pods if not sim.pod.is_terminal)
        healthy = sum(1 for sim in pods if sim.is_active and sim.pod.phase == "Running")
        if spec.max_unavailable is not None:
            desired = expected - _count(spec.max_unavailable, expected)
        else:
            desired = _count(spec.min_available if spec.min_available is not None else 0, expected)
        return max(0, healthy - max(0, desired))


def _count(bound: int | str, expected: int) -> int:
    """Return a bound as a number of pods; percentages are rounded up, as the disruption controller does."""
    if isinstance(bound, int):
        return bound
    return math.ceil(int(bound.removesuffix("%")) * expected / _WHOLE)
