"""How an allocation is written: the `status.allocation` of a ResourceClaim (resource.k8s.io/v1) as JSON.

For whoever writes claims, and for `case`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from scheduler.model.api import NodeSelector
    from scheduler.model.device_claims import AllocatedDevice
    from scheduler.model.devices import Toleration

    from .allocator import Given


def written(given: Given) -> dict[str, Any]:
    """Return an allocation as it is written; what is not set is left out."""
    devices: dict[str, Any] = {"results": [_device(each) for each in given.allocation.devices]}
    if given.config:
        devices["config"] = given.config
    found: dict[str, Any] = {"devices": devices}
    if given.allocation.node_selector is not None:
        found["nodeSelector"] = _selector(given.allocation.node_selector)
    return found


def _device(device: AllocatedDevice) -> dict[str, Any]:
    optional = {
        "adminAccess": device.admin_access,
        "shareID": device.share_id,
        "consumedCapacity": dict(sorted(device.consumed.items())),
        "tolerations": [_toleration(each) for each in device.tolerations],
        "bindingConditions": list(device.binding_conditions),
        "bindingFailureConditions": list(device.binding_failure_conditions),
    }
    named = {"request": device.request, "driver": device.driver, "pool": device.pool, "device": device.device}
    return {**named, **{key: value for key, value in optional.items() if value}}


def _toleration(toleration: Toleration) -> dict[str, Any]:
    texts = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    found: dict[str, Any] = {key: text for key, text in texts.items() if text}
    if toleration.seconds is not None:
        found["tolerationSeconds"] = toleration.seconds
    return found


def _selector(selector: NodeSelector) -> dict[str, Any]:
    terms = []
    for term in selector.node_selector_terms:
        lines = {"matchExpressions": term.match_expressions, "matchFields": term.match_fields}
        terms.append(
            {key: [_without_none(msgspec.to_builtins(r)) for r in value] for key, value in lines.items() if value}
        )
    return {"nodeSelectorTerms": terms}


def _without_none(requirement: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in requirement.items() if value is not None}
