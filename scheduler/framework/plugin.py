"""Plugin: the contract between the framework and whoever decides something.

A plugin is one class.  It implements the points it needs, by name; the runtime finds them once, at start.  Everything is
synchronous and pure: no I/O, no clock, no randomness; the Handle gives what a plugin may ask.

| point | method | called | may answer |
|---|---|---|---|
| PreEnqueue | `pre_enqueue(pod)` | before a workload may be tried, and again after its own events | None, a rejection |
| QueueSort | `sort_key(workload)` | once per workload and queueing; lowest first | a tuple |
| PreFilter | `pre_filter(state, pod, nodes)` | once per shape and cycle | None, PreFilterResult, Skip, a rejection |
| Filter | `filter(state, pod, node)` or `filter_all(state, pod, nodes)` | per shape; again for touched nodes | None or a rejection; Verdicts |
| PostFilter | `post_filter(state, pod, failure)` | when no node was left for a pod | PostFilterResult or a rejection |
| | `post_filter_gang(state, workload, failure)` | the same for a gang | the same, or a generator that yields node evaluations and returns it |
| PreScore | `pre_score(state, pod, nodes)` | with the feasible nodes, before Score | None, Skip |
| Score | `score(state, pod, node)` or `score_all(state, pod, nodes)` | over feasible nodes | int; int64 array |
| | `normalize(state, pod, scores)` | after Score | int64 array within 0 to 100 |
| | `same_score(pod, nodes)` | before Score | the score of every node, normalised, if they all have the same; None |
| GenerateDomains | `generate_domains(state, workload, nodes)` | once per gang cycle | list of Domain |
| | `fabric_for(workload, constraint)` | once per part of a gang and cycle | the Fabric that it is kept together in, or None |
| ScorePlacement | `score_placement(state, workload, rows)` | for each of several domains that are equally good | int within 0 to 100 |
| Reserve | `reserve(state, pod, node_name)` | after the pod was assumed | None, a rejection |
| Unreserve | `unreserve(state, pod, node_name)` | on any later failure, all plugins, in reverse; idempotent | nothing |
| Permit | `permit(state, pod, node_name)` | when the whole workload is reserved | None, Wait, a rejection |
| PreBind | `pre_bind(state, pod, node_name)` | once nobody waits | None, a rejection, or AwaitEffects |
| Bind | `bind(state, pod, node_name)` | then; the first that does not Skip wins | BindPod, Skip |
| PostBind | `post_bind(state, pod, node_name)` | when the binding is known to have succeeded | nothing |

A plugin with both forms of Filter or Score is asked in the wide one about many nodes and in the narrow one about a few that
changed, for which arrays would be dearer than the answer: both have to say the same.

`None` always means success.  `queueing_hint(event, change, pod, reason)` may refine which events wake a refused pod.  A
Filter plugin that refuses nodes whose free resources are below a pod's requests, or that have as many pods as they offer,
may say what it counts with `counted_requests(pod)`: that lets gangs be refused without a search.  One that refuses nodes for
nothing else sets COUNTS_ONLY: then sums say whom a pod would have to evict.

`same_score(pod, nodes)` spares a plugin and the engine the work for pods that it has no opinion on: if it answers with a
number, neither Score nor `normalize` is asked, whatever comes to stand on the nodes, until a Node object changes.  So it may
read only Node objects and what `READS_SHAPE_ONLY` lets a plugin read of a pod.

Two methods keep plugins cheap that look further than at one node and one shape.  `sign(pod)` returns, as a hashable value,
what the plugin reads of a pod beyond its shape.  `is_settled(state, pod, point)` tells, for `point` "filter" or "score",
whether what the plugin said there still holds for all nodes but those that changed themselves; without it, a plugin that
is not READS_ONE_NODE is asked about all nodes again after every change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .status import Code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic import BaseModel

    from scheduler.model import Pod
    from scheduler.state.snapshot import Bools, Ints, Nodes

    from .effects import Effect
    from .handle import Handle
    from .status import Status


class Plugin:
    """Base of all plugins: name, arguments and handle; it implements no point."""

    #: The name in configurations, messages and metrics.
    NAME: ClassVar[str] = ""
    #: The pydantic model of `pluginConfig[].args`; None if the plugin takes none.
    Args: ClassVar[type[BaseModel] | None] = None
    #: Filter and Score read only Node objects, never what stands on them: verdicts last until a node changes.
    READS_NODES_ONLY: ClassVar[bool] = False
    #: What PreFilter, Filter and Score say of a node depends on that node, the pods on it, and the pod; a plugin that
    #: looks at other nodes or at the whole cluster leaves it False, and is asked about all nodes after each change.
    READS_ONE_NODE: ClassVar[bool] = False
    #: Filter and Score read only what `Pod.shape` covers, and what `sign` returns; a plugin that reads more leaves it False.
    READS_SHAPE_ONLY: ClassVar[bool] = False
    #: Filter passes a node exactly if it has fewer pods than it offers, and free of each resource what `counted_requests`
    #: tells, as far as that is more than nothing, if `sign` says nothing of the pod; it has the narrow form.
    COUNTS_ONLY: ClassVar[bool] = False
    #: `sign` says the same of all pods without volumes, claims and extended resources, and is not asked about them.
    SIGNS_STORAGE_ONLY: ClassVar[bool] = False
    #: PostFilter may help without evicting anybody, so it is asked also about workloads that no eviction could help.
    HELPS_WITHOUT_VICTIMS: ClassVar[bool] = False

    def __init__(self, args: Any, handle: Handle) -> None:
        """Keep the arguments (an instance of `Args`, or None) and the handle."""
        self.args = args
        self.handle = handle

    def is_gate_on(self, name: str) -> bool:
        """Tell whether a feature gate was switched on by the configuration; all are off otherwise."""
        return self.handle is not None and self.handle.gates.get(name, False)


@dataclass(frozen=True, slots=True)
class Domain:
    """A part of the cluster that a gang may be placed in as a whole."""

    name: str
    #: Rows of the snapshot, ascending.
    rows: tuple[int, ...]
    #: Lower is tighter; tighter domains are tried first.
    level: int = 0


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that must go, and why."""

    pod: Pod
    node_name: str
    violates_budget: bool = False
    #: Where it can go on, in the same plan; empty if there is no place for it.
    moves_to: str = ""


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """A plan to make room: whom to evict, and where each pod of the workload is nominated."""

    victims: tuple[Victim, ...]
    #: Pod uid to node name.
    nominations: dict[str, str]
    message: str = ""


