"""A score that depends on how full something is, given by points: kube-scheduler's broken linear function.

For plugins whose arguments have a `shape`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from scheduler.config import ConfigurationModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.state.snapshot import Ints

FULL = 100
#: Scores of a shape run from 0 to 10, those of nodes from 0 to 100.
SHAPE_SCALE = 10


class ShapePoint(ConfigurationModel):
    """A point of the line from utilization to score."""

    utilization: int = Field(ge=0, le=FULL)
    """Share in use, in percent."""
    score: int = Field(ge=0, le=10)
    """What it is worth."""


def broken_line(shape: Sequence[ShapePoint]) -> Ints:
    """Return the score of each utilization from 0 to 100, shape (101,).

    The points rise in utilization; between them the division rounds towards zero.
    """
    table = np.full(FULL + 1, shape[-1].score * SHAPE_SCALE, dtype=np.int64)
    table[: shape[0].utilization + 1] = shape[0].score * SHAPE_SCALE
    for left, right in pairwise(shape):
        rise, width = (right.score - left.score) * SHAPE_SCALE, right.utilization - left.utilization
        for x in range(left.utilization + 1, right.utilization + 1):
            step = abs(rise) * (x - left.utilization) // width
            table[x] = left.score * SHAPE_SCALE + (step if rise >= 0 else -step)
    return table
