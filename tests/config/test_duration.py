"""Go durations, by the rules of Go's time.ParseDuration."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("15s", 15),
        ("1m30s", 90),
        ("1h0m1s", 3601),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1.s", 1),
        ("500ms", 0.5),
        ("3us", 3e-6),
        ("3µs", 3e-6),
        ("2000ns", 2e-6),
        ("+5s", 5),
        ("-1m", -60),
        ("30s1m", 90),
    ],
)
def test_duration_is_read_as_go_reads_it(text, seconds):
    """Units add up, in any order, with fractions and one sign."""
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "15", "s", ".s", "1 s", "1d", "1m-30s", "--1s", "15S", "1m30", " 1s", "1e3s", "٣s", "1s\n"]
)
def test_what_go_does_not_read_is_refused(text):
    """No unit, an unknown unit, blanks and signs inside are errors."""
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration(text)


def test_endless_duration_is_refused():
    """A number that no clock can hold is a problem, not a crash."""
    with pytest.raises(ValueError, match="is too long"):
        parse_duration("9" * 20 + "h")


@given(st.timedeltas(min_value=timedelta(days=-100_000), max_value=timedelta(days=100_000)))
def test_written_duration_reads_back_the_same(duration):
    """To the microsecond, as timedelta has it, at any sensible length."""
    assert abs(parse_duration(format_duration(duration)) - duration) <= timedelta(microseconds=1)


def test_durations_are_written_short():
    """Only units that count something are written."""
    assert [format_duration(timedelta(seconds=s)) for s in (0, 15, 90, 3601, 0.5, -2)] == [
        "0s",
        "15s",
        "1m30s",
        "1h1s",
        "500ms",
        "-2s",
    ]
