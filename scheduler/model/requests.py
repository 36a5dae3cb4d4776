"""What a pod asks of a node: the effective request, from containers, init containers, sidecars, overhead and pod level.

For the model, which computes it once per pod.  Formulae of `k8s.io/component-helpers/resource` (PodRequests): the sum
of app containers and sidecars, or the highest peak while init containers run, plus overhead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .api import ApiPod, Condition, Container, ContainerStatus, ResourceList, Resources
from .quantity import QuantityError, amount

Amounts = dict[str, int]

#: What scoring takes for a container that names no request: millicores and bytes.
DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024


def amounts(resources: ResourceList | None, path: str) -> Amounts:
    """Return a resource list as integers; a bad quantity raises QuantityError that names its path."""
    if not resources:
        return {}
    result = {}
    for name, text in resources.items():
        try:
            result[name] = amount(name, text)
        except QuantityError as error:
            raise QuantityError(f"{path}[{name}]: {error}") from None
        if result[name] < 0:
            raise QuantityError(f"{path}[{name}]: {text!r} is negative; allowed are amounts from 0")
    return result


def requested(resources: Resources | None, path: str) -> Amounts:
    """Return the requests of one container; a limit without a request counts as one, as the API server defaults it."""
    if resources is None:
        return {}
    result = amounts(resources.limits, f"{path}.limits") if resources.limits else {}
    if resources.requests:
        result |= amounts(resources.requests, f"{path}.requests")
    return result


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
            _raise(highest, sidecars)
        else:
            moment = dict(sidecars)
            _add(moment, request)
            _raise(highest, moment)
    _raise(total, highest)
    return total


def pod_requests(pod: ApiPod) -> Amounts:
    """Return the effective request of a pod: the maximum of spec, allocated and actual sums, plus overhead."""
    apps = pod.spec.containers
    inits = pod.spec.init_containers or []
    from_spec = peak(
        [requested(c.resources, f"spec.containers[{i}].resources") for i, c in enumerate(apps)],
        [(is_sidecar(c), requested(c.resources, f"spec.initContainers[{i}].resources")) for i, c in enumerate(inits)],
    )
    _override(from_spec, pod_level(pod))
    total = from_spec
    if pod.spec.node_name:
        total = {} if _is_infeasible(pod.status.conditions) else dict(from_spec)
        for sums in _from_status(pod, apps, inits, from_spec):
            _raise(total, sums)
    if pod.spec.overhead:
        _add(total, amounts(pod.spec.overhead, "spec.overhead"))
    return total


def pod_level(pod: ApiPod) -> Amounts:
    """Return the requests of the pod as a whole: cpu, memory and huge pages only."""
    return {r: n for r, n in requested(pod.spec.resources, "spec.resources").items() if _is_pod_level(r)}


def nonzero_requests(pod: ApiPod, *, with_pod_level: bool) -> tuple[int, int]:
    """Return (millicores, bytes) for scoring, with defaults for containers that name no request.

    Bound pods count with their pod-level requests, the pending pod without (kube-scheduler 1.37, NewFit).
    """
    overall = pod_level(pod) if with_pod_level else {}
    inits = pod.spec.init_containers or []

    def filled(container: Container) -> Amounts:
        request = requested(container.resources, "resources")
        cpu = request.get("cpu", 0 if "cpu" in overall else DEFAULT_CPU_MILLI)
        return {"cpu": cpu, "memory": request.get("memory", 0 if "memory" in overall else DEFAULT_MEMORY_BYTES)}

    total = peak([filled(c) for c in pod.spec.containers], [(is_sidecar(c), filled(c)) for c in inits])
    _override(total, {r: n for r, n in overall.items() if r in ("cpu", "memory")})
    if pod.spec.overhead:
        _add(total, amounts(pod.spec.overhead, "spec.overhead"))
    return total.get("cpu", 0), total.get("memory", 0)


def _from_status(
    pod: ApiPod, apps: Sequence[Container], inits: Sequence[Container], from_spec: Amounts
) -> Iterable[Amounts]:
    """Yield the sums that the kubelet has allocated and that are in force, where it reports them."""
    statuses = {s.name: s for s in (*(pod.status.container_statuses or ()), *(pod.status.init_container_statuses or ()))}
    if not any(s.allocated_resources or (s.resources and s.resources.requests) for s in statuses.values()):
        return

    def reported(container: Container, kind: str) -> Amounts:
        spec = requested(container.resources, "resources")
        status: ContainerStatus | None = statuses.get(container.name)
        if status is None:
            return spec
        if kind == "allocated":
            return amounts(status.allocated_resources, "status") if status.allocated_resources else spec
        return amounts(status.resources.requests, "status") if status.resources and status.resources.requests else spec

    whole = pod.status.allocated_resources, pod.status.resources.requests if pod.status.resources else None
    for kind in ("allocated", "actual"):
        sums = peak([reported(c, kind) for c in apps], [(is_sidecar(c), reported(c, kind)) for c in inits])
        if whole[0] and whole[1]:
            pod_sums = amounts(whole[0] if kind == "allocated" else whole[1], "status")
            _override(sums, {r: n for r, n in pod_sums.items() if _is_pod_level(r)})
        else:
            _override(sums, {r: n for r, n in from_spec.items() if r in pod_level(pod)})
        yield sums


def _is_infeasible(conditions: Sequence[Condition] | None) -> bool:
    """Tell whether the kubelet refused the pending resize for good, so that the spec's sum is moot."""
    return any(c.type == "PodResizePending" and c.status == "True" and c.reason == "Infeasible" for c in conditions or ())


def _is_pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


def _raise(total: Amounts, other: Mapping[str, int]) -> None:
    for name, count in other.items():
        if count > total.get(name, 0) or name not in total:
            total[name] = max(count, total.get(name, 0))


def _override(total: Amounts, other: Mapping[str, int]) -> None:
    total.update(other)
