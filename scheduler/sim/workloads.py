"""Workload controllers: they make pods, replace those that are lost, and say when the workload has ended.

For the embedded cluster, which tells them what became of their pods.  Jobs are in `jobs`, DaemonSets in `daemons`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from scheduler.model.api import ApiPod, LabelSelector, ObjectMeta, OwnerReference, PodStatus
from scheduler.model.volume_api import ClaimSource, Volume

from .annotations import EXIT_CODE, FAIL_COUNT, count_of
from .defaults import rfc3339, suffix_of
from .known import owner_of_pods
from .objects import copy_meta
from .storage import claim_of_pod

if TYPE_CHECKING:
    from scheduler.model.api import PodSpec

    from .cluster import Cluster, SimPod
    from .objects import ApiReplicas, PodTemplate
    from .world import ControllerObject, Owner

_API_VERSIONS = {"Job": "batch/v1"} | dict.fromkeys(("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet"), "apps/v1")
_HASH_LABEL = "pod-template-hash"


class Controller:
    """Base of all controllers: makes pods of a template and counts them."""

    def __init__(self, owner: Owner, root: Owner, cluster: Cluster) -> None:
        """Act for an object in a cluster."""
        self.owner = owner
        self.root = root
        self.cluster = cluster
        #: The pods that have neither ended nor been asked to go, by uid.
        self.active: dict[str, SimPod] = {}
        self.made = 0
        self.failures = 0
        #: Succeeded or Failed, once the workload has ended.
        self.ended = ""

    @property
    def wanted(self) -> int:
        """How many pods it wants at first."""
        return 0

    @property
    def is_suspended(self) -> bool:
        """Whether it is suspended, so that it makes no pods."""
        return False

    @property
    def template(self) -> PodTemplate | None:
        """What its pods look like, or None if it has no template."""
        return None

    @property
    def maker(self) -> tuple[str, str]:
        """Kind and name of the object that its pods say they belong to."""
        return self.owner.kind, self.owner.name

    def begin(self) -> None:
        """Make the first pods."""
        self.reconcile()

    def reconcile(self) -> None:
        """Make what is missing."""

    def adopt(self, sim: SimPod) -> None:
        """Take on a pod that was there before."""
        if sim.is_active:
            self.active[sim.pod.uid] = sim

    def pod_started(self, sim: SimPod) -> None:
        """Hear that a pod runs."""

    def pod_ended(self, sim: SimPod) -> None:
        """Hear that a pod has succeeded or failed."""
        self.active.pop(sim.pod.uid, None)
        self.failures += sim.pod.phase == "Failed"
        self.reconcile()

    def pod_terminating(self, sim: SimPod) -> None:
        """Hear that a pod was asked to go, and will be gone later."""
        self.active.pop(sim.pod.uid, None)
        self.reconcile()

    def pod_removed(self, sim: SimPod) -> None:
        """Hear that a pod is gone."""
        self.active.pop(sim.pod.uid, None)
        self.reconcile()

    def exit_code(self, sim: SimPod) -> int:
        """Return what a pod ends with: its annotated code, until so many have failed as are to fail."""
        limit = count_of(sim.pod.annotations, FAIL_COUNT)
        if limit is not None and self.failures >= limit:
            return 0
        return count_of(sim.pod.annotations, EXIT_CODE) or 0

    def make_pod(
        self, name: str, run_seconds: float | None = None, labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None, spec: PodSpec | None = None,
    ) -> SimPod:  # fmt: skip
        """Create a pod of the template, or with another spec than the template's."""
        template = self.template
        assert template is not None
        kind, owner_name = self.maker
        owner = OwnerReference(kind=kind, name=owner_name, api_version=_API_VERSIONS[kind], controller=True)
        meta = copy_meta(template.metadata)
        meta = ObjectMeta(
            name=name,
            namespace=self.owner.namespace,
            uid=self.cluster.next_uid(self.owner.namespace, name),
            creation_timestamp=rfc3339(self.cluster.clock()),
            labels=(meta.labels or {}) | (labels or {}),
            annotations=(meta.annotations or {}) | (annotations or {}),
            owner_references=[owner],
        )
        self.made += 1
        sim = self.cluster.create_pod(ApiPod(metadata=meta, spec=spec or template.spec), run_seconds, self, self.root)
        self.active[sim.pod.uid] = sim
        return sim


class Replicated(Controller):
    """What makes so many pods of one template."""

    def __init__(self, item: ControllerObject, api: ApiReplicas, cluster: Cluster) -> None:
        """Keep the spec."""
        super().__init__(item.owner, item.root, cluster)
        self._spec = api.spec

    @property
    def wanted(self) -> int:
        """The replicas."""
        return self._spec.replicas

    @property
    def template(self) -> PodTemplate:
        """The template."""
        return self._spec.template


