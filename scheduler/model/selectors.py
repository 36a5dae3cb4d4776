"""Label and node selectors and tolerations, as the API server defines them.

For plugins and budgets.  A selector that makes no sense matches nothing, as in kube-scheduler; it never raises.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .api import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement, Taint, Toleration

_INTEGER = re.compile(r"[+-]?[0-9]+")
#: What the API's IsDecimalInteger accepts.
_CANONICAL = re.compile(r"0|-?[1-9][0-9]*")
#: The longest label value.
_LONGEST_INTEGER = 63


def matches_requirement(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Tell whether labels satisfy one requirement: In, NotIn, Exists, DoesNotExist, Gt or Lt."""
    value = labels.get(requirement.key)
    values = requirement.values or []
    match requirement.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement.operator, value, values)
    return False


def matches_term(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    """Tell whether a node satisfies a whole term; an empty term matches nothing."""
    if not term.match_expressions and not term.match_fields:
        return False
    return all(matches_requirement(r, labels) for r in term.match_expressions or ()) and all(
        matches_requirement(r, {"metadata.name": name}) for r in term.match_fields or ()
    )


def matches_node(selector: NodeSelector, labels: Mapping[str, str], name: str) -> bool:
    """Tell whether a node satisfies at least one term."""
    return any(matches_term(term, labels, name) for term in selector.node_selector_terms)


def matches_labels(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Tell whether labels satisfy a label selector; none matches nothing, an empty one everything."""
    if selector is None:
        return False
    exact = all(labels.get(key) == value for key, value in (selector.match_labels or {}).items())
    return exact and all(matches_requirement(r, labels) for r in selector.match_expressions or ())


def tolerates(toleration: Toleration, taint: Taint, *, compares: bool = False) -> bool:
    """Tell whether a toleration covers a taint: no effect stands for any, Exists without a key for every taint.

    `compares`: Lt and Gt count, which a gate that is off by default decides; else they cover nothing, like any unknown
    operator.
    """
    is_effect = not toleration.effect or toleration.effect == taint.effect
    if not is_effect or (toleration.key and toleration.key != taint.key):
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt" if compares:
            theirs, ours = _canonical(taint.value), _canonical(toleration.value)
            is_less = toleration.operator == "Lt"
            return theirs is not None and ours is not None and (theirs < ours if is_less else theirs > ours)
    return False


def _canonical(text: str) -> int | None:
    """Return a 64-bit integer that is written without leading zeros or a plus; None for anything else."""
    return _integer(text) if _CANONICAL.fullmatch(text) else None


def _compares(operator: str, value: str | None, values: list[str]) -> bool:
    """Compare as 64-bit integers; whatever is none matches nothing."""
    if value is None or len(values) != 1:
        return False
    left, right = _integer(value), _integer(values[0])
    if left is None or right is None:
        return False
    return left > right if operator == "Gt" else left < right


def _integer(text: str) -> int | None:
    """Return a decimal 64-bit integer as Go's ParseInt reads it; None for anything else."""
    if len(text) > _LONGEST_INTEGER or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
