"""Node selectors over all nodes at once: labels become columns of text, so a requirement is one comparison.

For the plugins that hold pods, spreading and volumes to nodes by label.  A term that does not parse holds nowhere, as in
`k8s.io/component-helpers/scheduling/corev1/nodeaffinity`; `term_error` is for those who must not pass over that.
"""

from __future__ import annotations

import re
from functools import lru_cache, reduce
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


#: Label keys (an optional DNS subdomain before a slash) and values, as the API server takes them.
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_KEY = re.compile(rf"(?=[^/]{{1,253}}(/|$))({_PART}(\.{_PART})*/)?{_NAME}")
_VALUE = re.compile(rf"({_NAME})?")
_INTEGER = re.compile(r"[0-9]+")
_LARGEST_INTEGER = 2**63 - 1


def term_error(term: NodeSelectorTerm) -> str:
    """Return what keeps a term from being parsed; the empty text if nothing does."""
    for r in term.match_expressions or ():
        if error := _label_error(r.key, r.operator, tuple(r.values or ())):
            return error
    for r in term.match_fields or ():
        if r.operator not in ("In", "NotIn"):
            return f'"{r.operator}" is no operator for fields; allowed: In, NotIn'
        if len(r.values or ()) != 1:
            return f"{r.operator} on a field takes one value"
    return ""


@lru_cache(maxsize=4096)
def _label_error(key: str, operator: str, values: tuple[str, ...]) -> str:
    """Return what `labels.NewRequirement` has against a requirement; even bounds must be label values: -3 is none."""
    error = ""
    if not _KEY.fullmatch(key):
        error = f"{key!r} is no label key"
    elif wrong := [value for value in values if not _VALUE.fullmatch(value)]:
        error = f"{wrong[0]!r} is no label value"
    elif operator in ("In", "NotIn"):
        error = "" if values else f"{operator} on {key} takes values"
    elif operator in ("Exists", "DoesNotExist"):
        error = f"{operator} on {key} takes no values" if values else ""
    elif operator not in ("Gt", "Lt"):
        error = f'"{operator}" is no operator for labels'
    elif len(values) != 1 or not _INTEGER.fullmatch(values[0]) or int(values[0]) > _LARGEST_INTEGER:
        error = f"{operator} on {key} takes one integer"
    return error


def holds(requirement: Requirement, nodes: Nodes) -> Bools:
    """Tell where one requirement on labels holds."""
    key, operator, values = requirement.key, requirement.operator, requirement.values or []
    if operator not in ("In", "NotIn", "Exists", "DoesNotExist") or len(values) > MOST_COMPARED:
        return nodes.column(
            ("requirement", key, operator, tuple(values)), lambda node: matches_requirement(requirement, node.labels)
        )
    texts = nodes.column(("label", key), lambda node: node.labels.get(key, ABSENT), np.str_)
    if operator in ("Exists", "DoesNotExist"):
        is_there: Bools = texts != ABSENT
        return is_there if operator == "Exists" else ~is_there
    is_in: Bools = np.zeros(len(nodes), dtype=np.bool_)
    for value in values:
        is_in |= texts == value
    return is_in if operator == "In" else ~is_in


def field_holds(requirement: Requirement, nodes: Nodes) -> Bools:
    """Tell where one requirement on a field holds: In or NotIn with one value; all fields but the name are empty."""
    texts = nodes.column("name", _name, np.str_) if requirement.key == NAME_FIELD else np.full(len(nodes), "")
    is_equal: Bools = texts == (requirement.values or [""])[0]
    return is_equal if requirement.operator == "In" else ~is_equal


def term_holds(term: NodeSelectorTerm, nodes: Nodes) -> Bools:
    """Tell where all requirements of a term hold; an empty term, and one that does not parse, holds nowhere."""
    masks: list[Bools] = []
    if not term_error(term):
        masks += [holds(r, nodes) for r in term.match_expressions or ()]
        masks += [field_holds(r, nodes) for r in term.match_fields or ()]
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
