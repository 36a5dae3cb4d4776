"""Dialect: one way of saying which pods start together: what pods name, and which objects tell about groups.

For the adapters in this folder, one file each, and for the edges, which watch the objects.  An adapter reads; it never fails:
what makes no sense becomes a problem of the pod or of the gang, which then waits and says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.model.api import ApiPod
    from scheduler.model.gang import Gang, Membership

#: Returns what a pod says of its gang in one dialect; None if it does not speak it.
ReadMember: TypeAlias = "Callable[[ApiPod], Membership | None]"


@dataclass(frozen=True, slots=True)
class GroupSource:
    """A kind of object that tells about gangs."""

    #: API group and its versions, the preferred one first: the first that is served is read.
    group: str
    versions: tuple[str, ...]
    #: Plural name in paths, and the kind in messages.
    resource: str
    kind: str
    #: What it is decoded as (an ApiStruct with `metadata`), and the gangs that one object tells of: mostly one.
    api_type: type[Any]
    read: Callable[[Any], tuple[Gang, ...]]


@dataclass(frozen=True, slots=True)
class Dialect:
    """An adapter."""

    name: str
    member: ReadMember
    sources: tuple[GroupSource, ...] = ()
