"""The machines that the ResourceSlices of nodes tell: the source that is trusted most.

For whoever reads machines by node: the plugin of NVLinks, and the warnings about what cannot be used.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from scheduler.devices.connections import machine_of_slices
from scheduler.devices.pools import Catalog, Site
from scheduler.model.devices import DeviceSlice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.topology import Machine

    from .objects import Objects


def machine_told_by(slices: Iterable[DeviceSlice], node_name: str) -> Machine | None:
    """Return the machine that slices tell of a node; None if they tell none."""
    own = [each for each in slices if each.where.node_name == node_name]
    return machine_of_slices(Catalog(own).pools_for(Site(node_name))) if own else None


class SliceMachines:
    """Machines by node, as slices tell them now; each is worked out once until the slices of its node change."""

    def __init__(self, objects: Objects) -> None:
        """Take the objects."""
        self._objects = objects
        self._at = 0
        self._slices: dict[str, list[DeviceSlice]] = {}
        self._known: dict[str, tuple[list[DeviceSlice], Machine | None]] = {}

    def machine_of(self, node_name: str) -> Machine | None:
        """Return the machine of a node; None if no slice tells it. O(slices) after a change, else O(slices of the node)."""
        generation = self._objects.generation(DeviceSlice)
        if generation != self._at:
            self._at, self._slices = generation, defaultdict(list)
            for each in self._objects.all(DeviceSlice).values():
                if each.where.node_name:
                    self._slices[each.where.node_name].append(each)
            self._known = {name: known for name, known in self._known.items() if name in self._slices}
        slices = self._slices.get(node_name)
        if not slices:
            return None
        known = self._known.get(node_name)
        if known is None or known[0] != slices:
            known = self._known[node_name] = slices, machine_told_by(slices, node_name)
        return known[1]
