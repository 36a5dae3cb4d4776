"""UsableWriter: writes the status of cluster-scoped objects of ours that tells, among others, whether they are usable.

For the writers of Queues and Topologies; those of other projects are never written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.model.gang import PREFIX

from .writer import now_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from .client import Client

USABLE = "Usable"


class UsableWriter:
    """Writes the status of the objects of one kind."""

    #: The kind as paths have it.
    plural = ""

    def __init__(self, client: Client, now: Callable[[], str] = now_text) -> None:
        """Keep the client."""
        self._client = client
        self._now = now

    async def _write(self, name: str, uid: str, usable: dict[str, Any], others: dict[str, Any]) -> bool:
        """Write a condition and other fields unless the object says all that already; tell whether there was something to write.

        The object is read first, so that a restart writes nothing and the transition time survives.
        """
        path = f"/apis/{PREFIX}/v1alpha1/{self.plural}/{name}"
        known: dict[str, Any] = (await self._client.get(path)).get("status") or {}
        former: dict[str, Any] = next((one for one in known.get("conditions") or () if one.get("type") == USABLE), {})
        is_same = former.get("status") == usable["status"]
        since = former.get("lastTransitionTime") if is_same else self._now()
        status = {**others, "conditions": [{"type": USABLE, **usable, "lastTransitionTime": since}]}
        if all(known.get(field) == said for field, said in status.items()):
            return False
        await self._client.patch(f"{path}/status", {"metadata": {"uid": uid}, "status": status})
        return True
