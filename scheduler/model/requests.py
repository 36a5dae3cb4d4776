"""What a pod asks of a node: the effective request, from containers, init containers, sidecars, overhead and pod level.

For the model, which computes it once per pod.  Formulae of `k8s.io/component-helpers/resource` (PodRequests): the sum
of app containers and sidecars, or the highest peak while init containers run; the largest of spec, allocated and actual
sums for a pod that runs; pod-level requests in their place (the largest of theirs once the status tells what is in force);
plus overhead, whether or not the status includes it.  Pods with equal resources share one result.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from .api import ApiPod, Condition, Container, ContainerStatus, Quantity, ResourceList, Resources
from .quantity import LARGEST, QuantityError, amount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

Amounts: TypeAlias = dict[str, int]
#: A resource list as a hashable value.
Items: TypeAlias = tuple[tuple[str, Quantity], ...]

#: What scoring takes for a container that names no request: millicores and bytes.
DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024
_DEFAULTS: Items = (("cpu", "100m"), ("memory", DEFAULT_MEMORY_BYTES))


class Asked(NamedTuple):
    """What a pod asks, as Filter and Score count it; the dict is shared between equal pods and must not be changed."""

    #: Resource name to amount.
    requests: Amounts
    #: (millicores, bytes) that a bound pod adds to its node's scored usage.
    nonzero: tuple[int, int]
    #: (millicores, bytes) that scoring takes for the pending pod: without pod-level requests (kube-scheduler 1.37).
    scored: tuple[int, int]
    #: The huge pages that scoring takes, likewise; None if they are those of the requests.
    scored_pages: Amounts | None = None


def asked_by(pod: ApiPod) -> Asked:
    """Return what a pod asks; a bad quantity raises QuantityError that names its path."""
    spec = pod.spec
    try:
        if spec.resources is None and not (spec.node_name and _is_resized(pod)):
            return _asked(
                tuple([requested(c.resources) for c in spec.containers]),
                tuple([(is_sidecar(c), requested(c.resources)) for c in spec.init_containers or ()]),
                tuple(spec.overhead.items()) if spec.overhead else (),
            )
        requests = _effective(pod, ())
        defaults = _DEFAULTS
        if _pod_level(pod):
            defaults = tuple(item for item in _DEFAULTS if item[0] not in requests)
        bare = _effective(pod, _DEFAULTS, with_pod_level=False)
        pages = _pages(bare)
        return Asked(
            requests,
            _cpu_and_memory(_effective(pod, defaults)),
            _cpu_and_memory(bare),
            pages if pages != _pages(requests) else None,
        )
    except QuantityError as error:
        raise located(pod) or error from None


def is_sidecar(container: Container) -> bool:
    """Tell whether an init container keeps running beside the app containers."""
    return container.restart_policy == "Always"


def peak(apps: Iterable[Amounts], inits: Iterable[tuple[bool, Amounts]]) -> Amounts:
    """Return the larger of "all running" and "any init container with the sidecars before it", per resource."""
    total: Amounts = {}
    for request in apps:
        _add(total, request)
    sidecars: Amounts = {}
    highest: Amounts = {}
    for runs_on, request in inits:
        if runs_on:
            _add(total, request)
            _add(sidecars, request)
        else:
            moment = dict(sidecars)
            _add(moment, request)
            _raise(highest, moment)
    _raise(total, highest)
    return total


@lru_cache(maxsize=8192)
def _asked(apps: tuple[Items, ...], inits: tuple[tuple[bool, Items], ...], overhead: Items) -> Asked:
    """Return what a pod asks that has neither pod-level requests nor a resize: all but a few."""
    requests = _sum(apps, inits, ())
    filled = _sum(apps, inits, _DEFAULTS)
    for total in (requests, filled):
        _add(total, amounts_of(overhead))
        _cap(total)
    both = _cpu_and_memory(filled)
    return Asked(requests, both, both)


def _effective(pod: ApiPod, defaults: Items, *, with_pod_level: bool = True) -> Amounts:
    """Return a pod's request, with defaults for what single containers leave out."""

    def sums(listed: Callable[[Container], Items]) -> Amounts:
        apps = tuple(listed(c) for c in pod.spec.containers)
        return _sum(apps, tuple((is_sidecar(c), listed(c)) for c in pod.spec.init_containers or ()), defaults)

    level = _pod_level(pod) if with_pod_level else {}
    is_infeasible = bool(pod.spec.node_name) and _is_infeasible(pod.status.conditions)
    total = {} if is_infeasible else sums(lambda c: requested(c.resources))
    if pod.spec.node_name:
        status, resources = pod.status, pod.status.resources
        allocated, actual = status.allocated_resources, resources.requests if resources else None
        if allocated is not None and actual is not None:
            _raise(total, amounts_of(tuple(allocated.items())))
            _raise(total, amounts_of(tuple(actual.items())))
        else:
            statuses = _statuses(pod)
            _raise(total, sums(lambda c: _allocated(c, statuses.get(c.name), is_infeasible=is_infeasible)))
            _raise(total, sums(lambda c: _actual(c, statuses.get(c.name), is_infeasible=is_infeasible)))
        if level and resources is not None:
            level = {} if is_infeasible else dict(level)
            for reported in (allocated, actual):
                _raise(level, amounts_of(tuple((reported or {}).items())))
    total.update({name: count for name, count in level.items() if _is_pod_level(name)})
    if pod.spec.overhead:
        _add(total, amounts_of(tuple(pod.spec.overhead.items())))
    _cap(total)
    return total


