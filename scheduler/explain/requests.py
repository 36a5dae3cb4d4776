"""Requests: what a pod asks for, as Filter, Score and the books of its node count it.

For request cases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from scheduler.model import pod_from_api

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.model.api import ApiPod

#: Always told, if only as 0.
_ALWAYS = ("cpu", "memory", "ephemeral-storage")
#: Kinds of resources that nodes keep books of, beside those.
_NATIVE = ("hugepages-", "attachable-volumes-")


def requests_of(api: ApiPod) -> dict[str, Any]:
    """Return the result of a request case: cpu in millicores, everything else in units."""
    waiting = pod_from_api(structs.replace(api, spec=structs.replace(api.spec, node_name="")))
    bound = pod_from_api(structs.replace(api, spec=structs.replace(api.spec, node_name="a-node")))
    return {
        "incoming": _amounts(waiting.requests),
        "scored": _cpu_and_memory(waiting.scored),
        "bound": _amounts(bound.requests),
        "boundNonZero": _cpu_and_memory(bound.nonzero),
    }


def _amounts(requests: Mapping[str, int]) -> dict[str, int]:
    counted = {name: count for name, count in requests.items() if "/" in name or name.startswith(_NATIVE)}
    return {name: requests.get(name, 0) for name in _ALWAYS} | counted


def _cpu_and_memory(amounts: tuple[int, int]) -> dict[str, int]:
    return dict(zip(("cpu", "memory"), amounts, strict=True))
