"""Results: what is written into the status of a claim, from the devices that were chosen for it.

For the allocator.  As `Allocate` and `createNodeSelector` of the structured allocator (Kubernetes 1.37) put it together.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, Any

from scheduler.model.api import NodeSelector, NodeSelectorTerm, Requirement
from scheduler.model.device_claims import AllocatedDevice, Allocation

from .errors import AllocationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model.device_claims import DeviceClaim

    from .pools import Site
    from .requests import Want
    from .search import Chosen


def allocation_of(claim: DeviceClaim, site: Site, chosen: Sequence[Chosen]) -> Allocation:
    """Return what a claim is given; shares get ids that are derived from the claim, so that equal input gives equal output."""
    devices = []
    for turn, each in enumerate(chosen):
        driver, pool, name = each.candidate.id
        device, want = each.candidate.device, each.want
        devices.append(
            AllocatedDevice(
                request=_request_name(want),
                driver=driver,
                pool=pool,
                device=name,
                admin_access=want.is_admin,
                share_id=None if each.consumed is None else _share_id(claim, turn, name),
                consumed=each.consumed or {},
                tolerations=want.exact.tolerations,
                binding_conditions=device.binding_conditions or (),
                binding_failure_conditions=device.binding_failure_conditions,
            )
        )
    return Allocation(devices=tuple(devices), node_selector=node_selector_of(claim, site, chosen))


def node_selector_of(claim: DeviceClaim, site: Site, chosen: Sequence[Chosen]) -> NodeSelector | None:
    """Return where chosen devices can be used: on this node alone, on those that all of them reach, or (None) everywhere."""
    fields, labels = list[Requirement](), list[Requirement]()
    for each in chosen:
        where = each.candidate.where
        if where.node_name is not None or each.candidate.device.binds_to_node:
            name = Requirement(key="metadata.name", operator="In", values=[site.name])
            return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[name])])
        terms = where.selector.node_selector_terms if where.selector else []
        if len(terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {claim.name}: unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _add_new(term.match_fields or (), fields)
            _add_new(term.match_expressions or (), labels)
    if not fields and not labels:
        return None
    term = NodeSelectorTerm(match_fields=fields or None, match_expressions=labels or None)
    return NodeSelector(node_selector_terms=[term])


def config_of(claim: DeviceClaim, wants: Sequence[Want]) -> list[dict[str, Any]]:
    """Return the configuration that drivers get with a claim; `wants` are its requests as they were served, in order."""
    names = [_request_name(want) for want in wants]
    found = list[dict[str, Any]]()
    known: dict[str, list[dict[str, Any]]] = {}
    for want, name in zip(wants, names, strict=True):
        of_class = known.get(want.device_class.name)
        if of_class is None:
            of_class = [{"source": "FromClass", "requests": [], **config} for config in want.device_class.config]
            known[want.device_class.name] = of_class
            found += of_class
        for each in of_class:
            each["requests"] = [*each["requests"], name]
    for config in claim.config:
        wanted = config.get("requests") or []
        if not wanted or any(_is_meant(wanted, want, name) for want, name in zip(wants, names, strict=True)):
            found.append({"source": "FromClaim", **config})
    for each in found:
        wanted = each.get("requests") or []
        if not wanted or all(_is_meant(wanted, want, name) for want, name in zip(wants, names, strict=True)):
            each.pop("requests", None)
    return found


def _is_meant(wanted: Sequence[str], want: Want, name: str) -> bool:
    return want.request.name in wanted or name in wanted


def _request_name(want: Want) -> str:
    return f"{want.request.name}/{want.alternative}" if want.alternative else want.request.name


def _share_id(claim: DeviceClaim, turn: int, device: str) -> str:
    digest = hashlib.sha256(f"{claim.uid} {claim.label} {claim.resource_version} {turn} {device}".encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def _add_new(requirements: Sequence[Requirement], known: list[Requirement]) -> None:
    for each in requirements:
        values = set(each.values or ())
        if not any(k.key == each.key and k.operator == each.operator and set(k.values or ()) == values for k in known):
            known.append(each)
