"""Which ResourceClaims a pod uses, and which of its extended resources DRA might serve.

For the plugin of dynamic resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .quantity import QuantityError, parse_quantity
from .volume_api import ApiStruct

if TYPE_CHECKING:
    from .api import Container, PodSpec, PodStatus, ResourceList

_OWN_DOMAIN = "kubernetes.io/"
_IMPLICIT_DOMAIN = "deviceclass.resource.kubernetes.io/"


class ApiPodClaim(ApiStruct, frozen=True):
    """An entry of `spec.resourceClaims`: a claim by name, or one that is made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class ApiPodClaimStatus(ApiStruct, frozen=True):
    """What became of an entry; no name where no claim is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class ApiExtendedClaimStatus(ApiStruct, frozen=True):
    """The claim that serves the pod's extended resources, and which request of it serves what of which container."""

    resource_claim_name: str = ""
    request_mappings: list[dict[str, str]] | None = None


class PodClaim(msgspec.Struct, frozen=True, gc=False):
    """An entry of `spec.resourceClaims`, with the claim behind it."""

    name: str
    #: The claim; None while it was not made yet, or where none is needed.
    claim_name: str | None = None
    #: It is, or will be, made from this template, for this pod or its group alone; empty if the claim is named.
    template: str = ""
    #: No claim is needed for it.
    is_needless: bool = False


class ExtendedRequest(msgspec.Struct, frozen=True, gc=False):
    """What one container asks of an extended resource."""

    #: Position among init containers and containers, and its name.
    container: int
    container_name: str
    resource: str
    count: int
    #: Position among the sorted names of all that the container asks for: a part of the request's name.
    turn: int
    #: An init container that ends: it may use what later containers will have.
    is_short: bool = False


def claims_of(spec: PodSpec, status: PodStatus) -> tuple[PodClaim, ...]:
    """Return the claims of a pod, in the order of its spec."""
    made = {each.name: each.resource_claim_name for each in status.resource_claim_statuses or ()}
    found = []
    for each in spec.resource_claims or ():
        if each.resource_claim_name is not None:
            found.append(PodClaim(each.name, each.resource_claim_name))
        else:
            name = made.get(each.name)
            is_needless = each.name in made and name is None
            found.append(PodClaim(each.name, name, each.resource_claim_template_name or "", is_needless))
    return tuple(found)


def extended_requests(spec: PodSpec) -> tuple[ExtendedRequest, ...]:
    """Return what each container asks of resources that a DeviceClass may stand for; counts that are none are left out."""
    init = spec.init_containers or ()
    found = []
    for position, container in enumerate((*init, *spec.containers)):
        resources = container.resources
        # a limit without a request counts as one, as the API server defaults it
        asked = (resources.limits or {}) | (resources.requests or {}) if resources else {}
        if any("/" in name for name in asked):
            is_short = position < len(init) and container.restart_policy != "Always"
            found += _of_container(position, container, asked, is_short=is_short)
    return tuple(found)


def is_extended(resource: str) -> bool:
    """Tell whether a resource may be served by DRA: it has a domain of its own, or names a class."""
    if resource.startswith(_IMPLICIT_DOMAIN):
        return True
    domain = resource.partition("/")[0] + "/"
    return "/" in resource and not domain.endswith(_OWN_DOMAIN) and not resource.startswith("requests.")


def _of_container(position: int, container: Container, asked: ResourceList, *, is_short: bool) -> list[ExtendedRequest]:
    found = []
    for turn, name in enumerate(sorted(asked)):
        if not is_extended(name):
            continue
        try:
            count = parse_quantity(asked[name])
        except QuantityError:
            continue
        if count > 0 and count.denominator == 1:
            found.append(ExtendedRequest(position, container.name, name, count.numerator, turn, is_short))
    return found
