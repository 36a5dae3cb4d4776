"""How few NUMA nodes a pod needs, and how near they are to each other: LeastNUMANodes of scheduler-plugins, for many nodes.

For the plugin beside it.  Sets of NUMA nodes are tried from the smallest; of those that have what is asked, the one whose members
are nearest counts, ties go to lower numbers.  Every member must tell of every resource.  Resources that no NUMA node of a machine
tells of and that need not belong to one do not count, where scheduler-plugins would give the machine 0.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from scheduler.model.containers import steady_requests

from .columns import ABSENT
from .exclusive import is_pinned, may_lack_zone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.model import Pod
    from scheduler.state.snapshot import Bools, Ints

    from .columns import Columns

FULL = 100
#: The kubelet takes so many NUMA nodes unless told otherwise; each costs its share of the score.
MOST_NUMA_NODES = 8
SHARE = FULL // MOST_NUMA_NODES
_FAR = 2**30


def least_numa_scores(columns: Columns, rows: Ints, pod: Pod, *, is_pod_scope: bool) -> Ints:
    """Return the scores of rows, shape (rows,): 100 where no NUMA node is needed, 0 where all together have too little."""
    asked = [steady_requests(pod.containers)] if is_pod_scope else [need.requests for need in pod.containers]
    left = {
        resource: amounts.left[rows]
        for resource in {resource for requests in asked for resource in requests}
        if (amounts := columns.amounts(resource)) is not None
    }
    search = _Search(columns.is_there[rows], columns.costs[rows], left)
    most = np.zeros(len(rows), dtype=np.int64)
    is_near, fits = np.ones(len(rows), dtype=np.bool_), np.ones(len(rows), dtype=np.bool_)
    for requests in asked:
        found, near, is_needed = search.take(requests, pod.qos)
        count = found.sum(axis=1)
        fits &= ~is_needed | (count > 0)
        is_near &= ~is_needed | near
        most = np.maximum(most, count)
    scores: Ints = np.maximum(FULL - most * SHARE, 0) + np.where(is_near, SHARE // 2, 0)
    scores[most == 0] = FULL
    scores[~fits] = 0
    return scores


class _Search:
    """The NUMA nodes of some rows, from which containers take."""

    def __init__(self, is_there: Bools, costs: Ints, left: dict[str, Ints]) -> None:
        self._is_there = is_there
        self._costs = costs
        self._left = left

    def take(self, requests: Mapping[str, int], qos: str) -> tuple[Bools, Bools, Bools]:
        """Take what is asked from the best set of each row.

        Return the set (rows, NUMA nodes), empty if there is none; whether no set of its size is nearer (rows,); and whether
        NUMA nodes are needed at all (rows,).
        """
        size, width = self._is_there.shape
        told = {name: (self._left[name] > ABSENT).any(axis=1) for name in requests if name in self._left}
        is_needed = np.logical_or.reduce([*told.values(), np.zeros(size, dtype=np.bool_)])
        found, near = np.zeros((size, width), dtype=np.bool_), np.zeros(size, dtype=np.bool_)
        open_rows = np.flatnonzero(is_needed)
        for count in range(1, width + 1):
            if not len(open_rows):
                break
            hit = self._best(open_rows, count, requests, qos, found, near)
            open_rows = open_rows[~hit]
        self._subtract(found, requests)
        return found, near, is_needed

    def _best(self, rows: Ints, count: int, requests: Mapping[str, int], qos: str, found: Bools, near: Bools) -> Bools:
        """Look for sets of one size; note the best of each row and return which rows have one."""
        width = self._is_there.shape[1]
        nearest, best = np.full(len(rows), _FAR), np.full(len(rows), _FAR)
        members = np.zeros((len(rows), width), dtype=np.bool_)
        for chosen in combinations(range(width), count):
            some = list(chosen)
            is_set = self._is_there[rows][:, some].all(axis=1)
            distance = self._costs[rows][:, some][:, :, some].sum(axis=(1, 2))
            nearest = np.where(is_set, np.minimum(nearest, distance), nearest)
            is_better = is_set & (distance < best) & self._has(rows, some, requests, qos)
            best = np.where(is_better, distance, best)
            members[is_better] = False
            members[np.ix_(is_better, some)] = True
        hit: Bools = best < _FAR
        found[rows[hit]] = members[hit]
        near[rows[hit]] = best[hit] == nearest[hit]
        return hit

    def _has(self, rows: Ints, some: list[int], requests: Mapping[str, int], qos: str) -> Bools:
        """Return the rows where a set has what is asked."""
        has = np.ones(len(rows), dtype=np.bool_)
        for resource, asked in requests.items():
            if resource not in self._left:
                has &= not asked or may_lack_zone(resource)
                continue
            every = self._left[resource][rows]
            left = every[:, some]
            enough = (left > ABSENT).all(axis=1)
            if is_pinned(qos, resource):
                enough &= np.maximum(left, 0).sum(axis=1) >= asked
            if may_lack_zone(resource) or not asked:
                enough |= (every == ABSENT).all(axis=1)
            has &= enough
        return has

    def _subtract(self, found: Bools, requests: Mapping[str, int]) -> None:
        """Take what is asked from the members of sets, from the lowest number on."""
        for resource, asked in requests.items():
            if resource not in self._left:
                continue
            left, rest = self._left[resource], np.full(len(found), asked)
            for zone in range(found.shape[1]):
                part = np.where(found[:, zone], np.minimum(np.maximum(left[:, zone], 0), rest), 0)
                left[:, zone] -= part
                rest -= part
