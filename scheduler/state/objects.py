"""Objects: what is known of the objects that are only read: namespaces, owners of pods, storage.

For plugins, which look them up by type and key, and for the engine, which keeps them.  Every type has a `key` of
namespace (empty for cluster-scoped ones) and name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from .change_log import ChangeLog

if TYPE_CHECKING:
    from collections.abc import Mapping

Key = tuple[str, str]


class Keyed(Protocol):
    """An object with a place to be kept at."""

    @property
    def key(self) -> Key:
        """Namespace and name."""


T = TypeVar("T", bound=Keyed)


class Objects:
    """Objects by type and key."""

    def __init__(self) -> None:
        """Start empty."""
        self._by_type: dict[type, dict[Key, Keyed]] = {}
        self._generations: dict[type, int] = {}
        self._changes: dict[type, ChangeLog[Key]] = {}

    def put(self, thing: T) -> T | None:
        """Add or change an object; return the former one (an equal one if nothing changed)."""
        kind = type(thing)
        known = self._by_type.setdefault(kind, {})
        former = known.get(thing.key)
        if former != thing:
            known[thing.key] = thing
            self._note(kind, thing.key)
        return cast("T | None", former)

    def drop(self, kind: type[T], key: Key) -> T | None:
        """Forget an object; return what was known of it."""
        former = self._by_type.get(kind, {}).pop(key, None)
        if former is not None:
            self._note(kind, key)
        return cast("T | None", former)

    def get(self, kind: type[T], namespace: str, name: str) -> T | None:
        """Return an object, or None."""
        return cast("T | None", self._by_type.get(kind, {}).get((namespace, name)))

    def all(self, kind: type[T]) -> Mapping[Key, T]:
        """Return all objects of a type, by key, not to be changed."""
        return cast("Mapping[Key, T]", self._by_type.get(kind, {}))

    def generation(self, kind: type) -> int:
        """Return a number that grows whenever an object of a type changes: what is derived from them is cached under it."""
        return self._generations.get(kind, 0)

    def changes(self, kind: type) -> ChangeLog[Key]:
        """Return the keys of a type's objects that changed, came or went, in order, from when this was first asked for."""
        return self._changes.setdefault(kind, ChangeLog())

    def _note(self, kind: type, key: Key) -> None:
        self._generations[kind] = self.generation(kind) + 1
        if (log := self._changes.get(kind)) is not None:
            log.note(key)
