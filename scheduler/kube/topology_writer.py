"""TopologyWriter: the status of Topology objects of ours.

For the binder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .usable_writer import UsableWriter

if TYPE_CHECKING:
    from scheduler.framework.effects import SetTopologyStatus


class TopologyWriter(UsableWriter):
    """Writes one condition of a Topology."""

    plural = "topologies"

    async def set_status(self, effect: SetTopologyStatus) -> bool:
        """Write the condition unless the object says that already; tell whether there was something to write."""
        usable = {
            "status": effect.status,
            "reason": effect.reason,
            "message": effect.message,
            "observedGeneration": effect.observed_generation,
        }
        return await self._write(effect.name, effect.uid, usable, {})
