"""TopologyStatuses: what is said at Topology objects of ours: whether nodes have the labels, and how many domains there are.

For the engine.  Changes are gathered for a while, and what was said last is not said again.  Topologies of other projects are
read only.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scheduler.framework.effects import SetTopologyStatus
from scheduler.model.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduler.model import Node
    from scheduler.state.cluster import ClusterState

DIALECT = "ai-scheduler"
#: How long changes of nodes and objects are gathered before a status is written, in seconds.
STATUS_DELAY = 2.0


class TopologyStatuses:
    """Statuses of our Topology objects."""

    def __init__(self, cluster: ClusterState, emit: Callable[[SetTopologyStatus], None]) -> None:
        """Take the state that knows nodes and objects, and whom to tell."""
        self._cluster = cluster
        self._emit = emit
        self._due: float | None = None
        self._told: dict[str, SetTopologyStatus] = {}

    def changed(self, now: float) -> None:
        """Note that a Topology, the set of nodes or a label of a node changed."""
        if self._due is None and self._cluster.objects.all(Topology):
            self._due = now + STATUS_DELAY

    def next_time(self) -> float | None:
        """Return when statuses are looked at next."""
        return self._due

    def write(self, now: float) -> None:
        """Write the statuses that differ from what was written last, if it is time.  O(nodes × levels) per Topology."""
        if self._due is None or self._due > now:
            return
        self._due = None
        own = [one for one in self._cluster.objects.all(Topology).values() if one.dialect == DIALECT and one.uid]
        self._told = {one.uid: self._told[one.uid] for one in own if one.uid in self._told}
        for topology in sorted(own, key=lambda one: one.name):
            status, reason, message = usable(topology, self._cluster.nodes.values())
            effect = SetTopologyStatus(topology.name, topology.uid, topology.generation, status, reason, message)
            if self._told.get(topology.uid) != effect:
                self._told[topology.uid] = effect
                self._emit(effect)


def usable(topology: Topology, nodes: Iterable[Node]) -> tuple[str, str, str]:
    """Return status, reason and message of the condition Usable: False while no node has the label of one of the levels."""
    if topology.problems:
        return "False", "InvalidLevels", "; ".join(topology.problems)
    labelled = Counter[str]()
    domains: dict[str, set[tuple[str, ...]]] = {level.label: set() for level in topology.levels}
    count = 0
    for node in nodes:
        count += 1
        path: tuple[str, ...] = ()
        for level in topology.levels:
            value = node.labels.get(level.label, "")
            path += (value,)
            if value:
                labelled[level.label] += 1
                domains[level.label].add(path)
    empty = [
        f"level {one.name}: no node has the label {one.label}" for one in topology.levels if not labelled[one.label]
    ]
    found = [
        f"{one.name}: {_counted(len(domains[one.label]))}"
        + (f" ({missing} of {count} nodes without the label)" if (missing := count - labelled[one.label]) else "")
        for one in topology.levels
        if labelled[one.label]
    ]
    if empty:
        return "False", "LabelNotFound", "; ".join([*empty, *found])
    return "True", "LabelsFound", "; ".join(found)


def _counted(domains: int) -> str:
    return f"{domains} domain{'' if domains == 1 else 's'}"
