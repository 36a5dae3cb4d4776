"""What a node with certain GPUs free is worth to a pod that asks for k of them.

For the plugin beside it.  A machine type and the masks of free GPUs and NICs make a *situation*; few occur in a cluster, so each is
rated once for each ask, and the nodes take their scores from a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.topology import choose_nics, table_of

from .asking import Ask

if TYPE_CHECKING:
    from scheduler.state.snapshot import Ints
    from scheduler.topology import Machine

FULL = 100
#: The share of quality in a score, in percent; the rest goes to what stays connected.
QUALITY_SHARE = 90
#: The share of NICs in the score of a pod that asks for some; it is taken from that of quality.
NIC_SHARE = 10
#: The situation of a node about whose GPUs nothing is told.
UNKNOWN = 0
_UNRATED = -1


def score(machine: Machine | None, free: int, ask: Ask | int, free_nics: int = 0) -> int:
    """Return 0 to 100: what the best free set is worth to a pod, NVLink first, then NICs, then what stays connected.

    Without NICs nine tenths are quality and one tenth is what stays; a pod that asks for NICs gives them one tenth of the quality.
    Quality is the set's bandwidth as a share of the best that an empty machine of this type has, so a step of 12 points
    outweighs what stays, and one of 25 all else.  Several GPUs without any NVLink between them have quality 0, on a machine that
    has no NVLink too: it never comes before one that connects them.  What is lost to later pods counts as a share of the whole
    machine, so that an odd pair is taken before an empty machine is broken; where there is no NVLink, nothing is lost.  0 if too
    few are free, or NICs that are required are too far.
    """
    ask = Ask(ask) if isinstance(ask, int) else ask
    if machine is None:
        return _folded(FULL if ask.gpus == 1 and ask.required is None else 0, 0, 0, ask)
    table = table_of(machine)
    near = ask.near(free_nics)
    best = table.best_near(free, ask.gpus, near) if ask.nics else table.best(free, ask.gpus)
    if best is None:
        return 0
    ideal = table.best(machine.all_gpus, ask.gpus)
    most = ideal.bandwidth_gbps if ideal is not None else 0
    quality = FULL if ask.gpus == 1 else FULL * best.bandwidth_gbps // most if most else 0
    lost = lost_of(machine, free, best.mask)
    return _folded(quality, choose_nics(machine, best.mask, near).quality if ask.nics else 0, lost, ask)


def lost_of(machine: Machine, free: int, taken: int) -> int:
    """Return what later pods lose by a set, in percent of what the whole machine has; 0 where there is no NVLink."""
    harm = table_of(machine).harm_of(free, taken) if machine.nvlink_gbps.any() else 0
    return harm * free.bit_count() // machine.gpu_count


def _folded(quality: int, nic_quality: int, lost: int, ask: Ask) -> int:
    nic_share = NIC_SHARE if ask.nics else 0
    shares = (QUALITY_SHARE - nic_share) * quality + nic_share * nic_quality
    return (shares + (FULL - QUALITY_SHARE) * (FULL - lost)) // FULL


class Situations:
    """All situations seen, numbered in the order of appearance, with their scores."""

    def __init__(self) -> None:
        """Start with `UNKNOWN` alone."""
        self._situations: list[tuple[Machine | None, int, int]] = [(None, 0, 0)]
        self._numbers: dict[tuple[Machine, int, int], int] = {}
        self._scores: dict[Ask, Ints] = {}

    def __len__(self) -> int:
        """Count the situations."""
        return len(self._situations)

    def number_of(self, machine: Machine, free: int, free_nics: int) -> int:
        """Return the number of a situation."""
        number = self._numbers.setdefault((machine, free, free_nics), len(self._situations))
        if number == len(self._situations):
            self._situations.append((machine, free, free_nics))
        return number

    def is_near(self, number: int, ask: Ask) -> bool:
        """Tell whether a situation has a set of free GPUs with as many free NICs as asked, all as near as required."""
        machine, free, free_nics = self._situations[number]
        return machine is not None and table_of(machine).best_near(free, ask.gpus, ask.near(free_nics)) is not None

    def is_ever_near(self, number: int, ask: Ask) -> bool:
        """Tell whether the machine of a situation would have one if nothing were taken."""
        machine = self._situations[number][0]
        if machine is None:
            return False
        every = ask.near((1 << len(machine.nics)) - 1)
        return table_of(machine).best_near(machine.all_gpus, ask.gpus, every) is not None

    def scores(self, numbers: Ints, ask: Ask) -> Ints:
        """Return the score for a pod in each situation, shape of `numbers`."""
        known = self._scores.get(ask)
        if known is None or len(known) < len(self._situations):
            wider = np.full(2 * len(self._situations), _UNRATED, dtype=np.int64)
            if known is not None:
                wider[: len(known)] = known
            known = self._scores[ask] = wider
        found = known[numbers]
        unrated = numbers[found == _UNRATED]
        if not len(unrated):
            return found
        for number in np.unique(unrated).tolist():
            machine, free, free_nics = self._situations[number]
            known[number] = score(machine, free, ask, free_nics)
        return known[numbers]
