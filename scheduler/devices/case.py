"""Case: the allocator behind plain Kubernetes manifests, for programs that compare it with others or ask what would fit.

    python -m scheduler.devices.case < cases.jsonl > answers.jsonl

One JSON object a line, one answer a line.  A case is

| key | what |
|---|---|
| `id` | any text, which the answer repeats; may be absent |
| `node` | a Node: its name and labels are read |
| `slices` | ResourceSlices, all of the cluster |
| `classes` | DeviceClasses |
| `taintRules` | DeviceTaintRules; may be absent |
| `claims` | the ResourceClaims of the cluster; those with `status.allocation` use devices |
| `allocate` | which of `claims` are to be allocated, in this order, as "namespace/name"; they must not be allocated |
| `gates` | feature gates that are not as usual; DRAFractionalCapacityRange, usually off, is the only one; may be absent |
| `maxSteps` | how many steps the search may take; may be absent |

all in `resource.k8s.io/v1`, as an API server returns them (with its defaults set; `allocationMode` and `count` are taken as
ExactCount and 1 where they are missing).  An answer is

| key | what |
|---|---|
| `feasible` | whether all claims can be allocated on the node |
| `allocations` | if so, `status.allocation` of each claim, in the order of `allocate` |
| `error` | what is wrong with a claim, a class, a selector or a pool, so that kube-scheduler reports an error; else absent |
| `errorKind` | beside it: `fatal` (no node can cure it), `node` (this node alone) or `gave-up` (too many steps) |

Ids of shares (`shareID`) are derived from the claim, never random; compare them by whether they are there.  With
kube-scheduler's order of devices (`as_listed`), the devices are the same as the real allocator's, not only whether there are
any.  AdminAccess, prioritized lists, partitionable devices, taints, binding conditions and consumable capacity are on, as in
Kubernetes 1.37 by default; the alpha features are off.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from scheduler.model.api import ApiNode
from scheduler.model.device_api import ApiDeviceClaim, ApiDeviceClass, ApiDeviceTaintRule, ApiResourceSlice
from scheduler.model.device_claims import device_claim_from_api
from scheduler.model.devices import device_class_from_api, device_slice_from_api, device_taint_rule_from_api

from .allocator import allocate as allocate_claims
from .cel import CelEvaluator
from .errors import AllocationError, GaveUpError, NodeAllocationError
from .ledger import Ledger
from .pools import Catalog, Site
from .search import MOST_STEPS
from .written import written

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
V = TypeVar("V")
FRACTIONAL = "DRAFractionalCapacityRange"
_KINDS = {AllocationError: "fatal", NodeAllocationError: "node", GaveUpError: "gave-up"}


class CaseError(ValueError):
    """A case is not in the form that the module describes; the message names the key and what is allowed."""


def allocate(case: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a case; CaseError if it is none."""
    node = _views(case, "node", ApiNode, lambda api: Site(api.metadata.name, api.metadata.labels or {}), is_one=True)[0]
    slices = _views(case, "slices", ApiResourceSlice, device_slice_from_api)
    rules = _views(case, "taintRules", ApiDeviceTaintRule, device_taint_rule_from_api)
    classes = {each.name: each for each in _views(case, "classes", ApiDeviceClass, device_class_from_api)}
    claims = {claim.label: claim for claim in _views(case, "claims", ApiDeviceClaim, device_claim_from_api)}
    ledger = Ledger()
    for claim in claims.values():
        if claim.allocation is not None:
            ledger.add(claim.allocation.devices)
    wanted = case.get("allocate", [])
    for label in wanted:
        if label not in claims or claims[label].allocation is not None:
            raise CaseError(
                f"allocate: {label!r} is not allowed; allowed are claims of the case that are not allocated"
            )
    pools = Catalog(slices, rules).pools_for(node)
    asked = [(claims[label], node, pools) for label in wanted]
    steps, is_fractional = case.get("maxSteps", MOST_STEPS), _is_fractional(case.get("gates", {}))
    try:
        found = allocate_claims(
            asked, ledger, classes.get, CelEvaluator(), most_steps=steps, is_fractional=is_fractional
        )
    except (AllocationError, NodeAllocationError, GaveUpError) as error:
        return {"feasible": False, "error": str(error), "errorKind": _KINDS[type(error)]}
    if found is None:
        return {"feasible": False}
    return {"feasible": True, "allocations": [written(given) for given in found]}


def _is_fractional(gates: dict[str, Any]) -> bool:
    for gate in gates:
        if gate != FRACTIONAL:
            raise CaseError(f"gates: {gate!r} is not allowed; allowed is {FRACTIONAL}")
    return bool(gates.get(FRACTIONAL))


def _views(
    case: dict[str, Any], key: str, api_type: type[T], view_of: Callable[[T], V], *, is_one: bool = False
) -> list[V]:
    listed = [case.get(key, {})] if is_one else case.get(key, [])
    try:
        return [view_of(msgspec.convert(each, api_type)) for each in listed]
    except (msgspec.ValidationError, ValueError) as error:
        raise CaseError(f"{key}: {error}") from error


def answer_to(line: str) -> dict[str, Any]:
    """Return the answer to a line; one that holds no case is answered with an error of the kind `case`."""
    identity: dict[str, Any] = {}
    try:
        case = msgspec.json.decode(line, type=dict[str, Any])
        identity = {"id": case["id"]} if "id" in case else {}
        return identity | allocate(case)
    except (CaseError, msgspec.DecodeError) as error:
        return identity | {"error": str(error), "errorKind": "case"}


def main() -> None:
    """Answer cases from standard input until it ends."""
    for line in sys.stdin:
        sys.stdout.write(msgspec.json.encode(answer_to(line)).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
