"""UsableWriter: writes the status of cluster-scoped objects of ours that tells, among others, whether they are usable.

For the writers of Queues and Topologies; those of other projects are never written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from scheduler.model.gang import PREFIX

from .client import CONFLICT, ApiError
from .writer import now_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from .client import Client

USABLE = "Usable"


class Owner(NamedTuple):
    """Whose status it is, if not everybody's."""

    #: The scheduler that may write where no other one has written; empty: it writes in any case.
    name: str


EVERYBODY = Owner("")


class UsableWriter:
    """Writes the status of the objects of one kind."""

    #: The kind as paths have it.
    plural = ""

    def __init__(self, client: Client, now: Callable[[], str] = now_text) -> None:
        """Keep the client."""
        self._client = client
        self._now = now

    async def _write(
        self, name: str, uid: str, usable: dict[str, Any], others: dict[str, Any], owner: Owner = EVERYBODY
    ) -> bool:
        """Write a condition and other fields unless the object says all that already; tell whether there was something to write.

        The object is read first, so that a restart writes nothing and the transition time survives.  A status that is another
        owner's stays as it is; of two who write the first one, one is refused, and looks again.
        """
        path = f"/apis/{PREFIX}/v1alpha1/{self.plural}/{name}"
        for is_last in (False, True):
            found = await self._client.get(path)
            known: dict[str, Any] = found.get("status") or {}
            if owner.name and known.get("scheduler") not in (None, "", owner.name):
                return False
            former: dict[str, Any] = next(
                (one for one in known.get("conditions") or () if one.get("type") == USABLE), {}
            )
            is_same = former.get("status") == usable["status"]
            since = former.get("lastTransitionTime") if is_same else self._now()
            status = {**others, "conditions": [{"type": USABLE, **usable, "lastTransitionTime": since}]}
            if all(known.get(field) == said for field, said in status.items()):
                return False
            meta = {"uid": uid}
            if owner.name and not known.get("scheduler") and (version := found["metadata"].get("resourceVersion")):
                meta["resourceVersion"] = version
            try:
                await self._client.patch(f"{path}/status", {"metadata": meta, "status": status})
            except ApiError as error:
                if is_last or error.status != CONFLICT or "resourceVersion" not in meta:
                    raise
            else:
                return True
        return False
