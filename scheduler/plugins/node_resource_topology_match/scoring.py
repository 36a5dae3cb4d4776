"""How good nodes are for a Guaranteed pod: by how full the NUMA nodes are that it fits into, or by how many it needs.

For the plugin beside it.  Formulae of scheduler-plugins: of the NUMA nodes that fit, the lowest score counts for the node, and of
containers the mean.  Cores count as whole ones, rounded up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from scheduler.model.containers import steady_requests

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduler.model import Pod
    from scheduler.state.snapshot import Ints

    from .columns import Columns

    Floats = npt.NDArray[np.float64]
    Strategy = Callable[[Columns, Ints, Mapping[str, int], Mapping[str, int]], Ints]

N = TypeVar("N", int, "npt.NDArray[np.int64]")
FULL = 100
_MILLI = 1000


def fullness_scores(
    columns: Columns, rows: Ints, pod: Pod, strategy: Strategy, weights: Mapping[str, int], *, is_pod_scope: bool
) -> Ints:
    """Return the scores of rows, shape (rows,), by a strategy and the weights of resources (1 for others)."""
    asked = [steady_requests(pod.containers)] if is_pod_scope else [need.requests for need in pod.containers]
    scores = []
    for requests in asked:
        if requests:
            by_zone = np.where(columns.is_there[rows], strategy(columns, rows, requests, weights), 0)
            lowest = np.where(by_zone > 0, by_zone, FULL + 1).min(axis=1)
            scores.append(np.where(lowest > FULL, 0, lowest))
    if not scores:
        return np.zeros(len(rows), dtype=np.int64)
    mean: Ints = np.sum(scores, axis=0) // len(scores)
    return mean


def least_allocated(columns: Columns, rows: Ints, requests: Mapping[str, int], weights: Mapping[str, int]) -> Ints:
    """Rate what is left after the pod, of what is left now; shape (rows, NUMA nodes)."""
    return _weighted(columns, rows, requests, weights, lambda asked, left: left - asked)


def most_allocated(columns: Columns, rows: Ints, requests: Mapping[str, int], weights: Mapping[str, int]) -> Ints:
    """Rate what the pod takes, of what is left now; shape (rows, NUMA nodes)."""
    return _weighted(columns, rows, requests, weights, lambda asked, left: np.full_like(left, asked))


def balanced_allocation(columns: Columns, rows: Ints, requests: Mapping[str, int], _: Mapping[str, int]) -> Ints:
    """Rate how equal the shares are that the pod takes of each resource, without weights; shape (rows, NUMA nodes)."""
    fractions = []
    for resource, count in requests.items():
        left = _whole(resource, _left(columns, rows, resource))
        share = np.where(left > 0, _whole(resource, count) / np.maximum(left, 1), 1.0)
        fractions.append(share)
    shares: Floats = np.stack(fractions)
    variance = shares.var(axis=0, ddof=1) if len(fractions) > 1 else np.zeros(shares.shape[1:])
    scores = ((1 - variance) * FULL).astype(np.int64)
    return np.where((shares > 1).any(axis=0), 0, scores)


STRATEGIES: dict[str, Strategy] = {
    "LeastAllocated": least_allocated,
    "MostAllocated": most_allocated,
    "BalancedAllocation": balanced_allocation,
}


def _weighted(
    columns: Columns,
    rows: Ints,
    requests: Mapping[str, int],
    weights: Mapping[str, int],
    part: Callable[[int, Ints], Ints],
) -> Ints:
    total: Ints = np.zeros((len(rows), columns.is_there.shape[1]), dtype=np.int64)
    weight_sum = 0
    for resource, count in requests.items():
        left, weight = _left(columns, rows, resource), weights.get(resource) or 1
        whole = _whole(resource, left)
        score = part(_whole(resource, count), whole) * FULL // np.maximum(whole, 1)
        total += np.where((left == 0) | (count > left), 0, score) * weight
        weight_sum += weight
    return total // weight_sum


def _left(columns: Columns, rows: Ints, resource: str) -> Ints:
    """Return what is left of a resource, 0 where it is not told; shape (rows, NUMA nodes)."""
    amounts = columns.amounts(resource)
    if amounts is None:
        return np.zeros((len(rows), columns.is_there.shape[1]), dtype=np.int64)
    return np.maximum(amounts.left[rows], 0)


def _whole(resource: str, count: N) -> N:
    return -(-count // _MILLI) if resource == "cpu" else count
