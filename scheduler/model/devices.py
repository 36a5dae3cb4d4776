"""Devices as plugins see them: what slices publish, and which classes, requests and taints there are.

For `scheduler.devices` and the plugin of dynamic resources.  The edges make the views from API objects once; an impossible
value becomes a problem, never an exception.  Quantities stay texts, which parse, as they are written back as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from .api import NodeSelector
from .quantity import QuantityError, parse_quantity
from .storage import ClusterScoped
from .times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .api import Quantity
    from .device_api import (
        ApiAttribute,
        ApiCapacity,
        ApiCounter,
        ApiDevice,
        ApiDeviceClass,
        ApiDeviceSelector,
        ApiDeviceTaintRule,
        ApiDeviceToleration,
        ApiResourceSlice,
    )

#: Prefix of the extended resource that every class stands for by itself.
IMPLICIT_RESOURCE_PREFIX = "deviceclass.resource.kubernetes.io/"


class Attribute(msgspec.Struct, frozen=True, gc=False):
    """The value of an attribute and its kind: int, bool, string or version, with an s for a list; empty if unknown."""

    kind: str
    value: int | bool | str | tuple[Any, ...] = ""


class CapacityRange(msgspec.Struct, frozen=True, gc=False):
    """Amounts that may be asked for."""

    min: str
    max: str | None = None
    step: str | None = None


class Capacity(msgspec.Struct, frozen=True, gc=False):
    """How much a device has of something, and how much a request may take of it if the device is shared."""

    value: str
    has_policy: bool = False
    default: str | None = None
    valid_values: tuple[str, ...] | None = None
    valid_range: CapacityRange | None = None


#: Amounts by counter, of one counter set.
CounterUse: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]


class DeviceTaint(msgspec.Struct, frozen=True, gc=False):
    """What keeps claims off a device."""

    key: str
    value: str = ""
    effect: str = ""


class Where(msgspec.Struct, frozen=True, gc=False):
    """From which nodes a device, or all devices of a slice, can be used; nothing set means from none."""

    node_name: str | None = None
    all_nodes: bool = False
    selector: NodeSelector | None = None

    @property
    def is_set(self) -> bool:
        """It says something."""
        return bool(self.node_name) or self.all_nodes or self.selector is not None


class Device(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A device."""

    name: str
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, Capacity] = {}
    consumes: tuple[CounterUse, ...] = ()
    #: Where it is, if its slice leaves that to its devices.
    where: Where = Where()
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    #: None if the field is absent: pools that have it come last.
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] = ()
    allows_multiple: bool = False


class DeviceSlice(ClusterScoped, frozen=True, gc=False, kw_only=True):
    """A ResourceSlice: some devices, or shared counters, of a pool."""

    driver: str
    pool: str
    generation: int = 0
    #: How many slices the pool has at this generation.
    slice_count: int = 0
    where: Where = Where()
    is_per_device: bool = False
    devices: tuple[Device, ...] = ()
    #: Counter set to counter to amount; sets that are named twice are listed twice.
    counters: tuple[tuple[str, dict[str, str]], ...] = ()
    #: It uses what this scheduler does not know, as kube-scheduler does not by default: its pool is incomplete.
    is_unknown: bool = False
    problems: tuple[str, ...] = ()


class DeviceClass(ClusterScoped, frozen=True, gc=False, kw_only=True):
    """A DeviceClass."""

    created: float = 0.0
    #: Expressions; None for a selector of an unknown kind.
    selectors: tuple[str | None, ...] = ()
    config: tuple[dict[str, Any], ...] = ()
    extended_resource: str = ""


class DeviceTaintRule(ClusterScoped, frozen=True, gc=False, kw_only=True):
    """A DeviceTaintRule: a taint for many devices."""

    has_selector: bool = False
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    taint: DeviceTaint = DeviceTaint("")

    def covers(self, driver: str, pool: str) -> bool:
        """Tell whether devices of a pool may be tainted."""
        return self.has_selector and self.driver in (None, driver) and self.pool in (None, pool)


class Toleration(msgspec.Struct, frozen=True, gc=False):
    """Which taints of devices a request endures; `api` is how it is written back."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    seconds: int | None = None

    def covers(self, taint: DeviceTaint) -> bool:
        """Tell whether it endures a taint: no effect or key stands for any; no operator for Equal."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (self.operator in ("", "Equal") and self.value == taint.value)


def toleration_of(api: ApiDeviceToleration) -> Toleration:
    """Return the view of a toleration."""
    return Toleration(api.key, api.operator, api.value, api.effect, api.toleration_seconds)


