"""Backfill: who may run ahead of a workload that waits for room, and what such a workload is promised.

For SchedulerConfiguration.
"""

from typing import Final, Literal

from pydantic import Field

from .base import ConfigurationModel

BackfillPolicy = Literal["easy", "conservative", "none"]
_LONGEST_SECONDS: Final = 30 * 86_400


class Backfill(ConfigurationModel):
    """Who may run ahead of what waits for room, and when room is held for it."""

    policy: BackfillPolicy = "easy"
    """`easy`: the first of those that wait for room has nodes and a start time reserved, and whoever comes after it runs
    ahead only where that does not delay it. `conservative`: everyone that waits for room has such a reservation. `none`:
    no room is reserved or held for anybody that waits."""
    hold_after_seconds: int = Field(default=300, ge=0, le=_LONGEST_SECONDS)
    """Where too few run times are known to reserve a start, the first of those that wait has nodes held after waiting
    for so long: nothing else starts there, until it fits."""
    hold_seconds: int = Field(default=3600, ge=1, le=_LONGEST_SECONDS)
    """How long nodes are held the first time. Where that is not enough, they are free for as long, and then held
    for twice as long, and so on; docs/backfill.md has the bound."""
    learn_run_times: bool = False
    """Take the median of what earlier workloads of the same owner ran for where nothing states how long one will run."""
