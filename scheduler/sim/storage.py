"""The controllers of storage: they bind claims to volumes, and make volumes where a StorageClass can.

For the embedded cluster.  They do what kube-controller-manager's PersistentVolume controller and a CSI provisioner do, as far
as the scheduler sees it:

| claim | becomes bound |
|---|---|
| names a volume, or a volume names it | to that one |
| its class binds at once (or it has none) | to the smallest volume that fits, else to a new one |
| its class waits for the first consumer | when the scheduler has named a volume, or a node for which one is made |
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, TypeVar

import msgspec

from scheduler.engine.inputs import ObjectChanged, ObjectRemoved
from scheduler.model.api import NodeSelector, NodeSelectorTerm, ObjectMeta, OwnerReference, Requirement
from scheduler.model.label_tests import selects
from scheduler.model.pod_claims import claim_uses
from scheduler.model.storage import (
    BIND_COMPLETED_ANNOTATION,
    BOUND_BY_CONTROLLER_ANNOTATION,
    NO_PROVISIONER,
    SELECTED_NODE_ANNOTATION,
    Claim,
    NodeTest,
    PersistentVolume,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
    claim_from_api,
    persistent_volume_from_api,
)
from scheduler.model.storage_api import (
    ApiClaim,
    ApiPersistentVolume,
    ClaimStatus,
    CSISource,
    ObjectReference,
    VolumeReach,
    VolumeSpec,
    VolumeStatus,
)
from scheduler.state.objects import Objects

from .defaults import uid_of
from .objects import copy_meta

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.framework.effects import BindVolume, SelectNode
    from scheduler.model import Node, Pod
    from scheduler.model.label_tests import LabelTest
    from scheduler.state.objects import Key, Keyed

    from .cluster import Cluster

#: How long a provisioner takes to make a volume.
PROVISION_SECONDS = 1.0
#: Where a new volume can be used, if no CSIStorageCapacity says it: in the zone of its node.
_ZONE_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_BOUND, _AVAILABLE, _RELEASED = "Bound", "Available", "Released"


class Storage:
    """All claims, volumes, classes and what else is known of storage in a cluster."""

    def __init__(self, cluster: Cluster, default_class: str) -> None:
        """Start empty; claims that name no class get the default one, if there is one."""
        self._cluster = cluster
        self._default_class = default_class
        self.objects = Objects()
        self._claims: dict[Key, ApiClaim] = {}
        self._volumes: dict[str, ApiPersistentVolume] = {}
        #: Uids of claims for which a volume is being made.
        self._in_the_making: set[str] = set()
        #: Volumes made here, with the capacity that they were taken from, if any, and how much.
        self._made: dict[str, tuple[Key | None, int]] = {}
        self._versions = 0
        self._is_awake = False

    # What comes into being and goes.

    def add(self, thing: Keyed) -> None:
        """Take an object that has no other part here, and let claims that may have waited for it look again."""
        self.objects.put(thing)
        self._cluster.tell(ObjectChanged(thing))
        self._wake()

    def add_claim(self, api: ApiClaim) -> None:
        """Take a claim."""
        if api.spec.storage_class_name is None and self._default_class and not claim_from_api(api).class_name:
            spec = msgspec.structs.replace(api.spec, storage_class_name=self._default_class)
            api = msgspec.structs.replace(api, spec=spec)
        self._put_claim(api, phase=api.status.phase or "Pending")
        self._wake()

    def add_volume(self, api: ApiPersistentVolume) -> None:
        """Take a volume."""
        self._put_volume(api, phase=api.status.phase or _AVAILABLE)
        self._wake()

    def has_claim(self, namespace: str, name: str) -> bool:
        """Tell whether there is a claim of that name."""
        return (namespace, name) in self._claims

    def drop_claims_of(self, pod_uid: str) -> None:
        """Delete the claims of a pod that is gone, and give their volumes back."""
        for key in [key for key, claim in self.objects.all(Claim).items() if claim.controller_uid == pod_uid]:
            claim = self.objects.drop(Claim, key)
            assert claim is not None
            del self._claims[key]
            self._cluster.tell(ObjectRemoved(Claim, key))
            self._release(claim)

    def detach(self, pod: Pod, others: Iterable[Pod]) -> None:
        """Take away the attachments of a pod's volumes to its node, but for those that other pods there use."""
        freed = self._volumes_of(pod)
        if not freed:
            return
        freed -= {volume for other in others for volume in self._volumes_of(other)}
        for key, attachment in list(self.objects.all(VolumeAttachment).items()):
            if attachment.node_name == pod.node_name and attachment.volume_name in freed:
                self.objects.drop(VolumeAttachment, key)
                self._cluster.tell(ObjectRemoved(VolumeAttachment, key))

    # What the scheduler asks for.

    def bind_volume(self, effect: BindVolume) -> str:
        """Mean a volume for a claim; return why that failed, or nothing."""
        api = self._volumes.get(effect.volume_name)
        if api is None or api.metadata.resource_version != effect.resource_version:
            return f"PersistentVolume {effect.volume_name} has changed meanwhile, or is gone"
        reference = ObjectReference(namespace=effect.claim_namespace, name=effect.claim_name, uid=effect.claim_uid)
        self._put_volume(_with_spec(api, claim_ref=reference))
        self._wake()
        return ""

    def select_node(self, effect: SelectNode) -> str:
        """Choose where a claim's volume is to be made; return why that failed, or nothing."""
        key = (effect.claim_namespace, effect.claim_name)
        api = self._claims.get(key)
        if api is None or api.metadata.resource_version != effect.resource_version:
            return f"PersistentVolumeClaim {key[0]}/{key[1]} has changed meanwhile, or is gone"
        self._put_claim(_annotated(api, {SELECTED_NODE_ANNOTATION: effect.node_name}))
        self._wake()
        return ""

    # The controllers.

    def _wake(self) -> None:
        """Let the controllers look once everything that happens at this moment has happened."""
        if not self._is_awake:
            self._is_awake = True
            self._cluster.agenda.at(self._cluster.clock(), self._look)

    def _look(self) -> None:
        """Bring every claim that is not bound one step further. O(claims · volumes)."""
        self._is_awake = False
        for _, claim in sorted(self.objects.all(Claim).items()):
            if not claim.is_bound and not claim.is_terminating:
                self._advance(claim)

    def _advance(self, claim: Claim) -> None:
        volumes = [volume for _, volume in sorted(self.objects.all(PersistentVolume).items())]
        if claim.volume_name:
            meant = [v for v in volumes if v.name == claim.volume_name and (v.claim is None or v.is_for(claim))]
        else:
            meant = [v for v in volumes if v.is_for(claim) and _fits(v, claim)]
        found = self.objects.get(StorageClass, "", claim.class_name)
        waits = found is not None and found.waits
        if not meant and not claim.volume_name and not waits:
            free = [v for v in volumes if v.claim is None and v.phase == _AVAILABLE and _suits(v, claim)]
            meant = sorted(free, key=lambda volume: (volume.capacity_bytes, volume.name))
        if meant:
            self._bind(claim, meant[0])
        elif found is not None and not claim.volume_name and (not waits or claim.selected_node is not None):
            self._begin_to_make(claim, found)

    def _bind(self, claim: Claim, volume: PersistentVolume) -> None:
        """Finish a binding on both sides."""
        api = self._volumes[volume.name]
        reference = ObjectReference(namespace=claim.namespace, name=claim.name, uid=claim.uid)
        if volume.claim is None:
            api = _annotated(api, {BOUND_BY_CONTROLLER_ANNOTATION: "yes"})
        self._put_volume(_with_spec(api, claim_ref=reference), phase=_BOUND)
        marks = {BIND_COMPLETED_ANNOTATION: "yes"}
        if not claim.volume_name:
            marks[BOUND_BY_CONTROLLER_ANNOTATION] = "yes"
        bound = _with_spec(_annotated(self._claims[claim.key], marks), volume_name=volume.name)
        self._put_claim(bound, phase=_BOUND)

    def _begin_to_make(self, claim: Claim, found: StorageClass) -> None:
        """Ask the provisioner of a class for a volume, once."""
        if found.provisioner in ("", NO_PROVISIONER) or claim.uid in self._in_the_making:
            return
        self._in_the_making.add(claim.uid)
        moment = self._cluster.clock() + PROVISION_SECONDS
        self._cluster.agenda.at(moment, lambda: self._make(claim.key, claim.uid))

    def _make(self, key: Key, uid: str) -> None:
        """Make the volume of a claim that is still there and not bound."""
        self._in_the_making.discard(uid)
        claim = self.objects.get(Claim, *key)
        found = None if claim is None else self.objects.get(StorageClass, "", claim.class_name)
        if claim is None or claim.uid != uid or claim.volume_name or found is None:
            return
        name, request = f"pvc-{uid}", claim.requested_bytes or 0
        tests, capacity = self._place(claim, found)
        lines = [Requirement(key=t.key, operator=t.operator, values=list(t.values) or None) for t in tests]
        terms = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=lines)])
        self._put_volume(
            ApiPersistentVolume(
                metadata=ObjectMeta(name=name, uid=uid_of("PersistentVolume", "", name)),
                spec=VolumeSpec(
                    access_modes=list(claim.access_modes),
                    capacity={"storage": str(request)},
                    claim_ref=ObjectReference(namespace=claim.namespace, name=claim.name, uid=uid),
                    node_affinity=VolumeReach(required=terms) if tests else None,
                    storage_class_name=claim.class_name,
                    volume_attributes_class_name=claim.attributes_class or None,
                    volume_mode=claim.volume_mode,
                    csi=CSISource(driver=found.provisioner, volume_handle=name),
                ),
            ),
            phase=_BOUND,
        )
        self._made[name] = (capacity, request)
        self._take(capacity, request)
        self._bind(claim, self._volume(name))

    def _place(self, claim: Claim, found: StorageClass) -> tuple[Sequence[LabelTest | NodeTest], Key | None]:
        """Return the labels of the nodes that can use a new volume, and the capacity that it is taken from."""
        node = self._node_for(claim, found)
        if node is None:
            return (), None
        request = claim.requested_bytes or 0
        for key, capacity in sorted(self.objects.all(StorageCapacity).items()):
            limit = capacity.limit_bytes
            has_room = limit is not None and limit >= request
            if capacity.class_name == found.name and has_room and selects(capacity.topology, node.labels):
                return capacity.topology or (), key
        labels = [(label, node.labels[label]) for label in _ZONE_LABELS if label in node.labels]
        return [NodeTest(label, "In", (value,)) for label, value in labels], None

    def _node_for(self, claim: Claim, found: StorageClass) -> Node | None:
        """Return the node that was chosen; for a class that does not wait, one in a zone that follows from the name."""
        nodes = self._cluster.nodes
        if claim.selected_node:
            return nodes.get(claim.selected_node)
        allowed = [
            node for _, node in sorted(nodes.items()) if found.allowed is None or found.allowed.covers(node.labels)
        ]
        zones = {node.labels.get(_ZONE_LABELS[0], ""): node for node in reversed(allowed)}
        base, _, ordinal = claim.name.rpartition("-")
        turn = zlib.crc32(base.encode()) + int(ordinal) if ordinal.isdigit() else zlib.crc32(claim.name.encode())
        return zones[sorted(zones)[turn % len(zones)]] if zones else None

    def _release(self, claim: Claim) -> None:
        """Give the volume of a deleted claim back: one that was made for it goes, any other is kept as it is."""
        volume = self.objects.get(PersistentVolume, "", claim.volume_name)
        if volume is None or not volume.is_for(claim):
            return
        if volume.name not in self._made:
            self._put_volume(self._volumes[volume.name], phase=_RELEASED)
            return
        del self._volumes[volume.name]
        self.objects.drop(PersistentVolume, volume.key)
        self._cluster.tell(ObjectRemoved(PersistentVolume, volume.key))
        capacity, size = self._made.pop(volume.name)
        self._take(capacity, -size)

    def _take(self, key: Key | None, size: int) -> None:
        """Lower what a capacity has left, if there is one."""
        capacity = None if key is None else self.objects.get(StorageCapacity, *key)
        if capacity is not None and capacity.capacity_bytes is not None:
            self.add(msgspec.structs.replace(capacity, capacity_bytes=max(0, capacity.capacity_bytes - size)))

    # How it is kept.

    def _volumes_of(self, pod: Pod) -> set[str]:
        """Return the names of the volumes that a pod uses."""
        claims = [self.objects.get(Claim, pod.namespace, use.name) for use in claim_uses(pod)]
        return {claim.volume_name for claim in claims if claim is not None and claim.volume_name}

    def _volume(self, name: str) -> PersistentVolume:
        found = self.objects.get(PersistentVolume, "", name)
        assert found is not None
        return found

    def _put_claim(self, api: ApiClaim, *, phase: str = "") -> None:
        api = msgspec.structs.replace(
            api, metadata=self._next_version(api.metadata), status=ClaimStatus(phase=phase or api.status.phase)
        )
        claim = claim_from_api(api)
        self._claims[claim.key] = api
        self.objects.put(claim)
        self._cluster.tell(ObjectChanged(claim))

    def _put_volume(self, api: ApiPersistentVolume, *, phase: str = "") -> None:
        api = msgspec.structs.replace(
            api, metadata=self._next_version(api.metadata), status=VolumeStatus(phase=phase or api.status.phase)
        )
        volume = persistent_volume_from_api(api)
        self._volumes[volume.name] = api
        self.objects.put(volume)
        self._cluster.tell(ObjectChanged(volume))

    def _next_version(self, meta: ObjectMeta) -> ObjectMeta:
        self._versions += 1
        return msgspec.structs.replace(meta, resource_version=str(self._versions))


