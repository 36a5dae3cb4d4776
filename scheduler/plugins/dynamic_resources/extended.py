"""Extended: the claim that a pod needs for extended resources of which a DeviceClass, and no device plugin, has devices.

For the plugin beside it: kube-scheduler's `extendeddynamicresources.go` (1.37).  Which resources are asked of devices depends on
the node: those of which it offers none.  The claim is in memory only until the pod is bound; then it is made, under a name that is
chosen at Reserve.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from scheduler.devices.extended import requests_for
from scheduler.framework.effects import ClaimRef, DeleteClaim, PodRef
from scheduler.framework.status import Reason, Status
from scheduler.model.api import OwnerReference
from scheduler.model.device_claims import EXTENDED_RESOURCE_ANNOTATION, DeviceClaim

from .answers import CURES

if TYPE_CHECKING:
    from scheduler.devices.extended import RequestMapping
    from scheduler.model import Node, Pod
    from scheduler.model.device_claims import DeviceRequest
    from scheduler.state.device_classes import DeviceClasses
    from scheduler.state.snapshot import Nodes

    from .assumed import Assumed

#: No name that an API server would take, so that no claim is mistaken for it.
IN_MEMORY_NAME = "<extended-resources>"
STALE = Reason("StaleClaim", "cannot schedule extended resource claim", CURES)
NOT_OFFERED = Reason("ResourceNotOffered", "cannot fit resource", CURES)
DELETED = "deletion of ResourceClaim completed"
_LONGEST_BASE = 58
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_MOST_KEPT = 16_384


class ExtendedClaims:
    """Makes such claims."""

    def __init__(self, classes: DeviceClasses, assumed: Assumed) -> None:
        """Take what classes there are, and which claims."""
        self._classes = classes
        self._assumed = assumed
        self._kept: dict[tuple[str, tuple[str, ...]], tuple[Pod, int, DeviceClaim]] = {}
        #: The last pod that was asked about, at which generation of classes, and what it asks for that is served, and is not.
        self._last: tuple[Pod | None, int, tuple[str, ...], tuple[str, ...]] = (None, -1, (), ())
        self._made = 0

    @property
    def are_any(self) -> bool:
        """There are classes at all that may stand for extended resources."""
        return self._classes.are_any

    @property
    def generation(self) -> int:
        """A number that grows whenever a class changes."""
        return self._classes.generation

    def served(self, pod: Pod) -> tuple[str, ...]:
        """Return the extended resources of a pending pod that devices may serve."""
        return self._asked(pod)[0] if pod.extended and self._classes.are_any else ()

    def not_served(self, pod: Pod) -> tuple[str, ...]:
        """Return its extended resources that only device plugins offer."""
        return self._asked(pod)[1] if pod.extended else ()

    def stale(self, pod: Pod) -> DeviceClaim | None:
        """Return a claim that was made for a pod in an earlier attempt and is still there; None if there is none."""
        return self._assumed.extended_claim(pod.uid) if pod.extended else None

    def at(self, pod: Pod, node: Node) -> DeviceClaim | Status | None:
        """Return the claim that a pending pod needs on a node, None if it needs none; or why the node cannot take it."""
        served = self.served(pod)
        if not served:
            return None
        if self.stale(pod) is not None:
            return Status.unresolvable(STALE)
        offered = node.allocatable
        if any(name not in offered for name in self.not_served(pod)):
            return Status.unresolvable(NOT_OFFERED)
        lacking = tuple([name for name in served if not offered.get(name)])
        return self._claim(pod, lacking) if lacking else None

    def where_needed(self, pod: Pod, nodes: Nodes) -> list[int]:
        """Return the nodes that offer none of some extended resource of a pod: the others need no devices for it."""
        if self.stale(pod) is not None:
            return list(range(len(nodes)))
        names = (*self.served(pod), *self.not_served(pod))
        lacks: list[int] = np.any([nodes.allocatable(name) == 0 for name in names], axis=0).nonzero()[0].tolist()
        return lacks

    def waiting(self, pod: Pod, node: Node) -> DeviceClaim | None:
        """Return the claim of a pod that is placed on a node and has no devices for it yet; None if it needs none, or has some."""
        if not pod.extended or self._assumed.is_making(pod.uid) or self.stale(pod) is not None:
            return None
        claim = self.at(pod, node)
        return claim if isinstance(claim, DeviceClaim) else None

    def named(self, claim: DeviceClaim) -> DeviceClaim:
        """Return a claim under a name of its own: that of its pod, and letters that no other attempt of this process has."""
        assert claim.controller is not None
        self._made += 1
        digest = hashlib.sha256(f"{claim.controller.uid} {self._made}".encode()).digest()
        letters = "".join([_LETTERS[each % len(_LETTERS)] for each in digest[:_SUFFIX_LENGTH]])
        return replace(claim, name=f"{_base(claim)[:_LONGEST_BASE]}{letters}")

    def mappings(self, pod: Pod, claim: DeviceClaim) -> tuple[RequestMapping, ...]:
        """Return who of a pod's containers uses which request of its claim."""
        wanted = {request.name for request in claim.requests}
        mappings = requests_for(pod.extended, self._class_names(self.served(pod)))[1]
        return tuple([each for each in mappings if each.request in wanted])

    def _asked(self, pod: Pod) -> tuple[tuple[str, ...], tuple[str, ...]]:
        known, generation = self._last, self._classes.generation
        if known[0] is not pod or known[1] != generation:
            known = self._last = pod, generation, self._classes.served(pod), self._classes.not_served(pod)
        return known[2:]

    def _claim(self, pod: Pod, lacking: tuple[str, ...]) -> DeviceClaim | None:
        key, generation = (pod.uid, lacking), self._classes.generation
        known = self._kept.get(key)
        if known is None or known[0] is not pod or known[1] != generation:
            if len(self._kept) > _MOST_KEPT:
                self._kept.clear()
            requests, _ = requests_for(pod.extended, self._class_names(lacking))
            owner = OwnerReference(kind="Pod", name=pod.name, uid=pod.uid, api_version="v1", controller=True)
            claim = DeviceClaim(
                namespace=pod.namespace, name=IN_MEMORY_NAME, controller=owner, is_for_extended=True, requests=requests
            )
            known = self._kept[key] = pod, generation, claim
        return known[2] if known[2].requests else None

    def _class_names(self, resources: tuple[str, ...]) -> dict[str, str]:
        found = {name: self._classes.serving(name) for name in resources}
        return {name: each.name for name, each in found.items() if each is not None}


