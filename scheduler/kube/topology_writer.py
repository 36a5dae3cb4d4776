"""TopologyWriter: the status of Topology objects of ours; those of other projects are never written.

For the binder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.model.gang import PREFIX

from .writer import now_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.framework.effects import SetTopologyStatus

    from .client import Client

PATH = f"/apis/{PREFIX}/v1alpha1/topologies"
USABLE = "Usable"


class TopologyWriter:
    """Writes one condition of a Topology."""

    def __init__(self, client: Client, now: Callable[[], str] = now_text) -> None:
        """Keep the client."""
        self._client = client
        self._now = now

    async def set_status(self, effect: SetTopologyStatus) -> bool:
        """Write the condition unless the object says that already; tell whether there was something to write.

        The object is read first, so that a restart writes nothing and the transition time survives.
        """
        path = f"{PATH}/{effect.name}"
        found = await self._client.get(path)
        known = _condition((found.get("status") or {}).get("conditions") or [])
        is_same_status = known.get("status") == effect.status
        condition = {
            "type": USABLE,
            "status": effect.status,
            "reason": effect.reason,
            "message": effect.message,
            "observedGeneration": effect.observed_generation,
            "lastTransitionTime": known.get("lastTransitionTime") if is_same_status else self._now(),
        }
        if known == condition:
            return False
        body = {"metadata": {"uid": effect.uid}, "status": {"conditions": [condition]}}
        await self._client.patch(f"{path}/status", body)
        return True


def _condition(conditions: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the condition as it is, or an empty mapping."""
    return next((condition for condition in conditions if condition.get("type") == USABLE), {})
