"""Finds the best set of k GPUs among the free ones, in three ways for three kinds of machine.

A search knows pair weights only (GB/s, with PCIe closeness in the low bits). `GpuSetTable` chooses one by machine.

| search | machines | exact | first answer | memory |
|---|---|---|---|---|
| UniformSearch | all pairs weigh the same | yes | O(k) | none |
| TabledSearch | up to 16 GPUs | yes | O(n · 2^n) numpy steps for each k, once | 2^n words for each k |
| GrownSearch | more | no: see there | O(n² · k) | none |
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from .graph import LOCALITY_BITS, gpus_of_mask, mask_of_gpus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from .nics import NicAsk, NicPreference

    #: From sets as masks to what each is worth.
    WorthOf = Callable[[NDArray[np.int64]], NDArray[np.int64]]

MAX_TABLED_GPUS = 16
"""2^16 masks of 8 bytes are half a megabyte for each k that is asked."""

_LOCALITY = (1 << LOCALITY_BITS) - 1
"""Low bits of a weight. The closeness of 16 GPUs sums to 720 at most, of the sets compared at once to 2,880: no carry."""


class SetSearch(Protocol):
    """What GpuSetTable asks; `free` has at least k bits, and k is at least 1."""

    def heaviest(self, free: int, k: int) -> int:
        """Return the summed pair weight of the heaviest set of k free GPUs."""

    def choose(self, free: int, k: int, next_sizes: Sequence[int]) -> int:
        """Return the mask of the best set of k free GPUs, of which later pods may ask for any of `next_sizes`.

        Compared are in this order: its bandwidth; the bandwidths of the heaviest sets of the next sizes among what it leaves;
        its PCIe closeness; that of those sets; and lower rails, then lower indices.
        """


class UniformSearch:
    """For machines whose pairs all weigh the same: any set is the heaviest, so the lowest indices are taken."""

    def __init__(self, weight: int, order: Sequence[int] | None = None) -> None:
        """Remember the weight of each pair, and the order in which GPUs are taken; without one, the lowest index first."""
        self._weight = weight
        self._ranks = {gpu: rank for rank, gpu in enumerate(order)} if order is not None else {}

    def heaviest(self, free: int, k: int) -> int:  # noqa: ARG002
        """Return the weight of k choose 2 pairs, whatever is free."""
        return self._weight * k * (k - 1) // 2

    def choose(self, free: int, k: int, next_sizes: Sequence[int]) -> int:  # noqa: ARG002
        """Return the k first free GPUs: all other sets are worth as much and leave as much behind."""
        return mask_of_gpus(sorted(gpus_of_mask(free), key=lambda gpu: self._ranks.get(gpu, gpu))[:k])


class TabledSearch:
    """For up to 16 GPUs: weights of all sets, and for each k the heaviest subset of every mask."""

    def __init__(self, pair_weights: NDArray[np.int64], order: Sequence[int] | None = None) -> None:
        """Sum the pair weights of all 2^n sets, by doubling: a set with GPU i is one without, plus its pairs with i.

        Of sets that are equal otherwise, the one comes first whose GPUs come first in `order`; without one, by index.
        """
        self._gpu_count = len(pair_weights)
        ranks = {gpu: rank for rank, gpu in enumerate(order if order is not None else range(self._gpu_count))}
        self._set_weights = np.zeros(1 << self._gpu_count, dtype=np.int64)
        self._sizes = np.zeros(1 << self._gpu_count, dtype=np.int64)
        self._order = np.zeros(1 << self._gpu_count, dtype=np.int64)
        for gpu in range(self._gpu_count):
            half = 1 << gpu
            pairs = np.zeros(half, dtype=np.int64)
            for other in range(gpu):
                pairs[1 << other : 2 << other] = pairs[: 1 << other] + pair_weights[gpu, other]
            self._set_weights[half : 2 * half] = self._set_weights[:half] + pairs
            self._sizes[half : 2 * half] = self._sizes[:half] + 1
            self._order[half : 2 * half] = self._order[:half] - (1 << (self._gpu_count - 1 - ranks[gpu]))
        self._heaviest = cache(self._heaviest_by_mask)
        self._sets = cache(self._sets_of_size)

    def heaviest(self, free: int, k: int) -> int:
        """Look the mask up in the table for k."""
        return int(self._heaviest(k)[free])

    def choose(self, free: int, k: int, next_sizes: Sequence[int]) -> int:
        """Compare all sets of k within the free GPUs at once; the order of `_sets` makes the first of equals the lowest."""
        sets = self._sets(k)
        return self._choose(sets[(sets & ~free) == 0], free, k, next_sizes, None)

    def choose_all(self, k: int, next_sizes: Sequence[int]) -> NDArray[np.int64]:
        """Return what `choose` does for every mask at once, -1 where it has fewer than k GPUs; O(2^n · sets of k), so for few GPUs."""
        sets, free = self._sets(k), np.arange(len(self._sizes), dtype=np.int64)[:, None]
        if not len(sets):
            return np.full(len(self._sizes), -1, dtype=np.int64)
        bandwidths = np.where((sets & ~free) == 0, self._set_weights[sets] >> LOCALITY_BITS, -1)
        is_best = (bandwidths == bandwidths.max(axis=1, keepdims=True)) & (bandwidths >= 0)
        left = free & ~sets
        worth = np.zeros(left.shape, dtype=np.int64)
        for size in next_sizes:
            worth += np.where(size <= self._sizes[free] - k, self._heaviest(size)[left], 0)
        keys = np.where(is_best, _key(worth, self._set_weights[sets] & _LOCALITY), -1)
        return np.where(is_best.any(axis=1), sets[keys.argmax(axis=1)], -1)

    def choose_near(self, free: int, k: int, next_sizes: Sequence[int], near: NicPreference, ask: NicAsk) -> int | None:
        """Return the best set that has NICs as near as required, NICs compared right after the bandwidth; None if none has."""
        sets = self._sets(k)
        inside = sets[(sets & ~free) == 0]
        inside = inside[near.allowed(inside, ask)]
        return self._choose(inside, free, k, next_sizes, lambda masks: near.worth(masks, ask)) if len(inside) else None

    def _choose(
        self, inside: NDArray[np.int64], free: int, k: int, next_sizes: Sequence[int], worth_of: WorthOf | None
    ) -> int:
        bandwidths = self._set_weights[inside] >> LOCALITY_BITS
        inside = inside[bandwidths == bandwidths.max()]
        if worth_of is not None:
            near = worth_of(inside)
            inside = inside[near == near.max()]
        left = free & ~inside
        worth = np.zeros(len(inside), dtype=np.int64)
        for size in next_sizes:
            if size <= free.bit_count() - k:
                worth += self._heaviest(size)[left]
        return int(inside[_key(worth, self._set_weights[inside] & _LOCALITY).argmax()])

    def _heaviest_by_mask(self, k: int) -> NDArray[np.int64]:
        """Return for each mask its heaviest subset of k (-1 where it has fewer GPUs): a maximum over subsets, bit by bit."""
        table = np.where(self._sizes == k, self._set_weights, -1)
        for gpu in range(self._gpu_count):
            halves = table.reshape(-1, 2, 1 << gpu)
            np.maximum(halves[:, 1], halves[:, 0], out=halves[:, 1])
        return table

    def _sets_of_size(self, k: int) -> NDArray[np.int64]:
        """Return all masks of k GPUs, those of the lowest indices first."""
        masks = np.flatnonzero(self._sizes == k)
        return masks[np.argsort(self._order[masks], kind="stable")]


def _key(worth: NDArray[np.int64], closeness: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what sets of equal bandwidth are compared by: bandwidths that are left, their own closeness, that of what is left."""
    key: NDArray[np.int64] = ((worth >> LOCALITY_BITS << LOCALITY_BITS | closeness) << LOCALITY_BITS) | (
        worth & _LOCALITY
    )
    return key