def device_slice_from_api(api: ApiResourceSlice) -> DeviceSlice:
    """Return the view of a ResourceSlice."""
    spec, problems = api.spec, list[str]()
    counters = tuple(
        (each.name, dict(_counters(each.counters, f"spec.sharedCounters[{each.name}]", problems)))
        for each in spec.shared_counters or ()
    )
    return DeviceSlice(
        name=api.metadata.name,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slice_count=spec.pool.resource_slice_count,
        where=Where(spec.node_name, bool(spec.all_nodes), spec.node_selector),
        is_per_device=bool(spec.per_device_node_selection),
        devices=tuple([_device(device, problems) for device in spec.devices or ()]),
        counters=counters,
        is_unknown=any(device.compatibility_groups for device in spec.devices or ()),
        problems=tuple(problems),
    )


def device_class_from_api(api: ApiDeviceClass) -> DeviceClass:
    """Return the view of a DeviceClass."""
    return DeviceClass(
        name=api.metadata.name,
        created=parse_time(api.metadata.creation_timestamp) or 0.0,
        selectors=expressions_of(api.spec.selectors),
        config=tuple(api.spec.config or ()),
        extended_resource=api.spec.extended_resource_name or "",
    )


def device_taint_rule_from_api(api: ApiDeviceTaintRule) -> DeviceTaintRule:
    """Return the view of a DeviceTaintRule."""
    spec, chosen = api.spec, api.spec.device_selector
    return DeviceTaintRule(
        name=api.metadata.name,
        has_selector=chosen is not None,
        driver=chosen.driver if chosen else None,
        pool=chosen.pool if chosen else None,
        device=chosen.device if chosen else None,
        taint=DeviceTaint(spec.taint.key, spec.taint.value, spec.taint.effect),
    )


def expressions_of(selectors: Iterable[ApiDeviceSelector] | None) -> tuple[str | None, ...]:
    """Return the expressions of selectors; None for one of an unknown kind."""
    return tuple([selector.cel.expression if selector.cel else None for selector in selectors or ()])


def checked(text: Quantity | None, field: str, problems: list[str]) -> str | None:
    """Return a quantity as a text that parses, None for none; what makes no sense is 0 and a problem."""
    if text is None:
        return None
    try:
        parse_quantity(text)
    except QuantityError as error:
        problems.append(f"{field}: {error}; it counts as 0")
        return "0"
    return str(text).strip()


def _device(api: ApiDevice, problems: list[str]) -> Device:
    field = f"spec.devices[{api.name}]"
    capacity = {
        name: _capacity(each, f"{field}.capacity[{name}]", problems) for name, each in (api.capacity or {}).items()
    }
    return Device(
        name=api.name,
        attributes={name: _attribute(each) for name, each in (api.attributes or {}).items()},
        capacity=capacity,
        consumes=tuple(
            (each.counter_set, tuple(_counters(each.counters, f"{field}.consumesCounters", problems)))
            for each in api.consumes_counters or ()
        ),
        where=Where(api.node_name, bool(api.all_nodes), api.node_selector),
        taints=tuple([DeviceTaint(taint.key, taint.value, taint.effect) for taint in api.taints or ()]),
        binds_to_node=bool(api.binds_to_node),
        binding_conditions=None if api.binding_conditions is None else tuple(api.binding_conditions),
        binding_failure_conditions=tuple(api.binding_failure_conditions or ()),
        allows_multiple=bool(api.allow_multiple_allocations),
    )


def _attribute(api: ApiAttribute) -> Attribute:
    """Return a value with its kind, in the order in which kube-scheduler looks for it."""
    for kind, values in (
        ("ints", api.int_values), ("bools", api.bool_values), ("strings", api.string_values), ("versions", api.version_values),
    ):  # fmt: skip
        if values is not None:
            return Attribute(kind, tuple(values))
    for kind, value in (
        ("int", api.int_value), ("bool", api.bool_value), ("string", api.string_value), ("version", api.version_value),
    ):  # fmt: skip
        if value is not None:
            return Attribute(kind, value)
    return Attribute("")


def _capacity(api: ApiCapacity, field: str, problems: list[str]) -> Capacity:
    policy, reach = api.request_policy, None
    if policy is not None and policy.valid_range is not None:
        bounds = policy.valid_range
        reach = CapacityRange(
            checked(bounds.min, f"{field}.validRange.min", problems) or "0",
            checked(bounds.max, f"{field}.validRange.max", problems),
            checked(bounds.step, f"{field}.validRange.step", problems),
        )
    values = policy.valid_values if policy else None
    return Capacity(
        value=checked(api.value, field, problems) or "0",
        has_policy=policy is not None,
        default=checked(policy.default, f"{field}.default", problems) if policy else None,
        valid_values=None if values is None else tuple([checked(v, f"{field}.validValues", problems) or "0" for v in values]),
        valid_range=reach,
    )  # fmt: skip


def _counters(counters: Mapping[str, ApiCounter] | None, field: str, problems: list[str]) -> Iterable[tuple[str, str]]:
    return [(name, checked(each.value, f"{field}.{name}", problems) or "0") for name, each in (counters or {}).items()]
