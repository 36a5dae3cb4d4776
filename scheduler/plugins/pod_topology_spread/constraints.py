"""Which constraints a pod has: its own, or the defaults for what its Services and its controller select.

For PodTopologySpread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from scheduler.model.label_tests import in_order, selects
from scheduler.model.owners import OWNER_VERSIONS, Owner
from scheduler.model.pod_terms import Spread
from scheduler.state.pod_index import Question

from .args import SOFT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.framework.handle import Handle
    from scheduler.model import Pod
    from scheduler.model.label_tests import Selector

HOSTNAME = "kubernetes.io/hostname"
SYSTEM_DEFAULTS = (Spread(3, HOSTNAME, SOFT, ()), Spread(5, "topology.kubernetes.io/zone", SOFT, ()))


class Constraints:
    """Finds the constraints of pods."""

    def __init__(self, handle: Handle, defaults: Sequence[Spread]) -> None:
        """Take where to ask for owners of pods, and the constraints of pods that have none."""
        self._handle = handle
        self.defaults = tuple(defaults)
        self._services: tuple[int, dict[tuple[str, tuple[str, str] | None], list[Selector]]] = (-1, {})

    def of(self, pod: Pod, kind: str) -> tuple[Spread, ...]:
        """Return a pod's own constraints of a kind, or the defaults for what its owners select."""
        if pod.spreads:
            return tuple([s for s in pod.spreads if s.when_unsatisfiable == kind])
        defaults = [s for s in self.defaults if s.when_unsatisfiable == kind]
        selector = self.owners_selector(pod) if defaults else ()
        return tuple([msgspec.structs.replace(s, selector=selector) for s in defaults]) if selector else ()

    def owners_selector(self, pod: Pod) -> Selector | None:
        """Return what selects a pod together with its like: its Services and its controller; empty for none."""
        services = self._services_of(pod)
        if not services and not pod.owners:
            return ()
        by_key = {t.key: t for s in services if selects(s, pod.labels) for t in s}
        controller = next((o for o in pod.owners if o.controller), None)
        more: Selector = ()
        if controller is not None and OWNER_VERSIONS.get(controller.kind) == controller.api_version:
            owner = self._handle.cluster.objects.get(Owner, pod.namespace, f"{controller.kind}/{controller.name}")
            if owner is not None and controller.kind == "ReplicationController":
                by_key.update({test.key: test for test in owner.selector or ()})  # its labels take the place of others
            elif owner is not None and controller.kind != "Service":
                more = owner.selector or ()
        return in_order((*by_key.values(), *more)) if by_key or more else ()

    def _services_of(self, pod: Pod) -> list[Selector]:
        """Return the selectors of the Services that may mean a pod, looked up by the labels that it has."""
        generation, known = self._services
        if generation != self._handle.cluster.objects.generation(Owner):
            known = {}
            for owner in self._handle.cluster.objects.all(Owner).values():
                if owner.kind == "Service" and owner.selector is not None:
                    first = next(((t.key, t.values[0]) for t in owner.selector), None)
                    known.setdefault((owner.namespace, first), []).append(owner.selector)
            self._services = self._handle.cluster.objects.generation(Owner), known
        if not known:
            return []
        return [s for label in (None, *pod.labels.items()) for s in known.get((pod.namespace, label), ())]


def question_of(pod: Pod, constraint: Spread) -> Question:
    """Ask for pods of the same namespace; an empty selector counts nobody who is there."""
    return Question(
        (((pod.namespace,), constraint.selector),),
        leaves_terminating_out=True,
        counts_trials_only=constraint.selector == (),
    )
