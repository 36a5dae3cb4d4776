"""Quantities: the grammar and the rounding of Kubernetes."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.quantity import LARGEST, QuantityError, amount, parse_quantity, to_milli, to_units


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("0", 0), ("1", 1), ("+5", 5), ("007", 7), ("5.", 5), (".5", 1), ("0.5", 1), ("1.0", 1), (3, 3), (2.0, 2), (1.5, 2),
        ("1k", 1000), ("1M", 10**6), ("1G", 10**9), ("1T", 10**12), ("1P", 10**15),
        ("1Ki", 1024), ("1Mi", 2**20), ("1Gi", 2**30), ("1Ti", 2**40), ("1Pi", 2**50), ("1.5Gi", 3 * 2**29),
        ("0.1Ki", 103), ("1e3", 1000), ("1E3", 1000), ("1e+3", 1000), ("12e-1", 2), ("1E", LARGEST), ("1Ei", LARGEST),
        ("1n", 1), ("1u", 1), ("1m", 1), ("1000m", 1), ("1001m", 2), ("-1", -1), ("-1.5", -2), ("-0", 0),
    ],
)  # fmt: skip
def test_whole_units_round_away_from_zero(text: str | float, units: int) -> None:
    """Every suffix, exponent and sign has its value; a fraction counts as one more."""
    assert to_units(text) == units


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("1", 1000),
        ("100m", 100),
        ("0.1", 100),
        (0.1, 100),
        ("0.5m", 1),
        ("1u", 1),
        ("1n", 1),
        ("1e-3", 1),
        ("2k", 2_000_000),
    ],
)
def test_cpu_counts_in_thousandths(text: str | float, milli: int) -> None:
    """Cpu is in millicores, and a part of one counts as one."""
    assert to_milli(text) == amount("cpu", text) == milli


@pytest.mark.parametrize("text", ["9E", "1e30", "9999999999999999999999", "8Ei"])
def test_absurd_amounts_stay_within_64_bits(text: str) -> None:
    """Products by 100 of the largest amount still fit an int64."""
    assert amount("memory", text) == LARGEST
    assert amount("memory", f"-{text}") == -LARGEST
    assert LARGEST * 100 < 2**63


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "Gi", "1GiB", "1 Gi", " 1", "1\n", "1g", "1K", "1ki", "1e", "e3", "1e3Gi", "--1", "+-1", "0x10", "1_000", "1,5", ".",
        "1e31", "1e-31", "\u0661", "NaN", "inf", "1" * 65, True, None, [], float("nan"), float("inf"),
    ],
)  # fmt: skip
def test_anything_else_is_refused(text: object) -> None:
    """What Kubernetes does not read as a quantity is an error that shows it."""
    with pytest.raises(QuantityError, match=r"is not a quantity|has an exponent beyond"):
        parse_quantity(text)  # type: ignore[arg-type]


@given(st.integers(-(10**18), 10**18), st.sampled_from(["", "Ki", "Mi", "k", "m", "u", "n"]))
def test_parsing_is_exact(number: int, suffix: str) -> None:
    """No digit is lost on the way."""
    factors = {
        "": 1,
        "Ki": 1024,
        "Mi": 2**20,
        "k": 1000,
        "m": Fraction(1, 1000),
        "u": Fraction(1, 10**6),
        "n": Fraction(1, 10**9),
    }
    assert parse_quantity(f"{number}{suffix}") == number * factors[suffix]
