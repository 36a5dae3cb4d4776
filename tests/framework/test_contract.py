"""Mistakes of a plugin class are found before it is used, and say what would be right."""

from __future__ import annotations

import pytest

from scheduler import Plugin
from scheduler.framework.contract import METHODS, mistakes
from scheduler.framework.registry import POINTS
from scheduler.plugins import BUILT_IN


class Empty(Plugin):
    """Does nothing."""

    NAME = "Empty"


class Misspelt(Plugin):
    """Means filter and score_all."""

    NAME = "Misspelt"

    def filtr(self, state, pod, node):
        """Never called."""

    def reserve(self, state, pod, node_name):
        """Called."""


class WrongArguments(Plugin):
    """Takes too few."""

    NAME = "WrongArguments"

    def filter(self, pod, node):
        """Fails always."""


class Nameless(Plugin):
    """Has no name."""

    def permit(self, state, pod, node_name):
        """Called."""


class Fine(Plugin):
    """Has helpers of its own, also with arguments that may be left out."""

    NAME = "Fine"

    def filter(self, state, pod, node, *, strict=False):
        """Called."""

    def is_sibling(self, other):
        """Return what it returns."""


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (Empty, "implements no extension point; its methods may be pre_enqueue"),
        (Misspelt, "Misspelt.filtr is no extension point; did you mean filter?"),
        (WrongArguments, "takes other arguments; it is called as filter(state, pod, node)"),
        (Nameless, "has no NAME"),
    ],
)
def test_mistake_is_said(cls, said):
    """One sentence, with what would be right."""
    assert said in "; ".join(mistakes(cls))


def test_methods_of_ones_own_are_no_mistake():
    """Only what looks like a point is questioned."""
    assert list(mistakes(Fine)) == []


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_built_in_plugins_keep_the_contract(name):
    """They are held to what everybody is."""
    assert list(mistakes(BUILT_IN[name])) == []


def test_every_method_of_a_point_is_known():
    """The contract and the registry speak of the same methods."""
    assert {method for methods in POINTS.values() for method in methods} <= set(METHODS)
