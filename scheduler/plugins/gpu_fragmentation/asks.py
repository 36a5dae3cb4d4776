"""What a pod asks of GPUs: so many, and how much of each.

For the plugin beside it.  Two resources count GPUs: one whole GPUs, the other thousandths.  An amount of thousandths below 1000 is a
share of one GPU, a multiple of 1000 is whole GPUs; nothing else can be had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

#: A whole GPU, in thousandths.
WHOLE = 1000


class GpuAsk(NamedTuple):
    """What one pod asks for."""

    gpus: int
    #: Thousandths of each.
    milli: int
    #: Asked for in thousandths, so on nodes that offer these; else in whole GPUs.
    of_shares: bool


def gpus_asked(requests: Mapping[str, int], whole: str, shares: str) -> GpuAsk | None:
    """Return what requests ask of GPUs; None if nothing, or what cannot be had.  Shares come before whole GPUs."""
    if (milli := requests.get(shares, 0)) > 0:
        return share_asked(milli)
    count = requests.get(whole, 0)
    return GpuAsk(count, WHOLE, of_shares=False) if count > 0 else None


def share_asked(milli: int) -> GpuAsk | None:
    """Return what so many thousandths are; None if nothing, or what cannot be had."""
    if milli <= 0 or (milli > WHOLE and milli % WHOLE):
        return None
    return GpuAsk(1, milli, of_shares=True) if milli < WHOLE else GpuAsk(milli // WHOLE, WHOLE, of_shares=True)


def best_fit(left: list[int], ask: GpuAsk) -> list[int]:
    """Return the indices of the GPUs that an ask gets: those with the least left that suffices, then the lowest.

    `left` is thousandths by GPU.  Fewer than asked for if there are not enough.  O(n log n).
    """
    fitting = sorted((milli, gpu) for gpu, milli in enumerate(left) if milli >= ask.milli)
    return [gpu for _, gpu in fitting[: ask.gpus]]
