"""PodTopologySpread keeps pods that are alike evenly spread over the values of a node label, or prefers them so.

At Filter for constraints with DoNotSchedule, at Score for ScheduleAnyway; pods without constraints get the profile's
defaults for the Service or controller they belong to.  Semantics are kube-scheduler's, also where they surprise: an empty
selector counts no pod that is there, and terminating pods do not count.  Counts come from the snapshot's index of pods.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np

from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Code, Reason, Status
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api import SpreadConstraint
from scheduler.model.label_tests import selects
from scheduler.model.pod_terms import spread_of
from scheduler.state.loops import Near, fewest_best, sum_near
from scheduler.state.node_selectors import required_holds
from scheduler.state.node_taints import untolerated

from .args import HARD, SOFT, PodTopologySpreadArgs
from .constraints import HOSTNAME, SYSTEM_DEFAULTS, Constraints, question_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy.typing as npt

    from scheduler.framework.change import Change
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.model import Pod
    from scheduler.model.pod_terms import Spread
    from scheduler.state.snapshot import Bools, Ints, Nodes, Snapshot

NAME = "PodTopologySpread"
TAINT_GATE = "TaintTolerationComparisonOperators"
_NODES = ClusterEvent.NODE_ADDED | ClusterEvent.NODE_REMOVED | ClusterEvent.NODE_LABELS | ClusterEvent.NODE_TAINTS
_PODS = ClusterEvent.POD_ASSIGNED | ClusterEvent.POD_REMOVED | ClusterEvent.POD_LABELS
CURES = _NODES | _PODS | ClusterEvent.POD_UPDATED
TEXT = "node(s) didn't match pod topology spread constraints"
SKEWED = Reason("TopologySpread", TEXT, CURES)
NO_LABEL = Reason("TopologySpreadLabelMissing", f"{TEXT} (missing required label)", CURES)
_BELOW_HALF = math.nextafter(0.5, 0)


def rounded(numbers: npt.NDArray[np.float64]) -> Ints:
    """Round numbers that are not negative to the nearest whole ones, halves up; they are overwritten.

    Adding 1/2 would lift 0.49999999999999994 to 1; the largest number below 1/2 does not, and still lifts every half.
    """
    numbers += _BELOW_HALF
    return numbers.astype(np.int64)


def _sums(scoring: Scoring, nodes: Nodes) -> Ints | None:
    """Return the scores of all nodes in one pass; None if a node lacks a topology key, or that cannot be had."""
    parts = []
    for constraint, counts, weight in zip(scoring.constraints, scoring.counts, scoring.weights, strict=True):
        domains = nodes.snapshot.domains(constraint.topology_key)
        if not (nodes.is_whole and domains.is_everywhere):
            return None
        numbers = None if constraint.topology_key == HOSTNAME else domains.with_absent
        parts.append(Near(counts, numbers, weight, constraint.max_skew - 1))
    return sum_near(tuple(parts), _BELOW_HALF, len(nodes))


@dataclass(frozen=True, slots=True)
class Scoring:
    """What PreScore found out about the feasible nodes."""

    constraints: tuple[Spread, ...]
    #: Which feasible nodes lack a topology key and are not scored, shape (feasible,); None if none does.
    is_ignored: Bools | None
    #: By constraint: the matching pods of each domain, by its number; for hostname of each row.
    counts: tuple[npt.NDArray[Any], ...]
    weights: tuple[float, ...]
    stamp: tuple[Any, ...]


class PodTopologySpread(Plugin):
    """Spread pods over domains."""

    NAME: ClassVar[str] = NAME
    Args = PodTopologySpreadArgs
    READS_SHAPE_ONLY: ClassVar[bool] = True

    def __init__(self, args: PodTopologySpreadArgs | None, handle: Handle) -> None:
        """Read the default constraints."""
        super().__init__(args or PodTopologySpreadArgs(), handle)
        self._is_system = self.args.defaulting_type == "System"
        listed = [spread_of(msgspec.convert(c, SpreadConstraint), {}) for c in self.args.default_constraints]
        defaults = SYSTEM_DEFAULTS if self._is_system else tuple(listed)
        self._constraints = Constraints(handle, defaults)

    def sign(self, pod: Pod) -> Hashable:
        """Return which of its own constraints a pod counts for, or what its owners select."""
        if pod.spreads:
            self.handle.snapshot.pods.name_keys([t.key for s in pod.spreads for t in s.selector or ()])
            return tuple([selects(s.selector, pod.labels) for s in pod.spreads])
        return self._constraints.owners_selector(pod) if self._constraints.defaults else None

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Leave pods without hard constraints alone."""
        constraints = self._constraints.of(pod, HARD)
        if not constraints:
            return Status.skip()
        for constraint in constraints:
            if constraint.problem:
                return Status.error(f"obtaining pod's hard topology spread constraints: {constraint.problem}")
        state.write((NAME, "filter"), self._stamp(pod, constraints))
        return None

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse nodes without a topology key, and nodes where the pod would skew the counts too much."""
        constraints, snapshot = self._constraints.of(pod, HARD), nodes.snapshot
        verdicts, passing = Verdicts(len(nodes)), np.ones(len(nodes), dtype=np.bool_)
        eligible = self._eligible(pod, constraints, snapshot, has_all_keys=True)
        for constraint, counted in zip(constraints, eligible, strict=True):
            domains = snapshot.domains(constraint.topology_key)
            if not domains.is_everywhere:
                is_there = nodes.at(domains.is_there)
                verdicts.reject(passing & ~is_there, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NO_LABEL)
                passing = passing & is_there
            matching = self._matching(pod, constraint, snapshot)
            totals = domains.totals(matching if counted is None else matching * counted)
            lowest, number = domains.lowest(totals, counted)
            if number < constraint.min_domains:
                lowest = 0
            own = int(selects(constraint.selector, pod.labels))
            is_skewed = totals > constraint.max_skew - own + lowest
            if is_skewed.any():
                skewed = nodes.at(domains.at_rows(is_skewed))
                verdicts.reject(passing & skewed, Code.UNSCHEDULABLE, SKEWED)
                passing = passing & ~skewed
        return verdicts

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Count over the domains of the feasible nodes; leave pods without soft constraints alone."""
        constraints = self._constraints.of(pod, SOFT)
        if not constraints:
            return Status.skip()
        for constraint in constraints:
            if constraint.problem:
                return Status.error(f"obtaining pod's soft topology spread constraints: {constraint.problem}")
        snapshot = nodes.snapshot
        needs_all = bool(pod.spreads) or not self._is_system
        is_ignored: Bools | None = None
        for constraint in constraints if needs_all else ():
            domains = snapshot.domains(constraint.topology_key)
            if not domains.is_everywhere:
                is_absent = ~nodes.at(domains.is_there)
                is_ignored = is_absent if is_ignored is None else is_ignored | is_absent
        counts, weights = [], []
        eligible = self._eligible(pod, constraints, snapshot, has_all_keys=needs_all)
        for constraint, counted in zip(constraints, eligible, strict=True):
            matching, domains = self._matching(pod, constraint, snapshot), snapshot.domains(constraint.topology_key)
            if constraint.topology_key == HOSTNAME:
                counts.append(matching)
                size = len(nodes) if is_ignored is None else int(np.count_nonzero(~is_ignored))
            else:
                counts.append(domains.totals_with_absent(matching if counted is None else matching * counted))
                size = domains.number_with_absent
                if is_ignored is not None or not nodes.is_whole:
                    numbers = nodes.at(domains.with_absent)
                    scored = numbers if is_ignored is None else numbers[~is_ignored]
                    size = int(np.count_nonzero(np.bincount(scored)))
            weights.append(math.log(size + 2))
        stamp = self._stamp(pod, constraints)
        state.write((NAME, "score"), Scoring(constraints, is_ignored, tuple(counts), tuple(weights), stamp))
        return None

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return the weighted number of matching pods near each node, the fewer the better."""
        scoring: Scoring = state.read((NAME, "score"))
        snapshot = nodes.snapshot
        if (sums := _sums(scoring, nodes)) is not None:
            return sums
        total: npt.NDArray[np.float64] | None = None
        is_missing: Bools | None = None
        for constraint, counts, weight in zip(scoring.constraints, scoring.counts, scoring.weights, strict=True):
            domains = snapshot.domains(constraint.topology_key)
            is_host = constraint.topology_key == HOSTNAME
            part = (nodes.at(counts) if is_host else counts) * weight
            part += constraint.max_skew - 1
            if not is_host:
                part = part.take(nodes.at(domains.with_absent))
            if not domains.is_everywhere:
                is_there = nodes.at(domains.is_there)
                part *= is_there
                is_missing = ~is_there if is_missing is None else is_missing | ~is_there
            total = part if total is None else total + part
        assert total is not None
        if is_missing is not None and (pod.spreads or not self._is_system):
            total[is_missing] = 0.0
        return rounded(total)

    def normalize(self, state: CycleState, pod: Pod, scores: Ints) -> Ints:
        """Return 100 for the fewest pods, less for more; 0 for nodes that are not scored."""
        is_ignored = state.read((NAME, "score")).is_ignored
        scored = scores if is_ignored is None else scores[~is_ignored]
        if not len(scored):
            return np.zeros_like(scores)
        if is_ignored is None and (turned := fewest_best(scores)) is not None:
            return turned
        lowest, highest = int(scored.min()), int(scored.max(initial=0))
        if highest <= 0:
            normal = np.full_like(scores, 100)
        else:
            normal = highest + lowest - scores
            normal *= 100
            normal //= highest
        if is_ignored is not None:
            normal[is_ignored] = 0
        return normal

    def queueing_hint(self, event: ClusterEvent, change: Change, pod: Pod, reason: Reason) -> bool:
        """Tell whether a pod that counts came, went or changed its labels, or a node with the topology keys did."""
        constraints, cluster = self._constraints.of(pod, HARD), self.handle.cluster
        if event & _NODES:
            labels = [n.labels for n in (cluster.nodes.get(change.node_name), change.former_node) if n is not None]
            return any(all(c.topology_key in of_node for c in constraints) for of_node in labels)
        pods = [p for p in (cluster.pods.get(change.pod_uid), change.former_pod) if p is not None]
        if not event & _PODS or not pods:
            return True
        near = [other for other in pods if other.namespace == pod.namespace]
        return any(selects(c.selector, other.labels) for c in constraints for other in near)

    def is_settled(self, state: CycleState, pod: Pod, point: str) -> bool:
        """Tell whether the counts that matter for a pod are still the same."""
        if point == "filter":
            constraints = self._constraints.of(pod, HARD)
            return not constraints or bool(state.read((NAME, "filter")) == self._stamp(pod, constraints))
        constraints = self._constraints.of(pod, SOFT)
        scoring: Scoring | None = state.read((NAME, "score"))
        return not constraints or (scoring is not None and scoring.stamp == self._stamp(pod, constraints))

    def _eligible(
        self, pod: Pod, constraints: Sequence[Spread], snapshot: Snapshot, *, has_all_keys: bool
    ) -> list[Bools | None]:
        """Tell, for each constraint, which rows count: those with all topology keys that its policies let in."""
        nodes = snapshot.nodes
        base: Bools | None = None
        if has_all_keys:
            for constraint in constraints:
                domains = snapshot.domains(constraint.topology_key)
                if not domains.is_everywhere:
                    base = domains.is_there if base is None else base & domains.is_there
        found: list[Bools | None] = []
        for constraint in constraints:
            mask = base
            if constraint.honors_affinity and (held := required_holds(pod, nodes)) is not None:
                mask = held if mask is None else mask & held
            if constraint.honors_taints:
                refused, taints = untolerated(nodes, pod.tolerations, compares=self.is_gate_on(TAINT_GATE))
                if taints:
                    mask = refused == 0 if mask is None else mask & (refused == 0)
            found.append(mask)
        return found

    def _matching(self, pod: Pod, constraint: Spread, snapshot: Snapshot) -> Ints:
        """Return how many pods on each row match a constraint's selector, shape (rows,)."""
        return snapshot.pods.by_rows(snapshot.pods.count(question_of(pod, constraint)).column)

    def _stamp(self, pod: Pod, constraints: Sequence[Spread]) -> tuple[Any, ...]:
        index = self.handle.snapshot.pods
        return (constraints, *[index.count(question_of(pod, c)).version for c in constraints])
