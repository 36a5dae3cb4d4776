"""PodTerms: what a pod says of its neighbours, affinity terms and spread constraints, as values that can be compared.

For the model, which reads them once per pod, and for the plugins and the index that count by them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from .api import Affinity, PodAffinity, SpreadConstraint
from .label_tests import LabelTest, Selector, SelectorError, in_order, selector_of, selects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .api import PodAffinityTerm


class PodTerm(msgspec.Struct, frozen=True, gc=False):
    """Pods of some namespaces that satisfy a selector, and the node label that says what is near them."""

    topology_key: str
    #: None matches no pod.
    selector: Selector | None
    #: Names of namespaces, sorted.
    namespaces: tuple[str, ...]
    #: Selects further namespaces by their labels; None selects none, the empty one all.
    namespace_selector: Selector | None = None

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Tell whether a pod is meant, given its namespace, its labels, and those of its namespace."""
        is_there = namespace in self.namespaces or selects(self.namespace_selector, namespace_labels)
        return is_there and selects(self.selector, labels)


class PodTerms(msgspec.Struct, frozen=True, gc=False):
    """All affinity terms of a pod."""

    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    #: With their weights, 1 to 100.
    preferred: tuple[tuple[int, PodTerm], ...] = ()
    preferred_anti: tuple[tuple[int, PodTerm], ...] = ()
    #: What is wrong with them, if they make no sense; then there are none.
    problem: str = ""

    def label_keys(self) -> list[str]:
        """Return the label keys that their selectors read, with repetitions."""
        weighted = [term for _, term in (*self.preferred, *self.preferred_anti)]
        terms = (*self.affinity, *self.anti_affinity, *weighted)
        return [test.key for term in terms for test in term.selector or ()]


class Spread(msgspec.Struct, frozen=True, gc=False):
    """A topology spread constraint."""

    max_skew: int
    topology_key: str
    #: DoNotSchedule or ScheduleAnyway.
    when_unsatisfiable: str
    #: None matches no pod; the keys of `matchLabelKeys` are in it.
    selector: Selector | None
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False
    #: What is wrong with the selector, if it makes no sense.
    problem: str = ""


def terms_of(affinity: Affinity | None, namespace: str) -> PodTerms | None:
    """Return a pod's affinity terms; None if it has none."""
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return None
    near, far = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAffinity()
    key = (namespace, msgspec.json.encode((near, far)))
    return _terms_of(key)


@lru_cache(maxsize=8192)
def _terms_of(key: tuple[str, bytes]) -> PodTerms | None:
    """Read terms once for all pods that say the same."""
    namespace, encoded = key
    near, far = msgspec.json.decode(encoded, type=tuple[PodAffinity, PodAffinity])
    try:
        terms = PodTerms(
            tuple([_term(t, namespace) for t in near.required_during_scheduling_ignored_during_execution or ()]),
            tuple([_term(t, namespace) for t in far.required_during_scheduling_ignored_during_execution or ()]),
            _weighted(near, namespace),
            _weighted(far, namespace),
        )
    except SelectorError as error:
        return PodTerms(problem=str(error))
    return terms if terms != PodTerms() else None


def _weighted(affinity: PodAffinity, namespace: str) -> tuple[tuple[int, PodTerm], ...]:
    preferred = affinity.preferred_during_scheduling_ignored_during_execution or ()
    return tuple([(entry.weight, _term(entry.pod_affinity_term, namespace)) for entry in preferred])


def _term(term: PodAffinityTerm, namespace: str) -> PodTerm:
    own = [namespace] if not term.namespaces and term.namespace_selector is None else term.namespaces or []
    return PodTerm(
        term.topology_key,
        selector_of(term.label_selector),
        tuple(sorted(set(own))),
        selector_of(term.namespace_selector),
    )


def spreads_of(constraints: list[SpreadConstraint] | None, labels: Mapping[str, str]) -> tuple[Spread, ...]:
    """Return a pod's spread constraints; its own labels give the values of `matchLabelKeys`."""
    return tuple([spread_of(constraint, labels) for constraint in constraints]) if constraints else ()


def spread_of(constraint: SpreadConstraint, labels: Mapping[str, str]) -> Spread:
    """Return one constraint; a selector that makes no sense becomes a problem."""
    problem, selector = "", None
    try:
        selector = selector_of(constraint.label_selector)
    except SelectorError as error:
        problem = str(error)
    keys = [key for key in constraint.match_label_keys or () if key in labels]
    if keys and selector is not None:
        selector = in_order((*selector, *(LabelTest(key, "In", (labels[key],)) for key in keys)))
    return Spread(
        constraint.max_skew,
        constraint.topology_key,
        constraint.when_unsatisfiable,
        selector,
        1 if constraint.min_domains is None else constraint.min_domains,
        constraint.node_affinity_policy in (None, "Honor"),
        constraint.node_taints_policy == "Honor",
        problem,
    )
