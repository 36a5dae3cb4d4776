"""Asking: what a node can do for claims without devices, with what is around them: others who wait there, and claims that are freed.

For the plugin and the boards beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.framework.status import Code, Status

from .answers import FULL_FOR_NOW, Answer, freed_claims
from .claimants import lifted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.model.device_claims import DeviceClaim
    from scheduler.state.rows import Row

    from .answers import Answers, Claimant
    from .claimants import Waiters
    from .world import World


@dataclass(frozen=True, slots=True)
class Asking:
    """Whom to ask: the world, the allocator behind `answers`, and how."""

    world: World
    answers: Answers
    waiters: Waiters
    #: Returns a node as it is, by its name.
    view: Callable[[str], Row | None]
    #: Devices of victims are counted on.
    releases: bool
    #: Links count.
    prefers_connected: bool

    def answer(
        self, claims: Sequence[DeviceClaim], row: Row, others: Sequence[Claimant], *, is_usable: bool = True
    ) -> Answer:
        """Return what a row can do; `is_usable`: those claims of the pod that have devices can be used there."""
        releases, place = self.releases and is_usable, self.world.place(row.node)
        freed = self.freed(row) if releases else []
        answer = self.answers.ask(claims, place, others, freed)
        if releases and is_refused(answer.status) and (gone := self.releasable(row)):
            emptied = self.answers.ask(claims, place, others, [*freed, *gone])
            if emptied.status is None:
                return Answer(status=Status.unschedulable(FULL_FOR_NOW))
        return answer

    def freed(self, row: Row) -> list[DeviceClaim]:
        """Return the claims that are free in a what-if, as pods were taken off a row."""
        gone = lifted(self.view(row.node.name), row)
        return freed_claims(gone, self.world) if gone else []

    def releasable(self, row: Row) -> list[DeviceClaim]:
        """Return the claims that would be free if everybody left a row who was placed there."""
        gone = [other for other in row.pods.values() if other.node_name and (other.claims or other.extended_claim)]
        return freed_claims(gone, self.world) if gone else []


def is_refused(status: Status | None) -> bool:
    """Tell whether a node has no devices as things are, which may be because others have them."""
    return status is not None and status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
