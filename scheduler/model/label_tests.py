"""Label selectors as values that can be compared and hashed: what pods are counted by.

For inter-pod affinity, spreading and the index of pods.  `selector_of` reads the API's form, as
`metav1.LabelSelectorAsSelector` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .api import LabelSelector


class LabelTest(msgspec.Struct, frozen=True, gc=False):
    """One requirement: In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Tell whether labels satisfy it."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
        return value is None


#: All tests must hold; none is satisfied by every label set. What matches nothing is None.
Selector: TypeAlias = tuple[LabelTest, ...]

_WITH_VALUES = ("In", "NotIn")
_OPERATORS = (*_WITH_VALUES, "Exists", "DoesNotExist")


class SelectorError(ValueError):
    """A selector makes no sense."""


def selector_of(selector: LabelSelector | None) -> Selector | None:
    """Return a selector as a value: None, which matches nothing, if it is absent; SelectorError if it makes no sense."""
    if selector is None:
        return None
    tests = [LabelTest(key, "In", (value,)) for key, value in (selector.match_labels or {}).items()]
    for requirement in selector.match_expressions or ():
        operator, values = requirement.operator, tuple(sorted(set(requirement.values or ())))
        if operator not in _OPERATORS:
            raise SelectorError(f'"{operator}" is not a valid label selector operator')
        if bool(values) is not (operator in _WITH_VALUES):
            wanted = "at least one value is needed" if operator in _WITH_VALUES else "no values are allowed"
            raise SelectorError(f'{wanted} for operator "{operator}" on key {requirement.key}')
        tests.append(LabelTest(requirement.key, operator, values))
    return in_order(tests)


def selector_of_labels(labels: Mapping[str, str]) -> Selector:
    """Return the selector of those that carry these labels."""
    return in_order(LabelTest(key, "In", (value,)) for key, value in labels.items())


def in_order(tests: Iterable[LabelTest]) -> Selector:
    """Return tests in a fixed order, each once, so that equal selectors are equal values."""
    return tuple(sorted(set(tests), key=lambda test: (test.key, test.operator, test.values)))


def selects(selector: Selector | None, labels: Mapping[str, str]) -> bool:
    """Tell whether labels satisfy a selector."""
    return selector is not None and all(test.holds(labels) for test in selector)
