"""DeviceClaim: a ResourceClaim as plugins see it: what it asks for, what it was given, and whom it is reserved for.

For `scheduler.devices` and the plugin of dynamic resources.  The edges make the view from the API object once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from .api import Condition, NodeSelector, OwnerReference
from .devices import Toleration, checked, expressions_of, toleration_of
from .times import parse_time

if TYPE_CHECKING:
    from .device_api import (
        ApiAllocatedDevice,
        ApiAllocation,
        ApiDeviceClaim,
        ApiDeviceClaimTemplate,
        ApiDeviceRequest,
        ApiExactRequest,
        DeviceClaimSpec,
    )

#: The claims that the scheduler makes for extended resources have this annotation.
EXTENDED_RESOURCE_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
#: What keeps an allocated claim from vanishing.
FINALIZER = "resource.kubernetes.io/delete-protection"
EXACT_COUNT, ALL = "ExactCount", "All"


class ExactRequest(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Some devices, or all, of a class that fit."""

    name: str
    class_name: str = ""
    selectors: tuple[str | None, ...] = ()
    mode: str = EXACT_COUNT
    count: int = 1
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    #: What is asked of each device's capacities; None if the request says nothing.
    capacity: dict[str, str] | None = None
    #: It wants attributes to be derived, which is not known here.
    derives: bool = False


class DeviceRequest(msgspec.Struct, frozen=True, gc=False):
    """One request: exactly something, or the first alternative that is available."""

    name: str
    exactly: ExactRequest | None = None
    alternatives: tuple[ExactRequest, ...] = ()


class DeviceConstraint(msgspec.Struct, frozen=True, gc=False):
    """What the devices of some requests (all, if none is named) must have in common, or must differ in."""

    requests: tuple[str, ...] = ()
    match: str | None = None
    distinct: str | None = None


