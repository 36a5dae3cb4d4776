"""Needs: how many more pods, of which roles, a gang must have placed together.

For the engine and for preemption, which must not leave a gang with less.  Pure arithmetic over the tree of a gang.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .gang import Gang, Subgroup


class Needs:
    """A gang's minima, less the members that count towards them already."""

    __slots__ = ("_children", "_placed", "gang", "roles")

    def __init__(self, gang: Gang, placed: Mapping[str, int], roles: Mapping[str, str] | None = None) -> None:
        """Take how many members of each role count already; `roles` is that of each pending pod, by uid, where it has one."""
        self.gang = gang
        self.roles: Mapping[str, str] = roles or {}
        self._placed = placed
        #: Subgroup name to the subgroups directly below; the empty name is the gang.
        self._children: dict[str, list[Subgroup]] = {}
        for subgroup in gang.subgroups:
            self._children.setdefault(subgroup.parent, []).append(subgroup)

    def missing(self, more: Mapping[str, int] | None = None) -> int:
        """Return the least number of pods that must be placed beyond those that count and `more` (by role). O(subgroups)."""
        if not self._children:
            return max(0, self.gang.min_member - sum(self._placed.values()) - (sum(more.values()) if more else 0))
        counts = dict(self._placed)
        for role, count in more.items() if more else ():
            counts[role] = counts.get(role, 0) + count
        missing, within = self._below("", self.gang.min_subgroups, counts)
        stray = sum(counts.values()) - within
        return missing + max(0, self.gang.min_member - within - stray - missing)

    def children(self, name: str = "") -> list[Subgroup]:
        """Return the subgroups directly below one, or below the gang."""
        return self._children.get(name, [])

    def missing_of(self, subgroup: Subgroup, more: Mapping[str, int] | None = None) -> int:
        """Return the same for one subgroup."""
        counts = dict(self._placed)
        for role, count in more.items() if more else ():
            counts[role] = counts.get(role, 0) + count
        return self._of(subgroup, counts)[0]

    def unknown_roles(self) -> list[str]:
        """Return the roles that pending pods name and the gang does not have, sorted."""
        known = {subgroup.name for subgroup in self.gang.subgroups if subgroup.name not in self._children}
        return sorted({role for role in self.roles.values() if role not in known}) if known else []

    def shortfalls(self) -> list[tuple[str, int, int]]:
        """Return the subgroups below their own minimum with what counts for them and what that is, in order."""
        found = []
        for subgroup in self.gang.subgroups:
            within = self._count(subgroup, self._placed)
            if within < subgroup.min_member:
                found.append((subgroup.name, within, subgroup.min_member))
        return found

    def _of(self, subgroup: Subgroup, counts: Mapping[str, int]) -> tuple[int, int]:
        """Return what a subgroup lacks, and how many of its pods count."""
        missing, within = self._below(subgroup.name, subgroup.min_subgroups, counts)
        within += counts.get(subgroup.name, 0)
        return missing + max(0, subgroup.min_member - within - missing), within

    def _below(self, name: str, wanted: int | None, counts: Mapping[str, int]) -> tuple[int, int]:
        """Return what the cheapest subgroups below lack, as many as are wanted, and how many pods count below."""
        found = [self._of(child, counts) for child in self._children.get(name, ())]
        lacks = sorted(lack for lack, _ in found)
        return sum(lacks if wanted is None else lacks[:wanted]), sum(within for _, within in found)

    def _count(self, subgroup: Subgroup, counts: Mapping[str, int]) -> int:
        below = sum(self._count(child, counts) for child in self._children.get(subgroup.name, ()))
        return below + counts.get(subgroup.name, 0)


def without_minima(gang: Gang) -> Gang:
    """Return a gang that needs no more members than it has: every further one is placed by itself."""
    subgroups = tuple(structs.replace(s, min_member=0, min_subgroups=None) for s in gang.subgroups)
    return structs.replace(gang, min_member=0, min_subgroups=None, subgroups=subgroups)


def minimum_of(gang: Gang) -> int:
    """Return how many pods a gang must have placed together, in all."""
    return Needs(gang, {}).missing()
