"""The "static" policy of go-gpuallocator for DGX machines: fixed sets for each size, of which the first that is free counts.

It knows the DGX-1 with P100 and with V100, and the DGX-2; of a size that has no sets it picks nothing. Source:
NVIDIA/go-gpuallocator (Apache-2.0), `staticdgx_policies.go`; its constructor for the DGX-2 hands out the policy of the DGX-1, which
is not retold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from .graph import mask_of_gpus
from .machines import DGX1_PASCAL_LINKS, DGX1_VOLTA_LINKS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Sets = tuple[tuple[int, ...], ...]

_DGX1_GPUS: Final = 8
_DGX2_GPUS: Final = 16


def _in_rows(gpu_count: int, size: int) -> Sets:
    return tuple(tuple(range(start, start + size)) for start in range(0, gpu_count, size))


DGX1_PASCAL_SETS: Final[Mapping[int, Sets]] = {
    1: _in_rows(8, 1), 2: ((0, 2), (1, 3), (4, 6), (5, 7)), 4: _in_rows(8, 4), 8: _in_rows(8, 8),
}  # fmt: skip
DGX1_VOLTA_SETS: Final[Mapping[int, Sets]] = {
    1: _in_rows(8, 1), 2: ((0, 3), (1, 2), (4, 7), (5, 6)), 4: _in_rows(8, 4), 8: _in_rows(8, 8),
}  # fmt: skip
DGX2_SETS: Final[Mapping[int, Sets]] = {size: _in_rows(16, size) for size in (1, 2, 4, 8, 16)}


def static_sets(direct_links: NDArray[np.int64]) -> Mapping[int, Sets] | None:
    """Return the sets of the DGX that has these direct links by pair, by size; None for any other machine."""
    if len(direct_links) == _DGX2_GPUS:
        return DGX2_SETS
    for links_by_pair, sets in ((DGX1_PASCAL_LINKS, DGX1_PASCAL_SETS), (DGX1_VOLTA_LINKS, DGX1_VOLTA_SETS)):
        expected = np.zeros((_DGX1_GPUS, _DGX1_GPUS), dtype=np.int64)
        for (one, other), links in links_by_pair.items():
            expected[one, other] = expected[other, one] = links
        if np.array_equal(direct_links, expected):
            return sets
    return None


def pick_static(sets: Mapping[int, Sets], free: int, k: int, required: Sequence[int] = ()) -> int:
    """Return the mask of the first set of k that is free and has all required GPUs; 0 if there is none."""
    needed = mask_of_gpus(required)
    for gpus in sets.get(k, ()):
        mask = mask_of_gpus(gpus)
        if not mask & ~free and not needed & ~mask:
            return mask
    return 0
