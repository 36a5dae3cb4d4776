"""Order: whose turn it is among queues, level by level from the top of the tree.

For the engine's queue, which asks for it whenever it takes the next workload; O(queues that have one).

Among siblings, in this order:

1. who stays within its guarantee with the workload that it would start next;
2. beyond that, who has the higher priority, and of equals those with a weight before those of weight 0;
3. who has the smaller share: within the guarantee, the largest part of what it is guaranteed in any resource; beyond, the largest
   part of any resource of the cluster that it uses beyond its guarantee, with what it used lately where that is remembered, divided
   by its weight;
4. who would have the smaller share with the workload;
5. the name.

Shares are exact fractions.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .history import History
    from .ledger import Ledger, Use
    from .tree import Node

_ZERO = Fraction(0)


class Group(NamedTuple):
    """What the engine's queue keeps apart: the workloads of a leaf, or of one namespace of a leaf that is fair within."""

    queue: str
    namespace: str = ""


class Head(NamedTuple):
    """The next workload of a group."""

    group: Group
    node: Node
    namespace: str
    asks: Mapping[str, int]


class Order:
    """Answers for one tree; a queue's place is computed anew when what it uses, or its next workload, is another one."""

    def __init__(self, ledger: Ledger, history: History) -> None:
        """Take the books, and what is remembered of past usage."""
        self._ledger = ledger
        self._history = history
        self._remembered = 0
        #: Version of what it uses, what its next workload asks for, and its place then.
        self._known: dict[Node, tuple[int, Mapping[str, int], tuple[object, ...]]] = {}
        #: What the cluster had when the places were computed.
        self._cluster: dict[str, int] = {}

    def next_of(self, heads: Iterable[Head], cluster: Mapping[str, int]) -> Head:
        """Return whose turn it is; `cluster` is what nodes offer by resource."""
        if self._cluster != cluster or self._remembered != self._history.version:
            self._cluster, self._known, self._remembered = dict(cluster), {}, self._history.version
        best: dict[Node, Head] = {}
        for head in heads:
            rival = best.get(head.node)
            if rival is not None:
                use = self._ledger.use(head.node)
                if _within(head, use, cluster) > _within(rival, use, cluster):
                    continue
            best[head.node] = head
        while (deepest := max(map(_depth, best))) > 0:
            above: dict[Node, tuple[tuple[object, ...], Head]] = {}
            kept: dict[Node, Head] = {}
            for node, head in best.items():
                if _depth(node) < deepest or node.parent is None:
                    kept[node] = head
                    continue
                key = self._rank(node, head.asks)
                known = above.get(node.parent)
                if known is None or key < known[0]:
                    above[node.parent] = (key, head)
            best = kept | {node: head for node, (_, head) in above.items()}
        return next(iter(best.values()))

    def _rank(self, node: Node, asks: Mapping[str, int]) -> tuple[object, ...]:
        use, known = self._ledger.use(node), self._known.get(node)
        if known is None or known[0] != use.version or known[1] != asks:
            known = self._known[node] = (use.version, asks, rank(node, asks, use, self._cluster, self._history))
        return known[2]


def rank(
    node: Node, asks: Mapping[str, int], use: Use, cluster: Mapping[str, int], history: History
) -> tuple[object, ...]:
    """Return a queue's place among its siblings, the lowest first, if it starts a workload that asks for so much."""
    asked = {r for r, n in asks.items() if n and cluster.get(r)}
    promised = [(r, quota.guaranteed) for r, quota in node.queue.quotas.items() if quota.guaranteed != 0 and r in asked]
    is_within = bool(promised) and all(
        quota.guaranteed is None or use.fair(r) + asks[r] <= quota.guaranteed
        for r, quota in node.queue.quotas.items()
        if r in asked
    )
    if is_within:
        parts = [(Fraction(use.fair(r), g), Fraction(use.fair(r) + asks[r], g)) for r, g in promised if g]
        return 0, 0, 0, *_largest(parts), node.key
    weights = {r: node.weight(r) for r in cluster}
    has_weight = all(weights[r] > 0 for r in asked)
    parts = []
    for r, count in cluster.items():
        now = use.fair(r) + history.past(node, r)
        if count and (now or asks.get(r)):
            scale = count * (weights[r] if weights[r] > 0 else 1)
            promise = node.quota(r).guaranteed
            free = now + asks.get(r, 0) if promise is None else promise
            before, after = max(0, now - free), max(0, now + asks.get(r, 0) - free)
            parts.append((Fraction(before) / scale, Fraction(after) / scale))
    return 1, -node.queue.priority, not has_weight, *_largest(parts), node.key


def _largest(parts: list[tuple[Fraction, Fraction]]) -> tuple[Fraction, Fraction]:
    return max((now for now, _ in parts), default=_ZERO), max((then for _, then in parts), default=_ZERO)


def _within(head: Head, use: Use, cluster: Mapping[str, int]) -> tuple[Fraction, str]:
    """Return a namespace's place within a queue that is fair: the smallest share first."""
    amounts = use.by_namespace.get(head.namespace, {})
    share = max((Fraction(n, cluster[r]) for r, n in amounts.items() if cluster.get(r)), default=_ZERO)
    return share, head.namespace


def _depth(node: Node) -> int:
    depth = 0
    while node.parent is not None:
        node, depth = node.parent, depth + 1
    return depth
