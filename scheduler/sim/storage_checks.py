"""What the API server would refuse of claims, volumes and what else there is of storage.

For the loader; see `checks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from scheduler.model.storage_api import (
    ApiClaim,
    ApiPersistentVolume,
    ApiStorageCapacity,
    ApiStorageClass,
    ApiVolumeAttachment,
)

from .checks import NODE_OPERATORS, meta_problems, one_of, quantity_problems, requirement_problems, selector_problems
from .schema import type_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduler.model.storage_api import ClaimSpec
    from scheduler.model.volume_api import Volume

    from .checks import Found

_ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_VOLUME_MODES = ("Filesystem", "Block")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")


class _Ephemeral(msgspec.Struct, rename="camel"):
    """The source of an ephemeral volume."""

    volume_claim_template: ApiClaim | None = None


def storage_problems(api: object) -> Iterator[Found]:
    """Check an object of storage."""
    match api:
        case ApiClaim():
            yield from _claim_problems(api.spec, "spec")
        case ApiPersistentVolume():
            yield from _volume_problems(api)
        case ApiStorageClass():
            yield from _missing(api.provisioner, "provisioner", "of a provisioner, or kubernetes.io/no-provisioner")
            yield from one_of(api.volume_binding_mode or _BINDING_MODES[0], _BINDING_MODES, "volumeBindingMode")
        case ApiStorageCapacity():
            yield from _missing(api.storage_class_name, "storageClassName", "of a StorageClass")
            yield from selector_problems(api.node_topology, "nodeTopology")
            yield from _size_problems(api.capacity, "capacity")
            yield from _size_problems(api.maximum_volume_size, "maximumVolumeSize")
        case ApiVolumeAttachment(spec=spec):
            yield from _missing(spec.attacher, "spec.attacher", "of a CSI driver")
            yield from _missing(spec.node_name, "spec.nodeName", "of a node")


def template_problems(templates: Sequence[ApiClaim] | None, path: str) -> Iterator[Found]:
    """Check the claims that a StatefulSet makes for each pod."""
    for index, template in enumerate(templates or ()):
        yield from meta_problems(template.metadata, f"{path}[{index}].metadata")
        yield from _claim_problems(template.spec, f"{path}[{index}].spec")


def pod_volume_problems(volumes: Sequence[Volume] | None, path: str) -> Iterator[Found]:
    """Check the volumes of a pod that stand for claims."""
    for index, volume in enumerate(volumes or ()):
        where = f"{path}[{index}]"
        if volume.persistent_volume_claim is not None and not volume.persistent_volume_claim.claim_name:
            yield f"{where}.persistentVolumeClaim.claimName", "is missing; allowed: the name of a claim"
        if volume.ephemeral is None:
            continue
        if not volume.name:
            yield f"{where}.name", "is missing; allowed: a DNS name"
        where = f"{where}.ephemeral"
        wrong = [(f"{where}.{key}", text) for key, text in type_problems(volume.ephemeral, _Ephemeral)]
        yield from wrong
        if wrong:
            continue
        template = msgspec.convert(volume.ephemeral, _Ephemeral).volume_claim_template
        if template is None:
            yield f"{where}.volumeClaimTemplate", "is missing; allowed: the template of a claim"
        else:
            yield from _claim_problems(template.spec, f"{where}.volumeClaimTemplate.spec")


def _claim_problems(spec: ClaimSpec, path: str) -> Iterator[Found]:
    """Check the spec of a claim."""
    yield from _mode_problems(spec.access_modes, spec.volume_mode, path)
    requests = (spec.resources.requests if spec.resources else None) or {}
    if "storage" not in requests:
        yield f"{path}.resources.requests[storage]", "is missing; allowed: an amount, such as 10Gi"
    yield from quantity_problems(requests, f"{path}.resources.requests")
    yield from selector_problems(spec.selector, f"{path}.selector")


def _volume_problems(api: ApiPersistentVolume) -> Iterator[Found]:
    spec = api.spec
    yield from _mode_problems(spec.access_modes, spec.volume_mode, "spec")
    if "storage" not in (spec.capacity or {}):
        yield "spec.capacity[storage]", "is missing; allowed: an amount, such as 10Gi"
    yield from quantity_problems(spec.capacity, "spec.capacity")
    if spec.claim_ref is not None and not (spec.claim_ref.name and spec.claim_ref.namespace):
        yield "spec.claimRef", "names no claim; allowed: namespace and name"
    required = spec.node_affinity.required if spec.node_affinity else None
    for index, term in enumerate(required.node_selector_terms if required else ()):
        where = f"spec.nodeAffinity.required.nodeSelectorTerms[{index}].matchExpressions"
        yield from requirement_problems(term.match_expressions, NODE_OPERATORS, where)


def _mode_problems(access: Sequence[str] | None, volume_mode: str | None, path: str) -> Iterator[Found]:
    if not access:
        yield f"{path}.accessModes", f"is missing; allowed: {', '.join(_ACCESS_MODES)}"
    for index, mode in enumerate(access or ()):
        yield from one_of(mode, _ACCESS_MODES, f"{path}.accessModes[{index}]")
    if volume_mode is not None:
        yield from one_of(volume_mode, _VOLUME_MODES, f"{path}.volumeMode")


def _size_problems(amount: str | float | None, path: str) -> Iterator[Found]:
    if amount is not None:
        for _, text in quantity_problems({"storage": amount}, ""):
            yield path, text


def _missing(name: str, path: str, allowed: str) -> Iterator[Found]:
    if not name:
        yield path, f"is missing; allowed: the name {allowed}"
