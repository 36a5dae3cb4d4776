"""Allowances: how many more evictions budgets allow while a plan grows.

For GangPreemption.  A pod that goes breaks at most one budget; the budgets after that one are not charged for it, as in kube-scheduler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .victims import budgets_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.model import Budget, Pod


class Allowances:
    """What is left of the budgets of a cluster; it costs nothing where there are none."""

    def __init__(self, budgets: Sequence[Budget]) -> None:
        """Take all budgets, in the order in which they are charged."""
        self._budgets = budgets
        self._left = {id(budget): budget.disruptions_allowed for budget in budgets}
        self._known: dict[str, list[Budget]] = {}

    @property
    def is_any(self) -> bool:
        """Whether there are budgets."""
        return bool(self._budgets)

    def broken_by(self, pods: Iterable[Pod]) -> set[str]:
        """Return the uids of those that would go against a budget if all went, in this order; nothing is charged."""
        return self._walk(pods, {}) if self._budgets else set()

    def charge(self, pods: Iterable[Pod]) -> None:
        """Count pods as evicted."""
        if self._budgets:
            used: dict[int, int] = {}
            self._walk(pods, used)
            for budget, count in used.items():
                self._left[budget] -= count

    def _walk(self, pods: Iterable[Pod], used: dict[int, int]) -> set[str]:
        broken: set[str] = set()
        for pod in pods:
            known = self._known.get(pod.uid)
            if known is None:
                known = self._known[pod.uid] = budgets_of(pod, self._budgets)
            for budget in known:
                used[id(budget)] = used.get(id(budget), 0) + 1
                if used[id(budget)] > self._left[id(budget)]:
                    broken.add(pod.uid)
                    break
        return broken
