"""QueueWriter: the status of Queue objects of ours.

For the binder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.model.promise import time_text

from .usable_writer import Owner, UsableWriter

if TYPE_CHECKING:
    from scheduler.framework.effects import QueuePlace, SetQueueStatus


class QueueWriter(UsableWriter):
    """Writes the status of a Queue."""

    plural = "queues"

    async def set_status(self, effect: SetQueueStatus) -> bool:
        """Write the status unless the object says that already, or another scheduler's; tell whether it was written."""
        usable = {
            "status": effect.usable,
            "reason": effect.reason,
            "message": effect.message,
            "observedGeneration": effect.observed_generation,
        }
        owner = Owner("" if effect.is_named else effect.scheduler)
        return await self._write(effect.name, effect.uid, usable, _fields(effect), owner)


def _fields(effect: SetQueueStatus) -> dict[str, Any]:
    """Return the status but for its condition."""
    return {
        "observedGeneration": effect.observed_generation,
        "scheduler": effect.scheduler,
        "resources": [
            {
                "name": one.name,
                "guaranteed": one.guaranteed,
                "allocated": one.allocated,
                "requested": one.requested,
                "fairShare": one.fair_share,
            }
            for one in effect.resources
        ],
        "share": effect.share,
        "pendingWorkloads": effect.pending_count,
        "pending": [place_of(place) for place in effect.pending],
    }


def place_of(place: QueuePlace) -> dict[str, Any]:
    """Return a place in a queue as the API has it."""
    said = {"position": place.position, "kind": place.kind, "namespace": place.namespace, "name": place.name}
    said |= {"reason": place.reason} if place.reason else {}
    return said | ({"promisedStart": time_text(place.promised_start)} if place.promised_start is not None else {})
