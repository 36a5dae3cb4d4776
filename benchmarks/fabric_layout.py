"""The fabric as the benchmark sees it: which node hangs on which switch, and the fewest leaf switches that a gang could use.

For `benchmarks.fabric`.  Read from the nodes' labels alone, by other code than the scheduler's, so that it can be its judge.  Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scheduler.model import TopologyConstraint
from tests.fabrics import TIER, ZONE, nodes_of_model, nodes_of_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tests.builders import NodeBuilder

    Ints = npt.NDArray[np.int64]

GPUS_PER_NODE = 8
#: Kinds of asking: for nothing, for levels to be tried, for one domain, for segments that are each on one leaf.
KINDS = ("none", "preferred", "required", "segmented")
#: Names of levels, with the label that tells the domain.
LABELS = {"tier-0": f"{TIER}0", "tier-1": f"{TIER}1", "tier-2": f"{TIER}2", "zone": ZONE}


@dataclass
class Layout:
    """Nodes by row, and the number of each row's domain at each level, shape (rows,)."""

    name: str
    #: Levels that gangs may require, the tightest first; `tier-0` is the leaf switch.
    levels: tuple[str, ...]
    #: How many pods make a segment, by how many GPUs a pod takes.
    segment: dict[int, int]
    nodes: list[NodeBuilder]
    names: list[str] = field(init=False)
    domains: dict[str, Ints] = field(init=False)

    def __post_init__(self) -> None:
        manifests = [node.manifest()["metadata"] for node in self.nodes]
        self.names = [meta["name"] for meta in manifests]
        self.domains = {}
        for level in self.levels:
            values = [meta["labels"][LABELS[level]] for meta in manifests]
            self.domains[level] = np.unique(values, return_inverse=True)[1].astype(np.int64)

    @property
    def capacity(self) -> int:
        """Return how many GPUs there are."""
        return len(self.nodes) * GPUS_PER_NODE

    def idle(self) -> Ints:
        """Return the free GPUs of each node when nothing runs, shape (rows,)."""
        return np.full(len(self.nodes), GPUS_PER_NODE, dtype=np.int64)

    def used(self, level: str, rows: Sequence[int]) -> int:
        """Return on how many domains of a level pods stand."""
        return len(np.unique(self.domains[level][np.array(rows, dtype=np.int64)]))

    def required_for(self, gpus: int) -> str:
        """Return the tightest level whose domains hold twice as many GPUs; the widest if none does."""
        for level in self.levels:
            if int(np.bincount(self.domains[level]).max()) * GPUS_PER_NODE >= 2 * gpus:
                return level
        return self.levels[-1]


@dataclass(frozen=True)
class Job:
    """A gang: so many pods with so many GPUs each, and what it asks of the fabric."""

    name: str
    pods: int
    gpus: int
    kind: str
    topology: TopologyConstraint | None
    arrival: float = 0.0
    seconds: float = 0.0
    priority: int = 0

    @property
    def total(self) -> int:
        """Return how many GPUs it takes."""
        return self.pods * self.gpus


def constraint(layout: Layout, kind: str, pods: int, gpus: int) -> TopologyConstraint | None:
    """Return what a gang of a kind asks for."""
    match kind:
        case "preferred":
            return TopologyConstraint(preferred=layout.levels[:2])
        case "required":
            return TopologyConstraint(required=layout.required_for(pods * gpus))
        case "segmented":
            return TopologyConstraint(segment_size=layout.segment[gpus], segment_required="tier-0")
    return None


def fewest_leaves(layout: Layout, free: Ints, job: Job) -> int | None:
    """Return the fewest leaf switches that a gang could use with so many GPUs free by row; None if it fits nowhere.

    The fullest leaves first: with equal pods that is the optimum.  A gang that has to be in one domain is measured by the best
    domain, one of segments by what each leaf could take in whole segments, so that the constraint itself is no fault.
    """
    slots, leaf, asked = free // job.gpus, layout.domains["tier-0"], job.topology
    room = np.bincount(leaf, weights=slots).astype(np.int64)
    if asked is not None and asked.segment_size:
        room = room // asked.segment_size * asked.segment_size
    if asked is None or not asked.required:
        return _greedy(room, job.pods)
    above = layout.domains[asked.required]
    counts = [_greedy(room[np.unique(leaf[above == domain])], job.pods) for domain in range(int(above.max()) + 1)]
    return min((count for count in counts if count is not None), default=None)


def is_kept(layout: Layout, job: Job, rows: Sequence[int]) -> bool:
    """Tell whether the rows, in the order of ranks, are what the gang asked for."""
    asked = job.topology
    if asked is not None and asked.required and layout.used(asked.required, rows) > 1:
        return False
    size = asked.segment_size if asked is not None else 0
    return not size or all(layout.used("tier-0", rows[k : k + size]) == 1 for k in range(0, len(rows), size))


def _greedy(room: Ints, count: int) -> int | None:
    filled = np.cumsum(np.sort(room)[::-1])
    return int(np.searchsorted(filled, count)) + 1 if len(filled) and filled[-1] >= count else None


def layouts() -> list[Layout]:
    """Return the fabrics: two of Topograph's models, and a tree of 256 racks with 4,096 GPUs."""
    tiers = ("tier-0", "tier-1", "tier-2")
    return [
        Layout("nvl72", tiers, dict.fromkeys((1, 2, 4, 8), 8), nodes_of_model("nvl72")),
        Layout("medium", tiers, {1: 8, 2: 4, 4: 4, 8: 2}, nodes_of_model("medium")),
        tree("tree", nodes_of_tree()),
    ]


def tree(name: str, nodes: list[NodeBuilder]) -> Layout:
    """Return a layout of `nodes_of_tree` with racks of two nodes: a segment is a rack, or eight pods where more fit."""
    return Layout(name, ("tier-0", "tier-1", "zone"), {1: 8, 2: 8, 4: 4, 8: 2}, nodes)
