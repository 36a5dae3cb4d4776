"""Trees: whether the subgroups of a gang are one, and how many pods it takes at least.

For the adapters whose groups have subgroups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .counts import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.model.gang import Gang, Subgroup

#: How many levels a tree may have; the gang itself is the first.
MOST_LEVELS = 4


def tree_problems(
    gang: Gang, *, field: str = "spec.subGroups", minimum: str = "minSubGroup"
) -> tuple[tuple[Subgroup, ...], tuple[str, ...]]:
    """Return the subgroups of a gang, parents before their children, and what keeps them from being a tree.  O(subgroups).

    Subgroups that are doubled, too deep, or not below the gang are left out: the problems tell of them.

    Args:
        gang: The gang as its object tells of it.
        field: What the object calls its list of subgroups.
        minimum: What it calls the number of subgroups that must reach their minimum.
    """
    problems: list[str] = []
    named = _named(gang.subgroups, field, problems)
    parts: dict[str, list[Subgroup]] = {}
    for subgroup in named.values():
        parts.setdefault(subgroup.parent, []).append(subgroup)
    ordered = _ordered(parts, field, problems)
    problems += _strays(named, field)
    asked = [(gang.min_subgroups, "", f"spec.{minimum}")]
    asked += [(one.min_subgroups, one.name, f"{field}[{one.name}].{minimum}") for one in ordered]
    for count, name, path in asked:
        if count is not None and count > (most := len(parts.get(name, ()))):
            problems.append(f"{path}: {count} is out of range; allowed are numbers up to {most}, its subgroups")
    return tuple(ordered), tuple(problems)


def least_members(subgroups: Iterable[Subgroup], min_subgroups: int | None) -> int:
    """Return with how few pods a gang can have what its subgroups ask; parents stand before their children.  O(n log n)."""
    below: dict[str, list[int]] = {}
    for subgroup in reversed(tuple(subgroups)):
        least = max(subgroup.min_member, _sum_of_least(below.get(subgroup.name, []), subgroup.min_subgroups))
        below.setdefault(subgroup.parent, []).append(least)
    return _sum_of_least(below.get("", []), min_subgroups)


def _sum_of_least(minima: list[int], count: int | None) -> int:
    return sum(minima if count is None else sorted(minima)[:count])


def _named(subgroups: tuple[Subgroup, ...], field: str, problems: list[str]) -> dict[str, Subgroup]:
    """Return subgroups by name; of several with one name the first."""
    named: dict[str, Subgroup] = {}
    for subgroup in subgroups:
        if not subgroup.name:
            problems.append(f"{field}: a name is empty; allowed are names of at least one character")
        elif subgroup.name in named:
            problems.append(f"{field}: the name {shown(subgroup.name)} is doubled; allowed is every name once")
        else:
            named[subgroup.name] = subgroup
    return named


def _ordered(parts: dict[str, list[Subgroup]], field: str, problems: list[str]) -> list[Subgroup]:
    """Return what is below the gang, level by level."""
    ordered: list[Subgroup] = []
    level = parts.get("", [])
    for _ in range(MOST_LEVELS - 1):
        ordered += level
        level = [part for subgroup in level for part in parts.get(subgroup.name, ())]
    problems += [
        f"{field}[{subgroup.name}].parent: it is on level {MOST_LEVELS + 1}; allowed are {MOST_LEVELS} levels with the gang's"
        for subgroup in level
    ]
    return ordered


def _strays(named: dict[str, Subgroup], field: str) -> Iterable[str]:
    """Yield a sentence for each subgroup whose parent is not there, and one for each cycle."""
    settled = {""}
    for name, subgroup in named.items():
        if subgroup.parent and subgroup.parent not in named:
            yield f"{field}[{name}].parent: {shown(subgroup.parent)} is no subgroup; allowed are the names of the other subgroups"
        path: dict[str, None] = {}
        above = name
        while above in named and above not in settled and above not in path:
            path[above] = None
            above = named[above].parent
        if above in path:
            yield f"{field}[{above}].parent: {shown(named[above].parent)} leads back to it; allowed is a tree"
        settled.update(path)
