"""DeviceClasses by the extended resources that they stand for.

For the plugins that count resources and for dynamic resources.  A class stands for the resource that its spec names, and for
`deviceclass.resource.kubernetes.io/NAME`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.devices import IMPLICIT_RESOURCE_PREFIX, DeviceClass
from scheduler.model.pod_devices import is_extended

if TYPE_CHECKING:
    from scheduler.model import Pod

    from .objects import Objects


class DeviceClasses:
    """Which class serves a resource, as of now."""

    def __init__(self, objects: Objects) -> None:
        """Take the objects; what is derived from them is kept until a class changes."""
        self._objects = objects
        self._by_resource: dict[str, DeviceClass] = {}
        self._at = -1

    @property
    def generation(self) -> int:
        """A number that grows whenever a class changes."""
        return self._objects.generation(DeviceClass)

    @property
    def are_any(self) -> bool:
        """There is a class at all: most clusters of device plugins have none."""
        return bool(self._objects.all(DeviceClass))

    def serving(self, resource: str) -> DeviceClass | None:
        """Return the class that stands for a resource; None if none does.

        Of several that name the same resource the newest does, then the one of the lowest name, as in kube-scheduler.
        """
        if self._at != self.generation:
            self._at = self.generation
            classes = sorted(self._objects.all(DeviceClass).values(), key=lambda each: (-each.created, each.name))
            self._by_resource = {f"{IMPLICIT_RESOURCE_PREFIX}{each.name}": each for each in classes}
            for each in classes:
                if each.extended_resource:
                    self._by_resource.setdefault(each.extended_resource, each)
        return self._by_resource.get(resource)

    def served(self, pod: Pod) -> tuple[str, ...]:
        """Return the extended resources of a pending pod that a class stands for, sorted."""
        if not self.are_any:
            return ()
        return tuple([name for name in _asked(pod) if self.serving(name) is not None])

    def not_served(self, pod: Pod) -> tuple[str, ...]:
        """Return the other extended resources of a pending pod, sorted."""
        return tuple([name for name in _asked(pod) if self.serving(name) is None])


def _asked(pod: Pod) -> list[str]:
    return sorted(name for name, count in pod.requests.items() if count > 0 and is_extended(name))