def manifest_of(claim: DeviceClaim) -> dict[str, Any]:
    """Return a claim for extended resources as it is created."""
    owner = claim.controller
    assert owner is not None
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": claim.namespace,
            "name": claim.name,
            "generateName": _base(claim),
            "annotations": {EXTENDED_RESOURCE_ANNOTATION: "true"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": owner.name, "uid": owner.uid, "controller": True}
            ],
        },
        "spec": {"devices": {"requests": [_request(each) for each in claim.requests]}},
    }


def mapping_of(mapping: RequestMapping) -> dict[str, str]:
    """Return a mapping as it stands in the status of a pod."""
    names = ("containerName", "resourceName", "requestName")
    return dict(zip(names, mapping, strict=True))


def deletion(pod: Pod, claim: DeviceClaim) -> DeleteClaim:
    """Return what deletes a pod's claim for extended resources."""
    return DeleteClaim(PodRef(pod.namespace, pod.name, pod.uid), ClaimRef(claim.namespace, claim.name, claim.uid))


def _base(claim: DeviceClaim) -> str:
    assert claim.controller is not None
    return f"{claim.controller.name}-extended-resources-"


def _request(request: DeviceRequest) -> dict[str, Any]:
    exact = request.exactly
    assert exact is not None
    wanted = {"deviceClassName": exact.class_name, "allocationMode": exact.mode, "count": exact.count}
    return {"name": request.name, "exactly": wanted}
