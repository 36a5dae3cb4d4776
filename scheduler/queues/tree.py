"""Tree: the queues as they count, one below the other, and what is wrong with those that cannot count as they are written.

For everything else in this package.  A queue that makes no sense goes on as it was when it last did; one that never did is not
there, and whoever names it is told why.  The rest of the tree is not touched by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import structs

from scheduler.model.queue import DEFAULT_QUEUE, OWN, Queue, QueueKey, Quota

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from fractions import Fraction

ROOT = QueueKey("", "")
_NO_QUOTA = Quota()


@dataclass(slots=True, eq=False)
class Node:
    """A queue in the tree."""

    key: QueueKey
    queue: Queue
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)

    @property
    def is_leaf(self) -> bool:
        """Workloads wait in queues that have none below them."""
        return not self.children

    def path(self) -> Iterator[Node]:
        """Yield the queue and those above it, the root left out."""
        node: Node | None = self
        while node is not None and node.key != ROOT:
            yield node
            node = node.parent

    def quota(self, resource: str) -> Quota:
        """Return what it may use of a resource."""
        return self.queue.quotas.get(resource, _NO_QUOTA)

    def weight(self, resource: str) -> Fraction:
        """Return its weight for a resource."""
        quota = self.queue.quotas.get(resource)
        return self.queue.weight if quota is None else quota.weight


@dataclass(slots=True)
class Tree:
    """All queues that count."""

    root: Node
    nodes: dict[QueueKey, Node]
    #: What is wrong with queues as they are written, whether or not an earlier state of them counts.
    problems: dict[QueueKey, tuple[str, ...]]
    #: The queues as they count, for the next tree.
    good: dict[QueueKey, Queue]

    def leaves(self) -> list[Node]:
        """Return the queues that workloads wait in, by name."""
        return [node for _, node in sorted(self.nodes.items()) if node.is_leaf]


def build(queues: Iterable[Queue], good: Mapping[QueueKey, Queue]) -> Tree:
    """Return the tree of queues; `good` are those of the tree before it."""
    written = {QueueKey(queue.dialect, queue.name): queue for queue in queues}
    problems: dict[QueueKey, list[str]] = {}
    used: dict[QueueKey, Queue] = {}
    for key, queue in sorted(written.items()):
        if queue.problems:
            problems[key] = list(queue.problems)
            if key in good:
                used[key] = good[key]
        else:
            used[key] = queue
    _heed_parents(used, written, good, problems)
    _heed_guarantees(used, good, problems)
    kept = dict(used)
    for queue in list(used.values()):
        if queue.parent and (above := QueueKey(queue.dialect, queue.parent)) not in used:
            used[above] = Queue(name=above.name, dialect=above.dialect)  # other projects need no object for it
    default = QueueKey(OWN, DEFAULT_QUEUE)
    if default not in written:
        used[default] = Queue(name=DEFAULT_QUEUE)
    nodes = {key: Node(key, queue) for key, queue in used.items()}
    root = Node(ROOT, Queue(name="", dialect=""))
    for key in sorted(nodes):
        node = nodes[key]
        node.parent = nodes[QueueKey(key.dialect, node.queue.parent)] if node.queue.parent else root
        node.parent.children.append(node)
    return Tree(root, nodes, {key: tuple(texts) for key, texts in problems.items()}, kept)


def _heed_parents(
    used: dict[QueueKey, Queue], written: Mapping[QueueKey, Queue], good: Mapping[QueueKey, Queue],
    problems: dict[QueueKey, list[str]],
) -> None:  # fmt: skip
    """Let queues whose parent is not there, or is below them, go on as before, or leave them out; until nothing changes."""
    told: set[QueueKey] = set()
    while True:
        wrong: dict[QueueKey, str] = {}
        for key, queue in sorted(used.items()):
            above = QueueKey(key.dialect, queue.parent)
            if not queue.parent:
                continue
            if key.dialect == OWN and above not in used:
                known = ", ".join(sorted(k.name for k in used if k.dialect == OWN and k != key)) or "none"
                is_bad = above in written
                why = f"queue {queue.parent} cannot be used" if is_bad else f"there is no queue {queue.parent}"
                wrong[key] = f"spec.parent: {why}; allowed are {known}"
            elif (circle := _circle(key, used)) is not None:
                way = " → ".join(str(k) for k in (*circle, circle[0]))
                wrong[key] = f"spec.parent: {way} is a circle; allowed is a queue that is not below this one"
        if not wrong:
            return
        back = [k for k in wrong if k not in told and k in good and good[k].parent != used[k].parent]
        for key in back or wrong:  # those that changed go back first: that may mend the others
            if key not in told:
                problems.setdefault(key, []).append(wrong[key])
            told.add(key)
            if back:
                used[key] = good[key]
            else:
                del used[key]


def _circle(key: QueueKey, used: Mapping[QueueKey, Queue]) -> list[QueueKey] | None:
    """Return the circle that a queue is in, itself first."""
    way, at = [key], key
    while (queue := used.get(at)) is not None and queue.parent:
        at = QueueKey(at.dialect, queue.parent)
        if at == key:
            return way
        if at in way:
            return None  # a circle above it, which it is no part of
        way.append(at)
    return None


def _heed_guarantees(
    used: dict[QueueKey, Queue], good: Mapping[QueueKey, Queue], problems: dict[QueueKey, list[str]]
) -> None:
    """Let no more be guaranteed below a queue of ours than it is guaranteed itself, where it says how much that is."""
    below: dict[QueueKey, list[QueueKey]] = {}
    for key, queue in sorted(used.items()):
        if queue.parent and key.dialect == OWN:
            below.setdefault(QueueKey(OWN, queue.parent), []).append(key)
    for above, keys in sorted(below.items()):
        for resource, quota in sorted(used[above].quotas.items()):
            if quota.guaranteed is None or not quota.guaranteed:
                continue
            if _sum(used, keys, resource) > quota.guaranteed:
                _cut(used, good, problems, above, keys, resource)


def _sum(used: Mapping[QueueKey, Queue], keys: Iterable[QueueKey], resource: str) -> int:
    return sum(used[key].quotas.get(resource, _NO_QUOTA).guaranteed or 0 for key in keys)


def _cut(
    used: dict[QueueKey, Queue], good: Mapping[QueueKey, Queue], problems: dict[QueueKey, list[str]], above: QueueKey,
    keys: list[QueueKey], resource: str,
) -> None:  # fmt: skip
    """Take back what made the guarantees too many, or else cut those of the last ones by name."""
    total, most = _sum(used, keys, resource), used[above].quotas[resource].guaranteed or 0
    changed = [
        key
        for key in (above, *keys)
        if key in good
        and good[key].parent == used[key].parent
        and good[key].quotas.get(resource, _NO_QUOTA).guaranteed != used[key].quotas.get(resource, _NO_QUOTA).guaranteed
    ]
    for key in changed:
        problems.setdefault(key, []).append(_too_much(above, resource, total, most))
        used[key] = _with_guarantee(used[key], resource, good[key].quotas.get(resource, _NO_QUOTA).guaranteed)
    left = used[above].quotas.get(resource, _NO_QUOTA).guaranteed
    for key in keys:
        mine = used[key].quotas.get(resource, _NO_QUOTA).guaranteed or 0
        if left is not None and mine > left:
            if key not in changed:
                problems.setdefault(key, []).append(_too_much(above, resource, total, most))
            used[key] = _with_guarantee(used[key], resource, left)
            mine = left
        left = None if left is None else left - mine


def _too_much(above: QueueKey, resource: str, total: int, most: int) -> str:
    return (
        f"spec.resources[{resource}].guaranteed: the queues below {above} are guaranteed {shown(resource, total)} together, "
        f"and {above} only {shown(resource, most)}; allowed is as much as {above} is guaranteed"
    )


def _with_guarantee(queue: Queue, resource: str, guaranteed: int | None) -> Queue:
    quota = queue.quotas.get(resource, _NO_QUOTA)
    return structs.replace(queue, quotas={**queue.quotas, resource: structs.replace(quota, guaranteed=guaranteed)})


def shown(resource: str, count: int) -> str:
    """Return an amount as people write it: cores or millicores, bytes in the largest unit that divides them, pieces."""
    if resource == "cpu":
        return str(count // 1000) if count % 1000 == 0 else f"{count}m"
    if resource == "memory" or resource.startswith("hugepages-") or resource == "ephemeral-storage":
        for unit, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if count and count % size == 0:
                return f"{count // size}{unit}"
    return str(count)
