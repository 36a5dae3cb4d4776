"""Sums over domains: who is near whom, and what that is worth.

For InterPodAffinity.  Arrays have a value for each row of the snapshot, unless they say otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.state.pod_index import Carried, Question
    from scheduler.state.snapshot import Ints, Snapshot


def near_counts(snapshot: Snapshot, key: str, question: Question) -> Ints:
    """Return how many pods that are asked for stand in the same domain as each row."""
    counts = snapshot.pods.by_rows(snapshot.pods.count(question).column)
    return snapshot.domains(key).sums(counts)


def by_key(carried: Iterable[Carried], snapshot: Snapshot, weights: dict[str, int]) -> dict[str, Ints]:
    """Return, for each topology key, the weighted number of terms that pods on each row carry."""
    sums: dict[str, Ints] = {}
    index = snapshot.pods
    for entry in carried:
        weighted = weights[entry.kind] * entry.weight * entry.tally.column(index.capacity)
        key = entry.term.topology_key
        sums[key] = sums[key] + weighted if key in sums else weighted
    return {key: index.by_rows(column) for key, column in sums.items()}


def is_anywhere(carried: Carried, snapshot: Snapshot) -> bool:
    """Tell whether a pod that carries a term stands on a node that has the term's topology key."""
    counts = snapshot.pods.by_rows(carried.tally.column(snapshot.pods.capacity))
    return bool((counts * snapshot.domains(carried.term.topology_key).is_there).any())
