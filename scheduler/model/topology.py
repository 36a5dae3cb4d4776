"""Topology: the levels of the network between nodes, and the node labels that tell them.

For whoever reads Topology objects of any project, and for the fabric, which is made of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence


class Level(NamedTuple):
    """One level of a topology: what people call it, and the node label whose value names a node's domain."""

    name: str
    label: str
    #: What else people call it; counts where no other level has that name, label or alias.
    aliases: tuple[str, ...] = ()


def depths_by_name(levels: Sequence[Level], *, with_aliases: bool = True) -> dict[str, int]:
    """Return the depth of each level by its name and its label, and by those aliases that only one level has."""
    by_alias: dict[str, set[int]] = {}
    for depth, level in enumerate(levels):
        for alias in level.aliases if with_aliases else ():
            by_alias.setdefault(alias, set()).add(depth)
    depths = {alias: found.pop() for alias, found in by_alias.items() if len(found) == 1}
    for depth, level in reversed(list(enumerate(levels))):
        depths[level.label] = depth
        depths[level.name] = depth
    return depths


class Topology(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Levels from the widest to the tightest; nodes themselves are the level below the last."""

    name: str
    #: Whose object it is: ai-scheduler, kueue, kai, or built-in.
    dialect: str = "ai-scheduler"
    uid: str = ""
    generation: int = 0
    levels: tuple[Level, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Dialect and name, as objects that are only read are kept."""
        return self.dialect, self.name
