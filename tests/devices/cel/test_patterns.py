"""Regular expressions: as Python's `re` where both have the same syntax, by RE2's documentation where they differ."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.devices.cel.errors import CelError
from scheduler.devices.cel.patterns import Pattern

_ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\d", "\\w", "(?:ab)", "(a|b)", "^", "$", "\\b"])
_COUNTS = st.sampled_from(["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,}"])
_PATTERNS = st.recursive(
    st.lists(st.tuples(_ATOMS, _COUNTS), min_size=1, max_size=4).map(lambda parts: "".join(a if a in "^$\\b" else a + c for a, c in parts)),
    lambda inner: st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
    max_leaves=3,
)  # fmt: skip


def span(pattern: str, text: str) -> tuple[int, int] | None:
    """Return where a pattern is found first."""
    return Pattern(pattern).search(text, lambda _: None)


@given(_PATTERNS, st.text("ab1 ", max_size=8))
def test_the_leftmost_preferred_match_is_found(pattern: str, text: str) -> None:
    """Python's backtracking finds the same."""
    expected = re.search(pattern.replace("$", "(?!.)") if "$" in pattern else pattern, text, re.DOTALL)
    found = span(f"(?s){pattern}", text)
    assert found == (expected.span() if expected else None)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("(?i)GPU", "my gpu", True),
        ("(?i:g)pu", "GPU", False),
        (r"\x41\x{42}\103", "ABC", True),
        (r"\Qa.b\E", "a.b", True),
        (r"\Qa.b\E", "axb", False),
        ("[[:alpha:]]+[[:^digit:]]", "ab", True),
        ("[]a]", "]", True),
        (r"[\d-]+", "1-2", True),
        ("(?m)^b$", "a\nb\nc", True),
        ("^b$", "a\nb\nc", False),
        (".", "\n", False),
        ("(?s).", "\n", True),
        ("(?P<name>a)(?<other>b)", "ab", True),
        ("a{,2}", "a{,2}", True),
        ("", "", True),
        ("a|", "b", True),
        (r"\pN", "1", None),
        ("(?=a)", "a", None),
        (r"(a)\1", "aa", None),
        ("a**", "a", None),
        ("*a", "a", None),
        ("(a", "a", None),
        ("a)", "a", None),
        ("[b-a]", "a", None),
        ("a{2,1}", "aa", None),
        ("a{1001}", "a", None),
        ("((a{100}){100}){100}", "a", None),
        ("a\\", "a", None),
        ("[a", "a", None),
        ("(?z)", "a", None),
    ],
)
def test_the_syntax_is_that_of_re2(pattern: str, text: str, found: bool | None) -> None:
    """What it refuses is refused, and said to be."""
    if found is None:
        with pytest.raises(CelError, match="error parsing regexp"):
            Pattern(pattern)
    else:
        assert (span(pattern, text) is not None) is found


def test_hostile_patterns_take_linear_time() -> None:
    """A backtracking matcher would need 2 to the power of 3,000 steps."""
    began, work = time.process_time(), []
    assert Pattern("(x+x+)+y").search("x" * 3000, work.append) is None
    assert sum(work) < 3000 * 20
    assert time.process_time() - began < 5
