"""NodeAffinity holds pods to nodes with the labels they require, and prefers those with the labels they like.

At PreFilter, where terms that pin `metadata.name` narrow the search, at Filter for `nodeSelector` and required terms, and
at Score for preferred ones.  Labels become columns of text, so a requirement is one comparison over all nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np
from pydantic import field_validator

from scheduler.config import ConfigurationModel
from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Code, PreFilterResult, Reason, Status
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api import NodeAffinity as Affinity
from scheduler.model.selectors import matches_node
from scheduler.state.node_selectors import NAME_FIELD, required_holds, selector_holds, term_error, term_holds

if TYPE_CHECKING:
    from scheduler.framework.change import Change
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.model import Pod
    from scheduler.model.api import NodeSelector, PreferredSchedulingTerm
    from scheduler.state.snapshot import Ints, Nodes

NAME = "NodeAffinity"
CURES = ClusterEvent.NODE_ADDED | ClusterEvent.NODE_LABELS | ClusterEvent.POD_UPDATED
NO_MATCH = Reason("NodeAffinityMismatch", "node(s) didn't match Pod's node affinity/selector", CURES)
NOT_ENFORCED = Reason("AddedAffinityMismatch", "node(s) didn't match scheduler-enforced node affinity", CURES)
CONFLICT = Reason("NodeAffinityConflict", "pod affinity terms conflict", ClusterEvent.POD_UPDATED)


class NodeAffinityArgs(ConfigurationModel):
    """Arguments of NodeAffinity."""

    added_affinity: dict[str, Any] | None = None
    """A nodeAffinity that holds for every pod of the profile, beside its own."""

    @field_validator("added_affinity")
    @classmethod
    def _check(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        try:
            affinity = msgspec.convert(value or {}, Affinity)
        except msgspec.ValidationError as error:
            raise ValueError(f"is no nodeAffinity: {error}") from error
        required = _required(affinity)
        for term in required.node_selector_terms if required else ():
            if error_text := term_error(term):
                raise ValueError(f"a required term does not parse: {error_text}")
        if error_text := preference_error(_preferred(affinity)):
            raise ValueError(error_text)
        return value


def pinned_names(selector: NodeSelector) -> frozenset[str] | None:
    """Return the only node names that the terms allow; None if some term allows any."""
    names: set[str] = set()
    for term in selector.node_selector_terms:
        pins = [r.values or [] for r in term.match_fields or () if r.key == NAME_FIELD and r.operator == "In"]
        if not pins:
            return None
        names |= set(pins[0]).intersection(*pins[1:])
    return frozenset(names) if selector.node_selector_terms else None


def preference_error(terms: list[PreferredSchedulingTerm]) -> str:
    """Return what is wrong with the first preferred term that does not parse; those without weight are not looked at."""
    errors = [term_error(term.preference) for term in terms if term.weight]
    return next((f"a preferred term does not parse: {error}" for error in errors if error), "")


class NodeAffinity(Plugin):
    """Match pods and nodes by label."""

    NAME: ClassVar[str] = NAME
    Args = NodeAffinityArgs
    READS_NODES_ONLY: ClassVar[bool] = True
    READS_SHAPE_ONLY: ClassVar[bool] = True

    def __init__(self, args: NodeAffinityArgs | None, handle: Handle) -> None:
        """Decode the added affinity."""
        super().__init__(args or NodeAffinityArgs(), handle)
        self._added = msgspec.convert(self.args.added_affinity or {}, Affinity)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """Leave pods that require nothing alone; narrow the search to pinned names."""
        required = _required(pod.node_affinity)
        if required is None and not pod.node_selector and _required(self._added) is None:
            return Status.skip()
        names = pinned_names(required) if required else None
        if names is None:
            return None
        return PreFilterResult(names) if names else Status.unresolvable(CONFLICT)

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse nodes without the required labels; the profile's own affinity is asked first."""
        verdicts = Verdicts(len(nodes))
        added = _required(self._added)
        enforced = selector_holds(added, nodes) if added else np.ones(len(nodes), dtype=np.bool_)
        verdicts.reject(~enforced, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NOT_ENFORCED)
        held = required_holds(pod, nodes)
        if held is not None:
            verdicts.reject(enforced & ~held, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NO_MATCH)
        return verdicts

    def queueing_hint(self, event: ClusterEvent, change: Change, pod: Pod, reason: Reason) -> bool:
        """Tell whether the node that changed has the labels that are required."""
        node = self.handle.cluster.nodes.get(change.node_name)
        if node is None:
            return True
        labels, terms = node.labels, [_required(self._added), _required(pod.node_affinity)]
        has_labels = all(labels.get(key) == value for key, value in pod.node_selector.items())
        return has_labels and all(t is None or matches_node(t, labels, node.name) for t in terms)

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Leave pods that prefer nothing alone; a preference that does not parse ends the cycle, as in kube-scheduler."""
        if error := preference_error(_preferred(pod.node_affinity)):
            return Status.error(error)
        return None if (*_preferred(self._added), *_preferred(pod.node_affinity)) else Status.skip()

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return the sum of the weights of the preferred terms that hold."""
        total = np.zeros(len(nodes), dtype=np.int64)
        for preferred in (*_preferred(self._added), *_preferred(pod.node_affinity)):
            total += preferred.weight * term_holds(preferred.preference, nodes)
        return total

    def normalize(self, state: CycleState, pod: Pod, scores: Ints) -> Ints:
        """Return 100 for the highest sum, and the others in proportion."""
        most = int(scores.max(initial=0))
        return scores * 100 // most if most else scores


def _required(affinity: Affinity | None) -> NodeSelector | None:
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def _preferred(affinity: Affinity | None) -> list[PreferredSchedulingTerm]:
    return (affinity.preferred_during_scheduling_ignored_during_execution or []) if affinity else []
