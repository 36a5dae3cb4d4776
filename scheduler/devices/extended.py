"""Extended resources as requests for devices: one for each container and resource, as kube-scheduler makes them.

For the plugin of dynamic resources: `createRequestsAndMappings` (Kubernetes 1.37).  An init container that ends may use what
containers after it will have; the largest of what such ones need beside that is asked for once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scheduler.model.device_claims import DeviceRequest, ExactRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.model.pod_devices import ExtendedRequest


class RequestMapping(NamedTuple):
    """Which request of the claim serves a resource of a container."""

    container_name: str
    resource: str
    request: str


class _Part(NamedTuple):
    """A request in the making."""

    name: str
    amount: int
    container: int


def requests_for(
    asked: Sequence[ExtendedRequest], class_names: Mapping[str, str]
) -> tuple[tuple[DeviceRequest, ...], tuple[RequestMapping, ...]]:
    """Return the requests of a claim that serves resources, by name, and who uses which.

    `asked` is what containers ask for, in their order; `class_names` says for each resource that is to be served of which class
    its devices are.
    """
    requests, mappings = list[DeviceRequest](), list[RequestMapping]()
    for resource in sorted(class_names):
        parts, users = _parts_for([each for each in asked if each.resource == resource])
        requests += [_request(part, class_names[resource]) for part in parts]
        mappings += users
    return tuple(sorted(requests, key=lambda request: request.name)), tuple(mappings)


def _parts_for(asked: Sequence[ExtendedRequest]) -> tuple[list[_Part], list[RequestMapping]]:
    """Return the requests for one resource, and who uses which."""
    lasting = [_Part(_name(each), each.count, each.container) for each in asked if not each.is_short]
    users = [RequestMapping(each.container_name, each.resource, _name(each)) for each in asked if not each.is_short]
    largest: _Part | None = None
    passing = list[_Part]()
    brief = list[RequestMapping]()
    for each in (each for each in asked if each.is_short):
        lent, names = _lent(each, lasting)
        if lent < each.count:
            passing.append(_Part(_name(each), each.count - lent, each.container))
            names.append(passing[-1].name)
            largest = passing[-1] if largest is None or passing[-1].amount > largest.amount else largest
        brief += [RequestMapping(each.container_name, each.resource, name) for name in names]
    if largest is None:
        return lasting, users + brief
    ours = {part.name for part in passing}
    brief = [use._replace(request=largest.name) if use.request in ours else use for use in brief]
    return [largest, *lasting], users + brief


def _lent(each: ExtendedRequest, lasting: Sequence[_Part]) -> tuple[int, list[str]]:
    """Return how much of a request requests of later containers cover, and which these are."""
    total, names = 0, list[str]()
    for part in lasting:
        if part.container >= each.container and total < each.count:
            total += part.amount
            names.append(part.name)
    return total, names


def _name(each: ExtendedRequest) -> str:
    return f"container-{each.container}-request-{each.turn}"


def _request(part: _Part, class_name: str) -> DeviceRequest:
    return DeviceRequest(part.name, ExactRequest(name=part.name, class_name=class_name, count=part.amount))
