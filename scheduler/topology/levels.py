"""Networks out of the box: levels and values from node labels alone, without any object.

For `state.fabrics`.  The labels are those of `families`; all families that nodes have are put into one tree, as far as their
domains nest.  Where they do not, there are several networks, and in each of them every level is whole but in the last ones:

1. everything that nests: an NVLink domain stands directly below the tightest level that holds each of them wholly, and levels
   that it would cut are left out (racks of NVL72 may span leaf switches);
2. each family of network labels that was left out, with the NVLink domains that nest in it;
3. each family whole, without NVLink domains;
4. each family whole, with NVLink domains below, cut where the family cuts them.

An empty value of a label is no value.  A node of an NVLink domain that lacks a wider label is where the others of its domain are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .families import SUB_DOMAIN_LABEL, accelerators, geography, networks
from .source import GFD_CLIQUE_LABEL, clique_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    import numpy.typing as npt

    from scheduler.model.topology import Level

    from .families import Family, Source

    Ints = npt.NDArray[np.int64]
    Labels = Sequence[Mapping[str, str]]

Values = list[str | None]


class Network(NamedTuple):
    """Levels from the widest to the tightest, and the value of each node at each; None where it has none."""

    levels: tuple[Level, ...]
    columns: tuple[Values, ...]


class _Column(NamedTuple):
    """A level with its values; equal numbers stand for one domain, -1 for none. Shape of `numbers`: (nodes,)."""

    level: Level
    values: Values
    numbers: Ints


def networks_of(labels: Labels) -> list[Network]:
    """Return the networks that nodes' labels tell, the best one first; there is always one, perhaps without levels."""
    keys = set[str]().union(*labels)
    base = _columns(geography(keys), labels)
    families = [columns for family in networks(keys) if (columns := _columns(family, labels))]
    families.sort(key=lambda columns: -max(int((column.numbers >= 0).sum()) for column in columns))
    fast = _columns(accelerators(keys), labels)
    chains = _chains(base, families)
    exact = [_with_all(chain, fast) for chain in chains]
    found = [_completed(chain, fast, is_last=True) for chain, _ in exact]
    cut = [chain for chain, (_, is_whole) in zip(chains, exact, strict=True) if not is_whole]
    found += [*cut, *([*chain, *fast] for chain in cut)]
    return [Network(tuple(c.level for c in chain), tuple(c.values for c in chain)) for chain in found]


def values_at(labels: Labels, *keys: str) -> Values:
    """Return each node's value of the first label that it has; no value where that is empty, or a clique of no fabric."""
    columns: list[Values] = []
    for key in keys:
        column: Values = [mine.get(key) or None for mine in labels]
        if key == GFD_CLIQUE_LABEL:
            known = {value: clique_of({key: value}) if value else None for value in set(column)}
            column = [known[value] for value in column]
        columns.append(column)
    return columns[0] if len(columns) == 1 else [next(filter(None, row), None) for row in zip(*columns, strict=True)]


def _columns(family: Family, labels: Labels) -> list[_Column]:
    """Return the levels of a family that some node has a value of."""
    found: list[_Column] = []
    for source in family:
        values = values_at(labels, *source.labels)
        if any(value is not None for value in values):
            found.append(_Column(source.level, values, _numbered(_identities(source, values, found))))
    return found


def _identities(source: Source, values: Values, wider: list[_Column]) -> Sequence[Hashable | None]:
    """Return what tells domains apart: values, but for sub-domains, whose names count within their domain only."""
    if source.labels == (SUB_DOMAIN_LABEL,) and wider:
        return [
            None if value is None else (outer, value) for outer, value in zip(wider[-1].values, values, strict=True)
        ]
    return values


def _numbered(identities: Sequence[Hashable | None]) -> Ints:
    """Return a number for each identity, -1 for None."""
    numbers = {identity: number for number, identity in enumerate(dict.fromkeys(identities))} | {None: -1}
    return np.fromiter(map(numbers.__getitem__, identities), dtype=np.int64, count=len(identities))


def _chains(base: list[_Column], families: list[list[_Column]]) -> list[list[_Column]]:
    """Return the levels of the family that most nodes have, with those that nest in it; then each other family by itself."""
    chain, places = _placed(base, families[0] if families else []), {column.level for column in base}
    apart: list[list[_Column]] = []
    for family in families[1:]:
        is_met = any(
            ((family[0].numbers >= 0) & (column.numbers >= 0)).any() for column in chain if column.level not in places
        )
        longer, is_whole = _with_all(chain, family) if is_met else (chain, False)
        if is_whole:
            chain = _completed(longer, family, is_last=True)
        else:
            apart.append(_placed(base, family))
    alone = [] if places <= {column.level for column in chain} else [base]
    return [chain, *apart, *alone]


