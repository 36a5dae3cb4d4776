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
        self._names: dict[str, list[str]] = {}
        self._names_generation = -1

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

    def volumes_of(self, class_name: str) -> list[PersistentVolume]:
        """Return the volumes of a class, by name."""
        generation = self.objects.generation(PersistentVolume)
        if generation != self._names_generation:
            self._names, self._names_generation = {}, generation
            for _, name in sorted(self.objects.all(PersistentVolume)):
                known = self.objects.get(PersistentVolume, "", name)
                if known is not None:
                    self._names.setdefault(known.class_name, []).append(name)
        found = [self.volume(name) for name in self._names.get(class_name, ())]
        return [volume for volume in found if volume is not None]

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