class ReplicaController(Replicated):
    """A ReplicaSet or Deployment: so many pods, for ever."""

    @property
    def maker(self) -> tuple[str, str]:
        """Kind and name of the ReplicaSet; a Deployment has one whose name ends with a hash."""
        if self.owner.kind == "Deployment":
            return "ReplicaSet", f"{self.owner.name}-{self._hash}"
        return super().maker

    @property
    def _hash(self) -> str:
        return suffix_of("ReplicaSet", *self.owner, length=10)

    def begin(self) -> None:
        """Make the ReplicaSet of a Deployment known, then the first pods."""
        if self.owner.kind == "Deployment":
            kind, name = self.maker
            chosen = self._spec.selector or LabelSelector()
            labels = (chosen.match_labels or {}) | {_HASH_LABEL: self._hash}
            selector = msgspec.structs.replace(chosen, match_labels=labels)
            meta = ObjectMeta(name=name, namespace=self.owner.namespace)
            self.cluster.storage.add(owner_of_pods(kind, meta, selector))
        self.reconcile()

    def reconcile(self) -> None:
        """Make the missing replicas."""
        labels = {_HASH_LABEL: self._hash} if self.owner.kind == "Deployment" else {}
        while len(self.active) < self._spec.replicas:
            self.make_pod(f"{self.maker[1]}-{suffix_of(*self.owner, self.made)}", labels=labels)


class StatefulController(Replicated):
    """A StatefulSet: pods with fixed names, one after the other unless its policy is Parallel."""

    def pod_started(self, sim: SimPod) -> None:
        """Make the next pod."""
        del sim
        self.reconcile()

    def reconcile(self) -> None:
        """Make the missing pods, in order; a name is used again only when the former pod is gone."""
        present = {sim.pod.name: sim for sim in self.cluster.pods.values() if sim.controller is self}
        for ordinal in range(self._spec.replicas):
            name = f"{self.owner.name}-{ordinal}"
            found = present.get(name)
            if found is None:
                labels = {"apps.kubernetes.io/pod-index": str(ordinal), "statefulset.kubernetes.io/pod-name": name}
                found = self.make_pod(name, labels=labels, spec=self._with_claims(name))
            elif found.pod.is_terminal:
                self.cluster.remove_pod(found)
                return
            if self._spec.pod_management_policy == "OrderedReady" and found.pod.phase != "Running":
                return

    def _with_claims(self, pod_name: str) -> PodSpec:
        """Return the spec of a pod with the claims of its own, which are made if they are not there yet, and stay."""
        spec, claimed = self.template.spec, list[Volume]()
        for template in self._spec.volume_claim_templates or ():
            volume, name = template.metadata.name, f"{template.metadata.name}-{pod_name}"
            claimed.append(Volume(name=volume, persistent_volume_claim=ClaimSource(claim_name=name)))
            if not self.cluster.storage.has_claim(self.owner.namespace, name):
                meta = ObjectMeta(name=pod_name, namespace=self.owner.namespace)
                self.cluster.storage.add_claim(claim_of_pod(template, name, meta, is_owned=False))
        names = {volume.name for volume in claimed}
        others = [volume for volume in spec.volumes or () if volume.name not in names]
        return msgspec.structs.replace(spec, volumes=[*others, *claimed]) if claimed else spec


class Remaker(Controller):
    """Stands in for a controller that the input does not have: a pod that is evicted is made again."""

    def pod_ended(self, sim: SimPod) -> None:
        """Hear that a pod has ended: it had its time."""

    def pod_terminating(self, sim: SimPod) -> None:
        """Wait until it is gone."""

    def pod_removed(self, sim: SimPod) -> None:
        """Make a pod anew that was evicted."""
        if not sim.is_evicted:
            return
        name = sim.pod.name
        if self.owner.kind != "StatefulSet":
            prefix = name.rpartition("-")[0] or name
            name = f"{prefix}-{suffix_of(*self.owner, name, self.made)}"
        self.made += 1
        meta = copy_meta(
            sim.api.metadata,
            name=name,
            uid=self.cluster.next_uid(sim.pod.namespace, name),
            creation_timestamp=rfc3339(self.cluster.clock()),
            deletion_timestamp=None,
            annotations=without_ours(sim.api.metadata.annotations),
        )
        spec = msgspec.structs.replace(sim.api.spec, node_name="")
        self.cluster.create_pod(ApiPod(metadata=meta, spec=spec, status=PodStatus()), sim.run_seconds, self, self.root)


def without_ours(annotations: dict[str, str] | None) -> dict[str, str]:
    """Return annotations without those that the former binding brought."""
    ours = tuple(f"scheduling.ai-scheduler.io/{key}" for key in ("gpus", "nics", "domain", "placement"))
    return {key: value for key, value in (annotations or {}).items() if key not in ours}
