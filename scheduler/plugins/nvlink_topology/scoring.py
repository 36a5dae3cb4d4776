"""What a node with certain GPUs free is worth to a pod that asks for k of them.

For the plugin beside it.  A machine type and a mask of free GPUs make a *situation*; few occur in a cluster, so each is rated
once for each k, and the nodes take their scores from a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.topology import table_of

if TYPE_CHECKING:
    from scheduler.state.snapshot import Ints
    from scheduler.topology import Machine

FULL = 100
#: The share of quality in a score, in percent; the rest goes to what stays connected.
QUALITY_SHARE = 90
#: The situation of a node about whose GPUs nothing is told.
UNKNOWN = 0
_UNRATED = -1


def score(machine: Machine | None, free: int, k: int) -> int:
    """Return 0 to 100: nine tenths for the quality of the best set of k free GPUs, one tenth for what stays connected.

    Quality is the set's bandwidth as a share of the best that an empty machine of this type has, so a step of 12 points
    outweighs all else.  Several GPUs without any NVLink between them have quality 0, on a machine that has no NVLink too: it
    never comes before one that connects them.  What is lost to later pods counts as a share of the whole machine, so that an
    odd pair is taken before an empty machine is broken; where there is no NVLink, nothing is lost.  0 if fewer than k are free.
    """
    if machine is None:
        return _folded(FULL if k == 1 else 0, 0)
    table = table_of(machine)
    best = table.best(free, k)
    if best is None:
        return 0
    quality = table.quality(free, k) if k == 1 or best.bandwidth_gbps else 0
    lost = table.harm(free, k) * free.bit_count() // machine.gpu_count if machine.nvlink_gbps.any() else 0
    return _folded(quality, lost)


def _folded(quality: int, lost: int) -> int:
    return (QUALITY_SHARE * quality + (FULL - QUALITY_SHARE) * (FULL - lost)) // FULL


class Situations:
    """All situations seen, numbered in the order of appearance, with their scores."""

    def __init__(self) -> None:
        """Start with `UNKNOWN` alone."""
        self._situations: list[tuple[Machine | None, int]] = [(None, 0)]
        self._numbers: dict[tuple[Machine, int], int] = {}
        self._scores: dict[int, Ints] = {}

    def __len__(self) -> int:
        """Count the situations."""
        return len(self._situations)

    def number_of(self, machine: Machine, free: int) -> int:
        """Return the number of a situation."""
        number = self._numbers.setdefault((machine, free), len(self._situations))
        if number == len(self._situations):
            self._situations.append((machine, free))
        return number

    def scores(self, numbers: Ints, k: int) -> Ints:
        """Return the score for k GPUs in each situation, shape of `numbers`."""
        known = self._scores.get(k)
        if known is None or len(known) < len(self._situations):
            wider = np.full(2 * len(self._situations), _UNRATED, dtype=np.int64)
            if known is not None:
                wider[: len(known)] = known
            known = self._scores[k] = wider
        found = known[numbers]
        unrated = numbers[found == _UNRATED]
        if not len(unrated):
            return found
        for number in np.unique(unrated).tolist():
            machine, free = self._situations[number]
            known[number] = score(machine, free, k)
        return known[numbers]
