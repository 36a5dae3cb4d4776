"""Fairness: the fair share of every queue in a tree, computed when somebody asks and kept until a number changes.

For reclaim and for the status.  `shares` says how siblings divide what is above them.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from .shares import Amounts, Claim, divide

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .ledger import Ledger
    from .tree import Node, Tree

_ZERO = Fraction(0)


class Fairness:
    """Shares of one tree."""

    def __init__(self, tree: Tree, ledger: Ledger, cluster: Mapping[str, int]) -> None:
        """Take the tree, its books, and what the cluster has by resource, which is looked at anew each time."""
        self._tree = tree
        self._ledger = ledger
        self._cluster = cluster
        self._seen: object = None
        self._shares: dict[Node, Amounts] = {}
        self._demands: dict[Node, dict[str, int]] = {}
        self._guarantees: dict[Node, dict[str, int | None]] = {}

    def share(self, node: Node, resource: str) -> Fraction:
        """Return what a queue would have of a resource if the cluster were divided anew."""
        self._look()
        return self._shares.get(node, {}).get(resource, _ZERO)

    def guaranteed(self, node: Node, resource: str) -> int | None:
        """Return what a queue is guaranteed: as it says, or what those below it are; None is all that it asks for."""
        if not self._guarantees:
            self._add_guarantees(self._tree.root)
        return self._guarantees[node].get(resource, 0)

    def is_scarce(self, resource: str) -> bool:
        """Tell whether more is asked for than there is."""
        self._look()
        asked = self._demands[self._tree.root].get(resource, 0)
        return asked > self._cluster.get(resource, 0)

    def _look(self) -> None:
        seen = (self._ledger.version, tuple(self._cluster.items()))
        if seen == self._seen:
            return
        self._seen = seen
        if not self._guarantees:
            self._add_guarantees(self._tree.root)
        self._add_demands(self._tree.root)
        self._shares = {}
        self._divide(self._tree.root, {r: Fraction(n) for r, n in self._cluster.items()})

    def _add_guarantees(self, node: Node) -> dict[str, int | None]:
        found: dict[str, int | None] = {}
        for child in node.children:
            for resource, count in self._add_guarantees(child).items():
                known = found.get(resource, 0)
                found[resource] = None if known is None or count is None else known + count
        found |= {resource: quota.guaranteed for resource, quota in node.queue.quotas.items()}
        self._guarantees[node] = found
        return found

    def _add_demands(self, node: Node) -> dict[str, int]:
        """Return what a queue asks for, limits heeded."""
        found: dict[str, int] = {}
        if node.is_leaf:
            use = self._ledger.use(node)
            # What is being evicted will be asked for again: shares must not swing while it is on its way.
            found = {r: use.held.get(r, 0) + use.wanted.get(r, 0) for r in use.held.keys() | use.wanted.keys()}
        for child in node.children:
            for resource, count in self._add_demands(child).items():
                found[resource] = found.get(resource, 0) + count
        for resource, quota in node.queue.quotas.items():
            if quota.limit is not None and found.get(resource, 0) > quota.limit:
                found[resource] = quota.limit
        self._demands[node] = found
        return found

    def _divide(self, node: Node, total: Mapping[str, Fraction]) -> None:
        claims = [
            Claim(
                str(child.key),
                self._demands[child],
                self._guarantees[child],
                {r: quota.weight for r, quota in child.queue.quotas.items()},
                child.queue.weight,
                child.queue.priority,
            )
            for child in node.children
        ]
        found = divide(total, self._cluster, claims)
        for child in node.children:
            self._shares[child] = found[str(child.key)]
            self._divide(child, self._shares[child])