def claim_of_pod(template: ApiClaim, name: str, pod: ObjectMeta, *, is_owned: bool) -> ApiClaim:
    """Return the claim of a pod made of a template; one that the pod owns goes with it."""
    owner = OwnerReference(kind="Pod", name=pod.name, uid=pod.uid, api_version="v1", controller=True)
    meta = copy_meta(
        template.metadata,
        name=name,
        namespace=pod.namespace,
        uid=uid_of("PersistentVolumeClaim", pod.namespace, f"{name}/{pod.uid}" if is_owned else name),
        creation_timestamp=pod.creation_timestamp,
        owner_references=[owner] if is_owned else None,
    )
    return ApiClaim(metadata=meta, spec=template.spec)


def _fits(volume: PersistentVolume, claim: Claim) -> bool:
    """Tell whether a volume that is meant for a claim can be bound to it."""
    return (
        volume.capacity_bytes >= (claim.requested_bytes or 0)
        and volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
        and not volume.is_terminating
    )


def _suits(volume: PersistentVolume, claim: Claim) -> bool:
    """Tell whether a volume that nobody is meant to have is one that a claim asks for."""
    return (
        _fits(volume, claim)
        and volume.class_name == claim.class_name
        and selects(claim.selector, volume.labels)
        and set(claim.access_modes) <= set(volume.access_modes)
    )


Stored = TypeVar("Stored", ApiClaim, ApiPersistentVolume)


def _annotated(api: Stored, annotations: dict[str, str]) -> Stored:
    """Return an object with more annotations."""
    meta = copy_meta(api.metadata, annotations=(api.metadata.annotations or {}) | annotations)
    return msgspec.structs.replace(api, metadata=meta)


def _with_spec(api: Stored, **changes: object) -> Stored:
    """Return an object with another spec."""
    return msgspec.structs.replace(api, spec=msgspec.structs.replace(api.spec, **changes))
