"""Assumed: claims and volumes as they will be once what was decided is written; an overlay over the known objects.

For the plugin beside it.  An assumption ends by `revert`, or by itself as soon as the object changes: what the API
server says counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model import Claim, PersistentVolume

if TYPE_CHECKING:
    from scheduler.state.objects import Objects

Key = tuple[str, str]


class Assumed:
    """Claims and volumes, with assumptions in place of what is known."""

    def __init__(self, objects: Objects) -> None:
        """Start without assumptions."""
        self.objects = objects
        #: Grows whenever something is assumed or reverted.
        self.generation = 0
        #: By key: the object as it was known, and as it is assumed.
        self._claims: dict[Key, tuple[Claim, Claim]] = {}
        self._volumes: dict[Key, tuple[PersistentVolume, PersistentVolume]] = {}
        #: Volumes that are meant for nobody by class, and the others by the claim that they are meant for.
        self._free: dict[str, list[PersistentVolume]] = {}
        self._meant: dict[Key, list[PersistentVolume]] = {}
        self._sorted_at = (-1, -1)

    def claim(self, namespace: str, name: str) -> Claim | None:
        """Return a claim; None if there is none."""
        known = self.objects.get(Claim, namespace, name)
        former, assumed = self._claims.get((namespace, name), (None, None))
        return assumed if known is not None and former == known else known

    def volume(self, name: str) -> PersistentVolume | None:
        """Return a volume; None if there is none."""
        known = self.objects.get(PersistentVolume, "", name)
        former, assumed = self._volumes.get(("", name), (None, None))
        return assumed if known is not None and former == known else known

    def free_volumes(self, class_name: str) -> list[PersistentVolume]:
        """Return the volumes of a class that are meant for nobody, the smallest first, equal ones by name."""
        self._sort()
        return self._free.get(class_name, [])

    def volumes_meant_for(self, claim: Claim) -> list[PersistentVolume]:
        """Return the volumes of a claim's class that are meant for it, by name."""
        self._sort()
        meant = [v for v in self._meant.get(claim.key, ()) if v.is_for(claim) and v.class_name == claim.class_name]
        return sorted(meant, key=lambda volume: volume.name)

    def _sort(self) -> None:
        """Sort the volumes anew if any has changed; O(volumes)."""
        at = (self.objects.generation(PersistentVolume), self.generation)
        if at == self._sorted_at:
            return
        self._sorted_at, self._free, self._meant = at, {}, {}
        for key, known in self.objects.all(PersistentVolume).items():
            volume = known
            if key in self._volumes and self._volumes[key][0] == known:
                volume = self._volumes[key][1]
            if volume.claim is None:
                self._free.setdefault(volume.class_name, []).append(volume)
            else:
                self._meant.setdefault((volume.claim.namespace, volume.claim.name), []).append(volume)
        for volumes in self._free.values():
            volumes.sort(key=lambda volume: (volume.capacity_bytes, volume.name))

    def assume_claim(self, claim: Claim) -> None:
        """Take a claim to be as given. `revert` is the inverse."""
        self._drop_outdated()
        if (known := self.objects.get(Claim, *claim.key)) is not None:
            self._claims[claim.key] = known, claim
            self.generation += 1

    def assume_volume(self, volume: PersistentVolume) -> None:
        """Take a volume to be as given. `revert` is the inverse."""
        self._drop_outdated()
        if (known := self.objects.get(PersistentVolume, *volume.key)) is not None:
            self._volumes[volume.key] = known, volume
            self.generation += 1

    def revert(self, thing: Claim | PersistentVolume) -> None:
        """Take an assumption back, if it is still this one; idempotent."""
        if isinstance(thing, Claim):
            if self._claims.get(thing.key, (None, None))[1] is thing:
                del self._claims[thing.key]
                self.generation += 1
        elif self._volumes.get(thing.key, (None, None))[1] is thing:
            del self._volumes[thing.key]
            self.generation += 1

    def _drop_outdated(self) -> None:
        """Forget assumptions about objects that have changed since."""
        for key, (claim, _) in list(self._claims.items()):
            if self.objects.get(Claim, *key) != claim:
                del self._claims[key]
        for key, (volume, _) in list(self._volumes.items()):
            if self.objects.get(PersistentVolume, *key) != volume:
                del self._volumes[key]
