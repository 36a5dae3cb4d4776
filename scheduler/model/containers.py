"""What a pod's containers ask one by one, and the quality of service that follows: what a kubelet goes by when it aligns them.

For the model, which keeps it for plugins that look into NUMA nodes.  Pods with equal containers share one result.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from .quantity import QuantityError
from .requests import Items, amounts_of, is_sidecar, located, peak, requested

if TYPE_CHECKING:
    from .api import ApiPod, Resources

GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
_CLASSES = {name: name for name in (GUARANTEED, BURSTABLE, BEST_EFFORT)}
_COMPUTE = ("cpu", "memory")


class Turn(Enum):
    """When a container runs."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


class ContainerNeed(msgspec.Struct, frozen=True, gc=False):
    """What one container asks: resource name to amount, shared between equal pods and not to be changed."""

    turn: Turn
    requests: dict[str, int]


def needs_of(pod: ApiPod) -> tuple[ContainerNeed, ...]:
    """Return what the containers ask, init containers and sidecars first, as the kubelet admits them."""
    inits = pod.spec.init_containers or ()
    return _needs(
        tuple([(Turn.SIDECAR if is_sidecar(c) else Turn.INIT, requested(c.resources)) for c in inits]),
        tuple([requested(c.resources) for c in pod.spec.containers]),
    )


def steady_requests(containers: tuple[ContainerNeed, ...]) -> dict[str, int]:
    """Return what containers ask together, at their peak, without the overhead of the pod."""
    return peak(
        (c.requests for c in containers if c.turn is Turn.APP),
        ((c.turn is Turn.SIDECAR, c.requests) for c in containers if c.turn is not Turn.APP),
    )


def qos_of(pod: ApiPod) -> str:
    """Return the quality of service: what the status says, or what kube-apiserver makes of the spec (ComputePodQOS).

    A bad quantity raises QuantityError that names its path.
    """
    told = _CLASSES.get(pod.status.qos_class)
    if told is not None:
        return told
    spec = pod.spec
    if spec.resources is not None and (spec.resources.requests or spec.resources.limits):
        asked: tuple[tuple[Items, Items], ...] = (_asks(spec.resources),)
    else:
        asked = tuple([_asks(c.resources) for c in (*(spec.init_containers or ()), *spec.containers)])
    try:
        return _qos(asked)
    except QuantityError as error:
        raise located(pod) or error from None


def _asks(resources: Resources | None) -> tuple[Items, Items]:
    limits = resources.limits if resources is not None else None
    return requested(resources), tuple(limits.items()) if limits else ()


@lru_cache(maxsize=8192)
def _needs(inits: tuple[tuple[Turn, Items], ...], apps: tuple[Items, ...]) -> tuple[ContainerNeed, ...]:
    return (
        *[ContainerNeed(turn, amounts_of(items)) for turn, items in inits],
        *[ContainerNeed(Turn.APP, amounts_of(items)) for items in apps],
    )


@lru_cache(maxsize=8192)
def _qos(asked: tuple[tuple[Items, Items], ...]) -> str:
    """Return the class of containers, each with its requests and its limits; amounts of 0 do not count."""
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    is_limited = True
    for wanted, most in asked:
        for total, items in ((requests, wanted), (limits, most)):
            for name, count in amounts_of(items).items():
                if name in _COMPUTE and count:
                    total[name] = total.get(name, 0) + count
        found = amounts_of(most)
        is_limited = is_limited and all(found.get(name) for name in _COMPUTE)
    if not requests and not limits:
        return BEST_EFFORT
    return GUARANTEED if is_limited and requests == limits else BURSTABLE