def _sum(apps: tuple[Items, ...], inits: tuple[tuple[bool, Items], ...], defaults: Items) -> Amounts:
    fill = amounts_of(defaults)
    return peak((fill | amounts_of(a) for a in apps), ((runs_on, fill | amounts_of(i)) for runs_on, i in inits))


@lru_cache(maxsize=8192)
def amounts_of(items: Items) -> Amounts:
    """Return a resource list as integers, not to be changed."""
    result = {name: amount(name, text) for name, text in items}
    for name, text in items:
        if result[name] < 0:
            raise QuantityError(f"{text!r} is negative; allowed are amounts from 0")
    return result


def requested(resources: Resources | None) -> Items:
    """Return the requests of one container; a limit without a request counts as one, as the API server defaults it."""
    if resources is None:
        return ()
    requests, limits = resources.requests, resources.limits
    if not limits or (requests and limits.keys() <= requests.keys()):
        return tuple(requests.items()) if requests else ()
    return tuple((limits | (requests or {})).items())


def _allocated(container: Container, status: ContainerStatus | None, *, is_infeasible: bool) -> Items:
    """Return what the kubelet has allocated to a container."""
    if status and status.allocated_resources is not None:
        return tuple(status.allocated_resources.items())
    return () if is_infeasible else requested(container.resources)


def _actual(container: Container, status: ContainerStatus | None, *, is_infeasible: bool) -> Items:
    """Return what is in force for a container."""
    if status and status.resources and status.resources.requests is not None:
        return tuple(status.resources.requests.items())
    return _allocated(container, status, is_infeasible=is_infeasible)


def _pod_level(pod: ApiPod) -> Amounts:
    """Return the requests of the pod as a whole: cpu, memory and huge pages only."""
    asked = amounts_of(requested(pod.spec.resources))
    return {name: count for name, count in asked.items() if _is_pod_level(name)}


def _statuses(pod: ApiPod) -> dict[str, ContainerStatus]:
    status = pod.status
    return {s.name: s for s in chain(status.init_container_statuses or (), status.container_statuses or ())}


def _is_resized(pod: ApiPod) -> bool:
    """Tell whether the status says other than the spec of what a running pod has; most say the same."""
    status = pod.status
    if status.allocated_resources is not None or status.resources is not None or _is_infeasible(status.conditions):
        return True
    if status.container_statuses is None and status.init_container_statuses is None:
        return False
    spec = {c.name: c.resources for c in chain(pod.spec.containers, pod.spec.init_containers or ())}
    for reported in chain(status.container_statuses or (), status.init_container_statuses or ()):
        allocated, actual = reported.allocated_resources, reported.resources
        if allocated is None and actual is None:
            continue
        resources = spec.get(reported.name)
        requests = resources.requests if resources else None
        if (allocated is not None and allocated != (requests or {})) or (
            actual is not None and actual.requests is not None and actual.requests != (requests or {})
        ):
            return True
    return False


def _is_infeasible(conditions: list[Condition] | None) -> bool:
    """Tell whether the kubelet refused the pending resize for good, so that the spec's sum is moot."""
    for condition in conditions or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def located(pod: ApiPod) -> QuantityError | None:
    """Return the error of the first bad quantity with its path."""
    for path, resources in _resource_lists(pod):
        for name, text in (resources or {}).items():
            try:
                amounts_of(((name, text),))
            except QuantityError as error:
                return QuantityError(f"{path}[{name}]: {error}")
    return None


def _resource_lists(pod: ApiPod) -> Iterator[tuple[str, ResourceList | None]]:
    """Yield every resource list of a pod with its path."""
    spec, status = pod.spec, pod.status
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers or ())):
        for i, container in enumerate(containers):
            if container.resources:
                yield f"spec.{field}[{i}].resources.requests", container.resources.requests
                yield f"spec.{field}[{i}].resources.limits", container.resources.limits
    if spec.resources:
        yield "spec.resources.requests", spec.resources.requests
        yield "spec.resources.limits", spec.resources.limits
    yield "spec.overhead", spec.overhead
    yield "status.allocatedResources", status.allocated_resources
    yield "status.resources.requests", status.resources.requests if status.resources else None
    for name, reported in _statuses(pod).items():
        yield f"status of container {name}: allocatedResources", reported.allocated_resources
        if reported.resources:
            yield f"status of container {name}: resources.requests", reported.resources.requests


def _is_pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def _pages(total: Mapping[str, int]) -> Amounts:
    return {name: count for name, count in total.items() if name.startswith("hugepages-")}


def _cpu_and_memory(total: Mapping[str, int]) -> tuple[int, int]:
    return total.get("cpu", 0), total.get("memory", 0)


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


def _raise(total: Amounts, other: Mapping[str, int]) -> None:
    for name, count in other.items():
        if count > total.get(name, -1):
            total[name] = count


def _cap(total: Amounts) -> None:
    """Cut absurd sums, so that columns of them stay within 64 bits."""
    for name, count in total.items():
        if count > LARGEST:
            total[name] = LARGEST
