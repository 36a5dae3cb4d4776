"""Allocator: which devices a pod's claims get on a node; pure, and bounded in steps.

For the plugin of dynamic resources and for `case`, which is how other programs ask.  It answers what kube-scheduler's
structured allocator (`k8s.io/dynamic-resource-allocation/structured`, Kubernetes 1.37, with the features that are on by
default) answers; which of several solutions is taken is decided by the order in which devices are tried.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .errors import GaveUpError, NodeAllocationError
from .requests import wants_of
from .results import allocation_of, config_of
from .search import MOST_STEPS, Search
from .usage import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.model.device_claims import Allocation, DeviceClaim
    from scheduler.model.devices import DeviceClass

    from .cel import Evaluator
    from .ledger import Ledger
    from .pools import Candidate, Pool, Site
    from .requests import Want


@dataclass(frozen=True, slots=True)
class Given:
    """What a claim is given, and the configuration that drivers get with it."""

    claim: DeviceClaim
    allocation: Allocation
    config: list[dict[str, Any]] = field(default_factory=list)


def as_listed(_search: Search, _want: Want, devices: list[Candidate]) -> list[Candidate]:
    """Return the devices in kube-scheduler's order: pools by name, slices by name, devices as listed."""
    return devices


def allocate(
    claims: Sequence[tuple[DeviceClaim, Site, Sequence[Pool]]],
    ledger: Ledger,
    class_of: Callable[[str], DeviceClass | None],
    evaluator: Evaluator,
    *,
    order: Callable[[Search, Want, list[Candidate]], list[Candidate]] = as_listed,
    most_steps: int = MOST_STEPS,
    is_fractional: bool = False,
) -> list[Given] | None:
    """Return what each claim is given, on its site and from the pools that this sees; None if not all can be served.

    Claims of one pod have one site; those of several pods of a gang, allocated together, may have several.  `is_fractional`:
    steps of shared capacities may be counted in thousandths, as with the gate DRAFractionalCapacityRange.  Raises
    AllocationError if something is wrong with a claim, a class or a selector, NodeAllocationError if nothing was found
    where some pool contradicts itself, GaveUpError if it takes too many steps.
    """
    wants = [
        wants_of(claim, site, pools, class_of, evaluator, is_fractional=is_fractional) for claim, site, pools in claims
    ]
    search = Search(wants, Usage(ledger), evaluator, order, most_steps)
    try:
        is_found = search.run()
    except GaveUpError as error:
        names = ", ".join(dict.fromkeys(site.name for _, site, _ in claims))
        raise GaveUpError(f"node {names}: timed out trying to allocate devices ({error})") from error
    if not is_found:
        if any(pool.problem for _, _, pools in claims for pool in pools):
            raise NodeAllocationError("invalid resource pools were encountered")
        return None
    found = []
    for each, chosen in zip(wants, search.chosen, strict=True):
        served = {want.request.name: want for want in (choice.want for choice in chosen)}
        in_order = [served[alternatives[0].request.name] for alternatives in each.requests]
        given = Given(each.claim, allocation_of(each.claim, each.site, chosen), config_of(each.claim, in_order))
        found.append(given)
    return found
