"""PriorityClass and PodDisruptionBudget: what a pod is worth, and how many of a kind may go at once.

For the engine and for preemption.
"""

from __future__ import annotations

import msgspec

from .api import ApiBudget, ApiPriorityClass, LabelSelector


class PriorityClass(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A named priority."""

    name: str
    value: int
    is_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


class Budget(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PodDisruptionBudget: how many of its pods may go now."""

    namespace: str
    name: str
    selector: LabelSelector | None = None
    disruptions_allowed: int = 0
    disrupted_pods: frozenset[str] = frozenset()


def priority_class_from_api(api: ApiPriorityClass) -> PriorityClass:
    """Return the view of a PriorityClass."""
    return PriorityClass(
        name=api.metadata.name,
        value=api.value,
        is_default=api.global_default,
        preemption_policy=api.preemption_policy or "PreemptLowerPriority",
    )


def budget_from_api(api: ApiBudget) -> Budget:
    """Return the view of a PodDisruptionBudget."""
    return Budget(
        namespace=api.metadata.namespace or "default",
        name=api.metadata.name,
        selector=api.spec.selector,
        disruptions_allowed=api.status.disruptions_allowed,
        disrupted_pods=frozenset(api.status.disrupted_pods or ()),
    )
