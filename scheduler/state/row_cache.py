"""RowFollower: what somebody keeps about the rows of a snapshot, and brings up to date for the rows that changed.

For plugins whose questions recur with every pod.  The snapshot owns its followers and tells them of every change, what-ifs
and their undoing alike, so that what they keep is always exact; when rows are replaced, new followers start from nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from .rows import Row
    from .snapshot import Snapshot

F = TypeVar("F", bound="RowFollower")

#: So many followers are kept; one more, and all start anew.
MOST_FOLLOWERS = 256
#: So many changes are remembered; those who have not seen them by then start anew.
MOST_CHANGES = 65_536


class RowFollower(ABC):
    """Base of what follows rows: `fill` looks at all of them, `update` at one that changed."""

    #: If more rows changed, all are looked at; None for more than there are.
    MOST_UPDATES: ClassVar[int | None] = None

    def __init__(self) -> None:
        """Start without having seen anything."""
        #: How many of the changes it has seen; None if it has to start anew.
        self.seen: int | None = None

    @abstractmethod
    def fill(self, snapshot: Snapshot) -> None:
        """Take over all rows."""

    @abstractmethod
    def update(self, index: int, row: Row) -> None:
        """Take over one row in place of what was known of it."""

    def catch_up(self, snapshot: Snapshot, changes: list[int]) -> None:
        """Look at what changed since the last time."""
        seen, length = self.seen, len(changes)
        if seen == length:
            return
        rows = snapshot.all_rows
        if seen is None or length - seen > len(rows):
            self.fill(snapshot)
        elif seen + 1 == length:
            index = changes[-1]
            self.update(index, rows[index])
        else:
            changed = set(changes[seen:])
            if self.MOST_UPDATES is not None and len(changed) > self.MOST_UPDATES:
                self.fill(snapshot)
            else:
                for index in changed:
                    self.update(index, rows[index])
        self.seen = length


class Followers:
    """All followers of one snapshot, and the rows that changed, in order; unlike `Snapshot.changed_rows` nothing is taken back."""

    __slots__ = ("_by_key", "_changes")

    def __init__(self) -> None:
        """Start with none."""
        self._by_key: dict[Hashable, RowFollower] = {}
        self._changes: list[int] = []

    def get(self, key: Hashable, make: Callable[[], F], snapshot: Snapshot) -> F:
        """Return the follower of a key, made if there is none, up to date."""
        follower = self._by_key.get(key)
        if follower is None:
            if len(self._by_key) >= MOST_FOLLOWERS:
                self._by_key.clear()
            follower = self._by_key[key] = make()
        follower.catch_up(snapshot, self._changes)
        return follower  # type: ignore[return-value]  # a key belongs to one kind of follower

    def note(self, index: int) -> None:
        """Remember that a row changed."""
        if len(self._changes) >= MOST_CHANGES:
            for follower in self._by_key.values():
                follower.seen = 0 if follower.seen == len(self._changes) else None
            self._changes.clear()
        self._changes.append(index)

    def clear(self) -> None:
        """Forget all."""
        self._by_key.clear()
        self._changes.clear()
