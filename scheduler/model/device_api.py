"""The API objects of dynamic resource allocation (resource.k8s.io/v1) as they come over the wire.

For the edges, which decode them, and for `devices`, which makes views of them.  Only what scheduling reads or has to write
back is decoded; quantities are still texts here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .api import Condition, NodeSelector, ObjectMeta, Quantity
from .volume_api import ApiStruct


class ApiAttribute(ApiStruct, frozen=True):
    """The value of an attribute: one of these."""

    int_value: int | None = msgspec.field(name="int", default=None)
    bool_value: bool | None = msgspec.field(name="bool", default=None)
    string_value: str | None = msgspec.field(name="string", default=None)
    version_value: str | None = msgspec.field(name="version", default=None)
    int_values: list[int] | None = msgspec.field(name="ints", default=None)
    bool_values: list[bool] | None = msgspec.field(name="bools", default=None)
    string_values: list[str] | None = msgspec.field(name="strings", default=None)
    version_values: list[str] | None = msgspec.field(name="versions", default=None)


class ApiCapacityRange(ApiStruct, frozen=True):
    """Amounts that may be asked for: from min to max, in steps."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class ApiRequestPolicy(ApiStruct, frozen=True):
    """How much of a shared capacity a request may take."""

    default: Quantity | None = None
    valid_values: list[Quantity] | None = None
    valid_range: ApiCapacityRange | None = None


class ApiCapacity(ApiStruct, frozen=True):
    """How much a device has of something."""

    value: Quantity = "0"
    request_policy: ApiRequestPolicy | None = None


class ApiCounter(ApiStruct, frozen=True):
    """An amount of a counter."""

    value: Quantity = "0"


class ApiCounterSet(ApiStruct, frozen=True):
    """Counters that devices of a pool share."""

    name: str = ""
    counters: dict[str, ApiCounter] | None = None


class ApiCounterUse(ApiStruct, frozen=True):
    """What a device takes of a counter set."""

    counter_set: str = ""
    counters: dict[str, ApiCounter] | None = None


class ApiDeviceTaint(ApiStruct, frozen=True):
    """What keeps claims off a device."""

    key: str = ""
    value: str = ""
    effect: str = ""


class ApiDeviceToleration(ApiStruct, frozen=True):
    """Which taints of devices a request endures."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class ApiDevice(ApiStruct, frozen=True):
    """A device in a slice."""

    name: str = ""
    attributes: dict[str, ApiAttribute] | None = None
    capacity: dict[str, ApiCapacity] | None = None
    consumes_counters: list[ApiCounterUse] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[ApiDeviceTaint] | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    allow_multiple_allocations: bool | None = None
    compatibility_groups: Any = None


class ApiPool(ApiStruct, frozen=True):
    """The pool that a slice is a part of."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class SliceSpec(ApiStruct, frozen=True):
    """The spec of a ResourceSlice."""

    driver: str = ""
    pool: ApiPool = ApiPool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[ApiDevice] | None = None
    shared_counters: list[ApiCounterSet] | None = None


class ApiResourceSlice(ApiStruct, frozen=True):
    """A ResourceSlice."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SliceSpec = SliceSpec()


class CelSelector(ApiStruct, frozen=True):
    """An expression over a device."""

    expression: str = ""


class ApiDeviceSelector(ApiStruct, frozen=True):
    """A selector of devices: CEL is the only kind."""

    cel: CelSelector | None = None


class ApiCapacityRequests(ApiStruct, frozen=True):
    """What is asked of capacities."""

    requests: dict[str, Quantity] | None = None


class ApiExactRequest(ApiStruct, frozen=True):
    """Devices of one class; as an alternative it has a name of its own."""

    name: str = ""
    device_class_name: str = ""
    selectors: list[ApiDeviceSelector] | None = None
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: list[ApiDeviceToleration] | None = None
    capacity: ApiCapacityRequests | None = None
    derived_attributes: list[Any] | None = None


class ApiDeviceRequest(ApiStruct, frozen=True):
    """One request of a claim: exactly this, or the first of several that is available."""

    name: str = ""
    exactly: ApiExactRequest | None = None
    first_available: list[ApiExactRequest] | None = None


class ApiConstraint(ApiStruct, frozen=True):
    """What the devices of some requests (all, if none is named) must have in common, or must differ in."""

    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DevicesWish(ApiStruct, frozen=True):
    """What a claim asks for; `config` is handed on as it is."""

    requests: list[ApiDeviceRequest] | None = None
    constraints: list[ApiConstraint] | None = None
    config: list[dict[str, Any]] | None = None


class DeviceClaimSpec(ApiStruct, frozen=True):
    """The spec of a ResourceClaim."""

    devices: DevicesWish = DevicesWish()


class ApiAllocatedDevice(ApiStruct, frozen=True):
    """A device that a claim has."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(name="shareID", default=None)
    consumed_capacity: dict[str, Quantity] | None = None
    tolerations: list[ApiDeviceToleration] | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None


class ApiAllocatedDevices(ApiStruct, frozen=True):
    """The devices that a claim has."""

    results: list[ApiAllocatedDevice] | None = None


class ApiAllocation(ApiStruct, frozen=True):
    """What a claim was given, and where it can be used (everywhere, without a selector)."""

    devices: ApiAllocatedDevices = ApiAllocatedDevices()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ApiConsumer(ApiStruct, frozen=True):
    """Whom a claim is reserved for."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ApiDeviceStatus(ApiStruct, frozen=True):
    """What a driver says of an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    conditions: list[Condition] | None = None


class DeviceClaimStatus(ApiStruct, frozen=True):
    """The status of a ResourceClaim."""

    allocation: ApiAllocation | None = None
    reserved_for: list[ApiConsumer] | None = None
    devices: list[ApiDeviceStatus] | None = None


class ApiDeviceClaim(ApiStruct, frozen=True):
    """A ResourceClaim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClaimSpec = DeviceClaimSpec()
    status: DeviceClaimStatus = DeviceClaimStatus()


class ApiClaimTemplateSpec(ApiStruct, frozen=True):
    """What claims made from a template look like."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClaimSpec = DeviceClaimSpec()


class ApiDeviceClaimTemplate(ApiStruct, frozen=True):
    """A ResourceClaimTemplate."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ApiClaimTemplateSpec = ApiClaimTemplateSpec()


class DeviceClassSpec(ApiStruct, frozen=True):
    """The spec of a DeviceClass; `config` is handed on as it is."""

    selectors: list[ApiDeviceSelector] | None = None
    config: list[dict[str, Any]] | None = None
    extended_resource_name: str | None = None


class ApiDeviceClass(ApiStruct, frozen=True):
    """A DeviceClass."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class TaintedDevices(ApiStruct, frozen=True):
    """Which devices a rule taints: all that fit what is given."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class TaintRuleSpec(ApiStruct, frozen=True):
    """The spec of a DeviceTaintRule; without a selector it taints nothing."""

    device_selector: TaintedDevices | None = None
    taint: ApiDeviceTaint = ApiDeviceTaint()


class ApiDeviceTaintRule(ApiStruct, frozen=True):
    """A DeviceTaintRule."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TaintRuleSpec = TaintRuleSpec()