class GrownSearch:
    """For more than 16 GPUs of different pair weights: grows a set from each free GPU by the GPU that adds most.

    Not exact: it can miss the heaviest set where that has no heavy part to grow from, and what a set leaves behind does not
    count. No machine that NVIDIA sells as one node comes here today; annotated ones may.
    """

    def __init__(self, pair_weights: NDArray[np.int64]) -> None:
        """Keep the pair weights."""
        self._weights = pair_weights

    def heaviest(self, free: int, k: int) -> int:
        """Return the weight of the heaviest set that grows."""
        return self._grow_best(free, k)[0]

    def choose(self, free: int, k: int, next_sizes: Sequence[int]) -> int:  # noqa: ARG002
        """Return the heaviest set that grows."""
        return self._grow_best(free, k)[1]

    def _grow_best(self, free: int, k: int) -> tuple[int, int]:
        gpus = np.array(gpus_of_mask(free))
        inside = self._weights[np.ix_(gpus, gpus)]
        grown = [self._grow_from(inside, seed, k) for seed in range(len(gpus))]
        weight, chosen = max(grown, key=lambda found: (found[0], [-position for position in found[1]]))
        return weight, mask_of_gpus(int(gpus[position]) for position in chosen)

    @staticmethod
    def _grow_from(inside: NDArray[np.int64], seed: int, k: int) -> tuple[int, list[int]]:
        """Return weight and sorted positions of the set grown from one seed; ties go to the lowest position."""
        chosen, weight, gain = [seed], 0, inside[seed].copy()
        gain[seed] = -1
        while len(chosen) < k:
            best = int(gain.argmax())
            weight += int(gain[best])
            gain += inside[best]
            chosen.append(best)
            gain[chosen] = -1
        return weight, sorted(chosen)
