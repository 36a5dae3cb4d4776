"""FilterResult: what all Filter plugins of a profile say of some nodes.

For the runtime, which fills it, and for the engine, which asks who passed and why not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from .status import Code

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.state.snapshot import Bools, Nodes

    from .plugin import Plugin
    from .status import Reason, Status
    from .verdicts import Verdicts


@dataclass(slots=True)
class FilterResult:
    """What all Filter plugins say of some nodes; per node the first plugin that rejects counts."""

    nodes: Nodes
    by_plugin: list[tuple[Plugin, Verdicts]] = field(default_factory=list)

    def passes(self, *, nodes_only: bool = False) -> Bools:
        """Return which nodes pass, shape (len(nodes),); `nodes_only`: by plugins that read Node objects alone."""
        passing = np.ones(len(self.nodes), dtype=np.bool_)
        for plugin, verdicts in self.by_plugin:
            if plugin.READS_NODES_ONLY or not nodes_only:
                for where, _, _ in verdicts.rejections:
                    passing &= ~where
        return passing

    def passes_by_sight(self, is_far_sighted: Callable[[Plugin], bool]) -> tuple[Bools, Bools]:
        """Return which nodes pass the plugins that look at one node, and which pass those that look further."""
        near = np.ones(len(self.nodes), dtype=np.bool_)
        far = near.copy()
        for plugin, verdicts in self.by_plugin:
            for where, _, _ in verdicts.rejections:
                mask = far if is_far_sighted(plugin) else near
                mask &= ~where
        return near, far

    def status_at(self, position: int) -> Status | None:
        """Return one node's status, with the plugin's name."""
        for plugin, verdicts in self.by_plugin:
            if (status := verdicts.status_at(position)) is not None:
                return status.stamped(plugin.NAME)
        return None

    def counts(self, among: Bools) -> dict[tuple[str, Reason], int]:
        """Count some of the nodes per (plugin, reason), each node only under the first plugin that rejects it."""
        left = among.copy()
        counts: dict[tuple[str, Reason], int] = {}
        for plugin, verdicts in self.by_plugin:
            if not verdicts.rejections:
                continue
            for where, _, reason in verdicts.rejections:
                if number := int(np.count_nonzero(where & left)):
                    counts[plugin.NAME, reason] = counts.get((plugin.NAME, reason), 0) + number
            left &= verdicts.passes()
        return counts

    def unresolvable(self) -> Bools:
        """Return the nodes whose first rejection evictions cannot cure."""
        result = np.zeros(len(self.nodes), dtype=np.bool_)
        left = np.ones(len(self.nodes), dtype=np.bool_)
        for _, verdicts in self.by_plugin:
            if verdicts.rejections:
                codes = verdicts.codes()
                result |= left & (codes >= Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
                left &= codes == 0
        return result
