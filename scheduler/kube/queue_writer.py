"""QueueWriter: the status of Queue objects of ours; those of other projects are never written.

For the binder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.model.gang import PREFIX

from .writer import now_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.framework.effects import QueuePlace, SetQueueStatus

    from .client import Client

PATH = f"/apis/{PREFIX}/v1alpha1/queues"
USABLE = "Usable"


class QueueWriter:
    """Writes the status of a Queue."""

    def __init__(self, client: Client, now: Callable[[], str] = now_text) -> None:
        """Keep the client."""
        self._client = client
        self._now = now

    async def set_status(self, effect: SetQueueStatus) -> bool:
        """Write the status unless the object says that already; tell whether there was something to write.

        The object is read first, so that a restart writes nothing and the transition time survives.
        """
        path = f"{PATH}/{effect.name}"
        found = await self._client.get(path)
        known = found.get("status") or {}
        status = _status(effect, known, self._now())
        if known == status:
            return False
        await self._client.patch(f"{path}/status", {"metadata": {"uid": effect.uid}, "status": status})
        return True


def _status(effect: SetQueueStatus, known: dict[str, Any], now: str) -> dict[str, Any]:
    """Return the whole status."""
    former: dict[str, Any] = next((one for one in known.get("conditions") or () if one.get("type") == USABLE), {})
    condition = {
        "type": USABLE,
        "status": effect.usable,
        "reason": effect.reason,
        "message": effect.message,
        "observedGeneration": effect.observed_generation,
        "lastTransitionTime": former.get("lastTransitionTime") if former.get("status") == effect.usable else now,
    }
    return {
        "observedGeneration": effect.observed_generation,
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
        "conditions": [condition],
    }


def place_of(place: QueuePlace) -> dict[str, Any]:
    """Return a place in a queue as the API has it."""
    said = {"position": place.position, "kind": place.kind, "namespace": place.namespace, "name": place.name}
    return said | ({"reason": place.reason} if place.reason else {})
