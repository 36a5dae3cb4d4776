"""What the terms of a pod ask of the index of pods, once namespaces are known.

For InterPodAffinity; questions are kept per set of terms until a namespace changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.model.label_tests import selects
from scheduler.model.owners import Namespace
from scheduler.model.pod_terms import PodTerms
from scheduler.state.pod_index import Question

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.framework.handle import Handle
    from scheduler.model import Pod
    from scheduler.model.pod_terms import PodTerm

NOTHING = PodTerms()
_MOST_KEPT = 4096


@dataclass(frozen=True, slots=True)
class Near:
    """What a pod's terms ask of the index, once namespaces are known."""

    #: Pods that satisfy all required terms; None if there are none.
    affinity: Question | None
    affinity_keys: tuple[str, ...]
    #: Topology key and question of each required anti-affinity term.
    anti: tuple[tuple[str, Question], ...]
    #: Topology key, question and signed weight of each preferred term.
    preferred: tuple[tuple[str, Question, int], ...]


def question_of(terms: Iterable[PodTerm], namespaces: Mapping[str, Namespace]) -> Question:
    """Return the question for pods that satisfy all of some terms; selected namespaces are looked up."""
    parts = []
    for term in terms:
        names: tuple[str, ...] | None = term.namespaces
        if term.namespace_selector == ():
            names = None
        elif term.namespace_selector is not None:
            selected = {n.name for n in namespaces.values() if selects(term.namespace_selector, n.labels)}
            names = tuple(sorted({*term.namespaces, *selected}))
        parts.append((names, term.selector))
    return Question(tuple(parts))


class Nearness:
    """Turns the terms of pods into questions."""

    def __init__(self, handle: Handle) -> None:
        """Take where to ask for namespaces."""
        self._handle = handle
        self._known: dict[PodTerms, Near] = {}
        self._namespaces_at = -1

    def of(self, pod: Pod) -> Near:
        """Return what a pod asks."""
        terms, objects = pod.terms or NOTHING, self._handle.cluster.objects
        at = objects.generation(Namespace)
        if at != self._namespaces_at or len(self._known) > _MOST_KEPT:
            self._known.clear()
            self._namespaces_at = at
        near = self._known.get(terms)
        if near is None:
            namespaces = {name: n for (_, name), n in objects.all(Namespace).items()}
            near = self._known[terms] = _near(terms, namespaces)
        return near


def means(question: Question, pod: Pod) -> bool:
    """Tell whether a pod is one of those that a question counts."""
    return question.means(pod.namespace, pod.labels)


def _near(terms: PodTerms, namespaces: Mapping[str, Namespace]) -> Near:
    """Turn terms into questions."""
    return Near(
        question_of(terms.affinity, namespaces) if terms.affinity else None,
        tuple(dict.fromkeys(term.topology_key for term in terms.affinity)),
        tuple((term.topology_key, question_of((term,), namespaces)) for term in terms.anti_affinity),
        (
            *((term.topology_key, question_of((term,), namespaces), w) for w, term in terms.preferred),
            *((term.topology_key, question_of((term,), namespaces), -w) for w, term in terms.preferred_anti),
        ),
    )
