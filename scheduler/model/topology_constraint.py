"""TopologyConstraint: how near together the pods of a group want to be, or how far apart.

For dialects, which read it from their objects, and the engine, which keeps it.  A level is named as a Topology names it, or by
the node label that tells it; whether there is such a level is not known here.
"""

from __future__ import annotations

import msgspec


class TopologyConstraint(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Where the pods of a group, or of one of its roles, may go; the empty one asks for nothing."""

    #: The name of a Topology; empty for whichever has the levels.
    topology: str = ""
    #: All pods stand in one domain of this level, or nowhere.
    required: str = ""
    #: Levels to try before anything wider, in order: rack, else block, else as `required` allows.
    preferred: tuple[str, ...] = ()
    #: So many pods each, by rank, stand in one domain of a level; 0 for no segments.
    segment_size: int = 0
    segment_required: str = ""
    segment_preferred: str = ""
    #: Pods are divided evenly among the domains of this level: the fullest has at most one more than the emptiest.
    spread: str = ""
    #: All pods stand in one domain of this level, which is shared with no other gang that asks the same; of a role, with no other role.
    exclusive: str = ""

    @property
    def levels(self) -> tuple[tuple[str, str], ...]:
        """Every level that is named, with the field that names it."""
        named = (
            ("required", self.required), *(("preferred", level) for level in self.preferred),
            ("segment required", self.segment_required), ("segment preferred", self.segment_preferred),
            ("spread", self.spread), ("exclusive", self.exclusive),
        )  # fmt: skip
        return tuple((field, level) for field, level in named if level)
