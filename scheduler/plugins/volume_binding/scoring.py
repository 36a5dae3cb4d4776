"""Scoring: how full the storage of a node would be with a pod, class by class, and what that is worth.

For the plugin beside it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field, field_validator

from scheduler.config import ConfigurationModel
from scheduler.framework.broken_line import FULL, ShapePoint

from .finding import NONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduler.state.snapshot import Bools, Ints

    from .finding import Found


class VolumeBindingArgs(ConfigurationModel):
    """Arguments of VolumeBinding."""

    bind_timeout_seconds: int = Field(default=600, ge=0)
    """How long a pod waits for its volumes to be made and bound before it is placed anew."""
    shape: list[ShapePoint] = Field(
        default=[ShapePoint(utilization=0, score=10), ShapePoint(utilization=FULL, score=0)]
    )
    """How full storage is liked, in the order of rising utilization; by default the emptiest."""

    @field_validator("shape")
    @classmethod
    def _rises(cls, shape: list[ShapePoint]) -> list[ShapePoint]:
        if any(a.utilization >= b.utilization for a, b in pairwise(shape)):
            raise ValueError("utilization must rise from point to point")
        return shape or [ShapePoint(utilization=0, score=10), ShapePoint(utilization=FULL, score=0)]


def scores(found: Found, table: Ints) -> Ints:
    """Return the mean over the classes that the pod uses, rounded; 0 where none says how much room it has."""
    size = len(found.no_match)
    is_static = np.zeros(size, dtype=np.bool_)
    for binding in found.bindings:
        is_static |= binding.choice != NONE
    by_class: dict[str, tuple[Bools, Ints, Ints]] = {}
    for name, where, requested, capacity, adds_up in (*_of_bindings(found), *_of_provisions(found, is_static)):
        if name not in by_class:
            by_class[name] = np.zeros(size, dtype=np.bool_), np.zeros(size, np.int64), np.zeros(size, np.int64)
        is_used, asked, room = by_class[name]
        is_used |= where
        asked += np.where(where, requested, 0)
        room[:] = np.where(where, capacity + room if adds_up else capacity, room)
    total, count = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    for is_used, asked, room in by_class.values():
        share = np.where(asked > room, FULL, np.minimum(asked, room) * FULL // np.maximum(room, 1))
        total += np.where(is_used, table[np.where(room == 0, FULL, share)], 0)
        count += is_used
    return (2 * total + count) // np.maximum(2 * count, 1)


def _of_bindings(found: Found) -> Iterator[tuple[str, Bools, int, Ints, bool]]:
    """Yield class, rows, request and size of volumes that are there: sizes of one class add up."""
    for binding in found.bindings:
        sizes = np.array([*[volume.capacity_bytes for volume in binding.volumes], 0], dtype=np.int64)
        claim, where = binding.claim, binding.choice != NONE
        yield claim.class_name, where, claim.requested_bytes or 0, sizes[binding.choice], True


def _of_provisions(found: Found, is_static: Bools) -> Iterator[tuple[str, Bools, int, Ints, bool]]:
    """Yield class, rows, request and room of volumes to be made, where none is there: the room of one class is shared."""
    for provision in found.provisions:
        where = provision.where & ~is_static & (provision.room != NONE)
        yield provision.claim.class_name, where, provision.claim.requested_bytes or 0, provision.room, False
