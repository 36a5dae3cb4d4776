"""What the API server would refuse of claims, slices and classes of devices, as far as it would mislead a simulation.

For the loader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.devices.cel import CelEvaluator
from scheduler.model.device_api import ApiDeviceClaim, ApiDeviceClaimTemplate, ApiDeviceClass, ApiResourceSlice
from scheduler.model.device_claims import device_claim_from_api
from scheduler.model.devices import device_slice_from_api

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scheduler.model.device_api import ApiDeviceSelector, ApiDeviceTaintRule, ApiExactRequest, DeviceClaimSpec

    from .checks import Found

_evaluator = CelEvaluator()


def device_problems(
    api: ApiDeviceClaim | ApiDeviceClaimTemplate | ApiResourceSlice | ApiDeviceClass | ApiDeviceTaintRule,
) -> Iterator[Found]:
    """Yield what is wrong with an object, by path."""
    match api:
        case ApiResourceSlice():
            yield from _slice_problems(api)
        case ApiDeviceClass():
            yield from _selector_problems(api.spec.selectors or (), "spec.selectors")
        case ApiDeviceClaim():
            yield from _claim_problems(api.spec, "spec")
            yield from (
                (path, text) for path, _, text in (p.partition(": ") for p in device_claim_from_api(api).problems)
            )
        case ApiDeviceClaimTemplate():
            yield from _claim_problems(api.spec.spec, "spec.spec")


def _slice_problems(api: ApiResourceSlice) -> Iterator[Found]:
    spec = api.spec
    for field, value in (("driver", spec.driver), ("pool.name", spec.pool.name)):
        if not value:
            yield f"spec.{field}", "is missing"
    if spec.pool.resource_slice_count < 1:
        yield (
            "spec.pool.resourceSliceCount",
            f"{spec.pool.resource_slice_count} is not allowed; allowed are whole numbers from 1",
        )
    ways = [spec.node_name, spec.node_selector, spec.all_nodes, spec.per_device_node_selection]
    if sum(bool(way) for way in ways) != 1:
        yield "spec", "exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection must be set"
    for problem in device_slice_from_api(api).problems:
        path, _, text = problem.partition(": ")
        yield path, text


def _claim_problems(spec: DeviceClaimSpec, path: str) -> Iterator[Found]:
    for turn, request in enumerate(spec.devices.requests or ()):
        where = f"{path}.devices.requests[{turn}]"
        if not request.name:
            yield f"{where}.name", "is missing"
        if (request.exactly is None) is not bool(request.first_available):
            yield where, "exactly one of exactly and firstAvailable must be set"
        if request.exactly is not None:
            yield from _request_problems(request.exactly, f"{where}.exactly")
        for number, exact in enumerate(request.first_available or ()):
            yield from _request_problems(exact, f"{where}.firstAvailable[{number}]")


def _request_problems(exact: ApiExactRequest, path: str) -> Iterator[Found]:
    if not exact.device_class_name:
        yield f"{path}.deviceClassName", "is missing"
    if exact.count < 0:
        yield f"{path}.count", f"{exact.count} is not allowed; allowed are whole numbers from 1"
    yield from _selector_problems(exact.selectors or (), f"{path}.selectors")


def _selector_problems(selectors: Iterable[ApiDeviceSelector], path: str) -> Iterator[Found]:
    for turn, selector in enumerate(selectors):
        if selector.cel is None:
            yield f"{path}[{turn}]", "cel must be set"
        elif problem := _evaluator.compiled(selector.cel.expression):
            yield f"{path}[{turn}].cel.expression", problem
