"""Promises: a start is told at once, and again only if it moves by more than a tenth, and once a minute at most."""

from __future__ import annotations

import pytest

from scheduler.engine.promises import Promises

NOW = 1000.0


def test_a_first_start_is_told_at_once() -> None:
    """Nothing was told before."""
    promises = Promises()
    assert promises.plan("a", NOW + 600, NOW)
    assert promises.told("a") == NOW + 600
    assert promises.next_time(NOW) is None


@pytest.mark.parametrize(
    ("planned", "is_told"),
    [
        (NOW + 650, False),
        (NOW + 654, False),
        (NOW + 655, True),
        (NOW + 545, True),
        (NOW + 546, False),
        (NOW + 600, False),
    ],
)
def test_a_start_that_moves_by_a_tenth_of_the_wait_that_is_left_is_not_told(planned: float, is_told: bool) -> None:
    """Of 600 s, 540 are left a minute later: a move by 54 s is none, one by 55 s is."""
    promises = Promises()
    promises.plan("a", NOW + 600, NOW)
    assert promises.plan("a", planned, NOW + 60) is is_told
    assert promises.told("a") == (planned if is_told else NOW + 600)


def test_within_a_minute_nothing_is_told_again() -> None:
    """What is news then is told when the minute is over, if it still is."""
    promises = Promises()
    promises.plan("a", NOW + 600, NOW)
    assert not promises.plan("a", NOW + 900, NOW + 10)
    assert promises.told("a") == NOW + 600
    assert promises.next_time(NOW + 10) == NOW + 60
    assert promises.due(NOW + 59) == []
    assert promises.due(NOW + 60) == ["a"]
    assert promises.told("a") == NOW + 900
    assert promises.due(NOW + 60) == []
    assert promises.next_time(NOW + 60) is None


def test_a_move_that_is_taken_back_within_the_minute_is_never_told() -> None:
    """It is no news any more."""
    promises = Promises()
    promises.plan("a", NOW + 600, NOW)
    promises.plan("a", NOW + 900, NOW + 10)
    promises.plan("a", NOW + 600, NOW + 20)
    assert promises.next_time(NOW + 20) is None
    assert promises.due(NOW + 60) == []


def test_forgotten_ones_are_told_anew() -> None:
    """Whoever waits again is promised again."""
    promises = Promises()
    assert not promises.forget("a")
    promises.plan("a", NOW + 600, NOW)
    assert promises.forget("a")
    assert promises.told("a") is None
    assert promises.plan("a", NOW + 601, NOW + 1)
