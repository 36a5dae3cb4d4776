"""Dialect: one way of saying which pods start together: what pods name, and which objects tell about groups.

For the adapters in this folder, one file each, and for the edges, which watch the objects.  An adapter reads; it never fails:
what makes no sense becomes a problem of the pod or of the gang, which then waits and says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduler.model.api import ApiPod
    from scheduler.model.gang import Gang, Membership

#: For how many sets of keys it is remembered which dialects they may be of; pods of one template have the same.
REMEMBERED = 4096

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
    #: A pod without any of these labels and annotations does not speak it; None if `member` has to be asked.
    keys: frozenset[str] | None = None


class Dialects(tuple[Dialect, ...]):  # noqa: SLOT001 - it remembers, and there are one or two of them
    """Dialects in the order in which one wins over another, quick to tell which of them a pod may speak."""

    def __init__(self, _: Iterable[Dialect] = ()) -> None:
        """Start with nothing remembered."""
        self._known: dict[tuple[str, ...], tuple[Dialect, ...]] = {}

    def of_keys(self, keys: tuple[str, ...]) -> tuple[Dialect, ...]:
        """Return the dialects that a pod with labels and annotations of these keys may speak."""
        known = self._known
        found = known.get(keys)
        if found is None:
            if len(known) >= REMEMBERED:
                known.clear()
            found = known[keys] = tuple([d for d in self if d.keys is None or not d.keys.isdisjoint(keys)])
        return found
