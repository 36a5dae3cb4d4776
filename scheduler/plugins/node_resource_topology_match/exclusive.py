"""Which resources belong to NUMA nodes, and which a container has for itself: rules of scheduler-plugins and the kubelet.

For the modules beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.containers import GUARANTEED, Turn

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from scheduler.model import Pod

_STORAGE = ("ephemeral-storage", "storage")
_MILLI = 1000


def is_native(resource: str) -> bool:
    """Tell whether a resource is Kubernetes' own, not of a device plugin or another extension."""
    return "/" not in resource or "kubernetes.io/" in resource


def may_lack_zone(resource: str) -> bool:
    """Tell whether a resource that the node has need not be in a NUMA node."""
    return resource in _STORAGE or not is_native(resource)


def is_affine(resource: str) -> bool:
    """Tell whether a resource is always in a NUMA node; of pods that are not Guaranteed no amount is pinned there."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def is_pinned(qos: str, resource: str) -> bool:
    """Tell whether the amount of a resource counts against a NUMA node."""
    return qos == GUARANTEED or not is_affine(resource)


def has_devices(pod: Pod) -> bool:
    """Tell whether a container names a resource that is not Kubernetes' own."""
    return any(not is_native(resource) for need in pod.containers for resource in need.requests)


def held_for_itself(pod: Pod, reported: Container[str]) -> Iterator[tuple[str, int]]:
    """Yield what a running pod has for itself: devices that are reported, and of Guaranteed pods whole CPUs and memory."""
    for need in pod.containers:
        if need.turn is Turn.INIT:
            continue
        for resource, count in need.requests.items():
            if not is_native(resource):
                is_held = resource in reported
            elif resource == "cpu":
                is_held = pod.qos == GUARANTEED and count % _MILLI == 0
            else:
                is_held = pod.qos == GUARANTEED and is_affine(resource)
            if is_held and count:
                yield resource, count
