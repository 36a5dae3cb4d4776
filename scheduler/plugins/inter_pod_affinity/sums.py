"""Sums over domains: who is near whom, and what that is worth.

For InterPodAffinity.  Arrays have a value for each row of the snapshot, unless they say otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.state.domains import Domains
    from scheduler.state.pod_index import Carried, Question
    from scheduler.state.snapshot import Bools, Ints, Snapshot


def is_near(snapshot: Snapshot, key: str, question: Question) -> Bools:
    """Tell whether a pod that is asked for stands in the same domain as each row."""
    counts = snapshot.pods.by_rows(snapshot.pods.count(question).column)
    domains = snapshot.domains(key)
    return domains.at_rows(domains.totals(counts) > 0)


def by_key(carried: Iterable[Carried], snapshot: Snapshot, weights: dict[str, int]) -> dict[str, Ints]:
    """Return, for each topology key, the weighted number of terms that pods on each row carry."""
    sums: dict[str, Ints] = {}
    index = snapshot.pods
    for entry in carried:
        key = entry.term.topology_key
        if key not in sums:
            sums[key] = np.zeros(index.capacity, dtype=np.int64)
        entry.tally.add_to(sums[key], weights[entry.kind] * entry.weight)
    return {key: index.by_rows(column) for key, column in sums.items()}


def is_anywhere(carried: Carried, snapshot: Snapshot) -> bool:
    """Tell whether a pod that carries a term stands on a node that has the term's topology key."""
    domains = snapshot.domains(carried.term.topology_key)
    if domains.is_everywhere:
        return not carried.tally.is_zero()
    return is_any_there(snapshot.pods.by_rows(carried.tally.column(snapshot.pods.capacity)), domains)


def is_any_there(counts: Ints, domains: Domains) -> bool:
    """Tell whether a row that has the label counts for something."""
    return bool((counts if domains.is_everywhere else counts * domains.is_there).any())
