"""In-tree volumes as the volumes of the CSI drivers that serve them now, as Kubernetes' csi-translation-lib has it.

For the volume plugins.  Only what scheduling reads is translated: driver, handle, and which nodes are in reach.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import msgspec

from .storage import NOWHERE, NodeTest, Reach

if TYPE_CHECKING:
    from .storage import InTreeSource, PersistentVolume
    from .volume_api import Volume


class Successor(NamedTuple):
    """The CSI driver of an in-tree plugin, and the node label that it knows zones by (empty: none)."""

    driver: str
    zone_key: str


#: In-tree plugins whose volumes are served by drivers everywhere.
SUCCESSORS = {
    "kubernetes.io/aws-ebs": Successor("ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
    "kubernetes.io/azure-disk": Successor("disk.csi.azure.com", ""),
    "kubernetes.io/cinder": Successor("cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"),
    "kubernetes.io/gce-pd": Successor("pd.csi.storage.gke.io", "topology.gke.io/zone"),
    "kubernetes.io/portworx-volume": Successor("pxd.portworx.com", ""),
}
#: Those, and the ones whose volumes no limit counts.
MIGRATABLE_PLUGINS = {*SUCCESSORS, "kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"}

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_OLD_ZONE, _OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
#: Between the zones of a label that names several.
ZONE_DELIMITER = "__"
_UNSPECIFIED = "UNSPECIFIED"
#: Parts of a zone of Google: locale, region and letter.
_GCE_ZONE_PARTS = 3


class MigrationError(ValueError):
    """A volume cannot be translated."""


def is_migratable(volume: Volume) -> bool:
    """Tell whether a pod's own volume is of a kind that CSI drivers serve now."""
    sources = (
        volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.azure_disk, volume.cinder,
        volume.portworx_volume, volume.azure_file, volume.vsphere_volume,
    )  # fmt: skip
    return any(source is not None for source in sources)


def handle_of(source: InTreeSource, zones: str = "") -> str:
    """Return the driver's name for an in-tree disk; `zones` is the zone label of its PersistentVolume.

    Raises MigrationError for a disk that no driver can serve.
    """
    match source.plugin:
        case "kubernetes.io/gce-pd":
            return f"projects/{_UNSPECIFIED}/{_gce_place(zones)}/disks/{source.id}"
        case "kubernetes.io/aws-ebs":
            return _aws_volume(source.id)
        case "kubernetes.io/azure-disk":
            if source.kind is not None and source.kind.lower() != "managed":
                raise MigrationError(f"kind({source.kind}) is not supported in csi migration")
    return source.id


def migrated(volume: PersistentVolume) -> PersistentVolume:
    """Return an in-tree volume as its driver's; the same one if it has no in-tree source."""
    source = volume.in_tree
    if source is None:
        return volume
    successor = SUCCESSORS[source.plugin]
    zones = volume.labels.get(_OLD_ZONE, "") or volume.labels.get(_ZONE, "")
    return msgspec.structs.replace(
        volume,
        driver=successor.driver,
        handle=handle_of(source, zones),
        reach=_translated(volume, successor.zone_key) if successor.zone_key else volume.reach,
        in_tree=None,
    )


def _translated(volume: PersistentVolume, zone_key: str) -> Reach | None:
    """Return the reach of a volume in the driver's label; the zone label stands in where the affinity names none.

    Labels of which no test names a value keep their names, as in csi-translation-lib.
    """
    terms = volume.reach.terms if volume.reach is not None else ()
    tests = [test for term in terms for test in term]
    has, has_values = {test.key for test in tests}, {test.key for test in tests if test.values}
    if _ZONE in has or (_OLD_ZONE not in has and (_ZONE in volume.labels or _OLD_ZONE not in volume.labels)):
        zone, names = _ZONE, {_ZONE: zone_key}
    else:
        zone, names = _OLD_ZONE, {_OLD_ZONE: zone_key, _OLD_REGION: _REGION}
    is_named = zone in has_values
    names = {old: new for old, new in names.items() if old in has_values}
    reach = tuple([tuple([_renamed(test, names) for test in term]) for term in terms])
    named = sorted({z.strip() for z in volume.labels.get(zone, "").split(ZONE_DELIMITER)} - {""})
    if not is_named and named:
        extra = NodeTest(zone_key, "In", tuple(named))
        reach = tuple([(*[test for test in term if test != NOWHERE], extra) for term in reach or ((),)])
    return Reach(reach) if volume.reach is not None or reach else None


def _renamed(test: NodeTest, names: dict[str, str]) -> NodeTest:
    """Return a test with its label renamed."""
    return NodeTest(names.get(test.key, test.key), test.operator, test.values)


def _gce_place(zones: str) -> str:
    """Return the place of a Google disk within its project: a zone, or the region of several."""
    parts = zones.split(ZONE_DELIMITER)
    if len(parts) == 1:
        return f"zones/{zones or _UNSPECIFIED}"
    regions = set()
    for zone in parts:
        split = zone.split("-")
        if len(split) != _GCE_ZONE_PARTS:
            raise MigrationError(f"zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}")
        regions.add("-".join(split[:2]))
    if len(regions) != 1:
        raise MigrationError(f"multiple or no regions gotten from zones, got: {sorted(regions)}")
    return f"regions/{regions.pop()}"


def _aws_volume(text: str) -> str:
    """Return Amazon's id of a volume that may be written as aws://ZONE/ID."""
    if not text.startswith("aws://"):
        return text
    name = urlsplit(text).path.strip("/")
    if not re.fullmatch(r"vol-[^/]*", name):
        raise MigrationError(f"Invalid format for AWS volume ({text})")
    return name