@dataclass(slots=True)
class Failure:
    """What PostFilter learns of a failed attempt."""

    #: All nodes, in row order.
    nodes: Nodes
    #: For a pod: the status of every node, made when it is asked for; None for a node that passed. Empty for a gang.
    statuses: Sequence[Status | None] = ()
    #: Set when PreFilter refused the pod.
    early: Status | None = None
    #: The rows that evictions may help, if that is known without the statuses: shape (nodes,).
    resolvable: Bools | None = None

    def resolvable_rows(self) -> Ints:
        """Return the rows that evictions may help, ascending: those whose status is Unschedulable."""
        if self.resolvable is not None:
            return np.flatnonzero(self.resolvable)
        rows = [i for i, s in enumerate(self.statuses) if s is not None and s.code is Code.UNSCHEDULABLE]
        return np.array(rows, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class AwaitEffects:
    """PreBind: carry these effects out, in order, before the pod is bound, and wait until a check is satisfied.

    The edge reports when the last is done; the first that fails, or no report in time, gives everything back.
    """

    effects: tuple[Effect, ...]
    #: Names what is waited for, in messages; of one plugin's own choice, different from those of others.
    until_key: str
    timeout_seconds: float
    #: Asked when the effects are done and again whenever an object that is only read changes: None ends the wait, a
    #: status of code WAIT goes on with it, any other gives everything back.
    check: Callable[[], Status | None] | None = None
