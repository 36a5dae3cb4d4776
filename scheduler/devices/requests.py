"""Wants: what a claim asks for, checked and made ready for the search, as one node sees it.

For the allocator.  Every check here is about the claim, its classes and the pools alone, not about what is in use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.model.device_claims import ALL, EXACT_COUNT

from .amounts import has_room
from .cel import CelCostError, CelError
from .errors import AllocationError
from .pools import reaches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.model.device_claims import DeviceClaim, DeviceRequest, ExactRequest
    from scheduler.model.devices import DeviceClass

    from .cel import Evaluator
    from .pools import Candidate, Pool, Site

#: As many devices a claim may get: the API's limit of results.
MOST_DEVICES = 32


@dataclass(slots=True, eq=False)
class Want:
    """One request, or one alternative of it."""

    claim: DeviceClaim
    request: DeviceRequest
    exact: ExactRequest
    device_class: DeviceClass
    #: The name of the alternative; empty if the request has none.
    alternative: str
    site: Site
    #: Steps of amounts are counted in thousandths where they can be.
    is_fractional: bool = False
    count: int = 0
    #: The devices that "all" means; None for a count.
    all_devices: list[Candidate] | None = None
    #: What is known of whether selectors hold, by device.
    fitting: dict[Candidate, bool] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, str]:
        """The name of the request, and that of the alternative, for constraints."""
        return self.request.name, self.alternative

    @property
    def is_admin(self) -> bool:
        """The devices are looked at only, whoever has them."""
        return bool(self.exact.admin_access)

    def fits(self, candidate: Candidate, evaluator: Evaluator) -> bool:
        """Tell whether class and request select a device, and it can be used from the node."""
        known = self.fitting.get(candidate)
        if known is None:
            known = self.fitting[candidate] = (
                _selects(self.device_class.selectors, f"class {self.device_class.name}", candidate, evaluator)
                and _selects(self.exact.selectors, f"claim {self.claim.label}", candidate, evaluator)
                and reaches(candidate.where, self.site)
            )
        return known


@dataclass(slots=True, eq=False)
class Wants:
    """What one claim asks for: for each request the alternatives in order, one for a request without any."""

    claim: DeviceClaim
    site: Site
    pools: Sequence[Pool]
    requests: list[list[Want]]
    #: At least so many devices it takes.
    least: int


def wants_of(
    claim: DeviceClaim,
    site: Site,
    pools: Sequence[Pool],
    class_of: Callable[[str], DeviceClass | None],
    evaluator: Evaluator,
    *,
    is_fractional: bool = False,
) -> Wants:
    """Return what a claim asks for; AllocationError says what is wrong with it."""
    requests, least = list[list[Want]](), 0
    for request in claim.requests:
        asked = request.alternatives or ((request.exactly,) if request.exactly is not None else ())
        if not asked:
            raise AllocationError(f"claim {claim.label}, request {request.name}: unknown request type")
        wants = [
            _want(claim, request, exact, site, pools, class_of, evaluator, is_fractional=is_fractional)
            for exact in asked
        ]
        fewest = min(want.count for want in wants)
        if fewest > MOST_DEVICES - least:
            raise AllocationError(
                f"claim {claim.label}, request {request.name}: adding {fewest} devices exceeds the claim limit of "
                f"{MOST_DEVICES}, with {least} already accounted for"
            )
        least += fewest
        requests.append(wants)
    return Wants(claim, site, pools, requests, least)


def _want(
    claim: DeviceClaim,
    request: DeviceRequest,
    exact: ExactRequest,
    site: Site,
    pools: Sequence[Pool],
    class_of: Callable[[str], DeviceClass | None],
    evaluator: Evaluator,
    *,
    is_fractional: bool,
) -> Want:
    what = f"claim {claim.label}, request {exact.name}"
    if exact.derives:
        raise AllocationError(f"{what}: cannot handle request with derived attributes, the feature is disabled")
    for turn, selector in enumerate(exact.selectors):
        if selector is None:
            raise AllocationError(f"{what}, selector #{turn}: CEL expression empty (unsupported selector type?)")
    if not exact.class_name:
        raise AllocationError(f"{what}: missing device class name (unsupported request type?)")
    device_class = class_of(exact.class_name)
    if device_class is None:
        raise AllocationError(f"{what}: could not retrieve device class {exact.class_name}: it does not exist")
    want = Want(claim, request, exact, device_class, exact.name if request.alternatives else "", site, is_fractional)
    if exact.mode == EXACT_COUNT:
        if exact.count < 1:
            raise AllocationError(f"{what}: a count of {exact.count} is not allowed; allowed are whole numbers from 1")
        want.count = exact.count
    elif exact.mode == ALL:
        want.all_devices = _all_devices(want, what, pools, evaluator)
        want.count = len(want.all_devices)
    else:
        raise AllocationError(f"{what}: unsupported count mode {exact.mode}")
    return want


def _all_devices(want: Want, what: str, pools: Sequence[Pool], evaluator: Evaluator) -> list[Candidate]:
    """Return the devices that "all" means: those that are selected and would have room if nobody used them."""
    found: list[Candidate] = []
    for pool in pools:
        if pool.is_incomplete or pool.problem:
            state = "currently being updated" if pool.is_incomplete else "currently invalid"
            raise AllocationError(f"{what}: asks for all devices, but resource pool {pool.label} is {state}")
        found += [c for c in pool.devices if want.fits(c, evaluator) and may_give(want, c, {})]
    return found


def may_give(want: Want, candidate: Candidate, *used: Mapping[str, object]) -> bool:
    """Tell whether a device has room for a request; AllocationError names the request and the device."""
    device = candidate.device
    if want.exact.capacity is None and not device.capacity:
        return True
    try:
        return has_room(want.exact.capacity, device.capacity, *used, is_fractional=want.is_fractional)  # type: ignore[arg-type]
    except AllocationError as error:
        what = f"claim {want.claim.label}, request {want.exact.name}"
        raise AllocationError(f"{what}: checking capacity for device {'/'.join(candidate.id)}: {error}") from error


def _selects(selectors: Sequence[str | None], owner: str, candidate: Candidate, evaluator: Evaluator) -> bool:
    """Tell whether all selectors hold; AllocationError for one that cannot be told."""
    for turn, expression in enumerate(selectors):
        if expression is None:
            raise AllocationError(f"{owner}: selector #{turn}: CEL expression empty (unsupported selector type?)")
        if problem := evaluator.compiled(expression):
            raise AllocationError(f"{owner}: selector #{turn}: CEL compile error: {problem}")
        try:
            if not evaluator.holds(expression, candidate.id[0], candidate.device):
                return False
        except (CelError, CelCostError) as error:
            where = "/".join(candidate.id)
            raise AllocationError(f"{owner}: selector #{turn} on device {where}: CEL runtime error: {error}") from error
    return True
