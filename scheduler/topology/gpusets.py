"""Which GPUs a pod should get: the best set of k free GPUs of a machine, what it is worth, and what it costs the next pod.

One `GpuSetTable` serves all nodes of a machine type; `table_of` keeps it. A mask has bit i set for GPU i. "The bandwidth of a
set" is defined in `graph`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from .besteffort import BestEffortPolicy, pair_scores
from .graph import Machine, TopologyError, gpus_of_mask
from .nics import NicAsk, NicPreference, choose_nics, gpu_order
from .setsearch import MAX_TABLED_GPUS, GrownSearch, SetSearch, TabledSearch, UniformSearch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_NEXT_SIZES = (2, 4, 8, 16, 32)
"""Sizes that later pods are expected to ask for: powers of two, as parallel training does."""

_MOST_FILLED_GPUS = 8
"""Up to so many GPUs, the first question about a size answers it for every mask; for more, each mask when it is asked about."""

_MAX_KEPT_ANSWERS = 16_384
"""Answers kept for one machine type; 8 GPUs have 1,024 questions in all."""


@dataclass(frozen=True)
class GpuSet:
    """A set of GPUs of one machine; `is_connected`: NVLink leads from each to each inside the set, a single GPU included."""

    mask: int
    gpus: tuple[int, ...]
    bandwidth_gbps: int
    is_connected: bool


class GpuSetTable:
    """Answers about GPU sets of one machine type; pure, and it remembers its answers."""

    def __init__(self, machine: Machine) -> None:
        """Choose the search by the machine; tables for a size are built when it is first asked."""
        self.machine = machine
        self._search = _search_of(machine.pair_weights, gpu_order(machine))
        self._policy = BestEffortPolicy(pair_scores(machine))
        self._peers = [sum(1 << int(p) for p in np.flatnonzero(row)) for row in machine.nvlink_gbps]
        self._kept_near: OrderedDict[tuple[int, int, NicAsk], GpuSet | None] = OrderedDict()
        self._kept: OrderedDict[tuple[int, int], GpuSet] = OrderedDict()

    def best(self, free_mask: int, k: int) -> GpuSet | None:
        """Return the best set of k free GPUs, or None when fewer are free.

        Chosen by bandwidth, then by what it leaves behind: the bandwidths of the heaviest sets of 2, 4, 8, … and k GPUs among
        the rest; then by PCIe closeness, its own and theirs; then by the lowest rails and indices (`gpu_order`). So one GPU is taken where the rest
        loses least. The first answer for a mask (of up to 8 GPUs: for a size) costs what `setsearch` says, later ones O(1). Raises
        TopologyError for a mask outside the machine or k < 0.
        """
        kept = self._kept.get((free_mask, k))
        if kept is not None:
            return kept
        self._check(free_mask, k)
        if k > free_mask.bit_count():
            return None
        if k and isinstance(self._search, TabledSearch) and self.machine.gpu_count <= _MOST_FILLED_GPUS:
            return self._fill(self._search, k)[free_mask, k]
        if len(self._kept) >= _MAX_KEPT_ANSWERS:
            self._kept.popitem(last=False)
        mask = self._search.choose(free_mask, k, sorted({*_NEXT_SIZES, k})) if k else 0
        best = self._kept[free_mask, k] = self._set_of(mask)
        return best

    def _fill(self, search: TabledSearch, k: int) -> Mapping[tuple[int, int], GpuSet]:
        """Answer for every mask at once."""
        chosen = search.choose_all(k, sorted({*_NEXT_SIZES, k})).tolist()
        sets = {mask: self._set_of(mask) for mask in set(chosen) if mask >= 0}
        self._kept.update({(free, k): sets[mask] for free, mask in enumerate(chosen) if mask >= 0})
        return self._kept

    def best_near(self, free_mask: int, k: int, ask: NicAsk) -> GpuSet | None:
        """Return the best set for a pod that asks for NICs as well; None when too few GPUs, or NICs that are near enough, are free.

        Compared are its bandwidth, then how near as many NICs as asked are, then as in `best`.  With more GPUs than a table can
        hold, NICs decide only whether the best set will do.
        """
        key = (free_mask, k, ask)
        if key not in self._kept_near:
            if len(self._kept_near) >= _MAX_KEPT_ANSWERS:
                self._kept_near.popitem(last=False)
            self._kept_near[key] = self._find_near(free_mask, k, ask)
        return self._kept_near[key]

    def _find_near(self, free_mask: int, k: int, ask: NicAsk) -> GpuSet | None:
        self._check(free_mask, k)
        if k == 0 or k > free_mask.bit_count() or self._tabled is None:
            best = self.best(free_mask, k)
            if best is None or ask.required is None:
                return best
            scope = choose_nics(self.machine, best.mask, ask).scope
            return best if scope is not None and scope >= ask.required else None
        mask = self._tabled.choose_near(free_mask, k, sorted({*_NEXT_SIZES, k}), self._near, ask)
        return None if mask is None else self._set_of(mask)

    @cached_property
    def _near(self) -> NicPreference:
        return NicPreference(self.machine)

    @cached_property
    def _tabled(self) -> TabledSearch | None:
        """The table of all sets, also where all pairs weigh the same; None with too many GPUs for one."""
        if isinstance(self._search, TabledSearch):
            return self._search
        return (
            TabledSearch(self.machine.pair_weights, gpu_order(self.machine))
            if self.machine.gpu_count <= MAX_TABLED_GPUS
            else None
        )

    def set_of(self, mask: int) -> GpuSet:
        """Return the set of a mask; raises TopologyError for one outside the machine."""
        self._check(mask, 0)
        return self._set_of(mask)

    def quality(self, free_mask: int, k: int) -> int:
        """Return the bandwidth of the best set as a percentage, rounded down, of the best on an empty machine.

        It is 100 where no set of k has NVLink at all (k = 1, PCIe-only machines), and 0 when fewer than k GPUs are free.
        """
        best = self.best(free_mask, k)
        ideal = self.best(self.machine.all_gpus, k)
        if best is None or ideal is None:
            return 0
        return 100 * best.bandwidth_gbps // ideal.bandwidth_gbps if ideal.bandwidth_gbps else 100

    def harm(self, free_mask: int, k: int) -> int:
        """Return how much of what later pods could get is lost by taking the best set: a percentage, rounded down.

        Measured over the heaviest sets of 2, 4, 8, … free GPUs before and after; 0 when nothing is lost or nothing fits. It
        tells nodes apart for which `quality` is the same: an odd free GPU is cheap, breaking a free quartet is dear.
        """
        best = self.best(free_mask, k)
        return 0 if best is None else self.harm_of(free_mask, best.mask)

    def harm_of(self, free_mask: int, taken: int) -> int:
        """Return the same for any set."""
        before = self._worth(free_mask)
        return 100 * (before - self._worth(free_mask & ~taken)) // before if before else 0

    def best_effort(self, free_mask: int, k: int) -> GpuSet | None:
        """Return the set that NVIDIA's device plugin would hand out (`besteffort`), or None when fewer than k are free."""
        self._check(free_mask, k)
        mask = self._policy.pick(free_mask, k)
        return None if mask is None else self._set_of(mask)

    def _check(self, free: int, k: int) -> None:
        if not 0 <= free <= self.machine.all_gpus or k < 0:
            raise TopologyError(
                f"free mask {free:#x}, k {k}: allowed are masks from 0 to {self.machine.all_gpus:#x}, k from 0"
            )

    def _worth(self, free: int) -> int:
        """Sum the heaviest sets of each next size that fits into the free GPUs."""
        return sum(self._search.heaviest(free, size) for size in _NEXT_SIZES if size <= free.bit_count())

    def _set_of(self, mask: int) -> GpuSet:
        gpus = gpus_of_mask(mask)
        bandwidth = int(self.machine.nvlink_gbps[np.ix_(gpus, gpus)].sum()) // 2 if gpus else 0
        return GpuSet(mask, gpus, bandwidth, self._is_connected(mask))

    def _is_connected(self, mask: int) -> bool:
        """Spread from the lowest GPU over NVLink inside the mask; the empty set is connected."""
        reached, frontier = 0, mask & -mask
        while frontier:
            reached |= frontier
            peers = 0
            for gpu in gpus_of_mask(frontier):
                peers |= self._peers[gpu]
            frontier = peers & mask & ~reached
        return reached == mask


def _search_of(pair_weights: NDArray[np.int64], order: Sequence[int]) -> SetSearch:
    """Return the cheapest search that is right for these weights."""
    count = len(pair_weights)
    off_diagonal = pair_weights[~np.eye(count, dtype=bool)]
    if count == 1 or (off_diagonal == off_diagonal[0]).all():
        return UniformSearch(int(off_diagonal[0]) if count > 1 else 0, order)
    return TabledSearch(pair_weights, order) if count <= MAX_TABLED_GPUS else GrownSearch(pair_weights)


@lru_cache(maxsize=256)
def table_of(machine: Machine) -> GpuSetTable:
    """Return the table of a machine type; equal machines share one."""
    return GpuSetTable(machine)
