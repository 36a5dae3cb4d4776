"""Fabric: the domains between nodes as a tree over the rows of a snapshot, from the widest level down to the nodes.

For the engine, which places gangs in it.  Everything is arrays: a level has a number for each row, so that sums over the
domains of a level cost one pass.  Domains are numbered in the order of the tree, siblings by the natural order of their names
(rack-2 before rack-10), so that neighbours in number are neighbours in the fabric.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from scheduler.model.topology import Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

#: The level below all others: the nodes themselves.
HOST = Level("host", "kubernetes.io/hostname")
#: The level above all others: the whole cluster.
ROOT = -1


class Fabric:
    """A tree of domains.  Level `ROOT` is the whole cluster, the last one is `HOST`."""

    __slots__ = ("_at", "levels", "names", "of_rows", "order", "parents")

    def __init__(self, levels: Sequence[Level], values: Sequence[Sequence[str | None]], hosts: Sequence[str]) -> None:
        """Take levels from the widest to the tightest, each node's value at each, and the names of the nodes.

        `values[level][row]` is None where the node has no such label: then it is a domain of its own there.  Equal names
        below different parents are different domains.  O(rows × levels × log rows).
        """
        #: From the widest to the tightest; the last is `HOST`.
        self.levels: tuple[Level, ...] = (*levels, HOST)
        paths = [
            (*((value, "") if value is not None else ("", host) for value in column), (host, ""))
            for host, *column in zip(hosts, *values, strict=True)
        ]
        sort_keys = [tuple((natural(value), own) for value, own in path) for path in paths]
        #: Rows in the order of the tree, shape (rows,).
        self.order: Ints = np.array(sorted(range(len(paths)), key=sort_keys.__getitem__), dtype=np.int64)
        #: By level: the number of each row's domain, shape (rows,); of each domain's parent, shape (domains,); and its name.
        self.of_rows: list[Ints] = []
        self.parents: list[Ints] = []
        self.names: list[list[str]] = []
        above = np.zeros(len(paths), dtype=np.int64)
        for depth in range(len(self.levels)):
            numbers, parents, names = _numbered(paths, self.order, depth, above)
            self.of_rows.append(numbers)
            self.parents.append(parents)
            self.names.append(names)
            above = numbers
        self._at: dict[str, int] = {}
        for depth, level in reversed(list(enumerate(self.levels))):
            self._at[level.label] = depth
            self._at[level.name] = depth

    def level_of(self, name: str) -> int | None:
        """Return the depth of a level by its name or its label; None if there is none."""
        return self._at.get(name)

    def count(self, level: int) -> int:
        """Return how many domains a level has."""
        return 1 if level == ROOT else len(self.names[level])

    def totals(self, level: int, per_row: Ints) -> Ints:
        """Return sums over the domains of a level, shape (domains,)."""
        if level == ROOT:
            return np.array([per_row.sum()], dtype=np.int64)
        return np.bincount(self.of_rows[level], weights=per_row, minlength=self.count(level)).astype(np.int64)

    def rows(self, level: int, number: int) -> Ints:
        """Return the rows of a domain in the order of the tree."""
        return self.order if level == ROOT else self.order[self.of_rows[level][self.order] == number]

    def ancestor(self, level: int, number: int, above: int) -> int:
        """Return the number of the domain of a wider level that a domain lies in."""
        if above == ROOT:
            return 0
        while level > above:
            number = int(self.parents[level][number])
            level -= 1
        return number

    def path(self, level: int, number: int) -> tuple[str, ...]:
        """Return the names from the widest level down to a domain; empty for the whole cluster."""
        if level == ROOT:
            return ()
        return tuple(self.names[above][self.ancestor(level, number, above)] for above in range(level + 1))

    def common(self, rows: Ints) -> tuple[int, int]:
        """Return level and number of the tightest domain that has all of some rows."""
        for level in range(len(self.levels) - 1, ROOT, -1):
            numbers = self.of_rows[level][rows]
            if len(numbers) and (numbers == numbers[0]).all():
                return level, int(numbers[0])
        return ROOT, 0


@lru_cache(maxsize=65_536)
def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key by which numbers inside names count as numbers."""
    parts = re.split(r"([0-9]+)", name)
    return tuple((0, int(part), part) if part.isdigit() else (1, 0, part) for part in parts if part)


def _numbered(
    paths: Sequence[tuple[tuple[str, str], ...]], order: Ints, depth: int, above: Ints
) -> tuple[Ints, Ints, list[str]]:
    """Return the domains of one level: each row's number, and by number the parent and the name."""
    numbers = np.zeros(len(paths), dtype=np.int64)
    parents: list[int] = []
    names: list[str] = []
    former: tuple[int, tuple[str, str]] | None = None
    for row in order.tolist():
        mine = int(above[row]), paths[row][depth]
        if mine != former:
            former = mine
            parents.append(mine[0])
            names.append(mine[1][0] or mine[1][1])
        numbers[row] = len(names) - 1
    return numbers, np.array(parents, dtype=np.int64), names
