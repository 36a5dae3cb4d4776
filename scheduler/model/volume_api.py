"""The volumes of a pod as they come over the wire, and the base of all wire types.

For `api`, which has the pod around them, and for the plugins that read disks.
"""

from __future__ import annotations

from typing import Any

import msgspec


class ApiStruct(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True, omit_defaults=True):
    """Base of all wire types: immutable, acyclic (so kept from the garbage collector), camelCase on the wire."""


class ImageVolume(ApiStruct, frozen=True):
    """An image mounted as a volume."""

    reference: str = ""


class ClaimSource(ApiStruct, frozen=True):
    """The claim that a volume stands for."""

    claim_name: str = ""
    read_only: bool = False


class GCEDisk(ApiStruct, frozen=True):
    """A disk of Google's in-tree plugin."""

    pd_name: str = ""
    read_only: bool = False


class AWSDisk(ApiStruct, frozen=True):
    """A disk of Amazon's in-tree plugin."""

    volume_id: str = msgspec.field(name="volumeID", default="")
    read_only: bool = False


class AzureDisk(ApiStruct, frozen=True):
    """A disk of Azure's in-tree plugin."""

    disk_uri: str = msgspec.field(name="diskURI", default="")
    kind: str | None = None


class NamedDisk(ApiStruct, frozen=True):
    """A disk of Cinder's or Portworx' in-tree plugin."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class ISCSIDisk(ApiStruct, frozen=True):
    """A disk behind iSCSI."""

    iqn: str = ""
    read_only: bool = False


class RBDImage(ApiStruct, frozen=True):
    """An image in a Ceph cluster."""

    monitors: list[str] = []
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class Volume(ApiStruct, frozen=True):
    """A volume; what scheduling reads of it."""

    name: str = ""
    image: ImageVolume | None = None
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: dict[str, Any] | None = None
    gce_persistent_disk: GCEDisk | None = None
    aws_elastic_block_store: AWSDisk | None = None
    azure_disk: AzureDisk | None = None
    cinder: NamedDisk | None = None
    portworx_volume: NamedDisk | None = None
    iscsi: ISCSIDisk | None = None
    rbd: RBDImage | None = None
    #: Only that they are there is read.
    azure_file: dict[str, Any] | None = None
    vsphere_volume: dict[str, Any] | None = None
