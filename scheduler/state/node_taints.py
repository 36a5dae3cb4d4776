"""Taints over all nodes at once: few sets of taints occur in a cluster, so each is judged once for a pod's tolerations.

For TaintToleration and for spreading, which may leave tainted nodes out of account.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from scheduler.model.selectors import tolerates

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.model import Node
    from scheduler.model.api import Taint, Toleration

    from .snapshot import Ints, Nodes

COLUMN = "taints"

#: Every set of taints seen by this process, numbered in the order of appearance.
_numbers: dict[tuple[Taint, ...], int] = {}


def first_untolerated(
    taints: Iterable[Taint], tolerations: tuple[Toleration, ...], *, compares: bool = False
) -> Taint | None:
    """Return the first taint that keeps the pod off a node; `compares`: Lt and Gt count (a gate)."""
    for taint in taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not any(
            tolerates(t, taint, compares=compares) for t in tolerations
        ):
            return taint
    return None


def count_disliked(taints: Iterable[Taint], tolerations: tuple[Toleration, ...], *, compares: bool = False) -> int:
    """Return how many PreferNoSchedule taints the pod does not tolerate."""
    soft = [taint for taint in taints if taint.effect == "PreferNoSchedule"]
    known = [t for t in tolerations if t.effect in ("", "PreferNoSchedule")]
    return sum(not any(tolerates(t, taint, compares=compares) for t in known) for taint in soft)


def untolerated(
    nodes: Nodes, tolerations: tuple[Toleration, ...], *, compares: bool = False
) -> tuple[Ints, tuple[Taint, ...]]:
    """Return which taint keeps the pod off each node: 0 for none, else 1 + its place in the taints; shape (len(nodes),)."""
    numbers = nodes.column(COLUMN, _number, np.int64)
    taint_of, taints = _refusals(tolerations, compares, len(_numbers))
    return (taint_of[numbers] if taints else np.zeros(len(nodes), dtype=np.int64)), taints


def disliked(nodes: Nodes, tolerations: tuple[Toleration, ...], *, compares: bool = False) -> Ints:
    """Return how many PreferNoSchedule taints of each node the pod does not tolerate."""
    numbers = nodes.column(COLUMN, _number, np.int64)
    count_of, is_zero = _dislikes(tolerations, compares, len(_numbers))
    return np.zeros(len(nodes), dtype=np.int64) if is_zero else count_of[numbers]


def dislikes_nothing(nodes: Nodes, tolerations: tuple[Toleration, ...], *, compares: bool = False) -> bool:
    """Tell for sure that there is no PreferNoSchedule taint on any node that the pod does not tolerate."""
    nodes.column(COLUMN, _number, np.int64)
    return _dislikes(tolerations, compares, len(_numbers))[1]


def _number(node: Node) -> int:
    """Return the number of a node's set of taints."""
    return _numbers.setdefault(node.taints, len(_numbers))


@lru_cache(maxsize=1024)
def _refusals(tolerations: tuple[Toleration, ...], compares: bool, sets: int) -> tuple[Ints, tuple[Taint, ...]]:
    """Judge the first so many sets."""
    found: dict[Taint, int] = {}
    taint_of = np.zeros(sets, dtype=np.int64)
    for number, taints in enumerate(list(_numbers)[:sets]):
        if taint := first_untolerated(taints, tolerations, compares=compares):
            taint_of[number] = found.setdefault(taint, len(found) + 1)
    return taint_of, tuple(found)


@lru_cache(maxsize=1024)
def _dislikes(tolerations: tuple[Toleration, ...], compares: bool, sets: int) -> tuple[Ints, bool]:
    """Count the disliked taints of the first so many sets; tell whether there are none."""
    counts = [count_disliked(taints, tolerations, compares=compares) for taints in list(_numbers)[:sets]]
    return np.array(counts, dtype=np.int64), not any(counts)
