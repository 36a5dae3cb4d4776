"""CycleState: the scratch that plugins share during one attempt.

For plugins.  Keys are the plugin's own name, or any hashable; values are theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable


class CycleState:
    """Values that live for one attempt of one workload."""

    __slots__ = ("_values", "skipped_filters", "skipped_scores")

    def __init__(self) -> None:
        """Start empty."""
        self._values: dict[Hashable, Any] = {}
        #: Plugins whose PreFilter or PreScore said Skip.
        self.skipped_filters: set[str] = set()
        self.skipped_scores: set[str] = set()

    def write(self, key: Hashable, value: Any) -> None:
        """Keep a value."""
        self._values[key] = value

    def read(self, key: Hashable, default: Any = None) -> Any:
        """Return a value, or the default."""
        return self._values.get(key, default)

    def clone(self) -> CycleState:
        """Return a copy for a what-if; values are shared, so they must be replaced and not changed."""
        other = CycleState()
        other._values = dict(self._values)
        other.skipped_filters = set(self.skipped_filters)
        other.skipped_scores = set(self.skipped_scores)
        return other
