"""Waiters: what backfill knows of a workload that waits for room.

For the engine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .placement import Placer


@dataclass(slots=True)
class Waiter:
    """A workload that waits for room."""

    #: Since it was refused first, and when it was looked ahead for last, seconds since the epoch.
    since: float
    #: Names the nodes that it could ever stand on: those who wait for the same ones have a head.
    pool: bytes
    planned_at: float = -math.inf
    #: Nothing could be told then.
    is_in_vain: bool = False
    #: How often nodes were held for it in vain, and before when they are not held again.
    holds: int = 0
    rests_until: float = 0.0


def pool_of(placer: Placer) -> bytes:
    """Return what names the nodes on which some pod of a workload could stand if they were empty."""
    return b"|".join(sorted({candidate.pool() for candidate in placer.candidates}))
