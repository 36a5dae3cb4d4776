"""ChangeLog: what changed, in order, for readers that each remember how far they have read.

For state that many look at, each in its own time; nobody has to be told, and nothing is looked at twice.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")
#: How far somebody has read: which of the lists, and how much of it.
Mark = tuple[int, int]
#: So many entries are kept; those who have not read them by then have to take that all changed.
_MOST_ENTRIES = 65_536


class ChangeLog(Generic[T]):
    """Entries in the order in which they were noted."""

    def __init__(self) -> None:
        """Start empty."""
        self._entries: list[T] = []
        self._epoch = 0

    def note(self, entry: T) -> None:
        """Tell that something changed."""
        if len(self._entries) >= _MOST_ENTRIES:
            self.restart()
        self._entries.append(entry)

    def restart(self) -> None:
        """Tell that everything may have changed."""
        self._entries.clear()
        self._epoch += 1

    def since(self, mark: Mark | None) -> tuple[dict[T, None] | None, Mark]:
        """Return what changed since a mark, each once, or None for everything; and the mark to ask with the next time."""
        now = self._epoch, len(self._entries)
        if mark == now:
            return {}, now
        if mark is None or mark[0] != self._epoch:
            return None, now
        return dict.fromkeys(self._entries[mark[1] :]), now
