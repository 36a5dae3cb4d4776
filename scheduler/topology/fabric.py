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

from scheduler.model.topology import Level, depths_by_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

#: The level below all others: the nodes themselves.
HOST = Level("host", "kubernetes.io/hostname", aliases=("node",))
#: The level above all others: the whole cluster.
ROOT = -1


class Fabric:
    """A tree of domains.  Level `ROOT` is the whole cluster, the last one is `HOST`."""

    __slots__ = ("_at", "levels", "names", "of_rows", "order", "parents")

    def __init__(
        self,
        levels: Sequence[Level],
        values: Sequence[Sequence[str | None]],
        hosts: Sequence[str],
        host: Level = HOST,
    ) -> None:
        """Take levels from the widest to the tightest, each node's value at each, and the names of the nodes.

        `values[level][row]` is None where the node has no such label: then it is a domain of its own there.  Equal names
        below different parents are different domains.  `host` is `HOST`, perhaps with aliases.
        O(rows × log rows × levels).
        """
        #: From the widest to the tightest; the last is the nodes themselves.
        self.levels: tuple[Level, ...] = (*levels, host)
        by_name = sorted(range(len(hosts)), key=lambda row: natural(hosts[row]))
        host_ranks = np.empty(len(hosts), dtype=np.int64)
        host_ranks[by_name] = np.arange(len(hosts))
        ranks = [*(_ranks(column, host_ranks) for column in values), host_ranks]
        #: Rows in the order of the tree, shape (rows,).
        self.order: Ints = np.lexsort(ranks[::-1]).astype(np.int64)
        #: By level: the number of each row's domain, shape (rows,); of each domain's parent, shape (domains,); and its name.
        self.of_rows: list[Ints] = []
        self.parents: list[Ints] = []
        self.names: list[list[str]] = []
        is_first = np.zeros(len(hosts), dtype=np.bool_)
        is_first[:1] = True
        above = np.zeros(len(hosts), dtype=np.int64)
        for ranked, column in zip(ranks, (*values, hosts), strict=True):
            in_order = ranked[self.order]
            is_first[1:] |= in_order[1:] != in_order[:-1]
            firsts = self.order[is_first]
            numbers = np.empty(len(hosts), dtype=np.int64)
            numbers[self.order] = np.cumsum(is_first) - 1
            self.of_rows.append(numbers)
            self.parents.append(above[firsts])
            self.names.append([_name(column[row], hosts[row]) for row in firsts.tolist()])
            above = numbers
        self._at = depths_by_name(self.levels)

    def level_of(self, name: str) -> int | None:
        """Return the depth of a level by its name, its label or an alias; None if there is none."""
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


_NUMBER = re.compile(r"([0-9]+)")


@lru_cache(maxsize=65_536)
def natural(name: str) -> tuple[tuple[str | int, ...], str]:
    """Return a sort key by which numbers inside names count as numbers; different names have different keys."""
    parts: list[str | int] = [*_NUMBER.split(name)]
    parts[1::2] = map(int, parts[1::2])
    return tuple(parts), name


def _ranks(column: Sequence[str | None], host_ranks: Ints) -> Ints:
    """Return numbers that sort rows as their values do, naturally; rows without a value come first, each by itself."""
    values = sorted({value for value in column if value is not None}, key=natural)
    by_value: dict[str | None, int] = {value: rank for rank, value in enumerate(values)} | {None: -1}
    ranks = np.fromiter(map(by_value.__getitem__, column), dtype=np.int64, count=len(column))
    return np.where(ranks < 0, host_ranks - len(host_ranks), ranks)


def _name(value: str | None, host: str) -> str:
    return host if value is None else value
