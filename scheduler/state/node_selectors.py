"""Node selectors over all nodes at once: labels become columns of text, so a requirement is one comparison.

For the plugins that hold pods, spreading and volumes to nodes by label.
"""

from __future__ import annotations

from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

import numpy as np

from scheduler.model.api import NodeSelector, NodeSelectorTerm, Requirement
from scheduler.model.selectors import matches_requirement

if TYPE_CHECKING:
    from scheduler.model import Node, Pod

    from .snapshot import Bools, Nodes

NAME_FIELD = "metadata.name"
#: Stands for a label that a node lacks; no label has this value.
ABSENT = "\x01"
#: Longer lists of values are looked up node by node, once.
MOST_COMPARED = 8


def holds(requirement: Requirement, nodes: Nodes, *, is_field: bool = False) -> Bools:
    """Tell where one requirement holds, on a label or on the node's name."""
    key, operator, values = requirement.key, requirement.operator, requirement.values or []

    def at(node: Node) -> bool:
        return matches_requirement(requirement, {NAME_FIELD: node.name} if is_field else node.labels)

    if operator not in ("In", "NotIn", "Exists", "DoesNotExist") or len(values) > MOST_COMPARED:
        return nodes.column(("requirement", is_field, key, operator, tuple(values)), at)
    if is_field:
        texts = nodes.column("name", _name, np.str_) if key == NAME_FIELD else np.full(len(nodes), ABSENT)
    else:
        texts = nodes.column(("label", key), lambda node: node.labels.get(key, ABSENT), np.str_)
    if operator in ("Exists", "DoesNotExist"):
        is_there: Bools = texts != ABSENT
        return is_there if operator == "Exists" else ~is_there
    is_in: Bools = np.zeros(len(nodes), dtype=np.bool_)
    for value in values:
        is_in |= texts == value
    return is_in if operator == "In" else ~is_in


def term_holds(term: NodeSelectorTerm, nodes: Nodes) -> Bools:
    """Tell where all requirements of a term hold; an empty term holds nowhere."""
    masks = [holds(r, nodes) for r in term.match_expressions or ()]
    masks += [holds(r, nodes, is_field=True) for r in term.match_fields or ()]
    return reduce(and_, masks) if masks else np.zeros(len(nodes), dtype=np.bool_)


def selector_holds(selector: NodeSelector, nodes: Nodes) -> Bools:
    """Tell where at least one term holds."""
    masks = [term_holds(term, nodes) for term in selector.node_selector_terms]
    return reduce(or_, masks) if masks else np.zeros(len(nodes), dtype=np.bool_)


def required_holds(pod: Pod, nodes: Nodes) -> Bools | None:
    """Tell where a pod's own nodeSelector and required node affinity hold; None if it requires nothing."""
    masks = [holds(Requirement(key=k, operator="In", values=[v]), nodes) for k, v in pod.node_selector.items()]
    required = pod.node_affinity and pod.node_affinity.required_during_scheduling_ignored_during_execution
    if required:
        masks.append(selector_holds(required, nodes))
    return reduce(and_, masks) if masks else None


def _name(node: Node) -> str:
    return node.name
