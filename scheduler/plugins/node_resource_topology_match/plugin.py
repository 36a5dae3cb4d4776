"""NodeResourceTopologyMatch keeps pods off nodes whose kubelet would reject them, and prefers nodes with the right NUMA nodes.

At PreFilter and PreScore, where it leaves everybody alone while nothing is reported, at Filter for kubelets with the policy
single-numa-node, and at Score for Guaranteed pods.  What it goes by are the NodeResourceTopology objects that an exporter on the
nodes writes; nodes without one are never refused, and have the score 0.

It is the plugin of kubernetes-sigs/scheduler-plugins, with these differences: sidecars keep what they take, as the kubelet has
it; pods of other schedulers are deducted like ours instead of closing their node; what a preemption would set free counts
where some NUMA node is sure to have room then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Code, Reason, Status
from scheduler.framework.verdicts import Verdicts
from scheduler.model.containers import BEST_EFFORT, GUARANTEED
from scheduler.model.node_resource_topology import NodeResourceTopology

from .aligning import containers_fit, pod_fits
from .args import LEAST_NUMA_NODES, NodeResourceTopologyMatchArgs
from .columns import Columns
from .exclusive import has_devices
from .least_numa import least_numa_scores
from .reports import Reports
from .scoring import FULL, STRATEGIES, fullness_scores

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.model import Pod
    from scheduler.state.snapshot import Bools, Ints, Nodes

NAME = "NodeResourceTopologyMatch"
_CURES = (
    ClusterEvent.POD_REMOVED
    | ClusterEvent.NODE_ADDED
    | ClusterEvent.NODE_ALLOCATABLE
    | ClusterEvent.RESOURCE_TOPOLOGY_CHANGED
)
POD = Reason("CannotAlignPod", "cannot align pod", _CURES)
CONTAINER = Reason("CannotAlignContainer", "cannot align container", _CURES)
INIT_CONTAINER = Reason("CannotAlignInitContainer", "cannot align init container", _CURES)
RESERVED = Reason("NodeHasReservedPods", "invalid node topology data", _CURES | ClusterEvent.POD_ASSIGNED)
REASONS = (POD, CONTAINER, INIT_CONTAINER, RESERVED)


class NodeResourceTopologyMatch(Plugin):
    """Align pods with NUMA nodes."""

    NAME: ClassVar[str] = NAME
    Args = NodeResourceTopologyMatchArgs
    READS_ONE_NODE: ClassVar[bool] = True
    READS_SHAPE_ONLY: ClassVar[bool] = True

    def __init__(self, args: NodeResourceTopologyMatchArgs | None, handle: Handle) -> None:
        """Start without memory: which pods a report counts is found out anew."""
        super().__init__(args or NodeResourceTopologyMatchArgs(), handle)
        self._reports = Reports(self.args, handle)
        self._weights = {entry.name: entry.weight for entry in self.args.scoring_strategy.resources}
        self._expiries = 0

    def sign(self, pod: Pod) -> Hashable:
        """Return what verdicts depend on beside the pod's shape and the node: whether there are reports, and time."""
        if not self._is_aligned(pod):
            return ()
        self._expiries += bool(self._reports.overdue(self.handle.now()))
        return self._has_reports, self._expiries

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Leave everybody alone while nothing is reported, and always pods that no kubelet aligns."""
        return None if self._is_aligned(pod) and self._has_reports else Status.skip()

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse nodes where a container, or the pod, fits into no NUMA node."""
        columns, verdicts = self._columns(nodes), Verdicts(len(nodes))
        if self.args.discard_reserved_nodes:
            reserved = self._reserved(columns, nodes)
            verdicts.reject(reserved, Code.UNSCHEDULABLE, RESERVED)
        is_single, is_pod_scope = columns.is_single[nodes.rows], columns.is_pod_scope[nodes.rows]
        if (as_pods := np.flatnonzero(is_single & is_pod_scope)).size:
            fits = pod_fits(columns, nodes.select(as_pods), pod)
            verdicts.reject(_mask(len(nodes), as_pods[~fits]), Code.UNSCHEDULABLE, POD)
        if (by_container := np.flatnonzero(is_single & ~is_pod_scope)).size:
            inits, apps = containers_fit(columns, nodes.select(by_container), pod)
            verdicts.reject(_mask(len(nodes), by_container[~inits]), Code.UNSCHEDULABLE, INIT_CONTAINER)
            verdicts.reject(_mask(len(nodes), by_container[inits & ~apps]), Code.UNSCHEDULABLE, CONTAINER)
        return verdicts

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Leave pods alone for which every node is as good: those that are not Guaranteed."""
        return None if pod.qos == GUARANTEED and self._has_reports else Status.skip()

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Rate nodes with a report by the strategy; the others have 0."""
        if pod.qos != GUARANTEED:
            return np.full(len(nodes), FULL, dtype=np.int64)
        columns, scores = self._columns(nodes), np.zeros(len(nodes), dtype=np.int64)
        kind = self.args.scoring_strategy.type
        is_rated = (columns.is_reported if kind == LEAST_NUMA_NODES else columns.is_single)[nodes.rows]
        for is_pod_scope in (True, False):
            some = np.flatnonzero(is_rated & (columns.is_pod_scope[nodes.rows] == is_pod_scope))
            if not some.size:
                continue
            rows = nodes.rows[some]
            if kind == LEAST_NUMA_NODES:
                scores[some] = least_numa_scores(columns, rows, pod, is_pod_scope=is_pod_scope)
            else:
                strategy = STRATEGIES[kind]
                scores[some] = fullness_scores(columns, rows, pod, strategy, self._weights, is_pod_scope=is_pod_scope)
        return scores

    def _is_aligned(self, pod: Pod) -> bool:
        return pod.qos != BEST_EFFORT or has_devices(pod)

    @property
    def _has_reports(self) -> bool:
        return bool(self.handle.cluster.objects.all(NodeResourceTopology))

    def _columns(self, nodes: Nodes) -> Columns:
        columns = nodes.snapshot.follower((NAME, id(self)), lambda: Columns(self._reports))
        columns.settle(self.handle.now())
        return columns

    def _reserved(self, columns: Columns, nodes: Nodes) -> Bools:
        """Return the nodes with a report that have pods whose binding is not done yet, shape (nodes,)."""
        rows = [nodes.snapshot.all_rows[row] for row in nodes.rows.tolist()]
        is_reserved = [any(not pod.node_name for pod in row.pods.values()) for row in rows]
        return columns.is_reported[nodes.rows] & np.array(is_reserved, dtype=np.bool_)


def _mask(size: int, positions: Ints) -> Bools:
    mask = np.zeros(size, dtype=np.bool_)
    mask[positions] = True
    return mask
