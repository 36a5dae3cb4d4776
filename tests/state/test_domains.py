"""Domains: sums over nodes with the same label, whether few or many of them count."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.state.domains import Domains
from tests.builders import a_node

VALUES = st.sampled_from(("", "a", "b", "c", None))
COUNTS = st.one_of(st.just(0), st.integers(0, 9))


@given(st.lists(st.tuples(VALUES, COUNTS), max_size=40), st.booleans())
def test_sums_are_those_of_the_nodes_with_the_same_value(drawn: list[tuple[str | None, int]], is_sparse: bool) -> None:
    """Nodes without the label sum up to nothing, or are a domain with those whose value is empty."""
    values = [value for value, _ in drawn]
    numbers = [count * (not is_sparse or k % 9 == 0) for k, (_, count) in enumerate(drawn)]
    builders = [(a_node(f"n{k:02}"), value) for k, value in enumerate(values)]
    domains = Domains([(b if v is None else b.label("key", v)).build() for b, v in builders], "key")
    counts = np.array(numbers, dtype=np.int64)
    both = list(zip(values, numbers, strict=True))
    assert domains.sums(counts).tolist() == [sum(c for w, c in both if w == v and v is not None) for v in values]
    totals = domains.totals_with_absent(counts)
    expected = [sum(c for w, c in both if (w or "") == (v or "")) for v in values]
    assert totals[domains.with_absent].tolist() == expected
    assert domains.number_with_absent == len({value or "" for value in values})
