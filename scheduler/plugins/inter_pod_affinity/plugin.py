"""InterPodAffinity keeps pods near the pods they need and away from those they cannot stand, and prefers those they like.

At Filter for required terms, of the pod and of the pods that are there; at Score for preferred ones, also both ways.
Semantics are kube-scheduler's.  Counts come from the snapshot's index of pods, so no pod is looked at here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field

from scheduler.config import ConfigurationModel
from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Code, Reason, Status
from scheduler.framework.verdicts import Verdicts
from scheduler.model.owners import Namespace

from .questions import NOTHING, Nearness, means
from .sums import by_key, is_any_there, is_anywhere, is_near

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scheduler.framework.change import Change
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.model import Pod
    from scheduler.state.pod_index import Carried
    from scheduler.state.snapshot import Bools, Ints, Nodes, Snapshot

    from .questions import Near

NAME = "InterPodAffinity"
HOSTNAME = "kubernetes.io/hostname"
#: With this gate kube-scheduler counts hostname terms node by node; it changes corner cases only.
FAST_PATH_GATE = "InterPodAffinityHostnameFastPath"
_NODES = ClusterEvent.NODE_ADDED | ClusterEvent.NODE_LABELS
_PODS = ClusterEvent.POD_REMOVED | ClusterEvent.POD_LABELS | ClusterEvent.POD_UPDATED | ClusterEvent.NAMESPACE_CHANGED
_ASSIGNED = ClusterEvent.POD_ASSIGNED | ClusterEvent.POD_LABELS
_GONE = ClusterEvent.POD_REMOVED | ClusterEvent.POD_LABELS
NO_AFFINITY = Reason(
    "PodAffinityMismatch", "node(s) didn't match pod affinity rules", _NODES | _PODS | ClusterEvent.POD_ASSIGNED
)
ANTI_AFFINITY = Reason("PodAntiAffinity", "node(s) didn't match pod anti-affinity rules", _NODES | _PODS)
EXISTING = Reason(
    "ExistingPodsAntiAffinity", "node(s) didn't satisfy existing pods anti-affinity rules", _NODES | _PODS
)


class InterPodAffinityArgs(ConfigurationModel):
    """Arguments, as kube-scheduler's InterPodAffinityArgs."""

    hard_pod_affinity_weight: int = Field(1, ge=0, le=100)
    """What the required affinity of a pod that is there is worth to one that it means."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """Leave the preferences of pods that are there out, unless the new pod has preferences itself."""


class InterPodAffinity(Plugin):
    """Affinity and anti-affinity between pods."""

    NAME: ClassVar[str] = NAME
    Args = InterPodAffinityArgs
    READS_SHAPE_ONLY: ClassVar[bool] = True

    def __init__(self, args: InterPodAffinityArgs | None, handle: Handle) -> None:
        """Start without any question asked."""
        super().__init__(args or InterPodAffinityArgs(), handle)
        self._near = Nearness(handle)

    def sign(self, pod: Pod) -> Hashable:
        """Return the labels that some selector reads, as pods that are there may object to them; namespaces count too."""
        index = self.handle.snapshot.pods
        if pod.terms is not None:
            index.name_keys(pod.terms.label_keys())
        return index.projection(pod.labels), self.handle.cluster.objects.generation(Namespace)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Refuse terms that make no sense; leave pods alone that neither ask for anything nor are objected to."""
        if pod.terms is not None and pod.terms.problem:
            text = f"parsing pod: {pod.terms.problem}"
            return Status.unresolvable(Reason("PodAffinityInvalid", text, ClusterEvent.POD_UPDATED))
        near = self._near.of(pod)
        objections = self._objections(pod)
        state.write((NAME, "filter"), self._filter_stamp(near, objections))
        state.write((NAME, "carried", "filter"), nodes.snapshot.pods.carried_version)
        if near.affinity is not None or near.anti or self._is_looked_at_node_by_node():
            return None
        snapshot = nodes.snapshot
        return None if any(is_anywhere(carried, snapshot) for carried in objections) else Status.skip()

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse nodes without the pods that are needed near, and nodes with pods that are not stood, either way."""
        snapshot, near = nodes.snapshot, self._near.of(pod)
        verdicts, passing = Verdicts(len(nodes)), np.ones(len(nodes), dtype=np.bool_)
        if near.affinity is not None:
            passing = nodes.at(self._affinity_holds(near, pod, snapshot))
            verdicts.reject(~passing, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NO_AFFINITY)
        for key, question in near.anti:
            found = passing & nodes.at(is_near(snapshot, key, question))
            verdicts.reject(found, Code.UNSCHEDULABLE, ANTI_AFFINITY)
            passing = passing ^ found
        if objections := self._objections(pod):
            rows = np.zeros(len(snapshot.all_rows), dtype=np.bool_)
            for key, counts in by_key(objections, snapshot, {"anti_affinity": 1}).items():
                domains = snapshot.domains(key)
                rows |= domains.at_rows(domains.totals(counts) > 0)
            verdicts.reject(passing & nodes.at(rows), Code.UNSCHEDULABLE, EXISTING)
        return verdicts

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Leave pods alone whom no preference concerns; keep the sums per topology key."""
        snapshot, near = nodes.snapshot, self._near.of(pod)
        likings = self._likings(pod)
        state.write((NAME, "score"), self._score_stamp(near, likings))
        state.write((NAME, "carried", "score"), snapshot.pods.carried_version)
        if self.args.ignore_preferred_terms_of_existing_pods and not near.preferred:
            return Status.skip()
        sums = by_key(likings, snapshot, self._weights())
        is_any = any(is_anywhere(carried, snapshot) for carried in likings)
        for key, question, weight in near.preferred:
            counts = snapshot.pods.by_rows(snapshot.pods.count(question).column)
            is_any = is_any or is_any_there(counts, snapshot.domains(key))
            sums[key] = sums[key] + weight * counts if key in sums else weight * counts
        state.write((NAME, "sums"), sums)
        return None if is_any else Status.skip()

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return the sum of the weights of the preferences that concern each node."""
        snapshot = nodes.snapshot
        sums: dict[str, Ints] = state.read((NAME, "sums"))
        parts = [nodes.at(snapshot.domains(key).sums(counts)) for key, counts in sums.items()]
        if len(parts) == 1:
            return parts[0].copy()  # it may be what is kept
        return sum(parts, np.zeros(len(nodes), dtype=np.int64))

    def normalize(self, state: CycleState, pod: Pod, scores: Ints) -> Ints:
        """Return 0 for the lowest sum and 100 for the highest."""
        if not len(scores):
            return scores
        lowest, highest = int(scores.min()), int(scores.max())
        if highest == lowest:
            return np.zeros_like(scores)
        shares = (scores - lowest) / float(highest - lowest)
        shares *= 100.0
        return shares.astype(np.int32).astype(np.int64)  # faster than in one step

    def queueing_hint(self, event: ClusterEvent, change: Change, pod: Pod, reason: Reason) -> bool:
        """Tell whether a pod came that is needed near, one went that was not stood, or a node got another domain."""
        terms, cluster = pod.terms or NOTHING, self.handle.cluster
        if event & _NODES:
            node, former = cluster.nodes.get(change.node_name), change.former_node
            if node is None or reason is EXISTING:
                return node is not None
            keys = [term.topology_key for term in (*terms.affinity, *terms.anti_affinity)]
            return former is None or any(node.labels.get(key) != former.labels.get(key) for key in keys)
        now, former_pod = cluster.pods.get(change.pod_uid), change.former_pod
        if not event & (_ASSIGNED | _GONE) or (now is None and former_pod is None):
            return True
        near = self._near.of(pod)
        if event & _GONE and former_pod is not None:
            is_left = event is ClusterEvent.POD_REMOVED or (now is not None and now.labels != former_pod.labels)
            if is_left and (any(means(q, former_pod) for _, q in near.anti) or self._objects(former_pod, pod)):
                return True
            if near.affinity is not None and means(near.affinity, former_pod) and means(near.affinity, pod):
                return True  # it may be the first of its kind now
        return now is not None and near.affinity is not None and means(near.affinity, now)

    def is_settled(self, state: CycleState, pod: Pod, point: str) -> bool:
        """Tell whether the counts that matter for a pod are still the same."""
        if pod.terms is None and state.read((NAME, "carried", point)) == self.handle.snapshot.pods.carried_version:
            return True
        near = self._near.of(pod)
        if point == "filter":
            return bool(state.read((NAME, "filter")) == self._filter_stamp(near, self._objections(pod)))
        return bool(state.read((NAME, "score")) == self._score_stamp(near, self._likings(pod)))

    def _affinity_holds(self, near: Near, pod: Pod, snapshot: Snapshot) -> Bools:
        """Tell for each row of the snapshot whether the required affinity holds there.

        Where nobody is meant by it yet, a pod that means itself may go anywhere.
        """
        index = snapshot.pods
        assert near.affinity is not None
        counts = index.by_rows(index.count(near.affinity).column)
        has_keys: Bools | None = None
        is_near_all: Bools | None = None
        is_any = False
        for key in near.affinity_keys:
            domains = snapshot.domains(key)
            if not domains.is_everywhere:
                has_keys = domains.is_there if has_keys is None else has_keys & domains.is_there
            totals = domains.totals(counts)
            is_near_one = domains.at_rows(totals > 0)
            is_near_all = is_near_one if is_near_all is None else is_near_all & is_near_one
            is_any = is_any or bool(totals.any())
        if self.is_gate_on(FAST_PATH_GATE) and set(near.affinity_keys) == {HOSTNAME}:
            is_any = bool((counts > 0).any())
        is_first = not is_any and near.affinity.means(pod.namespace, pod.labels)
        if is_first or is_near_all is None:
            return np.ones(len(counts), dtype=np.bool_) if has_keys is None else has_keys
        return is_near_all if has_keys is None else has_keys & is_near_all

    def _objects(self, other: Pod, pod: Pod) -> bool:
        """Tell whether a pod has something against another one."""
        namespace = self.handle.cluster.objects.get(Namespace, "", pod.namespace)
        labels = namespace.labels if namespace else {}
        return any(t.matches(pod.namespace, pod.labels, labels) for t in (other.terms or NOTHING).anti_affinity)

    def _objections(self, pod: Pod) -> list[Carried]:
        return self._carried(("anti_affinity",), pod)

    def _likings(self, pod: Pod) -> list[Carried]:
        return self._carried(tuple(kind for kind, weight in self._weights().items() if weight), pod)

    def _carried(self, kinds: tuple[str, ...], pod: Pod) -> list[Carried]:
        namespace = self.handle.cluster.objects.get(Namespace, "", pod.namespace)
        labels = namespace.labels if namespace else {}
        return self.handle.snapshot.pods.carried(kinds, pod.namespace, pod.labels, labels)

    def _weights(self) -> dict[str, int]:
        return {"affinity": self.args.hard_pod_affinity_weight, "preferred": 1, "preferred_anti": -1}

    def _is_looked_at_node_by_node(self) -> bool:
        """With the fast path, any hostname term of any pod keeps the plugin from being skipped."""
        if not self.is_gate_on(FAST_PATH_GATE):
            return False
        return any(c.term.topology_key == HOSTNAME for c in self.handle.snapshot.pods.all_carried("anti_affinity"))

    def _filter_stamp(self, near: Near, objections: list[Carried]) -> tuple[Any, ...]:
        count = self.handle.snapshot.pods.count
        asked = [question for _, question in near.anti] + ([near.affinity] if near.affinity else [])
        return (near, *[count(q).version for q in asked], *[c.version for c in objections])

    def _score_stamp(self, near: Near, likings: list[Carried]) -> tuple[Any, ...]:
        count = self.handle.snapshot.pods.count
        return (near, *[count(q).version for _, q, _ in near.preferred], *[c.version for c in likings])
