"""Verdicts: what a plugin says of many nodes at once.

For plugins with a wide Filter and for the runtime, which loops the narrow form into the same value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .status import Code, Reason, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.state.snapshot import Bools


@lru_cache(maxsize=64)
def _everywhere(size: int) -> Bools:
    """Return a mask that is true everywhere, made once for each size."""
    mask = np.ones(size, dtype=np.bool_)
    mask.flags.writeable = False
    return mask


@dataclass(slots=True)
class Verdicts:
    """Rejections over a node axis of a given size; a node without one passes.

    Several reasons may reject one node: all are kept, and the highest code counts.
    """

    size: int
    rejections: list[tuple[Bools, Code, Reason]] = field(default_factory=list)

    def reject(self, where: Bools, code: Code, reason: Reason) -> None:
        """Refuse the nodes where the mask (shape (size,)) is true."""
        if where.any():
            self.rejections.append((where, code, reason))

    def codes(self) -> npt.NDArray[np.uint8]:
        """Return each node's code, shape (size,)."""
        codes = np.zeros(self.size, dtype=np.uint8)
        for where, code, _ in self.rejections:
            np.maximum(codes, np.where(where, np.uint8(code), np.uint8(0)), out=codes)
        return codes

    def passes(self) -> Bools:
        """Return which nodes pass, shape (size,); to be read only."""
        if not self.rejections:
            return _everywhere(self.size)
        passing: Bools = ~self.rejections[0][0]
        for where, _, _ in self.rejections[1:]:
            passing &= ~where
        return passing

    def status_at(self, position: int) -> Status | None:
        """Return one node's status; None if it passes."""
        found = [(code, reason) for where, code, reason in self.rejections if where[position]]
        return Status(max(code for code, _ in found), tuple(reason for _, reason in found)) if found else None

    @classmethod
    def from_statuses(cls, statuses: Sequence[Status | None]) -> Verdicts:
        """Collect the answers of a narrow Filter."""
        verdicts = cls(len(statuses))
        masks: dict[tuple[Code, Reason], npt.NDArray[np.bool_]] = {}
        for position, status in enumerate(statuses):
            if status is None or status.code is Code.SUCCESS:
                continue
            for reason in status.reasons or (Reason("Rejected", status.code.upstream_name),):
                mask = masks.setdefault((status.code, reason), np.zeros(len(statuses), dtype=np.bool_))
                mask[position] = True
        verdicts.rejections = [(mask, code, reason) for (code, reason), mask in masks.items()]
        return verdicts
