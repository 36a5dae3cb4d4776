"""What NVIDIA's device plugin would choose: the "best effort" policy of go-gpuallocator, retold.

With a device plugin the kubelet chooses the GPUs; this tells which it probably chose for a pod that nobody annotated. The
policy splits all free GPUs into sets of the requested size so that the summed score of the sets is highest, and takes the set
with the highest score of that split. Source: NVIDIA/go-gpuallocator (Apache-2.0), `besteffort_policy.go` and `links/device.go`.

Limits: the kubelet names the free GPUs in no fixed order, while ties here go to the lowest indices, and the kubelet's topology
manager may have narrowed the choice to a NUMA node first. So the answer is an assumption and is published as such.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

from .graph import gpus_of_mask, mask_of_gpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from .graph import Machine
    from .pcie import PcieClass

MAX_SPLIT_GPUS = 12
"""Free GPUs up to which all splits are compared; among more, one set is grown, which is exact where all pairs score alike."""

_SCORE_PER_CLASS = 10
_SCORE_PER_NVLINK = 100


def pair_score(pcie_class: PcieClass, direct_links: int) -> int:
    """Return the policy's score of a pair: 10 (SYS) to 60 (PSB) for PCIe, 0 if unknown, and 100 for each direct NVLink."""
    return _SCORE_PER_CLASS * int(pcie_class) + _SCORE_PER_NVLINK * direct_links


def pair_scores(machine: Machine) -> NDArray[np.int64]:
    """Return the matrix of pair scores; NVLinks that end at an NVSwitch count nothing, as the policy does not see them."""
    return _SCORE_PER_CLASS * machine.pcie + _SCORE_PER_NVLINK * machine.direct_links


class BestEffortPolicy:
    """The policy for one matrix of pair scores; pure, and it remembers its answers."""

    def __init__(self, scores: NDArray[np.int64]) -> None:
        """Keep the scores; `scores` is symmetric with an empty diagonal."""
        self._scores: list[list[int]] = scores.tolist()
        self.pick = lru_cache(maxsize=4096)(self._pick)
        self._score = lru_cache(maxsize=1 << 16)(self._score_of_set)

    def _pick(self, free: int, k: int, required: int = 0) -> int | None:
        """Return the mask that the policy picks, or None when it picks nothing; 0 GPUs are an empty mask.

        `required` are GPUs that must be among them: the kubelet names those that an init container of the pod already has.
        It picks nothing when fewer than k are free, or when the required ones are more than k or not all free.
        """
        if k > free.bit_count() or required.bit_count() > k or required & ~free:
            return None
        if k <= 1:
            return required if required or k == 0 else free & -free
        if k == free.bit_count():
            return free
        if free.bit_count() > MAX_SPLIT_GPUS:
            return self._grown(free, k, required)
        sets = self._best_split(free, k, required)
        return max((s for s in sets if s & required == required and s.bit_count() == k), key=self._score)

    def _best_split(self, free: int, k: int, required: int) -> list[int]:
        """Return the split of the highest total; of equal ones the first in the order in which the policy walks them.

        Sets are walked by their lowest GPU, and for one lowest GPU in lexicographic order. The remainder of the division is
        one smaller set, which the policy pads at its end with nothing. A set with all required GPUs must be in the split.
        """
        totals: dict[int, tuple[int, list[int]] | None] = {0: (0, [])}

        def best(rest: int) -> tuple[int, list[int]] | None:
            if rest not in totals:
                found = None
                for chosen in _first_sets(rest, k, required):
                    after = best(rest & ~chosen)
                    if after is not None and (found is None or self._score(chosen) + after[0] > found[0]):
                        found = (self._score(chosen) + after[0], [chosen, *after[1]])
                totals[rest] = found
            return totals[rest]

        split = best(free)
        assert split is not None, "a split with the required GPUs in one set always exists"
        return split[1]

    def _grown(self, free: int, k: int, required: int) -> int:
        """Return a set grown by the GPU that adds most, from the required ones or the best start; ties go to low indices."""
        grown = []
        for seed in [required] if required else [1 << gpu for gpu in gpus_of_mask(free)]:
            chosen = seed
            while chosen.bit_count() < k:
                rest = gpus_of_mask(free & ~chosen)
                chosen |= 1 << max(rest, key=lambda gpu: sum(self._scores[gpu][c] for c in gpus_of_mask(chosen)))
            grown.append(chosen)
        return max(grown, key=self._score)

    def _score_of_set(self, mask: int) -> int:
        return sum(self._scores[one][other] for one, other in combinations(gpus_of_mask(mask), 2))


def _first_sets(rest: int, k: int, required: int) -> Iterator[int]:
    """Yield the sets that may hold the lowest GPU: those of k, and of the remainder of the division, in the policy's order.

    A set that splits the required GPUs, or is the smaller one and has any, is left out.
    """
    lowest, *others = gpus_of_mask(rest)
    beyond = others[-1] + 1 if others else 0
    picks = list(combinations(others, k - 1))
    remainder = len(others) + 1 - k * ((len(others) + 1) // k)
    if remainder:
        padding = (beyond,) * (k - remainder)
        picks = sorted([*picks, *((*pick, *padding) for pick in combinations(others, remainder - 1))])
    for pick in picks:
        mask = 1 << lowest | mask_of_gpus(gpu for gpu in pick if gpu != beyond)
        if mask & required in (0, required) and (mask.bit_count() == k or not mask & required):
            yield mask