def _placed(base: list[_Column], family: list[_Column]) -> list[_Column]:
    """Return the levels of a family with those of geography above, or between them where switches span several zones.

    A level of geography that cuts the family's domains and is cut by them is left out.
    """
    chain = list(family)
    for column in reversed(base):
        is_tighter = [_lies_within(known.numbers, column.numbers) for known in chain]
        depth = is_tighter.index(True) if True in is_tighter else len(chain)
        is_within = all(_lies_within(column.numbers, known.numbers) for known in chain[:depth])
        if is_within and all(is_tighter[depth:]):
            chain.insert(depth, column)
    return chain


def _with_all(chain: list[_Column], columns: list[_Column]) -> tuple[list[_Column], bool]:
    """Return a chain with further levels, and whether none of its own had to go for them."""
    length = len(chain) + len(columns)
    for number, column in enumerate(columns):
        chain = _completed(_with(chain, column), columns[: number + 1])
    return chain, len(chain) == length


def _with(chain: list[_Column], column: _Column) -> list[_Column]:
    """Return a chain with one more level, below the tightest that holds its domains wholly, without those that it would cut."""
    paths = _paths(chain)
    depth = next((d for d, path in enumerate(paths) if not _lies_within(column.numbers, path)), len(paths))
    apart = np.where(column.numbers < 0, np.arange(len(column.numbers)) + len(column.numbers), column.numbers)
    below = [c for c, path in zip(chain[depth:], paths[depth:], strict=True) if _lies_within(path, apart)]
    return [*chain[:depth], column, *below]


def _paths(chain: list[_Column]) -> list[Ints]:
    """Return numbers that tell domains apart by all values from the widest level down to theirs; -1 for no value."""
    paths: list[Ints] = []
    above = np.zeros(len(chain[0].numbers) if chain else 0, dtype=np.int64)
    for column in chain:
        both = above * (len(above) + 2) + column.numbers + 1
        above = np.unique(both, return_inverse=True)[1].astype(np.int64)
        paths.append(np.where(column.numbers < 0, -1, above))
    return paths


def _lies_within(inner: Ints, outer: Ints) -> bool:
    """Tell whether each domain lies in one outer domain, as far as nodes have both values."""
    is_told = (inner >= 0) & (outer >= 0)
    mine = inner[is_told]
    pairs = mine * (2 * len(inner) + 2) + outer[is_told]
    return len(np.unique(pairs)) == len(np.unique(mine))


def _completed(chain: list[_Column], woven: list[_Column], *, is_last: bool = False) -> list[_Column]:
    """Return a chain whose woven levels are whole: nodes that lack a wider value stand where others of their domain do.

    A domain of which no node has the wider value is, when all is woven, one domain there too, under its own name.
    """
    levels = {column.level for column in woven}
    for depth in range(len(chain) - 2, -1, -1):
        below = [column for column in reversed(chain[depth + 1 :]) if column.level in levels]
        wider = _spread(chain[depth], below)
        for column in reversed(below) if is_last else ():
            if ((wider.numbers < 0) & (column.numbers >= 0)).any():
                wider = _spread(_joined(wider, column, _own_names(column, int(wider.numbers.max()))), below)
        chain = [*chain[:depth], wider, *chain[depth + 1 :]]
    return chain


def _spread(wider: _Column, below: list[_Column]) -> _Column:
    """Return a level with the values that nodes of one domain below can take from each other; the tightest come first."""
    while below and (wider.numbers < 0).any():
        former = wider
        for column in below:
            rows = zip(column.numbers.tolist(), wider.values, wider.numbers.tolist(), strict=True)
            known = {number: (value, mine) for number, value, mine in rows if number >= 0 and value is not None}
            wider = _joined(wider, column, known)
        if wider is former:
            break
    return wider


def _own_names(column: _Column, highest: int) -> dict[int, tuple[str, int]]:
    """Return each domain's own name with a number that nobody has."""
    rows = zip(column.numbers.tolist(), column.values, strict=True)
    return {number: (value, highest + 1 + number) for number, value in rows if value is not None}


def _joined(wider: _Column, column: _Column, known: Mapping[int, tuple[str, int]]) -> _Column:
    """Return a level with the values that are known of the domains below for nodes without; itself if there are none."""
    missing = np.flatnonzero((wider.numbers < 0) & (column.numbers >= 0)).tolist()
    news = [(row, known[number]) for row in missing if (number := int(column.numbers[row])) in known]
    if not news:
        return wider
    values, numbers = wider.values.copy(), wider.numbers.copy()
    for row, (value, number) in news:
        values[row], numbers[row] = value, number
    return _Column(wider.level, values, numbers)