class AllocatedDevice(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A device that a claim has; `share_id` is set for a share of it."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    share_id: str | None = None
    consumed: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()

    @property
    def id(self) -> tuple[str, str, str]:
        """Driver, pool and name."""
        return self.driver, self.pool, self.device


class Allocation(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a claim was given; without a node selector it can be used everywhere."""

    devices: tuple[AllocatedDevice, ...] = ()
    node_selector: NodeSelector | None = None
    #: When, in seconds since the epoch; None if it does not say.
    time: float | None = None


class Consumer(msgspec.Struct, frozen=True, gc=False):
    """Whom a claim is reserved for: a pod, or a native pod group."""

    uid: str
    name: str
    resource: str = "pods"
    group: str = ""


class DeviceStatus(msgspec.Struct, frozen=True, gc=False):
    """What a driver says of an allocated device."""

    driver: str
    pool: str
    device: str
    conditions: tuple[Condition, ...] = ()


class DeviceClaim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A ResourceClaim."""

    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    is_terminating: bool = False
    #: Who controls it: the pod or the native pod group that it was made for; None if a person made it.
    controller: OwnerReference | None = None
    #: The scheduler made it for extended resources of its pod.
    is_for_extended: bool = False
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[dict[str, Any], ...] = ()
    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()
    statuses: tuple[DeviceStatus, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Where it is kept: namespace and name."""
        return self.namespace, self.name

    @property
    def label(self) -> str:
        """How messages name it."""
        return f"{self.namespace}/{self.name}"


class ClaimReleased(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """That what was written into a claim for a pod has been undone, and the version of the claim after that."""

    namespace: str
    name: str
    uid: str
    pod_uid: str
    resource_version: str

    @property
    def key(self) -> tuple[str, str]:
        """Where it is kept: namespace and name of the claim."""
        return self.namespace, self.name


class DeviceClaimTemplate(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A ResourceClaimTemplate: what claims made for pods ask for."""

    namespace: str
    name: str
    claim: DeviceClaim

    @property
    def key(self) -> tuple[str, str]:
        """Where it is kept: namespace and name."""
        return self.namespace, self.name


def device_claim_from_api(api: ApiDeviceClaim) -> DeviceClaim:
    """Return the view of a ResourceClaim."""
    meta, status, problems = api.metadata, api.status, list[str]()
    namespace = meta.namespace or "default"
    asked = _asked(api.spec, problems)
    return DeviceClaim(
        namespace=namespace,
        name=meta.name,
        uid=meta.uid or f"{namespace}/{meta.name}",
        resource_version=meta.resource_version,
        is_terminating=meta.deletion_timestamp is not None,
        controller=next((owner for owner in meta.owner_references or () if owner.controller), None),
        is_for_extended=(meta.annotations or {}).get(EXTENDED_RESOURCE_ANNOTATION) == "true",
        requests=asked.requests,
        constraints=asked.constraints,
        config=asked.config,
        allocation=_allocation(status.allocation, problems) if status.allocation else None,
        reserved_for=tuple([Consumer(c.uid, c.name, c.resource, c.api_group) for c in status.reserved_for or ()]),
        statuses=tuple(
            [DeviceStatus(d.driver, d.pool, d.device, tuple(d.conditions or ())) for d in status.devices or ()]
        ),
        problems=tuple(problems),
    )


def device_claim_template_from_api(api: ApiDeviceClaimTemplate) -> DeviceClaimTemplate:
    """Return the view of a ResourceClaimTemplate."""
    namespace = api.metadata.namespace or "default"
    return DeviceClaimTemplate(namespace=namespace, name=api.metadata.name, claim=_asked(api.spec.spec, []))


def _asked(spec: DeviceClaimSpec, problems: list[str]) -> DeviceClaim:
    """Return a claim that has nothing but what a spec asks for."""
    wish = spec.devices
    return DeviceClaim(
        namespace="",
        name="",
        requests=tuple([_request(request, problems) for request in wish.requests or ()]),
        constraints=tuple(
            [
                DeviceConstraint(tuple(each.requests or ()), each.match_attribute, each.distinct_attribute)
                for each in wish.constraints or ()
            ]
        ),
        config=tuple(wish.config or ()),
    )


def _request(api: ApiDeviceRequest, problems: list[str]) -> DeviceRequest:
    field = f"spec.devices.requests[{api.name}]"
    exactly = _exact(api.exactly, api.name, field, problems) if api.exactly else None
    return DeviceRequest(
        api.name,
        exactly,
        tuple([_exact(each, each.name, f"{field}.firstAvailable", problems) for each in api.first_available or ()]),
    )


def _exact(api: ApiExactRequest, name: str, field: str, problems: list[str]) -> ExactRequest:
    """Return the view of a request; the API server's defaults stand for what is not said."""
    mode = api.allocation_mode or EXACT_COUNT
    capacity = None
    if api.capacity is not None and api.capacity.requests is not None:
        asked = api.capacity.requests
        capacity = {key: checked(text, f"{field}.capacity[{key}]", problems) or "0" for key, text in asked.items()}
    return ExactRequest(
        name=name,
        class_name=api.device_class_name,
        selectors=expressions_of(api.selectors),
        mode=mode,
        count=api.count or 1,
        admin_access=api.admin_access,
        tolerations=tuple([toleration_of(each) for each in api.tolerations or ()]),
        capacity=capacity,
        derives=bool(api.derived_attributes),
    )


def _allocation(api: ApiAllocation, problems: list[str]) -> Allocation:
    try:
        time = parse_time(api.allocation_timestamp)
    except ValueError:
        problems.append(
            f"status.allocation.allocationTimestamp: {api.allocation_timestamp!r} is no time; it does not count"
        )
        time = None
    return Allocation(
        devices=tuple([_allocated(each, problems) for each in api.devices.results or ()]),
        node_selector=api.node_selector,
        time=time,
    )


def _allocated(api: ApiAllocatedDevice, problems: list[str]) -> AllocatedDevice:
    consumed = api.consumed_capacity or {}
    return AllocatedDevice(
        request=api.request,
        driver=api.driver,
        pool=api.pool,
        device=api.device,
        admin_access=bool(api.admin_access),
        share_id=api.share_id,
        consumed={
            name: checked(text, f"status.allocation[{api.device}].consumedCapacity", problems) or "0"
            for name, text in consumed.items()
        },
        tolerations=tuple([toleration_of(each) for each in api.tolerations or ()]),
        binding_conditions=tuple(api.binding_conditions or ()),
        binding_failure_conditions=tuple(api.binding_failure_conditions or ()),
    )
