"""Policies of our own that know no run times: the least attained service first, held back; and first come, first served.

For `holding`.  Both are what a cluster can do: whoever holds GPUs keeps them, unless the one that wants them has had far less.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .work import Work

#: GPU-seconds within which all jobs are new.
NEW_SERVICE = 3600.0
#: A job that has had so many times the service is of the next rank.
RANK_RATIO = 30.0
#: For so many seconds nobody is preempted after a start.
LEAST_RUN_SECONDS = 3600.0


class Attained:
    """The least attained service (GPU-seconds) first, by ranks whose services lie far apart.

    A job is preempted only by one of a lower rank, and not soon after its start: so GPUs change hands seldom, while no new job
    waits long for those that have had much.
    """

    passes = True

    def __init__(
        self, new_service: float = NEW_SERVICE, ratio: float = RANK_RATIO, least_run_seconds: float = LEAST_RUN_SECONDS
    ) -> None:
        """Take what ranks begin with (GPU-seconds), how far apart they are, and how long a start is respected (seconds)."""
        self._new_service = new_service
        self._ratio = ratio
        self._least_run_seconds = least_run_seconds

    def rank(self, work: Work) -> float:
        """Return the number of the rank, 0 for new jobs."""
        attained = work.attained
        if attained < self._new_service:
            return 0
        return 1 + math.floor(math.log(attained / self._new_service, self._ratio))

    def may_preempt(self, work: Work, victim: Work) -> bool:
        """Tell whether a job has had so much less than one that has run for a while."""
        return self.rank(victim) > self.rank(work) and victim.held_since_start >= self._least_run_seconds

    def seconds_to_change(self, work: Work) -> float:
        """Return for how long it stays in its rank, or safe from others."""
        limit: float = self._new_service * self._ratio ** self.rank(work)
        left = max((limit - work.attained) / work.job.gpus, 1.0)
        safe = self._least_run_seconds - work.held_since_start
        return min(left, safe) if safe > 0 else left

    def ended(self, work: Work) -> None:
        """Nothing is learned."""


class Fifo:
    """First come, first served: nobody passes one that came before, and nobody is preempted."""

    passes = False

    def rank(self, work: Work) -> float:
        """All are alike: the first one that came starts first."""
        return work.number

    def may_preempt(self, work: Work, victim: Work) -> bool:  # noqa: ARG002 - the policies' signature
        """Nobody is."""
        return False

    def seconds_to_change(self, work: Work) -> float:  # noqa: ARG002 - likewise
        """Nothing changes."""
        return math.inf

    def ended(self, work: Work) -> None:
        """Nothing is learned."""
