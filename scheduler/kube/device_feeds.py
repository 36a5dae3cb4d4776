"""Feeds of dynamic resource allocation: claims, slices, classes and taint rules of resource.k8s.io/v1 (Kubernetes 1.34 and newer).

For `feeds`.  Where the API is not served, discovery says so in its one line of log, and pods with claims wait until it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.engine.inputs import ObjectChanged, ObjectRemoved
from scheduler.model.device_api import ApiDeviceClaim, ApiDeviceClass, ApiDeviceTaintRule, ApiResourceSlice
from scheduler.model.device_claims import DeviceClaim, device_claim_from_api
from scheduler.model.devices import (
    DeviceClass,
    DeviceSlice,
    DeviceTaintRule,
    device_class_from_api,
    device_slice_from_api,
    device_taint_rule_from_api,
)

from .discovery import Api
from .reflector import Reflector, Resource

if TYPE_CHECKING:
    from .discovery import Discovery
    from .group_feeds import MakeServed
    from .inbox import Put

GROUP, VERSION = "resource.k8s.io", "v1"


def device_feeds(make: MakeServed, put: Put, discovery: Discovery) -> list[Reflector[Any]]:
    """Return a reflector for each kind that devices are allocated by."""

    def resource(name: str, api_type: type[Any]) -> Resource[Any]:
        return Resource(f"{name}.{GROUP}", "", api_type, is_optional=True)

    def served(name: str) -> Any:
        return discovery.want(Api(GROUP, (VERSION,), name))

    return [
        make(
            resource("resourceclaims", ApiDeviceClaim),
            lambda api: put(ObjectChanged(device_claim_from_api(api))),
            lambda key, _: put(ObjectRemoved(DeviceClaim, key.name_key)),
            served("resourceclaims"),
        ),
        make(
            resource("resourceslices", ApiResourceSlice),
            lambda api: put(ObjectChanged(device_slice_from_api(api))),
            lambda key, _: put(ObjectRemoved(DeviceSlice, key.name_key)),
            served("resourceslices"),
        ),
        make(
            resource("deviceclasses", ApiDeviceClass),
            lambda api: put(ObjectChanged(device_class_from_api(api))),
            lambda key, _: put(ObjectRemoved(DeviceClass, key.name_key)),
            served("deviceclasses"),
        ),
        make(
            resource("devicetaintrules", ApiDeviceTaintRule),
            lambda api: put(ObjectChanged(device_taint_rule_from_api(api))),
            lambda key, _: put(ObjectRemoved(DeviceTaintRule, key.name_key)),
            served("devicetaintrules"),
        ),
    ]
