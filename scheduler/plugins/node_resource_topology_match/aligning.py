"""Whether a kubelet with the policy single-numa-node would take a pod, for many nodes at once.

For the plugin beside it.  As the kubelet does, containers are looked at in their order, each goes to the NUMA node of the lowest
number that has all it asks, and what app containers and sidecars take there is gone for the next; ordinary init containers
give everything back.  With the scope pod, all containers go to one NUMA node together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.model.containers import Turn, steady_requests

from .columns import ABSENT, Amounts
from .exclusive import is_pinned, may_lack_zone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.model import Pod
    from scheduler.state.snapshot import Bools, Ints, Nodes

    from .columns import Columns


class Zones:
    """The NUMA nodes of some nodes, from which containers take."""

    def __init__(self, columns: Columns, nodes: Nodes) -> None:
        """Start with what is left there now."""
        self._columns = columns
        self._nodes = nodes
        self._rows = nodes.rows
        self._amounts: dict[str, Amounts | None] = {}

    def fitting(self, requests: Mapping[str, int], qos: str) -> Bools:
        """Return which NUMA nodes have all that is asked, shape (nodes, NUMA nodes).

        A resource that the node does not offer is nowhere.  One that the node offers and none of its NUMA nodes tells of is
        everywhere, unless it is cpu, memory, huge pages or another one that always belongs to a NUMA node.
        """
        mask = np.ones((len(self._rows), self._columns.is_there.shape[1]), dtype=np.bool_)
        for resource, count in requests.items():
            if count:
                offered = self._nodes.column(("offers", resource), lambda node, name=resource: name in node.allocatable)  # type: ignore[misc]
                mask &= offered[:, None] & self._having(resource, count, is_pinned=is_pinned(qos, resource))
        return mask

    def _having(self, resource: str, count: int, *, is_pinned: bool) -> Bools:
        """Return which NUMA nodes have so much of a resource, or have it at all if no amount is pinned."""
        amounts = self._of(resource)
        if amounts is None:
            return np.full((len(self._rows), 1), may_lack_zone(resource))
        left, total, freed = amounts
        has = left >= count if is_pinned else left > ABSENT
        if is_pinned and freed.any():
            has |= _surely(amounts, count)[:, None] & (total >= count)
        if may_lack_zone(resource):
            has |= (left == ABSENT).all(axis=1)[:, None]
        return has

    def take(self, where: Bools, requests: Mapping[str, int], qos: str) -> None:
        """Take what is asked from the first of the NUMA nodes in each row of a mask; rows without one are left alone."""
        rows = np.flatnonzero(where.any(axis=1))
        first = where.argmax(axis=1)[rows]
        for resource, count in requests.items():
            amounts = self._of(resource) if count and is_pinned(qos, resource) else None
            if amounts is None:
                continue
            found = amounts.left[rows, first]
            rest = np.minimum(found - count, 0)
            amounts.left[rows, first] = np.where(found == ABSENT, ABSENT, np.maximum(found - count, 0))
            amounts.freed[rows] = np.maximum(amounts.freed[rows] + np.where(found == ABSENT, 0, rest), 0)

    def _of(self, resource: str) -> Amounts | None:
        if resource not in self._amounts:
            amounts = self._columns.amounts(resource)
            self._amounts[resource] = None if amounts is None else Amounts(*(column[self._rows] for column in amounts))
        return self._amounts[resource]


def _surely(amounts: Amounts, count: int) -> Bools:
    """Tell where some NUMA node has so much once a what-if took pods away, in whichever NUMA nodes they were.

    It is so if all together have more than fits into them while each has too little.
    """
    left, total, freed = amounts
    together: Ints = np.maximum(left, 0).sum(axis=1) + freed
    most_without: Ints = np.minimum(np.maximum(total, 0), count - 1).sum(axis=1)
    return together > most_without


def pod_fits(columns: Columns, nodes: Nodes, pod: Pod) -> Bools:
    """Return the nodes with a NUMA node that has room for all containers together, shape (nodes,)."""
    where = Zones(columns, nodes).fitting(steady_requests(pod.containers), pod.qos)
    return np.asarray(where.any(axis=1))


def containers_fit(columns: Columns, nodes: Nodes, pod: Pod) -> tuple[Bools, Bools]:
    """Return where a NUMA node is found for every init container (and sidecar), and where for every app container too.

    Both of shape (nodes,); what the second says where the first says no does not matter.
    """
    zones = Zones(columns, nodes)
    inits, apps = np.ones(len(nodes), dtype=np.bool_), np.ones(len(nodes), dtype=np.bool_)
    for need in pod.containers:
        where = zones.fitting(need.requests, pod.qos)
        passed = apps if need.turn is Turn.APP else inits
        passed &= where.any(axis=1)
        if need.turn is not Turn.INIT:
            zones.take(where, need.requests, pod.qos)
    return inits, apps
