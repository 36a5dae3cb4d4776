"""Standby: the latest input about each object, from which a fresh engine can be fed at any time.

For the process.  It is kept up to date whether the replica leads or not; whenever it comes to lead, a fresh engine is fed
with it.  So no stale effects, backoffs or timers are carried into a leadership, and a lost Lease needs no restart.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from scheduler.engine.inputs import (
    BudgetChanged,
    BudgetRemoved,
    GangChanged,
    GangRemoved,
    Input,
    NodeChanged,
    NodeRemoved,
    ObjectChanged,
    ObjectRemoved,
    PendingPodLeft,
    PodChanged,
    PodRemoved,
    PriorityClassChanged,
    PriorityClassRemoved,
    RunEnded,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

#: So many runs that ended are kept.
MOST_RUNS = 20_000
#: In this order an engine is fed: what others refer to comes first.
_INPUTS: dict[str, Callable[[Any], Input]] = {
    "class": PriorityClassChanged,
    "node": NodeChanged,
    "object": ObjectChanged,
    "budget": BudgetChanged,
    "gang": GangChanged,
    "pod": PodChanged,
}


class Standby:
    """A picture of the cluster made of inputs.

    It keeps what the inputs carry, not the inputs: of those the garbage collector would have to look at each one.
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self._latest: dict[str, dict[Hashable, Any]] = {kind: {} for kind in _INPUTS}

        #: Runs that ended, by pod, the last ones.
        self._runs: OrderedDict[str, RunEnded] = OrderedDict()

    def __len__(self) -> int:
        """Return how many objects are known."""
        return sum(len(objects) for objects in self._latest.values())

    def handle(self, item: Input) -> None:  # noqa: C901, PLR0912 - one line per kind of input
        """Take an input; answers to effects mean nothing here."""
        match item:
            case PodChanged(pod):
                self._latest["pod"][pod.uid] = pod
            case RunEnded(uid):
                self._runs[uid] = item
                if len(self._runs) > MOST_RUNS:
                    self._runs.popitem(last=False)
            case PodRemoved(uid):
                self._latest["pod"].pop(uid, None)
            case PendingPodLeft(uid):
                known = self._latest["pod"].get(uid)
                if known is not None and not known.node_name:
                    del self._latest["pod"][uid]
            case NodeChanged(node):
                self._latest["node"][node.name] = node
            case NodeRemoved(name):
                self._latest["node"].pop(name, None)
            case GangChanged(gang):
                self._latest["gang"][gang.key] = gang
            case GangRemoved(key):
                self._latest["gang"].pop(key, None)
            case PriorityClassChanged(priority_class):
                self._latest["class"][priority_class.name] = priority_class
            case PriorityClassRemoved(name):
                self._latest["class"].pop(name, None)
            case ObjectChanged(thing):
                self._latest["object"][type(thing), thing.key] = thing
            case ObjectRemoved(kind, key):
                self._latest["object"].pop((kind, key), None)
            case BudgetChanged(budget):
                self._latest["budget"][budget.namespace, budget.name] = budget
            case BudgetRemoved(namespace, name):
                self._latest["budget"].pop((namespace, name), None)

    def inputs(self) -> list[Input]:
        """Return the latest input of every object, in the order in which an engine wants them."""
        latest = [make(thing) for kind, make in _INPUTS.items() for thing in self._latest[kind].values()]
        return [*latest, *self._runs.values()]
