"""Which attachable volumes there are: those of a pod, and those that are attached to a node already.

For the plugin beside it.  A volume is a driver and the driver's name for it; one that several pods share is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from scheduler.model import Claim, PersistentVolume, StorageClass, VolumeAttachment
from scheduler.model.csi_migration import MIGRATABLE_PLUGINS, SUCCESSORS, MigrationError, handle_of, migrated
from scheduler.model.pod_claims import claim_use, not_owned
from scheduler.model.storage import in_tree_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.model import Pod
    from scheduler.model.volume_api import Volume
    from scheduler.state.objects import Objects

#: Driver, and its name for the volume.
Attachable: TypeAlias = tuple[str, str]
_READ = (Claim, PersistentVolume, StorageClass, VolumeAttachment)
#: No driver's name for a volume begins like this.
_UNMADE = "\0"


class ClaimMissingError(Exception):
    """A claim of a pod does not exist."""

    def __init__(self, name: str) -> None:
        """Say which."""
        super().__init__(name)
        self.name = name


class BrokenVolumeError(Exception):
    """A volume of a pod makes no sense."""


class Attachables:
    """Looks volumes up, and remembers what it found until an object changes."""

    def __init__(self, objects: Objects) -> None:
        """Take the objects to look at."""
        self._objects = objects
        self._generations: tuple[int, ...] = ()
        self._by_claim: dict[tuple[str, str, bool], Attachable | None] = {}
        self._by_node: dict[str, set[Attachable]] = {}

    def of_pod(self, pod: Pod, *, is_new: bool, has_csi_node: bool) -> set[Attachable]:
        """Return the attachable volumes of a pod, on a node with or without a CSINode.

        Raises BrokenVolumeError, and for a new pod ClaimMissingError; other pods' missing claims do not count.
        """
        found: set[Attachable] = set()
        for volume in pod.volumes:
            use = claim_use(pod, volume)
            if use is None:
                attachable = _of_disk(volume) if has_csi_node else None
            elif not use.name:
                raise BrokenVolumeError("PersistentVolumeClaim had no name")
            else:
                claim = self._objects.get(Claim, pod.namespace, use.name)
                if claim is None:
                    if is_new:
                        raise ClaimMissingError(use.name)
                    continue
                if use.is_ephemeral and (text := not_owned(pod, claim)):
                    raise BrokenVolumeError(text)
                attachable = self._of_claim(claim, has_csi_node=has_csi_node)
            if attachable is not None:
                found.add(attachable)
        return found

    def on_node(self, name: str) -> set[Attachable]:
        """Return the CSI volumes that are, or are to be, attached to a node."""
        self._forget_if_changed()
        if not self._by_node:
            self._by_node[""] = set()
            for attachment in self._objects.all(VolumeAttachment).values():
                volume = self._objects.get(PersistentVolume, "", attachment.volume_name)
                if attachment.attacher and volume is not None and volume.driver:
                    at = self._by_node.setdefault(attachment.node_name, set())
                    at.add((attachment.attacher, volume.handle))
        return self._by_node.get(name, self._by_node[""])

    def _of_claim(self, claim: Claim, *, has_csi_node: bool) -> Attachable | None:
        """Return the volume behind a claim, or one to be made; None if it is none that is attached by a driver."""
        self._forget_if_changed()
        key = (*claim.key, has_csi_node)
        if key not in self._by_claim:
            volume = self._objects.get(PersistentVolume, "", claim.volume_name) if claim.volume_name else None
            found = _of_volume(volume, has_csi_node) if volume else self._to_be_made(claim, has_csi_node)
            self._by_claim[key] = found if found and all(found) else None
        return self._by_claim[key]

    def _to_be_made(self, claim: Claim, has_csi_node: bool) -> Attachable | None:
        """Return a volume of the driver of the claim's class."""
        named = self._objects.get(StorageClass, "", claim.class_name)
        if named is None:
            return None
        driver = named.provisioner
        if driver in MIGRATABLE_PLUGINS:
            if driver not in SUCCESSORS or not has_csi_node:
                return None
            driver = SUCCESSORS[driver].driver
        return driver, f"{_UNMADE}{claim.namespace}/{claim.name}"

    def _forget_if_changed(self) -> None:
        generations = tuple([self._objects.generation(kind) for kind in _READ])
        if generations != self._generations:
            self._generations = generations
            self._by_claim.clear()
            self._by_node.clear()


def uses_claims_only(pod: Pod) -> bool:
    """Tell whether a pod has volumes of named claims alone: those are never broken."""
    for volume in pod.volumes:  # noqa: SIM110 - asked of every pod of a cluster
        if volume.persistent_volume_claim is None:
            return False
    return True


def count_by_driver(volumes: set[Attachable]) -> Mapping[str, int]:
    """Return how many volumes each driver has."""
    counts: dict[str, int] = {}
    for driver, _ in volumes:
        counts[driver] = counts.get(driver, 0) + 1
    return counts


def _of_volume(volume: PersistentVolume, has_csi_node: bool) -> Attachable | None:
    if volume.in_tree is not None:
        if not has_csi_node:
            return None
        try:
            volume = migrated(volume)
        except MigrationError:
            return None
    return volume.driver, volume.handle


def _of_disk(volume: Volume) -> Attachable | None:
    """Return a disk that a pod names itself, as its driver's."""
    source = in_tree_of(volume)
    if source is None:
        return None
    try:
        return SUCCESSORS[source.plugin].driver, handle_of(source)
    except MigrationError as error:
        raise BrokenVolumeError(f"converting volume({volume.name}) from inline to csi: {error}") from error
