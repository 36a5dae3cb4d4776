"""Topology: the levels of the network between nodes, and the node labels that tell them.

For whoever reads Topology objects of any project, and for the fabric, which is made of them.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class Level(NamedTuple):
    """One level of a topology: what people call it, and the node label whose value names a node's domain."""

    name: str
    label: str


class Topology(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Levels from the widest to the tightest; nodes themselves are the level below the last."""

    name: str
    #: Whose object it is: ai-scheduler, kueue, kai, or built-in.
    dialect: str = "ai-scheduler"
    uid: str = ""
    levels: tuple[Level, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Dialect and name, as objects that are only read are kept."""
        return self.dialect, self.name
