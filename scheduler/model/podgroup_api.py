"""The parts of our own PodGroup as they come over the wire: roles, topology, what happens below the minimum.

For `api`, whose PodGroupSpec holds them, and for the own dialect, which reads them.
"""

from __future__ import annotations

from .volume_api import ApiStruct


class Segment(ApiStruct, frozen=True):
    """So many pods each stand together."""

    size: int = 0
    required: str = ""
    preferred: str = ""


class TopologyWish(ApiStruct, frozen=True):
    """How near together the pods want to be, or how far apart."""

    name: str = ""
    required: str = ""
    preferred: list[str] | None = None
    segment: Segment | None = None
    spread: str = ""
    exclusive: str = ""


class Role(ApiStruct, frozen=True):
    """A part of a group."""

    name: str = ""
    parent: str = ""
    min_member: int = 0
    min_roles: int | None = None
    topology: TopologyWish | None = None


class WhenIncomplete(ApiStruct, frozen=True):
    """What happens when a running group falls below its minimum."""

    policy: str = ""
    grace_period_seconds: int | None = None
